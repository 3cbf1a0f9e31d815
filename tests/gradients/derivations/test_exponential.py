"""The steps of docs/derivations/exponential.md [sgornn:2-alt] [bp:expm]."""

import numpy as np
import scipy.linalg

from ortho_ref.finite_differences import compare_gradients
from ortho_ref.parametrizations import Exponential
from ortho_ref.parametrizations.exponential import exponential, exponential_derivative
from tests.gradients.derivations.pairing import as_differences, drawn, paired, same

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)


def by_the_integral(A, E):
    """The integral of exp((1 - s) A) E exp(s A) over s from 0 to 1, by 24 nodes of Gauss."""
    exp = scipy.linalg.expm
    return sum(
        weight / 2 * exp((1 - s) * A) @ E @ exp(s * A) for s, weight in zip((NODES + 1) / 2, WEIGHTS, strict=True)
    )


@drawn
def test_the_change_of_the_exponential(draw, n):
    """sgornn:2-alt: the integral is the change, of any A; E exp(A) is not, where E and A do not commute."""
    A, E = draw.real(n, n), draw.real(n, n)
    ours = by_the_integral(A, E)
    assert same(ours, exponential_derivative(A, E), 10)
    assert as_differences(ours, lambda s: scipy.linalg.expm(A + s * E))
    assert n == 1 or not as_differences(E @ scipy.linalg.expm(A), lambda s: scipy.linalg.expm(A + s * E))
    U = exponential(draw.skew(n))
    assert same(U.T @ U, np.eye(n))


@drawn
def test_the_gradient(draw, n):
    """bp:expm/1, bp:expm/2: the adjoint of the change is the change at A^T; L - L^T by the free entries; the block form
    that equations.md names."""
    n += 1
    A, dU, E = draw.skew(n), draw.real(n, n), draw.real(n, n)
    L = exponential_derivative(A.T, dU)
    assert same(paired(dU, exponential_derivative(A, E)), paired(L, E), 10)
    assert not same(paired(dU, exponential_derivative(A, E)), paired(exponential_derivative(A, dU), E), 1e-3)
    p = Exponential()
    buffers = p.rebuild({"A": A}, p.init(draw.rng, n, dtype=np.float64)[1])
    assert same(p.pullback({"A": A}, buffers, dU)["A"], L - L.T, 10)
    assert compare_gradients(lambda at: paired(dU, exponential(at["A"])), {"A": A}, {"A": L - L.T}, skew=("A",)).passed
    block = scipy.linalg.expm(np.block([[A.T, dU], [np.zeros((n, n)), A.T]]))
    assert same(block[:n, n:], L, 10)


@drawn
def test_halving_and_squaring(draw, n):
    """bp:expm/halved, bp:expm/squared: three halvings, three squarings; X L + L X, not 2 X L."""
    A, E = draw.real(n, n), draw.real(n, n)
    X, L = scipy.linalg.expm(A / 8), by_the_integral(A / 8, E / 8)
    once = X @ L + L @ X
    assert n == 1 or not same(once, 2 * X @ L, 1e-3)
    for _ in range(3):
        L, X = X @ L + L @ X, X @ X
    assert same(X, scipy.linalg.expm(A), 10)
    assert same(L, by_the_integral(A, E), 10)


@drawn
def test_the_pade_approximant(draw, n):
    """bp:expm/pade, bp:expm/pade-derivative: of degree 3, whose halves are N = 120 + 12 A^2, K = 60 A + A^3: L solves
    its equation and is the change of X."""
    A, E, I = 0.01 * draw.real(n, n), draw.real(n, n), np.eye(n)
    N, K = 120 * I + 12 * A @ A, 60 * A + A @ A @ A
    dotN, dotK = 12 * (E @ A + A @ E), 60 * E + E @ A @ A + A @ E @ A + A @ A @ E
    X = np.linalg.solve(N - K, N + K)
    L = np.linalg.solve(N - K, dotN + dotK + (dotK - dotN) @ X)

    def at(s):
        B = A + s * E
        even, odd = 120 * I + 12 * B @ B, 60 * B + B @ B @ B
        return np.linalg.solve(even - odd, even + odd)

    assert as_differences(L, at)
    assert abs(X - scipy.linalg.expm(A)).max() < 1e-9
    assert abs(L - exponential_derivative(A, E)).max() < 1e-6
