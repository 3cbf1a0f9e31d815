"""Nearly right code of kinds that the kit has no name for, and what it says of each.

    python -m tests.ortho_ref.conformance.near_misses

Some of them are in `make test`, all in `make fuzz`, weekly; everyday_bugs.py has bugs of an ordinary day.
right: a name, or a sentence, that is true and says what is wrong.  close: where to look.
none: nothing but what is wrong and what is not.  wrong: a name, or a cause, that is not the case.  None may be wrong.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ortho_ref.conformance import check
from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.mistakes.activations import ACTIVATIONS, _sigmoid
from ortho_ref.conformance.mistakes.algorithm_1 import _series
from ortho_ref.conformance.mistakes.cayley import by_series
from ortho_ref.conformance.mistakes.changes import times
from ortho_ref.conformance.mistakes.mistake import Mistake, made
from ortho_ref.conformance.mistakes.patched import Patched, instead
from ortho_ref.conformance.mistakes.private import private
from ortho_ref.conformance.mistakes.through_time import windows
from ortho_ref.conformance.mistakes.ways import altered, read_as
from ortho_ref.conformance.report import FAILED
from tests.ortho_ref.conformance.adapters import BY_ID
from tests.ortho_ref.conformance.everyday import sigmoid

optimizers = private("ortho_ref.training.optimizers")
householder = private("ortho_ref.parametrizations.householder")
cayley = private("ortho_ref.parametrizations.cayley")

RIGHT, CLOSE, NONE, WRONG = "right", "close", "none", "wrong"


class NearMiss(NamedTuple):
    """Nearly right code.

    only: the cases it is run on, a pattern.  outputs: as of a `Mistake`.  right: names that are so.  says: words that
    are right where there is no name.  astray: words that lead away from it.  look: a pattern; where the report says
    where to look, one of the places has to fit it.
    """

    name: str
    only: str
    outputs: Callable
    right: tuple[str, ...] = ()
    says: str = ""
    astray: str = ""
    look: str = ""


class Verdict(NamedTuple):
    """What the kit said of a near-miss, and how good it is."""

    name: str
    verdict: str
    sentences: tuple[str, ...]


# Cells


def gates_of(value, derivative):
    """Another sigmoid in every gate; its derivative from its value."""
    return Patched(*_sigmoid(value, derivative))


def of_phi(name, value, slope):
    """Another activation in place of tanh or ReLU; its slope from a + b."""

    def change(own):
        def pullback(dy, a, b, y):
            d = dy * slope(a + b)
            return d, d

        return own._replace(value=lambda a, b: value(a + b), pullback=pullback)

    return Patched((ACTIVATIONS, name, change))


def squashed_h0(case, base):
    found = base(replace(case, inputs={**case.inputs, "h0": np.tanh(case.inputs["h0"])}))
    return {**found, "d_h0": found["d_h0"] * (1 - np.tanh(case.inputs["h0"]) ** 2)}


def lstm_forward(peephole=0.0, cell_clip=np.inf):
    """The states of an LSTM with peepholes, or with a clipped c."""

    def outputs(case, base):
        w = {n.removeprefix("weights."): a for n, a in case.inputs.items()}
        h, c = case.inputs["h0"], case.inputs["c0"]
        hs, cs = [h], [c]
        for x in case.inputs["x"]:
            a = {g: x @ w[f"W_{g}"].T + h @ w[f"U_{g}"].T + w[f"b_{g}"] for g in "ifgo"}
            i, f = sigmoid(a["i"] + peephole * c), sigmoid(a["f"] + peephole * c)
            c = np.clip(f * c + i * np.tanh(a["g"]), -cell_clip, cell_clip)
            h = sigmoid(a["o"] + peephole * c) * np.tanh(c)
            hs.append(h)
            cs.append(c)
        return {"h": np.array(hs), "c": np.array(cs)}

    return outputs


def shared(case, base):
    """r with the weights of u, which get both gradients."""
    names = {f"weights.{kind}_r": f"weights.{kind}_u" for kind in "WUb"}
    found = base(replace(case, inputs={**case.inputs, **{r: case.inputs[u] for r, u in names.items()}}))
    both = {f"d_{u}": found[f"d_{u}"] + found[f"d_{r}"] for r, u in names.items()}
    return {**found, **both, **{f"d_{r}": 0 * found[f"d_{r}"] for r in names}}


def delayed(case, base):
    """x of the step before."""
    x = case.inputs["x"]
    found = base(replace(case, inputs={**case.inputs, "x": np.concatenate([0 * x[:1], x[:-1]])}))
    return {**found, "d_x": np.concatenate([found["d_x"][1:], 0 * x[:1]])}


def half_precision(array):
    return array.astype(np.float16).astype(array.dtype)


def by_norm(case, found):
    """All gradients divided by their norm, where that is above 1."""
    own = {n: a for n, a in found.items() if n.startswith("d_weights.")}
    norm = np.sqrt(sum((a * a).sum() for a in own.values()))
    return {n: a / max(norm, 1.0) for n, a in own.items()}


def symmetrised(case, found):
    return {n: (a + a.T) / 2 for n, a in found.items() if n.startswith("d_weights.U")}


def in_single(*names):
    """Outputs rounded to float32."""
    return altered(lambda case, found: {n: a.astype(np.float32).astype(float) for n, a in found.items() if n in names})


GRU, LSTM = "cell/gru_reset_before/tanh", "cell/lstm/s*"  # square, single and one step
CELLS = (
    NearMiss(
        "the sigmoid clipped to [1e-5, 1 - 1e-5]",
        "activation/sigmoid",
        gates_of(lambda a: np.clip(sigmoid(a), 1e-5, 1 - 1e-5), lambda y: y * (1 - y)),
    ),
    NearMiss("h_0 through tanh", GRU, squashed_h0),
    NearMiss("h_0 halved", GRU, read_as(times(0.5), "h0")),
    NearMiss("b_u doubled", GRU, read_as(times(2), "weights.b_u")),
    NearMiss("U_u negative", GRU, read_as(times(-1), "weights.U_u")),
    NearMiss("r with the weights of u", GRU, shared),
    NearMiss("x one step late", GRU, delayed),
    NearMiss("x rounded to half precision", GRU, read_as(half_precision, "x")),
    NearMiss("softsign for tanh", GRU, of_phi("tanh", lambda a: a / (1 + abs(a)), lambda a: 1 / (1 + abs(a)) ** 2)),
    NearMiss(
        "ELU for ReLU",
        "cell/elman/relu",
        of_phi("relu", lambda a: np.where(a > 0, a, np.exp(np.minimum(a, 0)) - 1), lambda a: np.exp(np.minimum(a, 0))),
    ),
    NearMiss("windows of 5 steps", "cell/gru_reset_before/modrelu-long", windows(5)),
    NearMiss("the gradients' norm at most 1", GRU, altered(by_norm), says="times what is expected"),
    NearMiss("the gradient of every U made symmetric", GRU, altered(symmetrised), says="the symmetric part"),
    NearMiss(
        "gradients of weights summed in float32", GRU, in_single("d_weights.U_c", "d_weights.W_c"), says="float32"
    ),
    NearMiss("peepholes", LSTM, lstm_forward(peephole=0.1), astray="weigh"),
    NearMiss("c clipped to [-1, 1]", LSTM, lstm_forward(cell_clip=1.0), says="clipped at", astray="of the batch"),
)


# Optimizers and updates


def stepped(name, change):
    """Another step of Adam, RMSprop or SGD: change(right, optimizer, rate, k, g, buffers)."""
    return instead(getattr(optimizers, name), "_delta")(change)


def amsgrad(own, self, rate, k, g, buffers):
    own(self, rate, k, g, buffers)
    most = buffers["most"] = np.maximum(buffers.get("most", 0 * g), buffers["v"] / (1 - self.beta2**k))
    return rate * buffers["m"] / (1 - self.beta1**k) / (np.sqrt(most) + self.epsilon)


def adamax(own, self, rate, k, g, buffers):
    own(self, rate, k, g, buffers)
    most = buffers["most"] = np.maximum(self.beta2 * buffers.get("most", 0 * g), abs(g))
    return rate * buffers["m"] / (1 - self.beta1**k) / (most + self.epsilon)


def with_momentum(own, self, rate, k, g, buffers):
    buffers["d"] = 0.9 * buffers.get("d", 0 * g) + own(self, rate, k, g, buffers)
    return buffers["d"]


def half_a_square(S, P, order, own):
    """(I + P + P^2 / 2 + ...) A_tilde: the exponential's series."""
    terms, term = S, S
    for j in range(1, order + 1):
        term = P @ term / j
        terms = terms + term
    return terms


ADAM = "optimizer/adam*"
UPDATES = (
    NearMiss("AMSGrad", ADAM, stepped("Adam", amsgrad)),
    NearMiss("Adamax", ADAM, stepped("Adam", adamax)),
    NearMiss("RMSprop with momentum", "optimizer/rmsprop*", stepped("RMSprop", with_momentum)),
    NearMiss(
        "the exponential's coefficients in the series", "update/neumann_cayley/order-[23]", _series(half_a_square)
    ),
)


# Maps


def by_taylor(case, found, terms=18):
    """exp by its series, with the gradient of the exponential, as code with its derivative by a library has it."""
    total = term = np.eye(len(case.inputs["params.A"]))
    for k in range(1, terms):
        term = term @ case.inputs["params.A"] / k
        total = total + term
    return {"U": total}


def longer(own):
    """I - 2 v v^T / (|v|^2 + 1e-6), as what keeps a zero column from dividing by 0."""

    def change(V, right, transposed=False):
        S = np.triu(V.T @ V, 1) + np.diag((V * V).sum(axis=0) + 1e-6) / 2
        return np.linalg.solve(S.T if transposed else S, right)

    return staticmethod(change)


def single_inverse(own):
    """(I + A)^-1 made in float32, and U and its gradient with it."""
    return lambda A: np.linalg.inv((np.eye(len(A)) + A).astype(np.float32)).astype(float)


def moved(size):
    """A map that is a little off, everywhere."""

    def change(case, found):
        noise = np.random.default_rng(0).standard_normal(found["U"].shape)
        return {"U": found["U"] + size * noise}

    return altered(change)


MAPS = (
    NearMiss("exp by 18 terms of Taylor's series", "parametrization/exponential", altered(by_taylor)),
    NearMiss("a map that is 5e-6 off", "parametrization/tunable_rotations", moved(5e-6)),
    NearMiss(
        "|v|^2 + 1e-6 in Householder's reflections",
        "parametrization/householder*",
        Patched((householder.Householder, "_solved", longer)),
    ),
    NearMiss(
        "(I + A)^-1 in float32",
        "parametrization/scaled_cayley",
        Patched((cayley, "inverse", single_inverse)),
        says="float32",
    ),
    NearMiss("Cayley by 20 powers", "parametrization/scaled_cayley", by_series(20)),
)


# Losses


def smoothed(case, found):
    """Targets of 0.9 and, of the others, 0.1 / q."""
    o, y = case.inputs["outputs"], case.inputs["y"]
    p, target = np.exp(o) / np.exp(o).sum(axis=-1, keepdims=True), 0.9 * np.eye(o.shape[-1])[y] + 0.1 / o.shape[-1]
    return {"loss": -(target * np.log(p)).sum(axis=-1).mean(), "d_outputs": (p - target) / y.size}


def huber(case, found):
    e = case.inputs["outputs"] - case.inputs["y"]
    small = abs(e) < 1
    return {"loss": np.where(small, e * e, 2 * abs(e) - 1).mean(), "d_outputs": 2 * np.clip(e, -1, 1) / e.size}


LOSSES = (
    NearMiss("label smoothing", "loss/cross_entropy", altered(smoothed)),
    NearMiss("Huber's loss", "loss/mean_squared_error", altered(huber)),
)

# More of them, one line each


def input_(name, only, change, adjoint, *names, **more):
    """An input read in another way."""
    return NearMiss(name, only, read_as(change, *names, adjoint=adjoint), **more)


def weight(name, only, factor, short, look="", **more):
    """A weight times a factor."""
    change = times(factor)
    return input_(name, only, change, change, f"weights.{short}", look=look or re.escape(short), **more)


def output_(name, only, change, says="", look="", right=(), **outputs):
    """Outputs changed, each as it is given or as `change` has it; __ stands for a dot."""
    names = [own.replace("__", ".") for own in outputs] or None

    def own(case, found):
        return {n: change(a) for n, a in found.items() if (n in names if names else n.startswith("d_"))}

    return NearMiss(name, only, altered(own), right=right, says=says, look=look)


def units_turned(a):
    return a[::-1]


def reshaped(a):
    """(B, T, n) flattened where (T, B, n) was to be."""
    return np.swapaxes(a, 0, 1).reshape(a.shape)


def late(a):
    return np.concatenate([a[:1], a[:-1]])


def noisy(size):
    def change(a):
        return a + size * abs(a).max(initial=0) * np.random.default_rng(1).standard_normal(a.shape)

    return change


def by_forward_differences(case, found):
    """All gradients by differences, as an implementer checks them."""

    def loss(inputs):
        own = reference.outputs(replace(case, inputs=inputs))
        return (own["h"][1:] * case.inputs["dh"]).sum() + (own["h"][-1] * case.inputs["dh_T"]).sum()

    base, gradients = loss(case.inputs), {}
    for name in (n for n in case.inputs if f"d_{n}" in found):
        array = case.inputs[name]
        gradient = np.zeros(array.size)
        for i in range(array.size):
            moved = array.copy()
            moved.flat[i] += 1e-6
            gradient[i] = (loss({**case.inputs, name: moved}) - base) / 1e-6
        gradients[f"d_{name}"] = gradient.reshape(array.shape)
    return gradients


def optimizer(**changes):
    """Another constant in the optimizer; of a rate a factor."""

    def change(case, base):
        own = dict(case.config["optimizer"])
        own |= {k: own[k] * v if k == "learning_rate" else v for k, v in changes.items()}
        return base(replace(case, config={**case.config, "optimizer": own}))

    return change


def clipped_first(case, base):
    return base(replace(case, inputs={**case.inputs, "gradient": np.clip(case.inputs["gradient"], -0.1, 0.1)}))


def shorter(case, base):
    """Every sequence one step shorter than it is."""
    return base(replace(case, inputs={**case.inputs, "lengths": np.maximum(case.inputs["lengths"] - 1, 1)}))


def exchanged_gradients(a, b):
    return altered(lambda case, found: {a: found[b], b: found[a]})


def of_loss(value, slope):
    """Another loss, a mean, with its gradient."""

    def change(case, found):
        o, y = case.inputs["outputs"], case.inputs["y"]
        return {"loss": value(o, y).mean(), "d_outputs": slope(o, y) / value(o, y).size}

    return altered(change)


def focal(o, y):
    return np.log1p(np.exp(-(2 * y - 1) * o)) * (1 - sigmoid((2 * y - 1) * o)) ** 2


GRU_1, LSTM_1 = "cell/gru_reset_before/tanh", "cell/lstm/square"
AFTER_1, ELMAN = "cell/gru_reset_after/tanh", "cell/elman/tanh"
RELU, TWO = "cell/elman/relu", "layer/lstm/two-layers"
PHI, GATES = "phi", "how .* computed"
MEAN, BINARY, CROSS = "loss/mean_squared_error", "loss/binary_cross_entropy", "loss/cross_entropy"
CAYLEY, EXP, SCALED = "parametrization/scaled_cayley", "parametrization/exponential", "update/scaled_cayley"
MORE = (
    weight("U_r negative", GRU_1, -1, "U_r"),
    weight("U_c halved", GRU_1, 0.5, "U_c"),
    weight("W_c doubled", GRU_1, 2, "W_c"),
    weight("W_u negative", GRU_1, -1, "W_u"),
    weight("b_r missing", GRU_1, 0, "b_r", right=("bias-r-missing",)),
    weight("b_c negative", GRU_1, -1, "b_c"),
    weight("b_f doubled", LSTM_1, 2, "b_f"),
    weight("U_o negative", LSTM_1, -1, "U_o"),
    weight("W_g halved", LSTM_1, 0.5, "W_g"),
    weight("b_h doubled after the reset", AFTER_1, 2, "b_h"),
    weight("U_z halved", AFTER_1, 0.5, "U_z"),
    weight("U a tenth more", ELMAN, 1.1, "U"),
    weight("W a hundredth less", ELMAN, 0.99, "W"),
    input_("U_u's rows reversed", GRU_1, units_turned, units_turned, "weights.U_u", look="U_u"),
    input_(
        "U_r alone transposed", GRU_1, np.transpose, np.transpose, "weights.U_r", look="U_r", right=("U_r-transposed",)
    ),
    input_("b_u's units reversed", GRU_1, units_turned, units_turned, "weights.b_u", look="b_u"),
    input_("x doubled", GRU_1, times(2), times(2), "x", look="W"),
    input_("x at most 1/2", GRU_1, lambda a: np.clip(a, -0.5, 0.5), times(1), "x", look="W"),
    input_("h_0 negative", GRU_1, times(-1), times(-1), "h0", look="h0"),
    input_("h_0 of the sequences reversed", LSTM_1, units_turned, units_turned, "h0", look="h0|sequence"),
    input_("c_0 halved", LSTM_1, times(0.5), times(0.5), "c0", look="c0"),
    NearMiss("LeCun's tanh", GRU_1, of_phi("tanh", lambda a: 1.7159 * np.tanh(2 * a / 3), np.cos), look=PHI),
    NearMiss("hard tanh", AFTER_1, of_phi("tanh", lambda a: np.clip(a, -1, 1), lambda a: 1.0 * (abs(a) < 1)), look=PHI),
    NearMiss("softsign after the reset", AFTER_1, of_phi("tanh", lambda a: a / (1 + abs(a)), np.cos), look=PHI),
    NearMiss("the sine for tanh", ELMAN, of_phi("tanh", np.sin, np.cos), look=PHI),
    NearMiss("arctan for tanh", GRU_1, of_phi("tanh", np.arctan, lambda a: 1 / (1 + a * a)), look=PHI),
    NearMiss("leaky ReLU", RELU, of_phi("relu", lambda a: np.where(a > 0, a, 0.1 * a), np.sign), look=PHI),
    NearMiss("ReLU of at most 1", RELU, of_phi("relu", lambda a: np.clip(a, 0, 1), np.sign), says="clipped", look=PHI),
    NearMiss("softplus for ReLU", RELU, of_phi("relu", lambda a: np.log1p(np.exp(a)), sigmoid), look=PHI),
    NearMiss("SiLU for ReLU", RELU, of_phi("relu", lambda a: a * sigmoid(a), sigmoid), look=PHI),
    NearMiss("sigmoid(2 a) in the gates", GRU_1, gates_of(lambda a: sigmoid(2 * a), lambda y: y), look=GATES),
    NearMiss("gates squared", GRU_1, gates_of(lambda a: sigmoid(a) ** 2, lambda y: y), look=GATES),
    NearMiss("gates by a / (1 + |a|)", LSTM_1, gates_of(lambda a: 0.5 + a / (1 + abs(a)) / 2, lambda y: y), look=GATES),
    output_("gradients of at most 1", GRU_1, lambda a: np.clip(a, -1, 1), says="clipped at", right=("all-clipped",)),
    output_("noise in every gradient", GRU_1, noisy(1e-7), says="as by differences"),
    NearMiss("gradients by differences", ELMAN, altered(by_forward_differences), says="as by differences"),
    output_("d_h0 halved", LSTM_1, times(0.5), says="0.5 times", d_h0=1),
    output_("d_U_c alone transposed", GRU_1, np.transpose, says="transpose", d_weights__U_c=1),
    output_("d_U_u with its rows reversed", GRU_1, units_turned, says="another order", d_weights__U_u=1),
    output_("d_b_r three times", GRU_1, times(3), says="3 times", d_weights__b_r=1),
    NearMiss("d_b_r and d_b_u exchanged", GRU_1, exchanged_gradients("d_weights.b_r", "d_weights.b_u"), says="of d_"),
    output_("c one step late", "cell/lstm/long", late, says="one step earlier", c=1),
    output_("the states in reverse", "cell/gru_reset_after/tanh-long", lambda a: a[::-1], says="another order", h=1),
    output_("the sequences in reverse", GRU_1, lambda a: a[:, ::-1], says="another order", h=1),
    output_("d_x by a reshape", GRU_1, reshaped, says="reshape", d_x=1),
    output_("h of at most 0.3", GRU_1, lambda a: np.clip(a, -0.3, 0.3), says="clipped at", h=1),
    output_("h doubled", LSTM_1, times(2), says="2 times", h=1),
    weight("the second layer without U_f", TWO, 0, "layer1.U_f", look="U|carried|layer to layer"),
    weight("the second layer's b_i doubled", TWO, 2, "layer1.b_i", look="b_i|layer to layer|every b|where b"),
    input_(
        "h_0 of the layers exchanged", "layer/gru_reset_after/two-layers", units_turned, units_turned, "h0", look="h0"
    ),
    weight(
        "the reverse direction's b_r missing", "layer/gru_reset_before/bidirectional", 0, "layer0_reverse.b_r", "b|dir"
    ),
    NearMiss(
        "every sequence one step short", "layer/gru_reset_before/lengths", shorter, look="padding|one step|carried"
    ),
    output_("y by a reshape", "layer/lstm/batch-first", reshaped, says="reshape", y=1),
    output_("h_T of the layers exchanged", TWO, units_turned, says="another order", h_T=1),
    output_(
        "the two directions' y exchanged",
        "layer/elman/bidirectional",
        lambda a: np.roll(a, a.shape[2] // 2, 2),
        says="another order",
        y=1,
    ),
    input_("A a hundredth more", CAYLEY, times(1.01), times(1.01), "params.A", look="A"),
    output_("U's columns reversed", EXP, lambda a: a[:, ::-1], says="another order", U=1),
    output_("a gradient that is not skew", EXP, noisy(1e-3), says="not skew", d_params__A=1),
    output_("U negative", CAYLEY, times(-1), says="-1 times", U=1),
    output_("A that is not skew after updates", SCALED, noisy(1e-4), says="not skew", A=1),
    output_("every U of the updates transposed", SCALED, lambda a: np.swapaxes(a, 1, 2), says="transpose", U=1),
    output_("half of the angles' gradient", "parametrization/tunable_rotations", times(0.25), says="0.25 times"),
    NearMiss(
        "momentum of 0.8", "optimizer/sgd*", optimizer(momentum=0.8), right=("momentum-0.8",), look="momentum|carried"
    ),
    NearMiss("beta_1 of 0.8", "optimizer/adam*", optimizer(beta1=0.8), right=("adam-beta1-0.8",), look="carried"),
    NearMiss("gradients clipped before Adam", "optimizer/adam", clipped_first, look="large"),
    NearMiss("focal loss", BINARY, of_loss(focal, lambda o, y: 0 * o), look="one entry"),
    NearMiss("absolute errors", MEAN, of_loss(lambda o, y: abs(o - y), lambda o, y: np.sign(o - y)), look="one entry"),
    NearMiss("the error to the fourth", MEAN, of_loss(lambda o, y: (o - y) ** 4, lambda o, y: 4 * (o - y) ** 3)),
    output_("the loss's gradient by a reshape", MEAN, reshaped, says="reshape", d_outputs=1),
    output_("the loss's gradient one class on", CROSS, lambda a: np.roll(a, 1, -1), says="another order", d_outputs=1),
)

NEAR_MISSES = (*CELLS, *UPDATES, *MAPS, *LOSSES, *MORE)


# What is said of them


def adapter(miss):
    """An implementation with a near-miss."""
    mistake = Mistake(miss.name, miss.name, lambda case: True, miss.outputs)
    return lambda case: made((mistake,), replace(BY_ID[case.id], case=case))


def judged(miss):
    """Run, and what is said looked at."""
    report = check(adapter(miss), miss.only, allow_partial=True)
    failed = [result for result in report.results if result.status == FAILED]
    found = [_of_case(miss, result) for result in failed]
    verdict = next((v for v in (WRONG, RIGHT, CLOSE) if v in found), NONE)
    return Verdict(miss.name, verdict, tuple(dict.fromkeys(result.diagnosis for result in failed if result.diagnosis)))


def _of_case(miss, result):
    """Of one failed case; a name is right if one of several that it cannot be told from is."""
    if result.mistakes:
        return RIGHT if {name for names in result.mistakes for name in names} & set(miss.right) else WRONG
    where = result.diagnosis.partition("look at ")[2]
    if (miss.astray and miss.astray in result.diagnosis) or (where and miss.look and not re.search(miss.look, where)):
        return WRONG
    if "float32" in result.diagnosis:
        return RIGHT if miss.says == "float32" else WRONG
    if miss.says and miss.says in result.diagnosis:
        return RIGHT
    return CLOSE if where else NONE


def counted(verdicts, of="near-misses"):
    """How many of each, in words."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    return f"{len(verdicts)} {of}: " + ", ".join(f"{counts[v]} {v}" for v in (RIGHT, CLOSE, NONE, WRONG))


def main():
    """What is said of each, and the count."""
    verdicts = []
    words = sys.argv[1:]
    for miss in (miss for miss in NEAR_MISSES if not words or any(word in miss.name for word in words)):
        verdicts.append(judged(miss))
        print(f"{verdicts[-1].verdict:5}  {miss.name}", flush=True)
        for sentence in verdicts[-1].sentences:
            print(f"       {sentence}")
    print(counted(verdicts))


if __name__ == "__main__":
    main()
