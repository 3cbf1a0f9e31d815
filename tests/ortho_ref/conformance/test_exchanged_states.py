"""LSTMs that take h for c somewhere: named, with a backward pass and without one."""

from dataclasses import replace

import numpy as np

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


def by_step(given):
    """A step that returns (c, h), in a loop that carries (h, c); it knows nothing of this package."""
    states = [(given["h0"], given["c0"])]
    for x in given["x"]:
        h, c = states[-1]
        w = [[given[f"weights.{kind}_{gate}"] for kind in "WUb"] for gate in "ifgo"]
        i, f, g, o = (x @ W.T + h @ U.T + b for W, U, b in w)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        states.append((c, sigmoid(o) * np.tanh(c)))
    return dict(zip("hc", map(np.array, zip(*states, strict=True)), strict=True))


def test_c_for_h_is_named():
    """As users meet it: the first explanation of every case, in words that say where."""
    report = check(lambda case: by_step(case.inputs) if case.inputs["x"].dtype.kind == "f" else None, "cell/lstm")
    failed = [result for result in report.results if result.status == "failed"]
    assert len(failed) == 6
    for result in failed:
        assert result.mistakes[0] == ("h-c-swapped-every-step",), result.id


def test_a_loss_of_h_is_told_apart():
    """Gradients of the right h and c, beside h and c exchanged: another mistake."""

    def run(case):
        found = reference.outputs(case)
        h, c = found["h"], found["c"]
        return found | {"h": np.concatenate([h[:1], c[1:]]), "c": np.concatenate([c[:1], h[1:]])}

    report = check(run, "cell/lstm*")
    assert {result.mistakes for result in report.results} == {(("h-c-swapped-forward",),)}
