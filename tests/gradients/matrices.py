"""Random matrices, and what a bound may be exceeded by: rounding."""

import numpy as np

SLACK = 1 + 1e-12


def skew(rng, n, size=1.0):
    X = rng.standard_normal((n, n))
    return size * (X - X.T)


def orthogonal(rng, n):
    return np.linalg.qr(rng.standard_normal((n, n)))[0] * rng.choice([-1.0, 1.0], n)


def unitary(rng, n, complex=True):
    """Or, of real numbers, orthogonal."""
    return np.linalg.qr(rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if complex else 0))[0]
