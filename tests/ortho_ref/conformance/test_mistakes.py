"""Every named mistake is what its words say; it leaves nothing changed, is seen by a case, and is told by name."""

import json
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ortho_ref import fused, scan
from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.compare import Matcher
from ortho_ref.conformance.diagnosis import diagnose
from ortho_ref.conformance.diagnosis.seen import subject
from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.conformance.mistakes.mistake import made
from ortho_ref.conformance.report import FAILED, PARTIAL, PASSED, Result
from ortho_ref.conformance.running.runner import check, run_one
from tests.ortho_ref.conformance import mistake_numbers
from tests.ortho_ref.conformance.adapters import TRIED
from tests.ortho_ref.conformance.attributes import attributes, changed, private_modules, public_modules
from tests.ortho_ref.conformance.everyday import sigmoid

NAMED = {mistake.name: mistake for mistake in MISTAKES}
VECTORS = TRIED
FORWARD_AND_BACK = ("cell", "parametrization", "activation", "loss")
KINKS = "inputs on the kinks, where a mistake may pass"
#: Mistakes that are right to rounding until a number overflows.
OVERFLOWS = {"tanh-by-exp", "sigmoid-by-exp"}
#: Mistakes by which numbers blow up, so that there is nothing to tell them by.
NOT_FINITE = {*OVERFLOWS, "loss-by-probabilities"}

#: Mistakes that are no departure from one forward pass, and why: their gradients are not those of their outputs.
NOT_ITS_GRADIENT = {
    "bias-twice": "two weights hold the one bias, and the gradient is that of either",
    "h-c-swapped-forward": "an own backward pass knows which is which; only what is given back is off",
    "h-shifted": "the states are right where the gradients are made; only what is given back is off",
    "loss-bits-alone": "the loss is scaled for the report alone",
}


def given_by(name, case_id):
    """What an implementation with this mistake gives for this case; without a name, the stored answers."""
    return made((NAMED[name],), VECTORS[case_id]) if name else VECTORS[case_id].expected


class Everything(dict):
    """(case, mistake) -> outputs, of all that apply, each computed once, from inputs that could be written to.

    left, stored, right, inputs: what of our functions, of the stored arrays, of the reference's own outputs and of the
    inputs was another after it than before.
    """

    def __init__(self):
        right = {v.id: bytes_of(made((), v)) for v in VECTORS.values()}
        stored = {v.id: (bytes_of(v.case.inputs), bytes_of(v.expected)) for v in VECTORS.values()}
        before, self.inputs = changeable(), []
        for vector in VECTORS.values():
            inputs = {name: array.copy() for name, array in vector.case.inputs.items()}
            own = replace(vector, case=replace(vector.case, inputs=inputs))
            for mistake in MISTAKES:
                if mistake.applies(vector.case):
                    self[vector.id, mistake.name] = made((mistake,), own)
            if bytes_of(inputs) != stored[vector.id][0]:
                self.inputs.append(vector.id)
        self.left = left_changed(before)
        now = {v.id: (bytes_of(v.case.inputs), bytes_of(v.expected)) for v in VECTORS.values()}
        self.stored = [id for id in now if now[id] != stored[id]]
        self.right = [v.id for v in VECTORS.values() if bytes_of(made((), v)) != right[v.id]]


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


def slopes(mistake, vector, outputs, step=1e-6):
    """The loss's slope along a random direction by finite differences, and by the gradients given; and its scale.

    Small inputs are moved by less.
    """
    rng, along = np.random.default_rng(0), {}
    for name in sorted(outputs):
        if name.startswith("d_"):
            size = min(1.0, np.abs(vector.case.inputs[name.removeprefix("d_")]).max())
            noise = size * rng.standard_normal(outputs[name].shape) / max(1.0, np.abs(outputs[name]).max())
            along[name.removeprefix("d_")] = free(name.removeprefix("d_"), noise)
    ends = []
    for sign in (1, -1):
        moved = {name: vector.case.inputs[name] + sign * step * d for name, d in along.items()}
        case = replace(vector.case, inputs={**vector.case.inputs, **moved})
        ends.append(loss(vector, made(mistake, replace(vector, case=case))))
    # the gradient of a skew A is that by the entries above the diagonal
    terms = [(1 - 0.5 * (name == "params.A")) * outputs[f"d_{name}"] * d for name, d in along.items()]
    return (ends[0] - ends[1]) / (2 * step), sum(t.sum() for t in terms), sum(np.abs(t).sum() for t in terms)


def _agree(by_difference, by_gradient, scale):
    return abs(by_difference - by_gradient) < 1e-6 * max(scale, 1e-3)


def forward_of(outputs):
    """The outputs that are no gradients."""
    return {name: array for name, array in outputs.items() if not name.startswith("d_")}


def test_what_each_gives_is_what_is_stored(everything):
    """All of them, in every case that they apply to: what was compared with code of its own stays as it was."""
    stored = json.loads(mistake_numbers.FILE.read_text())
    assert {(id, name) for id, own in stored.items() for name in own} == set(everything)
    for (id, name), outputs in everything.items():
        number, known = mistake_numbers.number_of(outputs, VECTORS[id]), stored[id][name]
        assert number == (known if known is None else pytest.approx(known, rel=1e-7, abs=1e-7)), (id, name)


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
        scaled = any(own.get("power") for own in (vector.drawn or {"arrays": {}})["arrays"].values())
        if scaled and Matcher(ours, vector, "float64").matches(right):
            continue  # beside very large numbers a small one is lost
        assert not Matcher(ours, vector, "float64").matches(right), (name, id)
        # a mistake may have a kink within the first step: it has none within the second, too
        if not any(_agree(*slopes((NAMED[name],), vector, outputs, step)) for step in (1e-6, 1e-8)):
            unlike.append((name, id))
    assert all(not {"forward", "backward"} <= found for found in sorts.values()), sorts
    assert {name for name, _ in unlike} == {name for name in NOT_ITS_GRADIENT if "forward" in sorts[name]}, unlike


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
    """All mistakes in turn: stored inputs and answers, our functions, the reference's outputs stay as they are."""
    assert [everything.left, everything.stored, everything.right, everything.inputs] == [[]] * 4


# The same by other code


def weights_of(case):
    """By their own names."""
    return {n.removeprefix("weights."): a for n, a in case.inputs.items() if n.startswith("weights.")}


def gru(case, wrong=""):
    """gru_reset_before with tanh, and its gradients, by a loop: all outputs.  wrong: the name of a mistake."""
    w = weights_of(case)
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


OF_GRU = """reset-after, u-keeps, no-reset, path-r, path-u, path-c, path-carried, detached, constant-r, constant-u,
    sigmoid-derivative-twice, sigmoid-derivative-of-output, tanh-derivative-of-output, dU_c-without-reset,
    dU_r-with-reset, U_c-fed-U_r, weights-first-step-alone"""


def same(given, expected, tolerance=1e-11):
    """Both of the same names; every array to `tolerance` of its largest entry."""
    assert given.keys() == expected.keys()
    for name, array in expected.items():
        assert np.abs(given[name] - array).max() <= tolerance * max(np.abs(array).max(), 1e-3), name


@pytest.mark.parametrize("name", ["", *map(str.strip, OF_GRU.split(","))])
def test_a_gru_with_a_mistake_by_a_loop(name):
    """And the loop itself without one."""
    id = "cell/gru_reset_before/tanh"
    same(given_by(name, id), gru(VECTORS[id].case, name))


def test_the_first_of_two_mistakes_is_around_the_second():
    """Gates are exchanged first, under their own names; what is computed then is reset_after."""
    case = VECTORS["cell/gru_reset_before/tanh"].case
    swap = {f"weights.{kind}_{g}": f"weights.{kind}_{o}" for kind in "WUb" for g, o in ("ru", "ur")}
    inputs = {name: case.inputs[swap.get(name, name)] for name in case.inputs}
    found = gru(replace(case, inputs=inputs), "reset-after")
    expected = {n: found[f"d_{swap[n[2:]]}"] if n[2:] in swap else a for n, a in found.items()}
    same(made((NAMED["r-u-swapped"], NAMED["reset-after"]), VECTORS[case.id]), expected)


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
    for name in ("", *(name for case_id, name in everything if case_id == id)):
        step, p, history = step_of(case.config["optimizer"], name), case.inputs["parameter0"], []
        for g in case.inputs["gradient"]:
            p = p - step(p, g)
            history.append(p)
        same(given_by(name, id), {"parameter": np.array(history)})


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
        which = "fro" if wrong == "neumann-forced-by-frobenius" else 2
        norm = np.linalg.norm(P if wrong == "neumann-delta-first" else S @ delta, which)
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


@pytest.mark.parametrize("id", [id for id in VECTORS if id.startswith(("update/neumann_cayley/", "update/scaled_"))])
def test_algorithm_1_with_a_mistake_by_a_loop(id, everything):
    """With every mistake of the series and its resets that applies, and without one; exact updates reset every time."""
    case, tolerance = VECTORS[id].case, 1e-8
    names = [name for case_id, name in everything if case_id == id and name.startswith(("neumann-", *OF_UPDATES))]
    if id == "update/scaled_cayley":
        case, tolerance = replace(case, config={**case.config, "order": 1, "reset_every": 1}), 1e-9
        assert set(OF_UPDATES) <= set(names)
    else:
        assert {"neumann-factors", "neumann-delta-first", *OF_UPDATES[:-1]} <= set(names)
        optimizer = case.config["optimizer"]
        assert ("neumann-sgd" in names) == (optimizer["name"] != "sgd" or optimizer["momentum"] > 0)
        assert ("neumann-forced-by-frobenius" in names) == ("forced" in id)
        assert ("neumann-forced-restarts" in names) == id.endswith("forced-and-due")
    for name in ("", *names):
        same(given_by(name, id), algorithm_1(case, name), tolerance)


# How they are told

#: Mistakes that no case of a subject tells apart, and why.
ALIKE = {
    ("update", "neumann_cayley"): [
        {"cayley-gradient-half", "momentum-dampened"}  # the momentum is 1/2
    ],
    ("update", "scaled_cayley"): [{"cayley-gradient-negative", "step-ascends"}],  # odd optimizers, no weight decay
    ("update", "geodesic_unitary"): [{"geodesic-uphill", "step-ascends"}],
    ("update", "dynamic_trivialization"): [{"no-momentum", "rebase-resets-optimizer"}],  # rebased after every update
}


@pytest.fixture
def known(everything, monkeypatch):
    """The diagnosis does not compute single mistakes again; nor could it change them."""

    def known_or_made(combination, vector):
        key = vector.id, combination[0].name
        if len(combination) == 1 and vector is VECTORS[vector.id] and key in everything:
            return everything[key]
        return made(combination, vector)

    monkeypatch.setattr("ortho_ref.conformance.mistakes.mistake.made", known_or_made)


def told(given, dtype="float64"):
    """The results of failing cases, with diagnoses."""
    return diagnose([VECTORS[id] for id in given], [Result(id, FAILED) for id in given], given, dtype)


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
            where = (case.kind, subject(case))
            assert result.diagnosis.startswith(f"your outputs equal {where[1]} with "), result
            assert NAMED[name].says in result.diagnosis or len(alone) > 3
            if len(alone) > 1 and alone not in alike[where]:
                alike[where].append(alone)
    assert alike.keys() == ALIKE.keys()
    for where, sets in alike.items():
        assert sorted(map(sorted, sets)) == sorted(map(sorted, ALIKE[where])), where


def test_mistakes_are_told_in_float32(everything, fails, known):
    """Outputs rounded to float32, where they fail then as well: of every third, of each kind the first case."""
    for name in sorted(fails)[::3]:
        ids = {VECTORS[id].case.kind: id for id in reversed(fails[name]) if "step" not in id}.values()
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
    for a, b in [rng.choice(names, 2, replace=False) for _ in range(3)]:
        outputs = made((NAMED[a], NAMED[b]), vector)
        if finite(outputs) and status(id, outputs) == FAILED:
            found = told({id: outputs})[0].mistakes
            ways = [tuple(NAMED[name] for name in names) for names in found]
            assert any(Matcher(outputs, vector, "float64").matches(made(way, vector)) for way in ways), (a, b, found)


# No false alarm


@pytest.mark.parametrize(("engine", "dtype"), [(fused, "float64"), (scan, "float32")], ids=["fused", "scan"])
def test_right_implementations_pass_and_are_told_nothing(engine, dtype, monkeypatch):
    """The reference with another engine, or in another precision."""
    engine = SimpleNamespace(unroll=engine.forward, unroll_back=engine.backward)
    monkeypatch.setattr(reference, "scan", engine)
    report = check(reference.outputs, dtype=dtype)
    assert {result.status for result in report.results} == {PASSED}
    assert not [result for result in report.results if result.mistakes or result.diagnosis]
