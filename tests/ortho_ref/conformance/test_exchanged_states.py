"""LSTMs that take h for c somewhere: named, with a backward pass and without one."""

from dataclasses import replace

import numpy as np
import pytest

from ortho_ref.activations import sigmoid
from ortho_ref.conformance import check, reference


def exchanged(case):
    """The reference started from (c_0, h_0), by an adapter that puts what it was given at entry 0, as thinc's does."""
    given = case.inputs
    found = reference.outputs(replace(case, inputs=given | {"h0": given["c0"], "c0": given["h0"]}))
    return {name: np.concatenate([given[f"{name}0"][None], found[name][1:]]) for name in ("h", "c")}


def test_it_is_named():
    """By h and c, and by h alone, as thinc returns no c."""
    for run in (exchanged, lambda case: {"h": exchanged(case)["h"]}):
        report = check(run, "cell/lstm*")
        assert {result.mistakes for result in report.results} == {(("h0-c0-swapped",),)}


def step(given, x, h, c):
    """An LSTM's, which knows nothing of this package."""
    i, f, g, o = (
        x @ given[f"weights.W_{k}"].T + h @ given[f"weights.U_{k}"].T + given[f"weights.b_{k}"] for k in "ifgo"
    )
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def by_sequence(given):
    """(c, h) of the whole sequence, where (h, c) is expected."""
    h, c = [given["h0"]], [given["c0"]]
    for x in given["x"]:
        new = step(given, x, h[-1], c[-1])
        h.append(new[0])
        c.append(new[1])
    return np.array([given["h0"], *c[1:]]), np.array([given["c0"], *h[1:]])


def by_step(given):
    """A step that returns (c, h), in a loop that carries (h, c)."""
    states = [(given["h0"], given["c0"])]
    for x in given["x"]:
        states.append(step(given, x, *states[-1])[::-1])
    return tuple(np.array(every) for every in zip(*states, strict=True))


def as_flax(given):
    """A carry of (c, h), as Flax's, taken for (h, c) before and after."""
    h, c = by_sequence(given | {"h0": given["c0"], "c0": given["h0"]})
    return np.array([given["h0"], *h[1:]]), np.array([given["c0"], *c[1:]])


def differentiated(forward, given):
    """d_ of every input but the upstream ones, by complex steps."""

    def loss(own):
        h, c = forward(own)
        last = (given["dc_T"] * c[-1]).sum() if "dc_T" in given else 0
        return (given["dh"] * h[1:]).sum() + (given["dh_T"] * h[-1]).sum() + last

    found = {}
    for name in (name for name in given if not name.startswith("d")):
        gradient = np.zeros(given[name].shape)
        for place in np.ndindex(gradient.shape):
            moved = given[name].astype(complex)
            moved[place] += 1e-30j
            gradient[place] = loss(given | {name: moved}).imag / 1e-30
        found[f"d_{name}"] = gradient
    return found


@pytest.mark.parametrize(
    ("forward", "mistakes"),
    [
        (by_sequence, {"h-c-swapped"}),
        (by_step, {"h-c-swapped-every-step"}),
        (as_flax, {"h0-c0-swapped", "h-c-swapped"}),
    ],
)
@pytest.mark.parametrize("backward", [False, True])
def test_c_for_h_is_named(forward, mistakes, backward):
    """As users meet it: the first explanation of every case, in words that say where."""

    def run(case):
        if case.inputs["x"].dtype.kind == "i":
            return None
        outputs = dict(zip(("h", "c"), forward(case.inputs), strict=True))
        return outputs | (differentiated(forward, case.inputs) if backward else {})

    failed = [result for result in check(run, "cell/lstm").results if result.status == "failed"]
    assert len(failed) == 6
    for result in failed:
        assert set(result.mistakes[0]) == mistakes, result.id


def test_a_loss_of_h_is_told_apart():
    """Gradients of the right h and c, beside h and c exchanged: another mistake."""

    def run(case):
        found = reference.outputs(case)
        h, c = found["h"], found["c"]
        return found | {"h": np.concatenate([h[:1], c[1:]]), "c": np.concatenate([c[:1], h[1:]])}

    report = check(run, "cell/lstm*")
    assert {result.mistakes for result in report.results} == {(("h-c-swapped-forward",),)}
