"""Bugs that code has on an ordinary day, and what the kit says of each; `NearMiss` says how that is judged.

    python -m tests.ortho_ref.conformance.everyday_bugs

Here a name may be the right answer: many of these are so common that the kit has one.
"""

from dataclasses import replace

import numpy as np

from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.conformance.mistakes.mistake import made
from ortho_ref.conformance.mistakes.ways import altered
from tests.ortho_ref.conformance.adapters import BY_ID
from tests.ortho_ref.conformance.everyday import sigmoid
from tests.ortho_ref.conformance.near_misses import NearMiss, counted, judged, noisy, reshaped

BY_NAME = {mistake.name: mistake for mistake in MISTAKES}
GRU, LSTM, ELMAN = "cell/gru_reset_before/tanh*", ("cell/lstm/square", "cell/lstm/long"), "cell/elman/tanh*"
ONE, BIAS = "cell/gru_reset_before/tanh", ("bias-r-missing",)


def named(what, only, name, *others):
    """A bug that the kit has a name for; of others it cannot be told in these cases."""

    def outputs(case, base):
        found = base(case)
        return made((BY_NAME[name],), replace(BY_ID[case.id], case=case)) if BY_NAME[name].applies(case) else found

    return NearMiss(what, only, outputs, right=(name, *others))


def seen(what, only, says, right=(), **outputs):
    """A bug in outputs alone: how each is changed, __ for a dot."""
    own = {name.replace("__", "."): change for name, change in outputs.items()}
    return NearMiss(
        what, only, altered(lambda case, found: {n: c(found[n]) for n, c in own.items()}), says=says, right=right
    )


def before(w, gate, x, h):
    """What a gate is the sigmoid of."""
    return x @ w[f"W_{gate}"].T + h @ w[f"U_{gate}"].T + w[f"b_{gate}"]


def gru(
    says="",
    look="",
    r=lambda w, x, h: sigmoid(before(w, "r", x, h)),
    u=lambda w, x, h: sigmoid(before(w, "u", x, h)),
    c=lambda w, x, h: np.tanh(before(w, "c", x, h)),
    mixed=lambda u, h, c: (1 - u) * h + u * c,
    kept=lambda hs: hs,
):
    """The forward pass of a GRU in NumPy, as one writes it, with a bug in one of its lines; says, look: as NearMiss."""

    def outputs(case, base):
        w = {name.removeprefix("weights."): a for name, a in case.inputs.items()}
        h, hs = w["h0"], [w["h0"]]
        for x in w["x"]:
            content = c(w, x, r(w, x, h) * h)
            h = mixed(u(w, x, h), h, content)
            hs.append(h)
        return {"h": np.array(kept(hs))}

    return outputs, says, look


GRU_BUGS = {
    "no bias in r": gru(look="b_r", r=lambda w, x, h: sigmoid(before(w, "r", x, h) - w["b_r"])),
    "x of r twice": gru(look="W_r", r=lambda w, x, h: sigmoid(before(w, "r", x, h) + x @ w["W_r"].T)),
    "W_u for W_r": gru(look="W_r|how r", r=lambda w, x, h: sigmoid(before(w | {"W_r": w["W_u"]}, "r", x, h))),
    "U_u for U_r": gru(look="U_r|how r", r=lambda w, x, h: sigmoid(before(w | {"U_r": w["U_u"]}, "r", x, h))),
    "r without h": gru(look="U_r|how r", r=lambda w, x, h: sigmoid(before(w, "r", x, 0 * h))),
    "tanh in u": gru(look="how u", u=lambda w, x, h: np.tanh(before(w, "u", x, h))),
    "no sigmoid in r": gru(look="how r", r=lambda w, x, h: before(w, "r", x, h)),
    "h of the first sequence in u": gru(look="batch|U_u", u=lambda w, x, h: sigmoid(before(w, "u", x, h[:1]))),
    "no tanh": gru(look="phi", c=lambda w, x, h: before(w, "c", x, h)),
    "bias after tanh": gru(look="b_c|phi", c=lambda w, x, h: np.tanh(before(w, "c", x, h) - w["b_c"]) + w["b_c"]),
    "h averaged over the batch": gru(look="batch", mixed=lambda u, h, c: (1 - u) * h.mean(axis=0) + u * c),
    "u forgotten": gru(look="how .*u", mixed=lambda u, h, c: (1 - u) * h + c),
    "one array for all steps": gru("the same at every step", kept=lambda hs: [hs[-1]] * len(hs)),
    "the last state first": gru("another order", kept=lambda hs: hs[::-1]),
}


def lstm(bug):
    """The forward pass of an LSTM in NumPy, with a bug in it."""

    def outputs(case, base):
        w = {name.removeprefix("weights."): a for name, a in case.inputs.items()}
        h, c, hs, cs = w["h0"], w["c0"], [w["h0"]], [w["c0"]]
        for x in w["x"]:
            a = {g: x @ w[f"W_{g}"].T + h @ w[f"U_{g}"].T + w[f"b_{g}"] for g in "ifgo"}
            i, f, o, g = sigmoid(a["i"]), sigmoid(a["f"]), sigmoid(a["o"]), np.tanh(a["g"])
            new = f * c + (g if bug == "i forgotten" else i * g)
            h = {"h of the old c": o * np.tanh(c), "c halved in h": o * np.tanh(new / 2)}.get(bug, o * np.tanh(new))
            c = np.clip(new, -0.5, 0.5) if bug == "c clipped" else new
            hs.append(h)
            cs.append(c)
        return {"h": np.array(hs), "c": np.array(cs)}

    return outputs


def of_lstm(bug, says="", look=""):
    return NearMiss(f"LSTM: {bug}", "cell/lstm/long", lstm(bug), says=says, look=look)


def softmax_over_batch(case, found):
    o, y = case.inputs["outputs"], case.inputs["y"]
    p = np.exp(o) / np.exp(o).sum(axis=1, keepdims=True)
    return {"loss": -np.log(np.take_along_axis(p, y[..., None], -1)).mean()}


def targets_one_on(case, base):
    classes = case.inputs["outputs"].shape[-1]
    return base(replace(case, inputs={**case.inputs, "y": (case.inputs["y"] + 1) % classes}))


EVERYDAY = (
    *(
        NearMiss(f"GRU: {bug}", ONE, own, BIAS if bug == "no bias in r" else (), says, look=look)
        for bug, (own, says, look) in GRU_BUGS.items()
    ),
    of_lstm("i forgotten", look="how .*i"),
    of_lstm("h of the old c", says="h[1] is wrong where c[1] is right"),
    of_lstm("c halved in h", says="h[1] is wrong where c[1] is right"),
    of_lstm("c clipped", says="c: clipped at"),
    seen("a list that does not begin with h_0", ONE, "", ("h-shifted",), h=lambda a: np.concatenate([a[1:], a[-1:]])),
    seen("batch first", ONE, "reshape", h=reshaped),
    seen("d_x of the steps in reverse", "cell/lstm/square", "", ("d_x-reversed",), d_x=lambda a: a[::-1]),
    seen("gradient not divided by two", ONE, "2 times", d_weights__W_r=lambda a: 2 * a),
    seen("a bias's gradient of the batch's mean", ONE, "times", d_weights__b_c=lambda a: a / 4),
    seen("a gradient never accumulated", ONE, "all zeros", d_weights__U_r=lambda a: 0 * a),
    seen("d_U instead of its transpose", ELMAN[:-1], "", ("dU-transposed",), d_weights__U=np.transpose),
    seen("d_h0 with the wrong sign", ONE, "-1 times", d_h0=lambda a: -a),
    seen(
        "differences for gradients",
        ELMAN[:-1],
        "as by differences",
        **dict.fromkeys(("d_x", "d_h0", "d_weights__W", "d_weights__U", "d_weights__b"), noisy(1e-7)),
    ),
    named("every U transposed", ELMAN, "U-transposed"),
    named("gates r and u exchanged", GRU, "r-u-swapped"),
    named("the reset after the product", GRU, "reset-after"),
    named("u keeps the old state", GRU, "u-keeps"),
    named("i and f exchanged", LSTM, "i-f-swapped"),
    named("padding ignored", "layer/lstm/*", "padding-ignored"),
    named("absent h_0 of ones", "layer/elman/no-h0*", "absent-h0-ones"),
    named("the map's transpose", "parametrization/scaled_cayley*", "cayley-transposed", "cayley-inverse"),
    named("half of the gradient by A", "parametrization/exponential*", "exp-gradient-half"),
    named("no bias correction in Adam", "optimizer/adam*", "adam-no-correction"),
    named("a step uphill", "optimizer/sgd*", "step-ascends"),
    named("the loss summed", "loss/mean_squared_error*", "loss-summed"),
    named("padding in the mean", "loss/cross_entropy*", "loss-mask-in-mean"),
    NearMiss("softmax over the batch", "loss/cross_entropy", altered(softmax_over_batch), look="batch|one entry"),
    NearMiss("targets one class on", "loss/cross_entropy", targets_one_on, look="one entry"),
    seen("columns of U in reverse", "parametrization/householder*", "another order", U=lambda a: a[:, ::-1]),
    seen(
        "the parameter before each update",
        "optimizer/rmsprop",
        "one step earlier",
        parameter=lambda a: np.concatenate([a[:1], a[:-1]]),
    ),
)


def main():
    """What is said of each, and the count."""
    verdicts = [judged(bug) for bug in EVERYDAY]
    for verdict in verdicts:
        print(f"{verdict.verdict:5}  {verdict.name}", *verdict.sentences, sep="\n       ")
    print(counted(verdicts, "bugs"))


if __name__ == "__main__":
    main()
