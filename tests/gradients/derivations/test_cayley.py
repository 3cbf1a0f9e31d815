"""The steps of docs/derivations/cayley.md [bp:cayley] [ncgru:2] [ncgru:2-inv] [ncgru:5] [ncgru:6]."""

import numpy as np

from gradients import cayley
from ortho_ref.finite_differences import compare_gradients
from tests.gradients.derivations.pairing import as_differences, drawn, paired, same


def point(draw, n):
    """A skew A, D, (I + A)^-1 and U."""
    A, D = draw.skew(n), draw.rng.choice([-1.0, 1.0], n)
    return A, D, np.linalg.inv(np.eye(n) + A), cayley.transform(A, D)


@drawn
def test_the_change_of_the_inverse(draw, n):
    """bp:cayley/dM, and the line it comes from."""
    A, _, M, _ = point(draw, n)
    change = draw.real(n, n)
    dotM = cayley.inverse_differential(M, change)
    assert same(dotM @ (np.eye(n) + A) + M @ change, np.zeros((n, n)), 10)
    assert as_differences(dotM, lambda s: np.linalg.inv(np.eye(n) + A + s * change))


@drawn
def test_the_change_of_U(draw, n):
    """bp:cayley/dU: the product rule, and the form with -M dotA taken out; without D in the bracket it is wrong."""
    A, D, M, U = point(draw, n)
    change = draw.real(n, n)
    by_the_product_rule = cayley.inverse_differential(M, change) @ (np.eye(n) - A) * D - M @ change * D
    assert same(by_the_product_rule, -M @ change @ (U + np.diag(D)))
    assert same(by_the_product_rule, cayley.differential(A, D, change))
    assert same(U, (2 * M - np.eye(n)) * D)
    assert as_differences(by_the_product_rule, lambda s: cayley.transform(A + s * change, D))
    assert not as_differences(-M @ change @ U, lambda s: cayley.transform(A + s * change, D))


@drawn
def test_the_gradient_of_a_free_A(draw, n):
    """bp:cayley/Abar, ncgru:6: <dU, dotU> = <-V, dotA> of any change, and entry by entry against differences."""
    A, D, M, U = point(draw, n)
    dU, change = draw.real(n, n), draw.real(n, n)
    V = M.T @ dU @ (np.diag(D) + U.T)
    assert same(V, cayley.V(A, D, dU))
    assert same(paired(dU, cayley.differential(A, D, change)), paired(-V, change), 10)
    assert as_differences(paired(-V, change), lambda s: (dU * cayley.transform(A + s * change, D)).sum())


@drawn
def test_the_gradient_of_a_skew_A(draw, n):
    """ncgru:5: V^T - V by the free entries; half of it, the projection, is not."""
    n += 1
    A, D, _, _ = point(draw, n)
    dU = draw.real(n, n)
    V = cayley.V(A, D, dU)

    def loss(at):
        return (dU * cayley.transform(at["A"], D)).sum()

    assert compare_gradients(loss, {"A": A}, {"A": V.T - V}, skew=("A",)).passed
    assert same(V.T - V, 2 * cayley.skew_projection(-V))
    assert not compare_gradients(loss, {"A": A}, {"A": cayley.skew_projection(-V)}, skew=("A",)).passed


@drawn
def test_why_U_is_orthogonal(draw, n):
    """ncgru:2, ncgru:2-inv: M^T = (I - A)^-1, the factors commute, I + A has no small singular value; the way back."""
    A, D, M, U = point(draw, n)
    I = np.eye(n)
    assert same(M.T @ (I - A), I)
    assert same(M @ (I - A), (I - A) @ M)
    assert np.linalg.svd(I + A, compute_uv=False).min() >= 1 - 1e-12
    assert same(U.T @ U, I)
    assert same((I + A) @ (U * D), I - A, 10)
    assert same(A @ (U * D + I), I - U * D, 10)
