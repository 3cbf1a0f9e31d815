"""The scaled Cayley transform [ncgru:2] [ncgru:3] [ncgru:4], the D that keeps A small, and the reference beside it
[ncgru:5] [ncgru:6] [bp:cayley]; its differentials are in derivations/test_cayley.py."""

import itertools

import numpy as np
import pytest

from gradients import cayley
from gradients.problem import relative_error
from ortho_ref.parametrizations import NeumannCayley, ScaledCayley
from tests.gradients.matrices import skew


def signs(rng, n):
    return rng.choice([-1.0, 1.0], n)


def rotation(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def test_D_multiplies_columns():
    """ncgru:2: D stands on the right; on the left it is another matrix."""
    A, D = np.array([[0, 0.5], [-0.5, 0]]), np.array([1.0, -1])
    expected = np.array([[0.6, 0.8], [0.8, -0.6]])
    np.testing.assert_allclose(cayley.transform(A, D), expected, rtol=1e-15)
    assert abs(np.diag(D) @ cayley.transform(A, np.ones(2)) - expected).max() > 1


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_round_trip(n):
    """ncgru:2-inv: A -> U -> A, and skew; the wrong D gives another A, or none."""
    rng = np.random.default_rng(n)
    for _ in range(20):
        A, D = skew(rng, n, 0.5), signs(rng, n)
        U = cayley.transform(A, D)
        back = cayley.inverse_transform(U, D)
        np.testing.assert_allclose(back, A, atol=1e-11)
        np.testing.assert_allclose(back, -back.T, atol=1e-11)
    if n > 1:
        assert abs(cayley.inverse_transform(U, D * np.where(np.arange(n) < 2, -1, 1)) - A).max() > 1e-3
    with pytest.raises(np.linalg.LinAlgError):
        cayley.inverse_transform(-np.eye(n), np.ones(n))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_some_D_keeps_every_entry_within_1(n):
    """ncgru:kahan: by all 2^n of them, for random U and for all signed permutations; D = I alone does not."""
    rng = np.random.default_rng(n)
    drawn = [np.linalg.qr(rng.standard_normal((n, n)))[0] * signs(rng, n) for _ in range(60)]
    signed = [
        np.eye(n)[list(order)] * np.array(D)
        for order in itertools.permutations(range(n))
        for D in itertools.product((1.0, -1.0), repeat=n)
    ]
    largest_by_I = 0.0
    for U in drawn + signed:
        D, largest = cayley.best_signs(U)
        assert largest <= 1 + 1e-12
        A = cayley.inverse_transform(U, D)
        assert abs(A).max() == largest
        np.testing.assert_allclose(cayley.transform(A, D), U, atol=1e-12)
    for U in drawn:
        if n > 1 and np.linalg.det(U) > 0:
            largest_by_I = max(largest_by_I, abs(cayley.inverse_transform(U, np.ones(n))).max())
    assert n == 1 or largest_by_I > 2


def test_best_signs_are_the_best():
    """A half turn in a plane: D = -I there, A = 0; of a quarter turn both are as good, |A_12| = 1."""
    U = np.diag([-1.0, -1.0, 1.0])
    D, largest = cayley.best_signs(U)
    np.testing.assert_array_equal(D, [-1, -1, 1])
    assert largest == 0
    assert cayley.best_signs(rotation(np.pi / 2))[1] == pytest.approx(1)


@pytest.mark.parametrize("n", [1, 2, 5, 16])
def test_the_reference_agrees(n):
    """ortho_ref's U and pullbacks, exact and Neumann with an exact inverse, are these."""
    rng = np.random.default_rng(n)
    A, Ubar = skew(rng, n), rng.standard_normal((n, n))
    for p in (ScaledCayley(n // 2), NeumannCayley(n // 2)):
        buffers = p.rebuild({"A": A}, p.init(rng, n, dtype=np.float64)[1])
        assert relative_error(buffers["U"], cayley.transform(A, buffers["D"])) < 1e-12
        ours = cayley.free_gradient(cayley.adjoint(A, buffers["D"], Ubar))
        theirs = p.pullback({"A": A}, buffers, Ubar)["A"]
        assert np.abs(ours - theirs).max() <= 1e-12 * max(1, np.abs(theirs).max())
