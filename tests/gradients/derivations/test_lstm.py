"""The steps of docs/derivations/lstm.md [bp:lstm]."""

import numpy as np
import pytest

from gradients import lstm
from gradients.problem import random_problem
from ortho_ref.activations import sigmoid
from ortho_ref.cells import LSTM
from tests.gradients.derivations.pairing import Draw, as_differences, cotangents_hold, moved, paired, same

seeds = pytest.mark.parametrize("seed", range(4))


def one_step(seed):
    """Weights, x, (h, c) before, and the gradients by (h, c) after."""
    problem = random_problem(LSTM(), np.random.default_rng(seed), T=1, B=1)
    (h, c), (dh, dc) = problem.h0, problem.dh_T
    return problem.weights, problem.x[0, 0], h[0], c[0], dh[0], dc[0]


def forward(w, x, h, c, shift):
    """bp:lstm/i to bp:lstm/h, every quantity moved by its shift."""
    at = moved(shift)
    h, c = at("h", h), at("c_prev", c)
    a = {k: at(f"a_{k}", w[f"W_{k}"] @ x + w[f"U_{k}"] @ h + w[f"b_{k}"]) for k in "ifog"}
    i, f, o = (at(k, sigmoid(a[k])) for k in "ifo")
    c = at("c", f * c + i * at("g", np.tanh(a["g"])))
    return o * np.tanh(c), c


@seeds
def test_cotangent_by_cotangent(seed):
    """bp:lstm/1 to bp:lstm/5: each cotangent is the derivative by its quantity alone; without the part through h_t that
    of c_t is not; the cell's own backward pass."""
    w, x, h, c, dh, dc = one_step(seed)
    v = lstm.values(w, x, h, c)
    do, through_h = dh * v.y, dh * v.o * (1 - v.y**2)
    dc_t = dc + through_h
    di, dg, df, dc_prev = dc_t * v.g, dc_t * v.i, dc_t * c, dc_t * v.f
    da = {"i": di * v.i * (1 - v.i), "f": df * v.f * (1 - v.f), "o": do * v.o * (1 - v.o), "g": dg * (1 - v.g**2)}
    dh_prev = sum(w[f"U_{k}"].T @ da[k] for k in "ifog")
    own = {"o": do, "c": dc_t, "i": di, "g": dg, "f": df, "c_prev": dc_prev, "h": dh_prev}

    def loss(shift):
        h_t, c_t = forward(w, x, h, c, shift)
        return paired(dh, h_t) + paired(dc, c_t)

    cotangents_hold(loss, own | {f"a_{k}": value for k, value in da.items()}, Draw(seed))
    for wrong in (dc, through_h):
        with pytest.raises(AssertionError, match=r"^c"):
            cotangents_hold(loss, {"c": wrong}, Draw(seed))
    _, cache = LSTM().step_forward(w, x[None], (h[None], c[None]))
    _, before, dw = LSTM().step_backward(w, (dh[None], dc[None]), cache)
    assert same(before[0][0], dh_prev)
    assert same(before[1][0], dc_prev)
    assert all(same(dw[f"U_{k}"], np.outer(da[k], h)) for k in "ifog")


@seeds
def test_the_jacobian_and_its_bound(seed):
    """bp:lstm/gates, c-h, c-c, h-h, h-c: the four blocks times a change, against differences; bp:lstm/bound, and from
    blocks to the whole."""
    w, x, h, c, _, _ = one_step(seed)
    v, n = lstm.values(w, x, h, c), len(h)
    step = lstm.step(LSTM(), w, x, np.concatenate([h, c]))
    slopes = {"i": v.i * (1 - v.i), "f": v.f * (1 - v.f), "g": 1 - v.g**2, "o": v.o * (1 - v.o)}
    gates = {k: np.diag(slope) @ w[f"U_{k}"] for k, slope in slopes.items()}
    c_h = np.diag(c) @ gates["f"] + np.diag(v.g) @ gates["i"] + np.diag(v.i) @ gates["g"]
    Q = np.diag(v.o * (1 - v.y**2))
    blocks = [[np.diag(v.y) @ gates["o"] + Q @ c_h, Q @ np.diag(v.f)], [c_h, np.diag(v.f)]]
    assert same(np.block(blocks), step.J)
    change = Draw(seed).real(2 * n)
    assert as_differences(
        step.J @ change, lambda s: np.concatenate(forward(w, x, h + s * change[:n], c + s * change[n:], {}))
    )
    assert lstm.bound(LSTM(), w, x, np.concatenate([h, c])).ratio <= 1 + 1e-12
    B = np.array([[np.linalg.norm(block, 2) for block in row] for row in blocks])
    parts = np.linalg.norm((step.J @ change).reshape(2, n), axis=1)
    most = B @ np.linalg.norm(change.reshape(2, n), axis=1)
    assert (parts <= most * (1 + 1e-12)).all()
    assert np.linalg.norm(step.J, 2) <= np.linalg.norm(B, 2) * (1 + 1e-12)
