"""The steps of docs/derivations/householder.md [goru:householder] [bp:householder]."""

from functools import reduce

import numpy as np

from ortho_ref.parametrizations import Householder
from ortho_ref.parametrizations.structured import reflect, reflection_gradient
from tests.gradients.derivations.pairing import as_differences, drawn, paired, same


@drawn
def test_one_reflection(draw, n):
    """bp:householder: the five terms of doty, each term's pairing, dv without a component along v and iv."""
    n += 1
    v, x, dy, dotv, dotx = (draw.complex(n) for _ in range(5))
    v *= 1.5 / np.linalg.norm(v)
    sigma, p, g = np.vdot(v, v).real, np.vdot(v, x), np.vdot(v, dy)
    terms = (
        dotx - 2 / sigma * v * np.vdot(v, dotx),
        -2 / sigma * dotv * p,
        -2 / sigma * v * np.vdot(dotv, x),
        4 / sigma**2 * np.vdot(v, dotv).real * v * p,
    )

    def at(s):
        return reflect(v + s * dotv, (x + s * dotx)[:, None])[:, 0]

    assert as_differences(sum(terms), at)
    dx = dy - 2 * g / sigma * v
    parts = (-2 / sigma * p.conj() * dy, -2 / sigma * g.conj() * x, 4 / sigma**2 * (g.conj() * p).real * v)
    assert same(paired(dy, terms[0]), paired(dx, dotx), 10)
    for term, part in zip(terms[1:], parts, strict=True):
        assert same(paired(dy, term), paired(part, dotv), 10)
    dv = sum(parts)
    assert same(reflection_gradient(v, x[:, None], dy[:, None]), dv, 10)
    assert same(np.vdot(v, dv), 0, 10)
    assert not same(paired(dy, terms[1]), paired(-2 / sigma * p * dy, dotv), 1e-3)  # without the conjugate


def block(V):
    """K * (V^T V)."""
    S = V.T @ V
    return np.triu(S, 1) + np.diag(np.diag(S)) / 2


@drawn
def test_a_product_in_one_block(draw, n):
    """goru:householder: the product of the factors; one more factor, and the inverse that the induction is by."""
    n += 2
    for m in range(1, n):
        V = draw.real(n, m)
        V /= np.linalg.norm(V, axis=0)
        H = [np.eye(n) - 2 * np.outer(v, v) / (v @ v) for v in V.T]
        assert same(reduce(np.matmul, H), np.eye(n) - V @ np.linalg.solve(block(V), V.T), 10)
        v, Y = draw.real(n), np.linalg.inv(block(V))
        sigma = v @ v
        middle = np.block([[Y, -2 / sigma * (Y @ V.T @ v)[:, None]], [np.zeros((1, m)), np.full((1, 1), 2 / sigma)]])
        assert same(middle @ block(np.column_stack([V, v])), np.eye(m + 1), 100)


@drawn
def test_the_gradient_of_a_product(draw, n):
    """bp:householder/V, bp:householder/S: dotU by the product rule, its pairing, the reference's pullback; without the
    part through S it is wrong."""
    n += 2
    m = int(draw.rng.integers(1, n))
    V, dotV, dU = np.tril(draw.real(n, m)), np.tril(draw.real(n, m)), draw.real(n, n)
    V /= np.linalg.norm(V, axis=0)
    V += np.tril(np.eye(n, m))  # no column near 0, so that differences are good
    Y, K = np.linalg.inv(block(V)), np.triu(np.ones((m, m)), 1) + np.eye(m) / 2
    dotS = K * (dotV.T @ V + V.T @ dotV)
    dotU = -dotV @ Y @ V.T - V @ Y @ dotV.T + V @ Y @ dotS @ Y @ V.T
    assert as_differences(dotU, lambda s: -(V + s * dotV) @ np.linalg.solve(block(V + s * dotV), (V + s * dotV).T))
    dS = K * (Y.T @ V.T @ dU @ V @ Y.T)
    direct = -(dU @ V @ Y.T + dU.T @ V @ Y)
    dV = direct + V @ (dS + dS.T)
    scale = 10 * max(1, abs(direct).max())
    assert same(paired(dU, dotU), paired(dV, dotV), scale)
    p = Householder(m)
    buffers = p.rebuild({"V": V}, p.init(draw.rng, n, dtype=np.float64)[1])
    assert same(p.pullback({"V": V}, buffers, dU)["V"], np.tril(dV), scale)
    assert not same(paired(dU, dotU), paired(direct, dotV), 1e-3)
