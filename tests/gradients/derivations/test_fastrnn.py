"""The steps of docs/derivations/fastrnn.md [bp:fastrnn] [sgornn:25] [sgornn:26]."""

from dataclasses import replace

import numpy as np
import pytest

from gradients.problem import random_problem
from ortho_ref import scan
from ortho_ref.activations import activation
from ortho_ref.cells import FastRNN
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


@pytest.mark.parametrize("seed", range(4))
def test_cotangent_by_cotangent(seed):
    """bp:fastrnn/1 to bp:fastrnn/3: each cotangent is the derivative by its quantity alone; the cell's own."""
    cell = FastRNN("modrelu")
    w, x, h, g = one_step(cell, seed)
    alpha, beta = cell.gates(w)
    phi, z = activation("modrelu"), w["W"] @ x + w["U"] @ h
    f = phi.value(z, w["b"])
    dz, db = phi.pullback(alpha * g, z, w["b"], f)
    dh = beta * g + w["U"].T @ dz
    own = {"f": alpha * g, "z": dz, "b": db, "h": dh, "alpha": (g * f).sum(), "beta": (g * h).sum()}

    def loss(shift):
        at = moved(shift)
        old = at("h", h)
        f = at("f", phi.value(at("z", w["W"] @ x + w["U"] @ old), at("b", w["b"])))
        return paired(g, at("alpha", alpha) * f + at("beta", beta) * old)

    cotangents_hold(loss, own, Draw(seed))
    with pytest.raises(AssertionError, match=r"^h"):
        cotangents_hold(loss, {"h": w["U"].T @ dz}, Draw(seed))
    _, cache = cell.step_forward(w, x[None], h[None])
    _, theirs, dw = cell.step_backward(w, g[None], cache)
    assert same(theirs[0], dh)
    assert same(dw["U"], np.outer(dz, h))
    assert same(dw["b"], db)


@drawn
def test_the_constraint(draw, n):
    """bp:fastrnn/4, bp:fastrnn/5: free, beta_t clipped, alpha_t clipped; without the -2 it is wrong where clipped."""
    cell = FastRNN("tanh", constraint="sgornn")
    dalpha, dbeta = draw.real(), draw.real()
    for alpha, beta in ((-3.0, -1.0), (-1.0, 2.0), (1.0, 0.5)):
        change = {"alpha": draw.real(), "beta": draw.real()}

        def loss(s, alpha=alpha, beta=beta, change=change):
            at = {"alpha": np.asarray(alpha + s * change["alpha"]), "beta": np.asarray(beta + s * change["beta"])}
            return sum(d * gate for d, gate in zip((dalpha, dbeta), cell.gates({"U": np.eye(n)} | at), strict=True))

        w = {"U": np.eye(n), "alpha": np.asarray(alpha), "beta": np.asarray(beta)}
        own = cell.gates_pullback(w, dalpha, dbeta)
        assert as_differences(sum(paired(own[name], change[name]) for name in change), loss)
        if alpha == -1.0:
            assert not as_differences(
                paired(replace(cell, constraint=None).gates_pullback(w, dalpha, dbeta)["alpha"], change["alpha"]), loss
            )


@pytest.mark.parametrize("seed", range(4))
def test_as_printed(seed):
    """sgornn:25, sgornn:26: the sums of products, the factor k = t leftmost, are dU and dW; each factor's norm."""
    problem = random_problem(FastRNN("tanh"), np.random.default_rng(seed), T=4, B=1)
    problem = replace(problem, dh=np.zeros_like(problem.dh))
    w, x, T = problem.weights, problem.x[:, 0], 4
    h, tape = scan.forward(problem.cell, w, problem.x, problem.h0)
    alpha, beta = problem.cell.gates(w)
    D = [np.diag(1 - cache.f[0] ** 2) for cache in tape.caches]  # D[t - 1] is D_t
    U, I = w["U"], np.eye(len(w["U"]))
    dU, dW, swapped = np.zeros_like(U), np.zeros_like(w["W"]), np.zeros_like(U)
    for t in range(1, T + 1):
        factors = [alpha * U.T @ D[k] + beta * I for k in range(t, T)]
        product = np.linalg.multi_dot([I, *factors, I])
        other = np.linalg.multi_dot([I, *factors[::-1], I])
        for own, matrix, old in ((dU, product, h[t - 1, 0]), (dW, product, x[t - 1]), (swapped, other, h[t - 1, 0])):
            own += alpha * np.outer(D[t - 1] @ matrix @ problem.dh_T[0], old)
        for k, factor in enumerate(factors, t):
            most = alpha * np.linalg.norm(D[k], 2) * np.linalg.norm(U, 2) + abs(beta)
            assert np.linalg.norm(factor, 2) <= most * (1 + 1e-12)
    theirs = problem.gradients(scan)
    assert same(dU, theirs["U"])
    assert same(dW, theirs["W"])
    assert not same(swapped, theirs["U"])
