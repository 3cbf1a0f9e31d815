"""The Neumann series [ncgru:16] [ncgru:17] [ncgru:18]: when it converges, and the defect that gathers; its remainder is
in derivations/test_neumann.py."""

import numpy as np
import pytest

from gradients import neumann
from gradients.bptt import norm
from gradients.cayley import transform
from ortho_ref.parametrizations import NeumannCayley
from tests.gradients.matrices import skew

ORDERS = (1, 2, 3)


def inverse(A):
    return np.linalg.inv(np.eye(len(A)) + A)


def test_the_condition_both_ways():
    """ncgru:neumann-cond: radius 0.9 converges, whatever the norm; radius 1.1 diverges."""
    rng = np.random.default_rng(1)
    largest_norm = 0.0
    for n in (3, 4, 5):
        for _ in range(20):
            A, delta = skew(rng, n, 3), skew(rng, n)
            M = inverse(A)
            delta /= neumann.spectral_radius(M @ delta)
            largest_norm = max(largest_norm, norm(M @ delta) * 0.9)
            assert norm(neumann.series(M, 0.9 * delta, 400) - inverse(A - 0.9 * delta)) < 1e-9
            assert norm(neumann.series(M, 1.1 * delta, 400)) > 1e9
    assert largest_norm > 2


def test_the_exact_map_is_where_R_is_0():
    """Before any update; and R = P^{q+1} after the first."""
    rng = np.random.default_rng(3)
    A, D, delta = skew(rng, 5), np.ones(5), skew(rng, 5, 0.02)
    assert neumann.defect_law(A, D, [], 2) == []
    (first,) = neumann.defect_law(A, D, [np.zeros((5, 5))], 2)
    assert first.bound == 0
    np.testing.assert_allclose(first.U, transform(A, D), atol=1e-14)
    (first,) = neumann.defect_law(A, D, [delta], 2)
    np.testing.assert_allclose(first.R, np.linalg.matrix_power(inverse(A) @ delta, 3), atol=1e-15)


@pytest.mark.parametrize("order", ORDERS)
def test_the_reference_takes_the_same_path(order):
    """ncgru:neumann-err, NeumannCayley without resets: U, A_tilde's R and the defect as predicted, update by update,
    and no less than a third of its bound; with resets R falls to 0."""
    rng = np.random.default_rng(4)
    n, p = 7, NeumannCayley(negative_ones=3, order=order, reset_every=None)
    params, buffers = p.init(rng, n, dtype=np.float64)
    deltas = [skew(rng, n, 0.02) for _ in range(30)]
    steps = neumann.defect_law(params["A"], buffers["D"], deltas, order)
    for delta, step in zip(deltas, steps, strict=True):
        params, buffers = p.retract(params, buffers, {"A": delta})
        assert np.abs(buffers["U"] - step.U).max() < 1e-12
        R = np.eye(n) - buffers["A_tilde"] @ (np.eye(n) + params["A"])
        assert np.abs(R - step.R_predicted).max() < 1e-12
        assert np.abs(step.U - step.U_predicted).max() < 1e-12
        assert step.defect <= step.bound + 1e-14
        assert p.health(buffers)["defect"] == pytest.approx(step.defect, abs=1e-12)
    assert steps[-1].defect > max(1e-8, 0 if order == 2 else steps[-1].bound / 3)
    assert p.health(p.rebuild(params, buffers))["defect"] < 1e-13
