"""Every named mistake is what its words say; it leaves nothing changed, is seen by a case, and is told by name."""

from collections import defaultdict
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
import pytest

from ortho_ref import fused, scan
from ortho_ref.conformance import diagnosis, reference
from ortho_ref.conformance.case import joined, parted, vectors
from ortho_ref.conformance.compare import matches
from ortho_ref.conformance.diagnosis import beginning
from ortho_ref.conformance.kills import killed
from ortho_ref.conformance.mistake import made
from ortho_ref.conformance.mistakes import MISTAKES, blocks
from ortho_ref.conformance.report import FAILED, PARTIAL, PASSED, Result
from ortho_ref.conformance.runner import check, run_one
from tests.ortho_ref.conformance.attributes import attributes, changed, private_modules, public_modules

NAMED = {mistake.name: mistake for mistake in MISTAKES}
VECTORS = {vector.id: vector for vector in vectors()}
FORWARD_AND_BACK = ("cell", "parametrization", "activation", "loss")
KINKS = "inputs on the kinks, where a mistake may pass"
#: Mistakes that are right to rounding until a number overflows.
OVERFLOWS = {"tanh-by-exp": "activation/tanh", "sigmoid-by-exp": "activation/sigmoid"}
#: Mistakes by which numbers blow up, so that there is nothing to tell them by.
NOT_FINITE = {*OVERFLOWS, "loss-by-probabilities"}

#: Mistakes that are no departure from one forward pass, and why: their gradients are not those of their outputs.
NOT_ITS_GRADIENT = {
    "bias-twice": "two weights hold the one bias, and the gradient is that of either",
    "h-c-swapped-forward": "an own backward pass knows which is which; only what is given back is off",
    "h-shifted": "the states are right where the gradients are made; only what is given back is off",
    "loss-bits-alone": "the loss is scaled for the report alone",
}


def ordinary():
    """Every vector with outputs."""
    return [vector for vector in VECTORS.values() if vector.case.kind != "invalid"]


def given_by(name, case_id):
    """What an implementation with this mistake gives for this case."""
    return made((NAMED[name],), VECTORS[case_id])


class Everything(dict):
    """(case, mistake) -> outputs, of all that apply, each computed once, from inputs that could be written to.

    left, stored, right, inputs: what of our functions, of the stored arrays, of the reference's own outputs and of the
    inputs was another after it than before.
    """

    def __init__(self):
        right = {v.id: bytes_of(made((), v)) for v in ordinary()}
        stored = {v.id: (bytes_of(v.case.inputs), bytes_of(v.expected)) for v in ordinary()}
        before, self.inputs = changeable(), []
        for vector in ordinary():
            inputs = {name: array.copy() for name, array in vector.case.inputs.items()}
            own = replace(vector, case=replace(vector.case, inputs=inputs))
            for mistake in MISTAKES:
                if mistake.applies(vector.case):
                    self[vector.id, mistake.name] = made((mistake,), own)
            if bytes_of(inputs) != stored[vector.id][0]:
                self.inputs.append(vector.id)
        self.left = left_changed(before)
        now = {v.id: (bytes_of(v.case.inputs), bytes_of(v.expected)) for v in ordinary()}
        self.stored = [id for id in now if now[id] != stored[id]]
        self.right = [v.id for v in ordinary() if bytes_of(made((), v)) != right[v.id]]


@pytest.fixture(scope="module")
def everything():
    """All tests here read it and none changes it."""
    return Everything()


@pytest.fixture(scope="module")
def fails(everything):
    """Mistake -> the cases with outputs that it fails on."""
    found = defaultdict(list)
    for (id, name), outputs in everything.items():
        if run_one(lambda case, outputs=outputs: outputs, VECTORS[id], "float64")[0].status in (FAILED, PARTIAL):
            found[name].append(id)
    return found


# Which there are


def test_names_and_words():
    """Names are unique, and so are words among the mistakes that apply to one case."""
    assert len(NAMED) == len(MISTAKES)
    assert all(mistake.name.strip() and mistake.says.strip() for mistake in MISTAKES)
    for vector in VECTORS.values():
        says = [mistake.says for mistake in MISTAKES if mistake.applies(vector.case)]
        assert len(set(says)) == len(says), vector.id


def test_every_mistake_is_seen_and_every_case_sees_one(fails):
    """And the manifest's kills are these.  On kinks a range of answers is right, and no mistake applies."""
    seen = {id: {name for name, ids in fails.items() if id in ids} for id in VECTORS}
    for id, vector in VECTORS.items():
        if vector.case.kind == "invalid":
            seen[id] = {m.name for m in MISTAKES if m.applies(vector.case) and killed(m, vector)}
        assert seen[id] == set(vector.kills), id
        assert seen[id] or vector.case.config["kinks"], id
    assert set().union(*seen.values()) == set(NAMED)


# What they compute


def loss(vector, outputs):
    """The loss that a case's gradients are those of."""
    inputs, kind = vector.case.inputs, vector.case.kind
    if kind == "cell":
        last = sum((inputs[f"d{s}_T"] * outputs[s][-1]).sum() for s in ("h", "c") if s in outputs)
        return (inputs["dh"] * outputs["h"][1:]).sum() + last
    if kind == "loss":
        return float(outputs["loss"])
    return (inputs["dU"] * outputs["U"]).sum() if kind == "parametrization" else (inputs["dy"] * outputs["y"]).sum()


def free(name, noise):
    """A direction within the parameters: A stays skew, V trapezoidal."""
    return noise - noise.T if name == "params.A" else np.tril(noise) if name == "params.V" else noise


def slopes(mistake, vector, outputs):
    """The loss's slope along a random direction by finite differences, and by the gradients given; and its scale."""
    rng, step, along = np.random.default_rng(0), 1e-6, {}
    for name in sorted(outputs):
        if name.startswith("d_"):
            noise = rng.standard_normal(outputs[name].shape) / max(1.0, np.abs(outputs[name]).max())
            along[name.removeprefix("d_")] = free(name.removeprefix("d_"), noise)
    ends = []
    for sign in (1, -1):
        moved = {name: vector.case.inputs[name] + sign * step * d for name, d in along.items()}
        case = replace(vector.case, inputs={**vector.case.inputs, **moved})
        ends.append(loss(vector, made(mistake, replace(vector, case=case))))
    # the gradient of a skew A is that by the entries above the diagonal
    terms = [(1 - 0.5 * (name == "params.A")) * outputs[f"d_{name}"] * d for name, d in along.items()]
    return (ends[0] - ends[1]) / (2 * step), sum(t.sum() for t in terms), sum(np.abs(t).sum() for t in terms)


def forward_of(outputs):
    """The outputs that are no gradients."""
    return {name: array for name, array in outputs.items() if not name.startswith("d_")}


@pytest.mark.parametrize("kind", FORWARD_AND_BACK)
def test_either_its_own_gradient_or_the_right_forward_pass(kind, everything, fails):
    """Off by more than rounding in the forward pass, with the gradients of that; or right there to the bit.

    One mistake is of one sort: where one of the forward pass leaves that as it is, it changes nothing.  Algorithm 1's
    gradient takes A_tilde as it is given, and is no derivative.
    """
    sorts, unlike = defaultdict(set), []
    for (id, name), outputs in everything.items():
        vector = VECTORS[id]
        if vector.case.kind != kind or id == "parametrization/neumann_cayley" or name in OVERFLOWS:
            continue
        right, ours = forward_of(made((), vector)), forward_of(outputs)
        if all(array.tobytes() == ours[n].tobytes() for n, array in right.items()):
            sorts[name].add("backward" if id in fails[name] else "nothing")
            continue
        sorts[name].add("forward")
        assert not matches(ours, right, vector, "float64"), (name, id)
        by_difference, by_gradient, scale = slopes((NAMED[name],), vector, outputs)
        if not abs(by_difference - by_gradient) < 1e-6 * max(scale, 1e-3):
            unlike.append((name, id))
    assert all(not {"forward", "backward"} <= found for found in sorts.values()), sorts
    assert {name for name, _ in unlike} == {name for name in NOT_ITS_GRADIENT if "forward" in sorts[name]}, unlike


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("no-reset", ["weights.[WUb]_r"]),
        ("no-bias", ["weights.b", "weights.b_*"]),
        ("lstm-coupled", ["weights.[WUb]_f"]),
        ("beta-is-rest", ["weights.beta"]),
        ("h0-ignored", ["h0", "c0"]),
        ("no-diagonal", ["params.omega"]),
        ("bias-hh-missing", ["weights.b_hh"]),
    ],
)
def test_what_is_left_out_has_gradient_0_and_nothing_else_has(name, weights, everything):
    """no-bias leaves FastRNN's beta alone; where h_0 is all there is of the past, more than its gradient is lost."""
    ids = [id for id, other in everything if other == name and VECTORS[id].case.kind in ("cell", "parametrization")]
    assert ids
    for id in ids:
        right, outputs = made((), VECTORS[id]), everything[id, name]
        lost = {n for n, a in outputs.items() if n.startswith("d_") and not a.any() and right[n].any()}
        expected = {n for n in right if any(fnmatchcase(n, f"d_{w}") for w in weights) and right[n].any()}
        if name == "h0-ignored" and len(VECTORS[id].expected["h"]) == 2:  # one step
            expected |= {n for n in right if n.startswith("d_weights.U") and right[n].any()}
            # what these multiply is 0
            dead = {"gru_reset_before": "*_r", "lstm": "*_f", "fastrnn": "beta"}.get(VECTORS[id].case.config["cell"])
            expected |= {n for n in right if dead and fnmatchcase(n, f"d_weights.{dead}")}
        assert lost == expected, id


# What they leave alone


def changeable():
    """Everything that a mistake could leave replaced: attributes of all modules, everybody's and the kit's own."""
    return attributes(public_modules()), attributes(private_modules())


def left_changed(before):
    """What of it was replaced and not put back."""
    return changed(before[0], public_modules()) + changed(before[1], private_modules())


def bytes_of(arrays):
    return {name: array.tobytes() for name, array in arrays.items()}


def test_nothing_is_left_changed(everything):
    """All mistakes in turn: stored inputs and answers, our functions, the reference's outputs stay as they are.

    From inputs that are read-only, as they are stored, the kill table computes them all.
    """
    assert not everything.left
    assert not everything.stored
    assert not everything.right


def test_inputs_that_can_be_written_are_not(everything):
    """The stored arrays are read-only; those that the mistakes were given here are not."""
    assert not everything.inputs
    assert all(not array.flags.writeable for vector in ordinary() for array in vector.case.inputs.values())


def test_functions_come_back_after_an_error():
    """Every mistake around a computation that fails."""

    def fail(case):
        raise ArithmeticError("within")

    before, first = changeable(), {}
    for vector in VECTORS.values():
        for mistake in MISTAKES:
            if mistake.applies(vector.case):
                first.setdefault(mistake.name, vector.case)
    for name, case in first.items():
        if name.startswith(("accepts", "refuses")):
            continue
        with pytest.raises(ArithmeticError, match="within"):
            NAMED[name].outputs(case, fail)
        assert not left_changed(before), name


# The same by other code


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def gru(case, wrong=""):
    """gru_reset_before with tanh, and its gradients, by a loop: all outputs.  wrong: the name of a mistake."""
    w = {n.removeprefix("weights."): a for n, a in case.inputs.items() if n.startswith("weights.")}
    x, h, dhs = case.inputs["x"], case.inputs["h0"], case.inputs["dh"]
    states, tape = [h], []
    for x_t in x:
        a = {g: x_t @ w[f"W_{g}"].T + w[f"b_{g}"] for g in "ruc"}
        r, u = sigmoid(a["r"] + h @ w["U_r"].T), sigmoid(a["u"] + h @ w["U_u"].T)
        r = np.ones_like(r) if wrong == "no-reset" else r
        c = np.tanh(a["c"] + (r * (h @ w["U_c"].T) if wrong == "reset-after" else (r * h) @ w["U_c"].T))
        tape.append((x_t, h, r, u, c))
        h = u * h + (1 - u) * c if wrong == "u-keeps" else (1 - u) * h + u * c
        states.append(h)
    d = {f"d_weights.{name}": np.zeros_like(a) for name, a in w.items()}
    dh, d_x = case.inputs["dh_T"], []
    for t in reversed(range(len(x))):
        x_t, h, r, u, c = tape[t]
        dh = dh + dhs[t]
        sign, keep = (-1, u) if wrong == "u-keeps" else (1, 1 - u)
        da = {"u": sign * dh * (c - h) * u * (1 - u), "c": dh * (1 - keep) * (1 - c * c)}
        da["u"] = 0 * da["u"] if wrong == "constant-u" else da["u"]
        da["c"] = dh * (1 - keep) * (1 - np.tanh(c) ** 2) if wrong == "tanh-derivative-of-output" else da["c"]
        if wrong == "reset-after":
            p, dp = h @ w["U_c"].T, da["c"] * r
            dr, straight, dU_c = da["c"] * p, dp @ w["U_c"], dp.T @ h
        else:
            ds = da["c"] @ w["U_c"]
            dr, straight, dU_c = ds * h, ds * r, da["c"].T @ (h if wrong == "dU_c-without-reset" else r * h)
        da["r"] = 0 * dr if wrong in ("constant-r", "no-reset") else dr * r * (1 - r)
        if wrong == "sigmoid-derivative-twice":
            da |= {"r": da["r"] * r * (1 - r), "u": da["u"] * u * (1 - u)}
        if wrong == "sigmoid-derivative-of-output":
            da |= {g: da[g] / (y * (1 - y)) * sigmoid(y) * (1 - sigmoid(y)) for g, y in (("r", r), ("u", u))}
        back = {"carried": dh * keep, "c": straight, "r": da["r"] @ w["U_r"], "u": da["u"] @ w["U_u"]}
        dU = {"r": da["r"].T @ (r * h if wrong == "dU_r-with-reset" else h), "u": da["u"].T @ h, "c": dU_c}
        dU["c"] = dU["r"] if wrong == "U_c-fed-U_r" else dU["c"]
        for g in "ruc":
            for name, gradient in ((f"W_{g}", da[g].T @ x_t), (f"U_{g}", dU[g]), (f"b_{g}", da[g].sum(axis=0))):
                added = d[f"d_weights.{name}"] if wrong != "weights-first-step-alone" else 0
                d[f"d_weights.{name}"] = added + gradient
        d_x.append(sum(da[g] @ w[f"W_{g}"] for g in "ruc"))
        kept = [part for name, part in back.items() if wrong not in ("detached", f"path-{name}")]
        dh = sum(kept, 0 * dh)
    return {"h": np.array(states), "d_x": np.array(d_x[::-1]), "d_h0": dh, **d}


OF_GRU = (
    *("reset-after", "u-keeps", "no-reset", "path-r", "path-u", "path-c", "path-carried", "detached", "constant-r"),
    *("sigmoid-derivative-twice", "sigmoid-derivative-of-output", "tanh-derivative-of-output"),
    *("constant-u", "dU_c-without-reset", "dU_r-with-reset", "U_c-fed-U_r", "weights-first-step-alone"),
)


def same(given, expected, tolerance=1e-11):
    """Both of the same names; every array to `tolerance` of its largest entry."""
    assert given.keys() == expected.keys()
    for name, array in expected.items():
        assert np.abs(given[name] - array).max() <= tolerance * max(np.abs(array).max(), 1e-3), name


@pytest.mark.parametrize("name", ["", *OF_GRU])
def test_gru_with_a_mistake_by_a_loop(name):
    """And the loop itself without one."""
    id = "cell/gru_reset_before/tanh"
    same(given_by(name, id) if name else VECTORS[id].expected, gru(VECTORS[id].case, name))


def test_the_first_of_two_mistakes_is_around_the_second():
    """Gates are exchanged first, under their own names; what is computed then is reset_after."""
    case = VECTORS["cell/gru_reset_before/tanh"].case
    swap = {f"weights.{kind}_{g}": f"weights.{kind}_{o}" for kind in "WUb" for g, o in ("ru", "ur")}
    inputs = {name: case.inputs[swap.get(name, name)] for name in case.inputs}
    found = gru(replace(case, inputs=inputs), "reset-after")
    expected = {n: found[f"d_{swap[n[2:]]}"] if n[2:] in swap else a for n, a in found.items()}
    same(made((NAMED["r-u-swapped"], NAMED["reset-after"]), VECTORS[case.id]), expected)


def test_dh_one_early_by_a_loop():
    """dh[t] goes back over the step to h[t], not over that to h[t + 1]."""
    case = VECTORS["cell/gru_reset_before/tanh"].case
    dh = case.inputs["dh"]
    early = gru(replace(case, inputs={**case.inputs, "dh": np.concatenate([dh[1:], 0 * dh[:1]])}))
    early["d_h0"] = early["d_h0"] + dh[0]
    same(given_by("dh-one-early", case.id), early)


def size(name, r, b):
    """|modReLU| at |z| = r > 0, as public code has it."""
    if name == "modrelu-root":
        m = np.sqrt(1e-5 + r * r)
        return r * np.maximum(m + b, 0) / (m + 1e-5)
    if name in ("modrelu-goru", "modrelu-eurnn"):
        return np.maximum(r + {"modrelu-goru": 0.001, "modrelu-eurnn": 0.01}[name] + b, 0)
    if name == "modrelu-eurnn-complex":
        return r / (r + 0.01) * np.maximum(r + 0.01 + b, 0)
    if name == "modrelu-leaky":
        return np.where(r + b > 0, r + b, 0.1 * (r + b))
    return r * np.maximum(r + b, 0) / (r + float(name.removeprefix("modrelu-epsilon-")))


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("modrelu-epsilon-1e-05", 2),
        *(("modrelu-root", 2), ("modrelu-goru", 2), ("modrelu-leaky", 2)),
        *(("modrelu-eurnn", 1), ("modrelu-eurnn-complex", 1)),
    ],
)
def test_modrelu_of_public_code(name, cases):
    """Values; the gradients are compared by differences."""
    applied = 0
    for id in ("activation/modrelu", "activation/modrelu/complex"):
        case = VECTORS[id].case
        if NAMED[name].applies(case):
            z = joined(case.inputs["a"]) if case.config["complex"] else case.inputs["a"]
            y = np.exp(1j * np.angle(z)) * size(name, abs(z), case.inputs["b"])
            same({"y": given_by(name, id)["y"]}, {"y": parted(y) if case.config["complex"] else y.real})
            applied += 1
    assert applied == cases


@pytest.mark.parametrize(("name", "slope"), [("hard-sigmoid-0.2", 0.2), ("hard-sigmoid-1/6", 1 / 6)])
def test_hard_sigmoid(name, slope):
    """max(0, min(1, slope a + 1/2)), and its slope inside."""
    inputs = VECTORS["activation/sigmoid"].case.inputs
    line = slope * inputs["a"] + 0.5
    expected = {"y": np.clip(line, 0, 1), "d_a": inputs["dy"] * slope * ((line > 0) & (line < 1))}
    same(given_by(name, "activation/sigmoid"), expected)


def skew(V):
    """V^T - V."""
    return V.T - V


CAYLEY = {
    "cayley-no-D": lambda I, A, D: np.linalg.inv(I + A) @ (I - A),
    "cayley-k-plus-one": lambda I, A, D: np.linalg.inv(I + A) @ (I - A) @ np.diag([1.0, 1, -1, -1, -1]),
    "cayley-k-minus-one": lambda I, A, D: np.linalg.inv(I + A) @ (I - A) @ np.diag([1.0, 1, 1, 1, -1]),
    "cayley-D-first": lambda I, A, D: np.linalg.inv(I + A) @ (I - A) @ D[::-1, ::-1],
    "cayley-D-negative": lambda I, A, D: -np.linalg.inv(I + A) @ (I - A) @ D,
    "cayley-D-left": lambda I, A, D: D @ np.linalg.inv(I + A) @ (I - A),
    "cayley-transposed": lambda I, A, D: (np.linalg.inv(I + A) @ (I - A) @ D).T,
    "cayley-half": lambda I, A, D: np.linalg.solve(I + A / 2, I - A / 2) @ D,
    "cayley-inverse": lambda I, A, D: np.linalg.solve(I - A, I + A) @ D,
    "cayley-half-inverse": lambda I, A, D: np.linalg.solve(I - A / 2, I + A / 2) @ D,
    "cayley-series-4": lambda I, A, D: (I - A + A @ A - A @ A @ A + A @ A @ A @ A) @ (I - A) @ D,
}
CAYLEY_BACK = {
    "cayley-no-projection": lambda S, D, U, dU: (S.T @ dU @ (D + U.T)).T,
    "cayley-gradient-half": lambda S, D, U, dU: skew(S.T @ dU @ (D + U.T)) / 2,
    "cayley-gradient-negative": lambda S, D, U, dU: -skew(S.T @ dU @ (D + U.T)),
    "cayley-V-without-U": lambda S, D, U, dU: skew(S.T @ dU @ D),
    "cayley-V-without-D": lambda S, D, U, dU: skew(S.T @ dU @ U.T),
    "cayley-V-only-dU": lambda S, D, U, dU: skew(S.T @ dU),
    "cayley-V-U": lambda S, D, U, dU: skew(S.T @ dU @ (D + U)),
    "cayley-V-inverse": lambda S, D, U, dU: skew(S @ dU @ (D + U.T)),
    "cayley-dU-transposed": lambda S, D, U, dU: skew(S.T @ dU.T @ (D + U.T)),
    "skew-gradient-upper": lambda S, D, U, dU: np.triu(skew(S.T @ dU @ (D + U.T))),
}


def test_cayley_forms():
    """By numpy.linalg; cayley-half-inverse is geotorch's.  No mistake of the exact map is left out."""
    vector = VECTORS["parametrization/scaled_cayley"]
    A, dU, k = vector.case.inputs["params.A"], vector.case.inputs["dU"], vector.case.config["negative_ones"]
    I, D = np.eye(len(A)), np.diag([1.0] * (len(A) - k) + [-1.0] * k)
    assert {m.name for m in MISTAKES if m.applies(vector.case)} == CAYLEY.keys() | CAYLEY_BACK.keys()
    for name, form in CAYLEY.items():
        same({"U": given_by(name, vector.id)["U"]}, {"U": form(I, A, D)})
    for name, form in CAYLEY_BACK.items():
        d_A = form(np.linalg.inv(I + A), D, vector.expected["U"], dU)
        same(given_by(name, vector.id), {"U": vector.expected["U"], "d_params.A": d_A})


CONFIGURED = {
    "no-momentum": {"momentum": 0.0},
    "adam-epsilon-1e-7": {"epsilon": 1e-7},
    "rmsprop-epsilon-1e-7": {"epsilon": 1e-7},
    "rmsprop-initial-0": {"initial": 0.0},
    "rmsprop-initial-1": {"initial": 1.0},
    "rmsprop-initial-0.001": {"initial": 0.001},
    "rmsprop-decay-0.9": {"decay": 0.9},
    "rmsprop-decay-0.99": {"decay": 0.99},
    "rmsprop-epsilon-inside": {"epsilon_inside": True},
    "rmsprop-epsilon-outside": {"epsilon_inside": False},
}


def step_of(optimizer, wrong=""):
    """The step (parameter, gradient) -> delta of an optimizer, with the mistake of that name; reals alone."""
    o = optimizer | CONFIGURED.get(wrong, {})
    lr, decay, name = o["learning_rate"], o["weight_decay"], o["name"]
    m, v, mean, k = 0.0, o.get("initial", 0.0), 0.0, 0

    def square(g):
        return (g * g).sum(axis=-1, keepdims=True) if wrong.endswith("shared-modulus") else g * g

    def sgd(g):
        nonlocal m
        m = o["momentum"] * m + ((1 - o["momentum"]) * g if wrong == "momentum-dampened" else g)
        return lr * (g + o["momentum"] * m if wrong == "momentum-nesterov" else m)

    def adam(g):
        nonlocal m, v
        b1, b2 = (o["beta2"], o["beta1"]) if wrong == "adam-betas-swapped" else (o["beta1"], o["beta2"])
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * square(m if wrong == "adam-square-of-m" else g)
        j = max(k - 1, 1) if wrong == "adam-k-late" else k + (wrong == "adam-k-early")
        if wrong == "adam-epsilon-hat":  # TensorFlow 1
            return lr * np.sqrt(1 - b2**j) / (1 - b1**j) * m / (np.sqrt(v) + o["epsilon"])
        m_hat = m if wrong in ("adam-no-correction", "adam-m-uncorrected") else m / (1 - b1**j)
        v_hat = v if wrong == "adam-no-correction" else v / (1 - b2**j)
        inside = wrong == "adam-epsilon-inside"
        return lr * m_hat / (np.sqrt(v_hat + o["epsilon"]) if inside else np.sqrt(v_hat) + o["epsilon"])

    def rmsprop(g):
        nonlocal v, mean
        old, d = v, 1 - o["decay"] if wrong == "rmsprop-decay-swapped" else o["decay"]
        v, mean = d * v + (1 - d) * square(g), d * mean + (1 - d) * g
        used = {"rmsprop-old-square": old, "rmsprop-centered": v - mean * mean}.get(wrong, v)
        return lr * g / (np.sqrt(used + o["epsilon"]) if o["epsilon_inside"] else np.sqrt(used) + o["epsilon"])

    def step(p, g):
        nonlocal k
        k += 1
        added = {"no-weight-decay": 0.0, "weight-decay-decoupled": 0.0}.get(wrong, decay * p)
        beside = lr * decay * p if wrong == "weight-decay-decoupled" else 0.0
        delta = {"sgd": sgd, "adam": adam, "rmsprop": rmsprop}[name](g + added) + beside
        return -delta if wrong == "step-ascends" else delta

    return step


@pytest.mark.parametrize("id", [id for id in VECTORS if id.startswith("optimizer/")])
def test_optimizers_by_their_formulas(id, everything):
    """With every mistake that applies, and without one."""
    case = VECTORS[id].case
    names = [name for case_id, name in everything if case_id == id]
    for name in ("", *names):
        step, p, history = step_of(case.config["optimizer"], name), case.inputs["parameter0"], []
        for g in case.inputs["gradient"]:
            p = p - step(p, g)
            history.append(p)
        same(everything[id, name] if name else VECTORS[id].expected, {"parameter": np.array(history)})


def algorithm_1(case, wrong=""):
    """Algorithm 1 line by line, with the mistake of that name."""
    config, A = case.config, case.inputs["A0"]
    n, k_D, rate = len(A), config["negative_ones"], config["optimizer"]["learning_rate"]
    I, D, step = np.eye(n), np.diag([1.0] * (n - k_D) + [-1.0] * k_D), step_of(config["optimizer"])
    q = config["order"] + {"neumann-order-plus-one": 1, "neumann-order-minus-one": -1}.get(wrong, 0)
    q = 1 if wrong == "neumann-first-power-alone" else q
    every = {"neumann-never-reset": None, "neumann-always-exact": 1}.get(wrong, config["reset_every"])
    moved = {"neumann-reset-early": 1, "neumann-reset-late": -1, "neumann-reset-from-0": -1}.get(wrong, 0)
    S = np.linalg.inv(I + A)
    left = wrong in ("cayley-D-left", "update-D-left")
    U, history, k = (D @ S @ (I - A) if left else S @ (I - A) @ D), [], 0
    old_U, old_S, late = U, S, 0 * A
    for dU in case.inputs["dU"]:
        k += 1
        V = (old_S if wrong == "V-old-A_tilde" else S).T @ dU @ (D + (old_U if wrong == "V-old-U" else U).T)
        if wrong == "cayley-D-left":  # U is D (2 S - I), and dS = -S dA S
            V = S.T @ D @ dU @ (I + (D @ U).T)
        old_U, old_S, gradient = U, S, skew(V)
        late, gradient = gradient, late if wrong == "V-late" else gradient
        delta = step(A, gradient)
        before, A = A, A - delta
        P = S @ {"neumann-sign": -delta, "neumann-sgd": rate * gradient}.get(wrong, delta)
        P = delta @ S if wrong == "neumann-delta-first" else P
        powers = sum(np.linalg.matrix_power(P, j) for j in range(q + 1))
        series = S @ powers if wrong == "neumann-factors" else powers @ S
        due = every is not None and (k + moved) % every == 0 and (k + moved > 0 or wrong == "neumann-reset-from-0")
        norm = np.linalg.norm(
            P if wrong == "neumann-delta-first" else S @ delta, "fro" if wrong == "neumann-forced-by-frobenius" else 2
        )
        forced = wrong != "neumann-not-forced" and norm >= 1
        k = 0 if forced and wrong == "neumann-forced-restarts" else k
        S = np.linalg.inv(I + A) if due or forced else series
        U = D @ S @ (I - A) if left else S @ (I - (before if wrong == "neumann-old-A" else A)) @ D
        U = np.linalg.solve(I + before, I - before) @ D if wrong == "cayley-old-A" else U
        S = np.linalg.inv(I + before) if wrong == "cayley-old-A" else S
        S = series if wrong == "neumann-reset-not-kept" else S
        history.append({"A": A, "A_tilde": S, "U": U})
    return {name: np.array([entry[name] for entry in history]) for name in history[0]}


OF_UPDATES = ("V-old-U", "V-old-A_tilde", "V-late", "cayley-D-left", "update-D-left", "cayley-old-A")


def test_exact_updates_with_a_mistake_by_a_loop():
    """Algorithm 1 with a reset after every update."""
    case = VECTORS["update/scaled_cayley"].case
    loop = replace(case, config={**case.config, "order": 1, "reset_every": 1})
    for name in ("", *OF_UPDATES):
        same(given_by(name, case.id) if name else VECTORS[case.id].expected, algorithm_1(loop, name), 1e-9)


@pytest.mark.parametrize("id", [id for id in VECTORS if id.startswith("update/neumann_cayley/")])
def test_algorithm_1_with_a_mistake_by_a_loop(id, everything):
    """With every mistake of the series and its resets that applies, and without one."""
    applied = [name for case_id, name in everything if case_id == id]
    names = [name for name in applied if name.startswith("neumann-") or name in OF_UPDATES]
    assert {"neumann-factors", "neumann-delta-first", *OF_UPDATES[:-1]} <= set(names)
    optimizer = VECTORS[id].case.config["optimizer"]
    assert ("neumann-sgd" in names) == (optimizer["name"] != "sgd" or optimizer["momentum"] > 0)
    assert ("neumann-forced-by-frobenius" in names) == ("forced" in id)
    assert ("neumann-forced-restarts" in names) == id.endswith("forced-and-due")
    for name in ("", *names):
        same(everything[id, name] if name else VECTORS[id].expected, algorithm_1(VECTORS[id].case, name), 1e-8)


GEODESIC = {
    "geodesic-as-printed": lambda X, G: G.conj().T @ X - X.conj().T @ G,
    "geodesic-uphill": lambda X, G: X @ G.conj().T - G @ X.conj().T,
    "geodesic-twice": lambda X, G: 2 * (G @ X.conj().T - X @ G.conj().T),
    "geodesic-conjugated": lambda X, G: G.conj() @ X.conj().T - X @ G.T,
    "geodesic-real-gradient": lambda X, G: G.real @ X.conj().T - X @ G.real.T,
}


@pytest.mark.parametrize("name", GEODESIC)
def test_geodesic_steps(name):
    """A as each has it, and (I + rate A / 2)^-1 (I - rate A / 2) U."""
    case, found = VECTORS["update/geodesic_unitary"].case, []
    X, rate, I = joined(case.inputs["X0"]), case.config["optimizer"]["learning_rate"], np.eye(5)
    for G in joined(case.inputs["dU"]):
        A = rate / 2 * GEODESIC[name](X, G)
        X = np.linalg.inv(I + A) @ (I - A) @ X
        found.append(X)
    same(given_by(name, case.id), {"U": parted(np.array(found))}, 1e-9)


BLOCKS = {
    "": lambda c, s, e: [[c, -s * e], [s, c * e]],
    "phase-on-upper": lambda c, s, e: [[c * e, -s], [s * e, c]],
    "phase-on-row": lambda c, s, e: [[e * c, -e * s], [s, c]],
    "phase-sign": lambda c, s, e: [[c, -s / e], [s, c / e]],
    "rotation-sign": lambda c, s, e: [[c, s * e], [-s, c * e]],
    "diagonal-sign": lambda c, s, e: [[c, -s * e], [s, c * e]],
}


@pytest.mark.parametrize("name", BLOCKS)
def test_the_phase_of_a_rotation(name):
    """EURNN's code has it on the second column of a block, the EUNN paper on the first row."""
    vector = VECTORS["parametrization/tunable_rotations/complex"]
    i = vector.case.inputs
    U = np.eye(len(i["params.omega"]), dtype=complex)
    for k in range(len(i["params.theta_A"])):
        for style, first in (("A", 0), ("B", 1)):
            for j, (t, p) in enumerate(zip(i[f"params.theta_{style}"][k], i[f"params.phi_{style}"][k], strict=True)):
                rows = slice(first + 2 * j, first + 2 * j + 2)
                U[rows] = np.array(BLOCKS[name](np.cos(t), np.sin(t), np.exp(1j * p))) @ U[rows]
    U = np.exp((-1j if name == "diagonal-sign" else 1j) * i["params.omega"])[:, None] * U
    same({"U": (given_by(name, vector.id) if name else vector.expected)["U"]}, {"U": parted(U)})


OF_STRUCTURED = (
    *("reflection-conjugate", "structured-F-inverse", "permutation-inverse", "structured-D-sign"),
    *(f"structured-D{j}-sign" for j in (1, 2, 3)),
)


@pytest.mark.parametrize("name", ["", *OF_STRUCTURED, "structured-D1-D3", "structured-R1-R2"])
@pytest.mark.parametrize("id", ["parametrization/structured_unitary", "parametrization/structured_unitary/even"])
def test_the_structured_matrix_by_its_factors(id, name):
    """With uRNN's code's reflection, z - 2 v^* (v^T z) / |v|^2, among the mistakes."""
    i = VECTORS[id].case.inputs
    n = len(i["params.w_1"])
    D = {j: np.diag(np.exp(1j * i[f"params.w_{j}"])) for j in (1, 2, 3)}
    for j in (1, 2, 3):
        D[j] = D[j].conj() if name in ("structured-D-sign", f"structured-D{j}-sign") else D[j]
    v = {j: joined(i[f"params.v_{j}"]) for j in (1, 2)}
    v = {j: u.conj() if name == "reflection-conjugate" else u for j, u in v.items()}
    R = {j: np.eye(n) - 2 * np.outer(u, u.conj()) / np.vdot(u, u).real for j, u in v.items()}
    F = np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n) / np.sqrt(n)
    F = F.conj() if name == "structured-F-inverse" else F
    Pi = np.eye(n)[i["permutation"]]
    Pi = Pi.T if name == "permutation-inverse" else Pi
    if name == "structured-D1-D3":
        D[1], D[3] = D[3], D[1]
    if name == "structured-R1-R2":
        R[1], R[2] = R[2], R[1]
    U = D[3] @ R[2] @ F.conj() @ D[2] @ Pi @ R[1] @ F @ D[1]
    same({"U": (given_by(name, id) if name else VECTORS[id].expected)["U"]}, {"U": parted(U)})


@pytest.mark.parametrize("id", [id for id in VECTORS if id.startswith("loss/")])
def test_sums_and_means_of_losses(id):
    """Over entries, over every squared error, over what counts; in bits."""
    config, i = VECTORS[id].case.config, VECTORS[id].case.inputs
    o = i["outputs"].reshape(*i["outputs"].shape[:2], config["groups"], -1)
    y = i["y"].reshape(o.shape if config["targets"] == "numbers" else o.shape[:-1])
    y = np.eye(o.shape[-1])[y] if config["targets"] == "classes" else y
    on = i["mask"] if config["masked"] else np.ones(o.shape[:2], bool)
    if config["loss"] == "cross_entropy":
        o = o - o.max(axis=-1, keepdims=True)
        terms = np.log(np.exp(o).sum(axis=-1)) - (o * y).sum(axis=-1)
        expected = dict.fromkeys(("loss-bits", "loss-bits-alone"), terms[on].mean() / np.log(2))
    elif config["loss"] == "binary_cross_entropy":
        terms = np.logaddexp(0, np.where(y == 1, -1, 1) * o[..., 0])  # -log of the probability of what is so
        expected = dict.fromkeys(("loss-bits", "loss-bits-alone"), terms[on].mean() / np.log(2))
        once = 1 / (1 + np.exp(-np.clip(o[..., 0], -700, 700)))
        expected["bce-sigmoid-twice"] = np.logaddexp(0, np.where(y == 1, -1, 1) * once)[on].mean()
    else:
        terms = (o - y) ** 2
        expected = {"mse-half": terms[on].mean() / 2, "mse-sum-over-outputs": terms.sum(axis=-1)[on].mean()}
    expected |= {"": terms[on].mean(), "loss-summed": terms[on].sum()}
    if config["masked"]:
        expected |= {"loss-mask-ignored": terms.mean(), "loss-mask-in-mean": terms[on].sum() / terms.size}
    else:
        expected |= {"loss-last-step": terms[-1].mean(), "loss-batch-mean": terms.mean() * len(terms)}
    for name, value in expected.items():
        got = (given_by(name, id) if name else VECTORS[id].expected)["loss"]
        np.testing.assert_allclose(got, value, rtol=1e-12, err_msg=name)


def test_reset_before_by_a_loop():
    """gru_reset_after as gru_reset_before with u = 1 - z."""
    case = VECTORS["cell/gru_reset_after/tanh"].case
    other = {"r": ("r", 1), "z": ("u", -1), "h": ("c", 1)}
    names = {f"weights.{kind}_{g}": (f"weights.{kind}_{o}", s) for kind in "WUb" for g, (o, s) in other.items()}
    inputs = {name: a for name, a in case.inputs.items() if name not in names}
    inputs |= {new: sign * case.inputs[old] for old, (new, sign) in names.items()}
    found = gru(replace(case, inputs=inputs))
    expected = {name: a for name, a in found.items() if not name.startswith("d_weights.")}
    expected |= {f"d_{old}": sign * found[f"d_{new}"] for old, (new, sign) in names.items()}
    same(given_by("reset-before", case.id), expected)


def relu(a):
    return np.maximum(a, 0)


def linear(a):
    return a


SLOPES = {sigmoid: lambda y: y * (1 - y), np.tanh: lambda y: 1 - y * y, relu: lambda y: y > 0, linear: lambda y: 1}
#: Mistake -> the places of the LSTM, of their values or of c, and what is there.
PLACES = {
    **{f"lstm-{gate}-tanh": (gate, np.tanh) for gate in "ifo"},
    **{f"lstm-{place}-{phi.__name__}": (place, phi) for place in "gc" for phi in (sigmoid, relu, linear)},
    **{f"lstm-{phi.__name__}": ("gc", phi) for phi in (sigmoid, relu, linear)},
}


def lstm(case, wrong=""):
    """An LSTM and its gradients by a loop: all outputs.  wrong: the name of a mistake."""
    w = {n.removeprefix("weights."): a for n, a in case.inputs.items() if n.startswith("weights.")}
    x, h, c = (case.inputs[name] for name in ("x", "h0", "c0"))
    phi = dict.fromkeys("ifo", sigmoid) | dict.fromkeys("gc", np.tanh) | dict.fromkeys(*PLACES.get(wrong, ("", None)))
    slope = {place: SLOPES[function] for place, function in phi.items()}
    hs, cs, tape = [h], [c], []
    for x_t in x:
        a = {g: x_t @ w[f"W_{g}"].T + h @ w[f"U_{g}"].T + w[f"b_{g}"] for g in "ifgo"}
        a["f"] = a["f"] + 1 if wrong == "forget-plus-one" else a["f"]
        v = {g: phi[g](a[g]) for g in "ifgo"}
        v["f"] = 1 - v["i"] if wrong == "lstm-coupled" else v["f"]
        tape.append((x_t, h, c, v))
        c = v["f"] * c + v["i"] * v["g"]
        h = v["o"] * phi["c"](c)
        hs.append(h)
        cs.append(c)
    d = {f"d_weights.{name}": np.zeros_like(a) for name, a in w.items()}
    dh, dc, d_x = case.inputs["dh_T"], case.inputs["dc_T"], []
    for t in reversed(range(len(x))):
        x_t, h, c, v = tape[t]
        dh, y = dh + case.inputs["dh"][t], phi["c"](cs[t + 1])
        direct = dc * v["f"]
        dc = dc + dh * v["o"] * slope["c"](y)
        dv = {"i": dc * v["g"], "f": dc * c, "g": dc * v["i"], "o": dh * y}
        da = {g: dv[g] * slope[g](v[g]) for g in "ifgo"}
        if wrong == "lstm-coupled":
            da["i"], da["f"] = (dv["i"] - dv["f"]) * v["i"] * (1 - v["i"]), 0 * da["f"]
        da = {g: 0 * a if wrong == f"constant-{g}" else a for g, a in da.items()}
        for g in "ifgo":
            d[f"d_weights.W_{g}"] += da[g].T @ x_t
            d[f"d_weights.U_{g}"] += da[g].T @ (hs[t + 1] if wrong == "lstm-dU-with-h" else h)
            d[f"d_weights.b_{g}"] += da[g][0] if wrong == "db-not-summed-over-batch" else da[g].sum(axis=0)
        d_x.append(sum(da[g] @ w[f"W_{g}"] for g in "ifgo"))
        cut = {"detached": range(len(x)), "detached-in-loop": range(1, len(x)), "windows-of-8": (8,)}
        on = 0.0 if t in cut.get(wrong, ()) else 1.0
        dh = on * sum((da[g] @ w[f"U_{g}"] for g in "ifgo" if wrong != f"path-{g}"), 0 * dh)
        dc = on * (direct if wrong == "lstm-c-without-h" else 0 * dc if wrong == "path-carried" else dc * v["f"])
    return {"h": np.array(hs), "c": np.array(cs), "d_x": np.array(d_x[::-1]), "d_h0": dh, "d_c0": dc, **d}


OF_LSTM = (
    *("forget-plus-one", "lstm-coupled", "lstm-c-without-h", "path-carried", "detached", "windows-of-8"),
    "detached-in-loop",
    *(
        *PLACES,
        "lstm-dU-with-h",
        "db-not-summed-over-batch",
        *(f"path-{gate}" for gate in "ifgo"),
        *(f"constant-{gate}" for gate in "ifo"),
    ),
)


@pytest.mark.parametrize("name", ["", *OF_LSTM])
def test_lstm_with_a_mistake_by_a_loop(name):
    """Over 12 steps, so that a window ends within."""
    id = "cell/lstm/long"
    same(given_by(name, id) if name else VECTORS[id].expected, lstm(VECTORS[id].case, name))


def one_block(name):
    """Input -> where it is read from and how, of a mistake in one gate's weights or in two blocks."""
    gate = name.split("-")[1]
    if name.endswith("-missing"):
        return {f"b_{gate}": (f"b_{gate}", lambda b: 0 * b)}
    if name.endswith("-plus-one"):
        return {f"b_{gate}": (f"b_{gate}", lambda b: b + 1)}
    if name.endswith("-transposed"):
        return {name.removesuffix("-transposed"): (name.removesuffix("-transposed"), np.transpose)}
    first, second = name.removesuffix("-swapped").split("-")
    names = [(first, second)] if "_" in first else [(f"{kind}_{first}", f"{kind}_{second}") for kind in "WUb"]
    return {a: (b, linear) for pair in names for a, b in (pair, pair[::-1])}


def back_to(name, gradient):
    """The gradient by a weight as it was given."""
    return 0 * gradient if name.endswith("-missing") else gradient.T if name.endswith("-transposed") else gradient


@pytest.mark.parametrize(
    ("id", "loop", "gates"), [("cell/gru_reset_before/tanh", gru, "ruc"), ("cell/lstm", lstm, "ifgo")]
)
def test_blocks_by_a_loop(id, loop, gates):
    """Every mistake in one gate's weights and in two blocks: the loop of other inputs, and its gradients put back."""
    case = VECTORS[id].case
    names = [m.name for m in blocks.MISTAKES if m.applies(case)]
    pairs = len(gates) * (len(gates) - 1) // 2
    assert len(names) == 3 * len(gates) + 4 * pairs - {"ruc": 1, "ifgo": 1 + 3}[gates]  # those of other families
    for name in names:
        read = {f"weights.{a}": (f"weights.{b}", change) for a, (b, change) in one_block(name).items()}
        found = loop(replace(case, inputs=case.inputs | {a: change(case.inputs[b]) for a, (b, change) in read.items()}))
        back = {f"d_{b}": back_to(name, found[f"d_{a}"]) for a, (b, _) in read.items()}
        same(given_by(name, id), found | back)


@pytest.mark.parametrize(("id", "loop"), [("cell/gru_reset_before/tanh", gru), ("cell/lstm", lstm)])
@pytest.mark.parametrize(("name", "factor"), [("state-not-carried", 1), ("state-0-every-step", 0)])
def test_states_that_are_not_carried(id, loop, name, factor):
    """Each step by itself, from h_0 or from 0; what reaches the last state reaches the last step alone."""
    case, right = VECTORS[id].case, VECTORS[id].expected
    states, T = [n for n in ("h", "c") if n in right], len(case.inputs["x"])
    steps = []
    for t in range(T):
        own = {n: case.inputs[n][t : t + 1] for n in ("x", "dh")}
        own |= {f"{n}0": factor * case.inputs[f"{n}0"] for n in states}
        own |= {f"d{n}_T": (t == T - 1) * case.inputs[f"d{n}_T"] for n in states}
        steps.append(loop(replace(case, inputs=case.inputs | own)))
    expected = {n: sum(found[n] for found in steps) for n in right if n.startswith("d_w")}
    expected |= {n: np.concatenate([case.inputs[f"{n}0"][None], *(found[n][1:] for found in steps)]) for n in states}
    expected |= {f"d_{n}0": factor * sum(found[f"d_{n}0"] for found in steps) for n in states}
    expected["d_x"] = np.concatenate([found["d_x"] for found in steps])
    same(given_by(name, id), expected)


def test_states_exchanged_on_the_way_back():
    """dL/dh_T and dL/dc_T, and d_h0 and d_c0."""
    case, right = VECTORS["cell/lstm"].case, VECTORS["cell/lstm"].expected
    swapped = {"dh_T": case.inputs["dc_T"], "dc_T": case.inputs["dh_T"]}
    same(given_by("dh_T-dc_T-swapped", case.id), lstm(replace(case, inputs=case.inputs | swapped)))
    same(given_by("d_h0-d_c0-swapped", case.id), right | {"d_h0": right["d_c0"], "d_c0": right["d_h0"]})


def test_two_biases_of_a_reset_before():
    """U_h (r h) + b_hh + b_h, and one gradient for both."""
    case = VECTORS["cell/gru_reset_after/recurrent-bias"].case
    w = {n.removeprefix("weights."): a for n, a in case.inputs.items()}
    names = {f"{kind}_{g}": f"{kind}_{o}" for kind in "WUb" for g, o in zip("rzh", "ruc", strict=True)}
    signs = {name: -1 if name.endswith("_z") else 1 for name in names}
    inputs = {n: a for n, a in case.inputs.items() if not n.startswith("weights.")}
    inputs |= {f"weights.{new}": signs[old] * w[old] for old, new in names.items()}
    inputs["weights.b_c"] = w["b_h"] + w["b_hh"]
    found = gru(replace(case, inputs=inputs))
    expected = {n: a for n, a in found.items() if not n.startswith("d_weights.")}
    expected |= {f"d_weights.{old}": signs[old] * found[f"d_weights.{new}"] for old, new in names.items()}
    same(given_by("reset-before-two-biases", case.id), expected | {"d_weights.b_hh": found["d_weights.b_c"]})


def test_dU_with_h_by_a_loop():
    """The tanh RNN's U gets sum dz_t h_t^T."""
    vector = VECTORS["cell/elman/tanh"]
    i, h, dh, dU = vector.case.inputs, vector.expected["h"], vector.case.inputs["dh_T"], 0.0
    for t in reversed(range(len(i["x"]))):
        dz = (dh + i["dh"][t]) * (1 - h[t + 1] ** 2)
        dU, dh = dU + dz.T @ h[t + 1], dz @ i["weights.U"]
    same(given_by("dU-with-h", vector.id), vector.expected | {"d_weights.U": dU})


@pytest.mark.parametrize(
    ("name", "factor", "names"),
    [
        ("weights-averaged-over-batch", 1 / 4, "d_weights.*"),
        ("weights-averaged-over-time", 1 / 6, "d_weights.*"),
        ("all-averaged-over-batch", 1 / 4, "d_*"),
        ("all-halved", 1 / 2, "d_*"),
        ("all-negative", -1, "d_*"),
        ("h0-gradient-lost", 0, "d_[hc]0"),
        ("c0-gradient-lost", 0, "d_c0"),
        ("x-gradient-lost", 0, "d_x"),
    ],
)
def test_factors(name, factor, names):
    """T = 6, B = 4."""
    right = VECTORS["cell/lstm"].expected
    same(given_by(name, "cell/lstm"), {n: a * (factor if fnmatchcase(n, names) else 1) for n, a in right.items()})


def test_gradients_of_the_exponential():
    """By its series: dexp at A along E is the sum over k of the words of k - 1 A and one E, over k!."""
    vector = VECTORS["parametrization/exponential"]
    A, dU, U = vector.case.inputs["params.A"], vector.case.inputs["dU"], vector.expected["U"]

    def derivative(A):
        total, power, along = 0.0, np.eye(len(A)), np.zeros_like(A)
        for k in range(1, 60):
            power, along = power @ A / k, (along @ A + power @ dU) / k
            total = total + along
        return total

    back, there = derivative(A.T), derivative(A)
    expected = {
        "": back - back.T,
        "exp-gradient-at-0": dU - dU.T,
        "exp-gradient-tangent": U.T @ dU - dU.T @ U,
        "exp-derivative-at-A": there - there.T,
        "exp-no-projection": back,
        "exp-gradient-half": (back - back.T) / 2,
        "skew-gradient-upper": np.triu(back - back.T),
    }
    for name, d_A in expected.items():
        same(given_by(name, vector.id) if name else vector.expected, {"U": U, "d_params.A": d_A})


def test_gradients_by_unit_vectors():
    """U does not change with the length of v, so that its gradient is in inverse proportion to that."""
    vector = VECTORS["parametrization/householder"]
    V, right = vector.case.inputs["params.V"], vector.expected
    d_V = right["d_params.V"] * np.sqrt((V * V).sum(axis=0))
    same(given_by("householder-length", vector.id), right | {"d_params.V": d_V})
    vector = VECTORS["parametrization/structured_unitary"]
    expected = dict(vector.expected)
    for name in ("params.v_1", "params.v_2"):
        expected[f"d_{name}"] = expected[f"d_{name}"] * np.sqrt((vector.case.inputs[name] ** 2).sum())
    same(given_by("reflection-length", vector.id), expected)


REFLECTIONS = {
    "": lambda v: 2 / (v @ v),
    "householder-factor-1": lambda v: 1 / (v @ v),
    "householder-not-normalised": lambda v: 2,
    "householder-one-fewer": lambda v: 2 / (v @ v),
}


@pytest.mark.parametrize("name", REFLECTIONS)
@pytest.mark.parametrize("id", [f"parametrization/householder{end}" for end in ("", "/one", "/all")])
def test_reflections_one_by_one(id, name, everything):
    """The product of I - factor v v^T; of n columns the last is a sign.  The gradients are compared by differences."""
    V, right = VECTORS[id].case.inputs["params.V"], VECTORS[id].expected["U"]
    n, m = V.shape
    if name == "householder-one-fewer":
        assert ((id, name) in everything) == (1 < m < n)
    if name and (id, name) not in everything:
        return
    U = np.eye(n)
    for v in V.T[: m - (m == n) - (name == "householder-one-fewer")]:
        U = U @ (np.eye(n) - REFLECTIONS[name](v) * np.outer(v, v))
    U[:, -1] *= np.sign(V[-1, -1]) if m == n else 1
    same({"U": everything[id, name]["U"] if name else right}, {"U": U})


def turned(pairs, angles, n, permutation=None):
    """One layer (n, n): a permutation, and pairs (upper, lower) turned by their angles."""
    R = np.eye(n)
    for (p, q), t in zip(pairs, angles, strict=True):
        R[p, p], R[p, q], R[q, p], R[q, q] = np.cos(t), -np.sin(t), np.sin(t), np.cos(t)
    return R if permutation is None else R @ np.eye(n)[permutation]


def product(layers):
    """The first layer acts first."""
    U = np.eye(len(layers[0]))
    for layer in layers:
        U = layer @ U
    return U


def test_layers_of_rotations():
    """Pairs, angles and orders of all three styles, index by index."""

    def tunable(id, order):
        i = VECTORS[id].case.inputs
        n, layers = VECTORS[id].expected["U"].shape[0], []
        for k in range(len(i["params.theta_A"])):
            for style in order:
                pairs = [(j, j + 1) for j in range(style == "B", n - 1, 2)]
                layers.append(turned(pairs, i[f"params.theta_{style}"][k], n))
        return layers

    def fft(id, wrong=""):
        theta, layers = VECTORS[id].case.inputs["params.theta"], []
        n = 2 * theta.shape[1]
        for row, angles in enumerate(theta):
            s = n >> (row + 1)
            pairs = [(p, p + s) for p in range(n) if not p & s]
            columns = [p % (2 * s) * 2**row + p // (2 * s) for p, _ in pairs]
            if wrong == "fft-columns":
                columns = range(len(pairs))  # the pairs block by block
            layers.append(turned(pairs, angles[list(columns)], n))
        return layers

    def volume(id, wrong=""):
        i = VECTORS[id].case.inputs
        Theta, permutations = i["params.Theta"], i["permutations"]
        n = permutations.shape[1]
        pairs = [(2 * j, 2 * j + 1) if wrong == "volume-even-odd" else (j, j + n // 2) for j in range(n // 2)]
        order = [np.argsort(p) if wrong == "permutation-inverse" else p for p in permutations]
        return [turned(pairs, Theta[:, k], n, order[k]) for k in reversed(range(Theta.shape[1]))]

    a, b, c = (f"parametrization/{name}" for name in ("tunable_rotations", "fft_rotations", "volume_preserving"))
    expected = [
        *[(a, "", tunable(a, "AB")), (a, "tunable-B-first", tunable(a, "BA"))],
        *[(b, "", fft(b)), (b, "fft-columns", fft(b, "fft-columns"))],
        *[(c, name, volume(c, name)) for name in ("", "volume-even-odd", "permutation-inverse")],
        *[(id, "rotation-layers-reversed", layers[::-1]) for id, layers in ((a, tunable(a, "AB")), (b, fft(b)))],
        (c, "rotation-layers-reversed", volume(c)[::-1]),
        *[
            (id, "rotation-layer-missing", layers[:-1])
            for id, layers in ((a, tunable(a, "AB")), (b, fft(b)), (c, volume(c)))
        ],
    ]
    for id, name, layers in expected:
        same({"U": (given_by(name, id) if name else VECTORS[id].expected)["U"]}, {"U": product(layers)})


def test_the_series_of_U_r_from_the_inverse_of_U_c():
    """The first update of training, of order 1."""
    case, found = VECTORS["train/nc_gru/two"].case, given_by("neumann-A_tilde-of-U_c", "train/nc_gru/two")
    A_c, A_r, after = (
        case.inputs["params.layer0.U_c.A"],
        case.inputs["params.layer0.U_r.A"],
        found["params.layer0.U_r.A"],
    )
    I, k = np.eye(len(A_c)), case.config["negative_ones"]
    S, D = np.linalg.inv(I + A_c), np.diag([1.0] * (len(I) - k) + [-1.0] * k)
    U = (I + S @ (A_r - after[0])) @ S @ (I - after[0]) @ D
    same({"U": found["U_r"][0]}, {"U": U})


def test_gradients_of_cross_entropy():
    """-1_y / p and p, over the number of entries that count."""
    for id in ("loss/cross_entropy", "loss/cross_entropy/masked"):
        i = VECTORS[id].case.inputs
        p = np.exp(i["outputs"]) / np.exp(i["outputs"]).sum(axis=-1, keepdims=True)
        on = i["mask"] if "mask" in i else np.ones(p.shape[:2], bool)
        same({"d": given_by("loss-no-target", id)["d_outputs"]}, {"d": p * on[..., None] / on.sum()})
        if "mask" in i:
            d = (p - np.eye(p.shape[-1])[i["y"]]) / on.sum()
            same(given_by("loss-gradient-unmasked", id), {"loss": VECTORS[id].expected["loss"], "d_outputs": d})
        else:
            y = np.eye(p.shape[-1])[i["y"]]
            same({"d": given_by("loss-by-probabilities", id)["d_outputs"]}, {"d": -y / p / on.sum()})


def test_the_gradient_at_masked_entries():
    """Of squared errors, 2 (o - y) over the numbers that count; it is right where they do."""
    vector = VECTORS["loss/mean_squared_error/masked"]
    i = vector.case.inputs
    d = 2 * (i["outputs"] - i["y"]) / (i["mask"].sum() * i["outputs"].shape[-1])
    same(given_by("loss-gradient-unmasked", vector.id), {"loss": vector.expected["loss"], "d_outputs": d})
    same({"d": vector.expected["d_outputs"][i["mask"]]}, {"d": d[i["mask"]]})
    assert not vector.expected["d_outputs"][~i["mask"]].any()


@pytest.mark.parametrize("name", OVERFLOWS)
def test_exponentials_that_overflow(name, everything):
    """Right to rounding, and not a number where e^2a (e^a) is beyond double precision."""
    id, twice = OVERFLOWS[name], 2 if name == "tanh-by-exp" else 1
    assert {case_id for case_id, other in everything if other == name} == {id, f"{id}/large"}
    same(everything[id, name], VECTORS[id].expected)
    large = VECTORS[f"{id}/large"]
    a = large.case.inputs["a"] + large.case.inputs.get("b", 0)
    over = twice * a > np.log(np.finfo(float).max)
    assert 0 < over.sum() < a.size
    y = everything[large.id, name]["y"]
    np.testing.assert_array_equal(np.isnan(y), over)
    same({"y": y[~over]}, {"y": large.expected["y"][~over]})


def gru_after(case, wrong):
    """The states of gru_reset_after with modReLU or tanh, gates or vectors, by a loop."""
    w = {n.removeprefix("weights."): a for n, a in case.inputs.items() if n.startswith("weights.")}
    w |= {n: sigmoid(w[n]) for n in "rz" if n in w and wrong == "vectors-through-sigmoid"}
    h, states = case.inputs["h0"], [case.inputs["h0"]]
    for x_t in case.inputs["x"]:
        r, z = (w[g] if g in w else sigmoid(x_t @ w[f"W_{g}"].T + h @ w[f"U_{g}"].T + w[f"b_{g}"]) for g in "rz")
        z = 1 - z if wrong == "z-vector-writes" else z
        a = x_t @ w["W_h"].T + r * (h @ w["U_h"].T)
        if case.config["activation"] == "tanh" or wrong == "tanh-always":
            c = np.tanh(a + w["b_h"])
        else:
            c = np.sign(a) * np.maximum(abs(a) + w["b_h"], 0)
        h = z * h + (1 - z) * c
        states.append(h)
    return np.array(states)


OF_VECTORS = {
    "": ("tanh", "modrelu", "no-reset-gate", "no-update-gate", "no-gates"),
    "z-vector-writes": ("no-update-gate", "no-gates"),
    "vectors-through-sigmoid": ("no-reset-gate", "no-update-gate", "no-gates"),
    "tanh-always": ("modrelu", "no-reset-gate", "no-update-gate", "no-gates"),
}


@pytest.mark.parametrize("name", OF_VECTORS)
def test_vectors_in_place_of_gates_by_a_loop(name, everything):
    """The gradients are compared by differences; tanh whatever the activation."""
    ids = [f"cell/gru_reset_after/{variant}" for variant in OF_VECTORS[name]]
    applied = {id for id, other in everything if other == name and id.startswith("cell/gru_reset_after/")}
    assert not name or applied - {"cell/gru_reset_after/relu"} == set(ids)
    for id in ids:
        h = (everything[id, name] if name else VECTORS[id].expected)["h"]
        same({"h": h}, {"h": gru_after(VECTORS[id].case, name)})


def test_tanh_always_of_an_rnn(everything):
    """tanh(W x + U h + b) for ReLU and modReLU; no complex case has it."""
    applied = {id for id, name in everything if name == "tanh-always" and id.startswith("cell/elman/")}
    assert applied == {
        id
        for id, v in VECTORS.items()
        if id.startswith("cell/elman/") and v.case.config["activation"] != "tanh" and not v.case.config["complex"]
    }
    for id in applied:
        i = VECTORS[id].case.inputs
        h, states, W = i["h0"], [i["h0"]], i["weights.W"]
        for x_t in i["x"]:
            wx = x_t @ W.T if x_t.ndim == 2 else W.T[x_t]
            h = np.tanh(wx + h @ i["weights.U"].T + i["weights.b"])
            states.append(h)
        same({"h": everything[id, "tanh-always"]["h"]}, {"h": np.array(states)})


def test_the_adding_task():
    """The mean of the two values; the value in the first channel."""
    vector = VECTORS["task/adding"]
    values, steps = vector.case.inputs["values"], vector.case.inputs["steps"]
    same(
        {"y": given_by("adding-mean", vector.id)["y"][:, 0]},
        {"y": np.take_along_axis(values, steps, axis=1).mean(axis=1)},
    )
    same({"x": given_by("adding-value-first", vector.id)["x"][..., 0]}, {"x": values.T})


def unitary_rnn(case, wrong=""):
    """The complex RNN with modReLU and its gradients by a loop: all outputs.  wrong: the name of a mistake."""
    i = case.inputs
    h, dh, dhs, W, U = (joined(i[name]) for name in ("h0", "dh_T", "dh", "weights.W", "weights.U"))
    x, b = i["x"], i["weights.b"]
    U = {"U-conjugated": U.conj(), "U-transposed": U.T}.get(wrong, U)
    states, zs = [h], []
    for x_t in x:
        zs.append(x_t @ W.T + h @ U.T)
        h = zs[-1] / abs(zs[-1]) * np.maximum(abs(zs[-1]) + b, 0)
        states.append(h)
    d_W, d_U, d_b, d_x = 0.0, 0.0, 0.0, []
    for t in reversed(range(len(x))):
        e, on, dy = zs[t] / abs(zs[t]), abs(zs[t]) + b > 0, dh + dhs[t]
        along = on * (e.conj() * dy).real
        across = (
            0.0 if wrong == "modrelu-phase-constant" else on * (1 + b / abs(zs[t])) * (dy - e * (e.conj() * dy).real)
        )
        dz = e * along + across
        d_W, d_b, d_U = d_W + dz.T @ x[t], d_b + along.sum(axis=0), d_U + dz.T @ states[t].conj()
        d_x.append((dz @ W.conj()).real)
        dh = dz @ (U if wrong == "U^T-for-U^H" else U.conj())
    d_U = {"U-conjugated": d_U.conj(), "U-transposed": d_U.T}.get(wrong, d_U)
    back = np.conj if wrong == "gradient-conjugated" else np.asarray
    found = {"h": np.array(states), "d_x": np.array(d_x[::-1]), "d_weights.b": d_b}
    found |= {"d_h0": back(dh), "d_weights.W": back(d_W), "d_weights.U": back(d_U)}
    return {name: parted(array) for name, array in found.items()}


OF_UNITARY = ("U-conjugated", "U-transposed", "U^T-for-U^H", "gradient-conjugated", "modrelu-phase-constant")


@pytest.mark.parametrize("name", ["", *OF_UNITARY])
def test_complex_rnn_with_a_mistake_by_a_loop(name):
    """The gradient of a complex array is dL/dRe + i dL/dIm."""
    id = "cell/elman/complex"
    same(given_by(name, id) if name else VECTORS[id].expected, unitary_rnn(VECTORS[id].case, name))


@pytest.mark.parametrize(("layout", "other", "late"), [("A", "copying-layout-B", 0), ("B", "copying-layout-A", 1)])
def test_the_copying_task(layout, other, late):
    """Steps 0 to 9 the data, the marker T + 9 (B: T + 10) or where the other layout has it, the last 10 the recall."""
    vector = VECTORS[f"task/copying/{layout}"]
    data, T = vector.case.inputs["data"], vector.case.config["length"]
    blank = np.zeros((T + 20, data.shape[1]), int)

    def laid(marker=T + 9 + late, recall=T + 10):
        x, y = blank.copy(), blank.copy()
        x[:10], x[marker], y[recall : recall + 10] = data, 9, data[: T + 20 - recall]
        return {"x": x, "y": y}

    same(vector.expected, laid())
    same(given_by(other, vector.id), laid(marker=T + 10 - late))
    same(given_by("copying-recall-late", vector.id), laid(recall=T + 11))
    same(given_by("copying-recall-early", vector.id), laid(recall=T + 9))
    x = np.concatenate([blank[:1], laid()["x"][:-1]])
    same(given_by("copying-x-late", vector.id), {"x": x, "y": laid()["y"]})


@pytest.mark.parametrize("form", ["paper", "released"])
def test_the_parenthesis_task(form):
    """Token by token."""
    vector = VECTORS[f"task/parenthesis/{form}"]
    tokens, y = vector.case.inputs["tokens"], vector.expected["y"]
    types, limits = (
        y.shape[-1],
        {"": (0, y.max()), "parenthesis-no-floor": (-99, y.max()), "parenthesis-no-cap": (0, 99)},
    )
    for name, (least, most) in limits.items():
        counts = np.zeros(y.shape[1:], int)
        for t, b in np.ndindex(*tokens.shape):
            k = tokens[t, b]
            if k < 2 * types:
                step = 1 if k < types else -1
                counts[b, k % types] = min(max(counts[b, k % types] + step, least), most)
            same({"": (given_by(name, vector.id) if name else vector.expected)["y"][t, b]}, {"": counts[b]})
    late = given_by("parenthesis-before-token", vector.id)["y"]
    same({"y": late[1:], "first": late[:1]}, {"y": y[:-1], "first": 0 * y[:1]})


# How they are told

#: Mistakes that no case of a subject tells apart, and why.
ALIKE = {
    ("train", "the training of NC-GRU"): [{"neumann-first-power-alone", "neumann-order-minus-one"}],  # of order 2
    ("update", "neumann_cayley"): [
        {"cayley-gradient-half", "momentum-dampened"},  # the momentum is 1/2
    ],
    ("update", "scaled_cayley"): [{"cayley-gradient-negative", "step-ascends"}],  # odd optimizers, no weight decay
    ("update", "geodesic_unitary"): [{"geodesic-uphill", "step-ascends"}],
    ("update", "dynamic_trivialization"): [{"no-momentum", "rebase-resets-optimizer"}],  # rebased after every update
    # a Jacobian knows nothing of weights' gradients
    ("jacobian", "gru_reset_before"): [{"constant-r", "path-r"}, {"constant-u", "path-u"}],
    ("jacobian", "gru_reset_after"): [
        {"constant-r", "path-r"},
        {"constant-z", "path-z"},
        {"modrelu-is-relu", "reset-before", "U_r-U_h-swapped", "W_r-W_h-swapped"},  # no unit is on
    ],
    ("jacobian", "lstm"): [{f"constant-{gate}", f"path-{gate}"} for gate in "ifo"],
    ("jacobian", "fastrnn"): [
        {"J-carried-alone", "path-U"},
        {"bias-plus-one", "relu-derivative-1"},  # every unit is on
    ],
    ("jacobian", "elman"): [
        {"modrelu-bias-outside", "modrelu-derivative-1", "no-bias", "bias-plus-one"},  # every unit is on
        {"bias-twice", "modrelu-is-relu"},  # the same units are on
    ],
}


@pytest.fixture
def known(everything, monkeypatch):
    """The diagnosis does not compute single mistakes again; nor could it change them."""

    def known_or_made(combination, vector):
        if len(combination) == 1 and vector is VECTORS[vector.id]:  # not one that is cut short
            return everything[vector.id, combination[0].name]
        return made(combination, vector)

    monkeypatch.setattr(beginning, "made", known_or_made)


def told(given, dtype="float64"):
    """The results of failing cases, with diagnoses."""
    return diagnosis.diagnose([VECTORS[id] for id in given], [Result(id, FAILED) for id in given], given, dtype)


def finite(outputs):
    """Whether every entry is."""
    return all(np.isfinite(array).all() for array in outputs.values())


def status(id, outputs, dtype="float64"):
    """Of a case with these outputs."""
    return run_one(lambda case: outputs, VECTORS[id], dtype)[0].status


def test_every_mistake_is_told_on_every_case_that_it_fails_on(everything, fails, known):
    """Others beside it only as ALIKE has them.  What is not finite has no diagnosis."""
    alike = defaultdict(list)
    for name, ids in fails.items():
        good = {id: everything[id, name] for id in ids if finite(everything[id, name])}
        assert len(good) == len(ids) or name in NOT_FINITE, name
        for result in told(good):
            alone = {names[0] for names in result.mistakes if len(names) == 1}
            assert name in alone, result
            case = VECTORS[result.id].case
            where = (case.kind, diagnosis.subject(case))
            assert result.diagnosis.startswith(f"your outputs equal {where[1]} with "), result
            assert NAMED[name].says in result.diagnosis or len(alone) > 3
            if len(alone) > 1 and alone not in alike[where]:
                alike[where].append(alone)
    assert alike.keys() == ALIKE.keys()
    for where, sets in alike.items():
        assert sorted(map(sorted, sets)) == sorted(map(sorted, ALIKE[where])), where


def test_every_mistake_is_told_in_float32(everything, fails, known):
    """Outputs rounded to float32, where they fail then as well: of each kind the first case."""
    for name, every in fails.items():
        ids = {VECTORS[id].case.kind: id for id in reversed(every)}.values()
        with np.errstate(over="ignore"):
            rounded = {id: {n: a.astype(np.float32) for n, a in everything[id, name].items()} for id in ids}
        failing = {id: o for id, o in rounded.items() if status(id, o, "float32") == FAILED and finite(o)}
        assert all((name,) in result.mistakes for result in told(failing, "float32")), name


PAIRED = ("cell/elman/tanh", "cell/gru_reset_after/recurrent-bias", "cell/lstm", "optimizer/adam", "loss/cross_entropy")


@pytest.mark.parametrize("id", PAIRED)
def test_pairs_are_told_by_what_gives_their_outputs(id, everything, known):
    """A seeded sample of ordered pairs of those that are looked for in pairs."""
    vector, rng = VECTORS[id], np.random.default_rng(0)
    names = [name for case_id, name in everything if case_id == id and NAMED[name].paired]
    for a, b in [rng.choice(names, 2, replace=False) for _ in range(6)]:
        outputs = made((NAMED[a], NAMED[b]), vector)
        if finite(outputs) and status(id, outputs) == FAILED:
            found = told({id: outputs})[0].mistakes
            ways = [tuple(NAMED[name] for name in names) for names in found]
            assert any(matches(outputs, made(way, vector), vector, "float64") for way in ways), (a, b, found)


# No false alarm


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("engine", ["scan", "fused"])
def test_right_implementations_pass_and_are_told_nothing(dtype, engine, monkeypatch):
    """The reference but for tasks and the Jacobian's bound, which are made elsewhere."""

    def run(case):
        return None if case.kind == "task" else reference.outputs(case)

    monkeypatch.setattr(reference, "scan", {"scan": scan, "fused": fused}[engine])
    report = check(run, dtype=dtype, allow_partial=True)
    bound = {id for id, vector in VECTORS.items() if "bound" in vector.expected}
    assert report.ok
    assert not [result for result in report.results if result.mistakes or result.diagnosis]
    assert {r.id for r in report.results if r.status == PARTIAL} == bound
    assert {r.id for r in report.results if r.status == PASSED} | bound == {
        id for id, vector in VECTORS.items() if vector.case.kind != "task"
    }
