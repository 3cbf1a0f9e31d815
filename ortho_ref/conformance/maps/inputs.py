"""The Q that a map is asked: from a seed, of a given size, skew where it needs that."""

import numpy as np

from ortho_ref.backend import Array


def standard(rng: np.random.Generator, shape: tuple[int, ...], of_complex: bool = False) -> Array:
    """Standard normal numbers, complex ones in both parts."""
    values = rng.standard_normal(shape)
    return values + 1j * rng.standard_normal(shape) if of_complex else values


def any_matrix(
    rng: np.random.Generator, n: int, size: float, of_complex: bool = False, columns: int | None = None
) -> Array:
    """A matrix of standard normal numbers, scaled to ||Q||_2 = size; square unless given another number of columns."""
    Q = standard(rng, (n, columns or n), of_complex)
    return Q * (size / np.linalg.norm(Q, 2))


def skew_matrix(rng: np.random.Generator, n: int, size: float, of_complex: bool = False) -> Array:
    """An exactly skew matrix with ||Q||_2 = size; skew-Hermitian where complex."""
    Q = standard(rng, (n, n), of_complex)
    Q = Q - Q.conj().T
    return Q * (size / np.linalg.norm(Q, 2))


def conditioned(
    rng: np.random.Generator, n: int, condition: float, of_complex: bool = False, columns: int | None = None
) -> Array:
    """A matrix with ||Q||_2 = 1 and singular values evenly spread, by their logarithms, down to 1 / condition."""
    m = columns or n
    k = min(n, m)
    W, _ = np.linalg.qr(standard(rng, (n, n), of_complex))
    V, _ = np.linalg.qr(standard(rng, (m, m), of_complex))
    return W[:, :k] * np.geomspace(1, 1 / condition, k) @ V[:k]


def defect(U: Array) -> float:
    """||U^H U - I||_2, of a wide U ||U U^H - I||_2, in double precision; inf where U is not finite."""
    if not np.isfinite(U).all():
        return float("inf")
    wide = U.astype(np.complex128 if U.dtype.kind == "c" else np.float64)
    with np.errstate(all="ignore"):
        gram = wide.conj().T @ wide if U.shape[0] >= U.shape[1] else wide @ wide.conj().T
        away = gram - np.eye(len(gram))
    return float(np.linalg.norm(away, 2)) if np.isfinite(away).all() else float("inf")
