"""The matrix exponential (EXPRNN).

    U = exp(A),  A^T = -A                                                       [sgornn:2-alt]
    L = derivative of exp at A^T in the direction dU                            [bp:expm/1]
    dA = L - L^T                                                                [bp:expm/2]
    where a library lacks that derivative: L is the upper right block of
        exp(A^T, dU; 0, A^T)                                                    [bp:expm/block]

dA is the derivative by the free entries above the diagonal, A_ij = a_ij = -A_ji, as in `cayley.py`.  Why L: the
derivative of exp at A in direction E is the integral over s in [0, 1] of exp(sA) E exp((1 - s)A), and the adjoint of
that map of E is the same map at A^T.  NOT this file: a base that moves, as in dtriv.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.parametrizations.cayley import check_skew, initial_A
from ortho_ref.parametrizations.parametrization import Buffers, Parametrization, Params, check_orthogonal


def henaff_A(rng: np.random.Generator, n: int, dtype: DTypeLike) -> Array:
    """An A of 2x2 blocks (0, t; -t, 0), t ~ U[-pi, pi), so that exp(A) turns by any angle.

    Parameters
    ----------
    rng : numpy.random.Generator
        What the t are drawn from.
    n : int
        A is n x n.
    dtype : dtype
        float32 or float64.

    Returns
    -------
    Array (n, n)
        On the host; the last row and column are 0 for odd n.

    References
    ----------
    Henaff et al. 2016.
    """
    t = rng.uniform(-np.pi, np.pi, n // 2).astype(dtype)
    A = np.zeros((n, n), dtype)
    i = np.arange(0, n - 1, 2)
    A[i, i + 1], A[i + 1, i] = t, -t
    return A


def exponential_derivative(A: Array, E: Array) -> Array:
    """Derivative of the matrix exponential.

    Parameters
    ----------
    A : Array (n, n)
        Where.
    E : Array (n, n)
        In which direction.

    Returns
    -------
    Array (n, n)
        Of A's precision.
    """
    xp, linalg = xp_of(A, E), library_of(A, E).linalg
    if hasattr(linalg, "expm_frechet"):
        return linalg.expm_frechet(A, E, compute_expm=False).astype(A.dtype, copy=False)  # [bp:expm/1]
    n = A.shape[0]
    block = xp.concatenate([xp.concatenate([A, E], axis=1), xp.concatenate([xp.zeros_like(A), A], axis=1)])
    return linalg.expm(block)[:n, n:]  # [bp:expm/block]


_INITIAL = {"henaff": henaff_A, "cayley": initial_A}


@dataclass(frozen=True)
class Exponential(Parametrization):
    """U = exp(A) (EXPRNN). Parameter A (n, n), skew. det U = 1.

    Parameters
    ----------
    initial : str
        "henaff", rotations by any angle, or "cayley", scoRNN's A: the two that EXPRNN's code starts from.

    Raises
    ------
    ValueError
        There is no such initial value.

    References
    ----------
    [sgornn:2-alt], docs/equations.md.
    """

    initial: str = "henaff"

    def __post_init__(self) -> None:
        if not isinstance(self.initial, str) or self.initial not in _INITIAL:
            raise ValueError(f"initial is {self.initial!r}; allowed: {', '.join(map(repr, _INITIAL))}")

    def init(self, rng: np.random.Generator, n: int, dtype: DTypeLike) -> tuple[Params, Buffers]:
        """A of random planar rotations, the last row and column 0 for odd n."""
        params = {"A": _INITIAL[self.initial](rng, n, dtype)}
        return params, self.rebuild(params, {"U": params["A"]})

    def rebuild(self, params: Params, buffers: Buffers) -> Buffers:
        """U from A.  ValueError unless A is real, finite, exactly skew, and not too large for its precision."""
        A = params["A"]
        check_skew("A", A, buffers["U"].shape[0])
        with np.errstate(all="ignore"):  # what overflows is told below
            U = library_of(A).linalg.expm(A)  # [sgornn:2-alt]
        check_orthogonal("A", A, U)
        return {**buffers, "U": U}

    def pullback(self, params: Params, buffers: Buffers, dU: Array) -> Params:
        """dL/dU -> {"A": dL/dA}, exactly skew."""
        L = exponential_derivative(params["A"].T, dU)
        return {"A": L - L.T}  # [bp:expm/2]

    def count(self, n: int) -> int:
        """n (n - 1) / 2."""
        return n * (n - 1) // 2
