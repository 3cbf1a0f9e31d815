"""The steps of docs/derivations/gru.md [bp:gru1] [bp:gru2] [ncgru:29] [ncgru:30] [ncgru:31] [ncgru:32] [ncgru:33]
[ncgru:34] [ncgru:35] [ncgru:36] [ncgru:37] [ncgru:38] [ncgru:39] [ncgru:40] [ncgru:41] [ncgru:42] [ncgru:43] [ncgru:44]
[ncgru:45] [ncgru:thm1-tight] [goru:jac]."""

import numpy as np
import pytest

from gradients import bounds, gru_reset_after, gru_reset_before
from ortho_ref.activations import activation, sigmoid
from ortho_ref.cells import GRUResetAfter, GRUResetBefore
from tests.gradients.derivations.pairing import (
    Draw,
    as_differences,
    cotangents_hold,
    drawn,
    moved,
    one_step,
    paired,
    same,
)

every = pytest.mark.parametrize(("name", "seed"), [(name, seed) for name in ("tanh", "modrelu") for seed in range(3)])


def by_the_cell(cell, w, x, h, g):
    """dx, dh and the weights' gradients by the cell's own backward pass."""
    _, cache = cell.step_forward(w, x[None], h[None])
    dx, dh, dw = cell.step_backward(w, g[None], cache)
    return dx[0], dh[0], dw


def before(cell, w, x, h, shift):
    """ncgru:1, every quantity moved by its shift."""
    at = moved(shift)
    h = at("h", h)
    r, u = (sigmoid(at(f"a_{k}", w[f"W_{k}"] @ x + w[f"U_{k}"] @ h + w[f"b_{k}"])) for k in "ru")
    r, u = at("r", r), at("u", u)
    s = at("s", r * h)
    c = at("c", activation(cell.activation).value(at("a_c", w["W_c"] @ x + w["U_c"] @ s), at("b_c", w["b_c"])))
    return (1 - u) * h + u * c


@every
def test_reset_before_cotangent_by_cotangent(name, seed):
    """bp:gru1/1 to bp:gru1/5: each cotangent is the derivative by its quantity alone; dh, dx, dU as of the cell."""
    cell = GRUResetBefore(name)
    w, x, h, g = one_step(cell, seed)
    v, phi = gru_reset_before.values(cell, w, x, h), activation(name)
    du, dc, dh = g * (v.c - h), g * v.u, g * (1 - v.u)
    a_c = w["W_c"] @ x + w["U_c"] @ (v.r * h)
    da_c, db_c = phi.pullback(dc, a_c, w["b_c"], v.c)
    ds = w["U_c"].T @ da_c
    dr, dh = ds * h, dh + ds * v.r
    da_r, da_u = dr * v.r * (1 - v.r), du * v.u * (1 - v.u)
    without_gates, dh = dh, dh + w["U_r"].T @ da_r + w["U_u"].T @ da_u
    own = {"u": du, "c": dc, "a_c": da_c, "b_c": db_c, "s": ds, "r": dr, "a_r": da_r, "a_u": da_u, "h": dh}
    cotangents_hold(lambda shift: paired(g, before(cell, w, x, h, shift)), own, Draw(seed))
    with pytest.raises(AssertionError, match=r"^h"):
        cotangents_hold(lambda shift: paired(g, before(cell, w, x, h, shift)), {"h": without_gates}, Draw(seed))
    dx, theirs, dw = by_the_cell(cell, w, x, h, g)
    assert same(theirs, dh)
    assert same(dw["U_c"], np.outer(da_c, v.r * h))
    assert same(dw["U_r"], np.outer(da_r, h))
    assert same(dw["U_u"], np.outer(da_u, h))
    assert same(dx, w["W_r"].T @ da_r + w["W_u"].T @ da_u + w["W_c"].T @ da_c)


@every
def test_reset_before_jacobians(name, seed):
    """ncgru:29, ncgru:32, ncgru:36, ncgru:39, ncgru:40: each times a change, against differences; the backward pass is
    the transpose of ncgru:40, term by term."""
    cell = GRUResetBefore(name)
    w, x, h, g = one_step(cell, seed)
    v, change = gru_reset_before.values(cell, w, x, h), Draw(seed).real(len(h))
    r_h, u_h = gru_reset_before.dr_dh(w, v.r), gru_reset_before.du_dh(w, v.u)
    c_h = gru_reset_before.dc_dh(w, h, v.r, v.slope)
    J = gru_reset_before.jacobian(cell, w, x, h)
    for k, ours in (("r", r_h), ("u", u_h), ("c", c_h), ("h", J)):
        assert as_differences(
            ours @ change, lambda s, k=k: getattr(gru_reset_before.values(cell, w, x, h + s * change), k)
        )
    terms = (-np.diag(h) @ u_h, np.diag(1 - v.u), np.diag(v.c) @ u_h, np.diag(v.u) @ c_h)
    assert same(sum(terms), J)
    da_u = g * (v.c - h) * v.u * (1 - v.u)
    assert same(terms[0].T @ g + terms[2].T @ g, w["U_u"].T @ da_u)
    assert same(terms[1].T @ g, g * (1 - v.u))
    assert same(sum(term.T @ g for term in terms), by_the_cell(cell, w, x, h, g)[1])


@every
def test_reset_before_norms(name, seed):
    """ncgru:30, ncgru:31, ncgru:33, ncgru:34, ncgru:37, ncgru:38, ncgru:41, ncgru:42, ncgru:43, ncgru:44, ncgru:45:
    every inequality, and the norm of a diagonal."""
    cell = GRUResetBefore(name)
    w, x, h, _ = one_step(cell, seed)
    proof = bounds.proof_of_theorem_1(cell, w, x, h)
    assert len(proof) >= 5
    assert all(step.ratio <= 1 + 1e-12 for step in proof.values())
    assert np.linalg.norm(np.diag(h), 2) == pytest.approx(abs(h).max(), rel=1e-12)
    q = np.linspace(0, 1, 101)
    assert same(q * (1 - q), 1 / 4 - (q - 1 / 2) ** 2)
    tight = bounds.theorem_1_tight(cell, w, x, h)
    assert tight.ratio <= 1 + 1e-12


def after(cell, w, x, h, shift):
    """goru:2.2 or goru:3.1, every quantity moved by its shift."""
    at = moved(shift)
    h = at("h", h)
    r, z = (sigmoid(at(f"a_{k}", w[f"W_{k}"] @ x + w[f"U_{k}"] @ h + w[f"b_{k}"])) for k in "rz")
    r, z = at("r", r), at("z", z)
    p = at("p", w["U_h"] @ h + w["b_hh"])
    c = at("c", activation(cell.activation).value(at("a", w["W_h"] @ x + r * p), at("b_h", w["b_h"])))
    return z * h + (1 - z) * c


@every
def test_reset_after_cotangent_by_cotangent(name, seed):
    """bp:gru2/1 to bp:gru2/4: a cotangent is the derivative by its quantity alone; dh, dU_h, db_hh as of the cell."""
    cell = GRUResetAfter(name, recurrent_bias=True)
    w, x, h, g = one_step(cell, seed)
    v, phi = gru_reset_after.values(cell, w, x, h), activation(name)
    dz, dc, dh = g * (h - v.c), g * (1 - v.z), g * v.z
    da, db_h = phi.pullback(dc, w["W_h"] @ x + v.r * v.p, w["b_h"], v.c)
    dr, dp = da * v.p, da * v.r
    da_r, da_z = dr * v.r * (1 - v.r), dz * v.z * (1 - v.z)
    dh = dh + w["U_h"].T @ dp + w["U_r"].T @ da_r + w["U_z"].T @ da_z
    own = {"z": dz, "c": dc, "a": da, "b_h": db_h, "r": dr, "p": dp, "a_r": da_r, "a_z": da_z, "h": dh}
    cotangents_hold(lambda shift: paired(g, after(cell, w, x, h, shift)), own, Draw(seed))
    _, theirs, dw = by_the_cell(cell, w, x, h, g)
    assert same(theirs, dh)
    assert same(dw["U_h"], np.outer(dp, h))
    assert same(dw["b_hh"], dp)
    assert not same(dw["U_h"], np.outer(da, v.r * h))  # NC-GRU's


@every
def test_reset_after_jacobian_and_its_bound(name, seed):
    """goru:jac: dc/dh and dh_t/dh times a change, against differences; the bound, and NC-GRU's ncgru:thm1-tight."""
    cell = GRUResetAfter(name)
    w, x, h, _ = one_step(cell, seed)
    v, change = gru_reset_after.values(cell, w, x, h), Draw(seed).real(len(h))
    r_h, z_h = (np.diag(q * (1 - q)) @ w[f"U_{k}"] for k, q in (("r", v.r), ("z", v.z)))
    c_h = np.diag(v.slope) @ (np.diag(v.p) @ r_h + np.diag(v.r) @ w["U_h"])
    J = np.diag(v.z) + np.diag(h - v.c) @ z_h + np.diag(1 - v.z) @ c_h
    for k, ours in (("r", r_h), ("z", z_h), ("p", w["U_h"]), ("c", c_h), ("h", J)):
        assert as_differences(
            ours @ change, lambda s, k=k: getattr(gru_reset_after.values(cell, w, x, h + s * change), k)
        )
    assert same(J, gru_reset_after.jacobian(cell, w, x, h))
    assert gru_reset_after.bound(cell, w, x, h).ratio <= 1 + 1e-12


@drawn
def test_cauchy_and_schwarz(draw, n):
    """goru:jac/bound, ncgru:thm1-tight: for gates and for vectors in their place; without s it fails for the latter."""
    v, w = draw.real(n), draw.real(n)
    for z in (draw.gates(n), draw.real(n)):
        weight = abs(z) + abs(1 - z)
        entries = weight * (abs(z) * v**2 + abs(1 - z) * w**2)
        assert (abs(z * v + (1 - z) * w) ** 2 <= entries * (1 + 1e-12)).all()
        most = weight.max() * (abs(z).max() * (v @ v) + abs(1 - z).max() * (w @ w))
        assert np.sum((z * v + (1 - z) * w) ** 2) <= most * (1 + 1e-12)
    z, one = np.array([3.0]), np.array([1.0])
    assert (z * one - (1 - z) * one) ** 2 > abs(z) + abs(1 - z)
