"""What a pass means: programs that are wrong in one shape, or for some numbers, alone."""

import numpy as np
import pytest

from ortho_ref.conformance import check
from ortho_ref.conformance.report import FAILED, PARTIAL
from tests.ortho_ref.conformance.everyday import sigmoid

CELLS = {"elman, tanh": "cell/elman/tanh*", "gru_reset_before, tanh": "cell/gru_reset_before/tanh*"}


def transposed(w, x, h0):
    """W as it stands where m = n."""
    W = {name: a.T if name.startswith("W") and a.shape[0] == a.shape[1] else a for name, a in w.items()}
    return W, x, h0


def doubled(w, x, h0):
    """One sequence alone has its state doubled."""
    return w, x, 2 * h0 if len(h0) == 1 else h0


def product(U, h, wrong):
    """h U^T, as a wrong program has it."""
    a = h @ U.T
    if wrong == "rows":  # of a tile of eight rows what follows is the first one's
        a[8:] = a[0]
    if wrong == "units":  # units beyond the last whole tile of eight are left out
        a[:, a.shape[1] // 8 * 8 if a.shape[1] > 8 else a.shape[1] :] = 0
    return np.clip(a, -5, 5) if wrong == "clipped" else a


def outputs(case, wrong):
    """The states of a cell, made by a program with one thing wrong."""
    w = {name.removeprefix("weights."): a for name, a in case.inputs.items() if name.startswith("weights.")}
    x, h = case.inputs["x"], case.inputs["h0"]
    if x.dtype.kind == "i":
        x = np.eye(next(a for name, a in w.items() if name.startswith("W")).shape[1])[x]
    if wrong in ("transposed", "doubled"):
        w, x, h = {"transposed": transposed, "doubled": doubled}[wrong](w, x, h)
    states = [case.inputs["h0"]]
    for t, x_t in enumerate(x):
        if wrong == "cut" and t and t % 32 == 0:
            h = np.zeros_like(h)
        if case.config["cell"] == "elman":
            h = np.tanh(x_t @ w["W"].T + product(w["U"], h, wrong) + w["b"])
        else:
            r, u = (sigmoid(x_t @ w[f"W_{g}"].T + product(w[f"U_{g}"], h, wrong) + w[f"b_{g}"]) for g in "ru")
            c = np.tanh(x_t @ w["W_c"].T + product(w["U_c"], r * h, wrong) + w["b_c"])
            h = (1 - u) * h + u * c
        if wrong == "offset":  # an epsilon that only small numbers show
            h = h + 1e-10
        states.append(h)
    return {"h": np.stack(states)}


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("wrong", ["transposed", "doubled", "rows", "units", "clipped", "cut", "offset"])
def test_wrong_in_one_shape(cell, wrong):
    """Some case fails; the same program without the mistake passes, as far as it goes."""
    only = CELLS[cell]
    right = check(lambda case: outputs(case, ""), only)
    assert {result.status for result in right.results} == {PARTIAL}
    assert FAILED in {result.status for result in check(lambda case: outputs(case, wrong), only).results}


def test_every_cell_with_every_activation_has_the_same_shapes():
    """At least twelve cases each, square, single, long, of one step and of many rows among them."""
    names = [result.id for result in check(lambda case: None, "cell/*").results]
    shapes = {"square", "single", "long", "step", "tokens", "rows", "units", "blocks", "cut", "saturated", "small"}
    for variant in ("elman/tanh-", "gru_reset_before/tanh-", "gru_reset_after/relu-", "fastrnn/tanh-", "lstm/"):
        assert {name.removeprefix(f"cell/{variant}") for name in names} >= shapes, variant
