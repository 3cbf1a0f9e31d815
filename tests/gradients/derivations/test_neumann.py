"""The steps of docs/derivations/neumann.md [ncgru:16] [ncgru:17] [ncgru:18] [ncgru:neumann-q] [ncgru:neumann-cond]
[ncgru:neumann-err]."""

import numpy as np
import pytest

from gradients import neumann
from gradients.cayley import transform
from tests.gradients.derivations.pairing import drawn, same


def powers(P, q):
    """I + P + ... + P^q."""
    return sum(np.linalg.matrix_power(P, k) for k in range(q + 1))


@drawn
def test_the_series(draw, n):
    """ncgru:16, ncgru:17, ncgru:18: I + A taken out, its inverse, and the product that telescopes."""
    A, delta, I = draw.skew(n), draw.skew(n), np.eye(n)
    delta *= 0.5 / max(1, np.linalg.norm(delta, 2))
    M = np.linalg.inv(I + A)
    P = M @ delta
    assert same(I + A - delta, (I + A) @ (I - P), 10)
    assert same(np.linalg.inv(I + A - delta), np.linalg.inv(I - P) @ M)
    for q in range(4):
        assert same((I - P) @ powers(P, q), I - np.linalg.matrix_power(P, q + 1))
        assert same(neumann.series(M, delta, q), powers(P, q) @ M)
    assert same(powers(P, 60) @ M, np.linalg.inv(I + A - delta))


@drawn
def test_remainder_and_condition(draw, n):
    """ncgru:neumann-q, ncgru:neumann-cond: what is left out, also where the series diverges; the powers' eigenvalues;
    a norm above 1 with a spectral radius below it; abs(M) <= 1."""
    A, delta, I = draw.skew(n), draw.skew(n), np.eye(n)
    M = np.linalg.inv(I + A)
    P = M @ delta
    for q in range(4):
        left_out = np.linalg.solve(I - P, M) - powers(P, q) @ M
        scale = max(1, np.linalg.norm(P, 2) ** (q + 1))
        assert same(neumann.remainder(M, delta, q), left_out, scale)
    radius = neumann.spectral_radius(P)
    assert neumann.spectral_radius(P @ P) == pytest.approx(radius**2, rel=1e-9, abs=1e-9)
    assert radius <= np.linalg.norm(P, 2) * (1 + 1e-12)
    assert np.linalg.norm(M, 2) <= 1 + 1e-12
    v = draw.real(n)
    assert same(np.sum(((I + A) @ v) ** 2), v @ v + np.sum((A @ v) ** 2), 10)
    shear = np.array([[0.1, 5], [0, 0.1]])
    assert np.linalg.norm(shear, 2) > 1
    assert same(powers(shear, 60), np.linalg.inv(np.eye(2) - shear))


@drawn
def test_the_error_that_is_carried(draw, n):
    """ncgru:neumann-err: the recursion of R from its definition, U from R, the defect; with another delta than the one
    that moved A the recursion is not the law."""
    I, D, A, q = np.eye(n), draw.rng.choice([-1.0, 1.0], n), draw.skew(n), 2
    A_tilde, R = np.linalg.inv(I + A), np.zeros((n, n))
    for _ in range(3):
        delta = 0.1 * draw.skew(n)
        P = A_tilde @ delta
        S = powers(P, q)
        assert same(A_tilde @ (I + A - delta), I - R - P)
        R = np.linalg.matrix_power(P, q + 1) + S @ R
        A, A_tilde = A - delta, S @ A_tilde
        assert same(I - A_tilde @ (I + A), R)
        U, exact = A_tilde @ (I - A) * D, transform(A, D)
        assert same(U, (I - R) @ exact)
        by_R = R.T @ R - R - R.T
        assert same(U.T @ U - I, exact.T @ by_R @ exact)
        norm = np.linalg.norm(R, 2)
        assert np.linalg.norm(U.T @ U - I, 2) <= 2 * norm + norm**2 + 1e-12
    if n > 1:
        assert not same(I - A_tilde @ (I + A - delta), R)
