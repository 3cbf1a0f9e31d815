"""The scaled Cayley transform with exact inverses (scoRNN).

    U = (I + A)^{-1} (I - A) D,  A^T = -A,  D = diag(+-1)              [ncgru:2]
      = (2 (I + A)^{-1} - I) D,  since I - A = 2 I - (I + A)
    A <- A - delta,  U afresh                                          [ncgru:3] [ncgru:4]
    V = (I + A)^{-T} dU (D + U^T)                                      [ncgru:6]
    dA = V^T - V                                                       [ncgru:5]
    A_0: 2x2 blocks (0, -s; s, 0), s = tan(t / 2), t ~ U[0, pi/2)      [ncgru:init-A]

dA is the derivative by the free entries above the diagonal, A_ij = a_ij = -A_ji: twice the projection of the
unconstrained gradient (E-ncgru-09).  D has +1 on the first n - k and -1 on the last k entries of its diagonal.
NOT this file: (I - A/2)^{-1} (I + A/2), the Cayley map of geotorch.

A_tilde = (I + A)^{-1} is kept in the buffers: one LU factorisation serves U and V.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.backend import Array, NotFiniteError, library_of, xp_of
from ortho_ref.boundary import check_number, is_integer
from ortho_ref.parametrizations.parametrization import (
    Buffers,
    Parametrization,
    Params,
    check_draw,
    check_orthogonal,
)


def initial_A(rng: np.random.Generator, n: int, dtype: DTypeLike) -> Array:
    """scoRNN's A_0 (n, n) on the host: planar rotations by up to pi / 2, the last row 0 for odd n."""
    t = rng.uniform(0, np.pi / 2, n // 2)
    s = np.tan(t / 2).astype(dtype)
    A = np.zeros((n, n), dtype)
    i = np.arange(0, n - 1, 2)
    A[i, i + 1], A[i + 1, i] = -s, s  # [ncgru:init-A]
    return A


def signs(n: int, negative_ones: int, dtype: DTypeLike) -> Array:
    """The diagonal of D (n,) on the host, the last `negative_ones` entries -1.  ValueError for more of them than n."""
    _check_fits(negative_ones, n)
    return np.repeat(np.array([1, -1], dtype), [n - negative_ones, negative_ones])


def count_skew(n: int, negative_ones: int) -> int:
    """n (n - 1) / 2, the free numbers of a skew A.  ValueError for more negative ones in D than n."""
    _check_fits(negative_ones, n)
    return n * (n - 1) // 2


def _check_fits(negative_ones: int, n: int) -> None:
    if negative_ones > n:
        raise ValueError(f"negative_ones is {negative_ones}; allowed: 0 to n = {n}")


def check_negative_ones(negative_ones: int) -> None:
    """An error unless negative_ones is an integer >= 0."""
    check_number("negative_ones", negative_ones, lambda k: is_integer(k) and k >= 0, "an integer from 0 to n")


def asymmetry(A: Array) -> Array:
    """max |A + A^T|, 0-d: 0 for a skew A."""
    return abs(A + A.T).max()


def check_skew(name: str, A: Array, n: int, away: float | None = None) -> None:
    """An error unless A is real, n x n, finite and exactly skew; `away` is its `asymmetry`, where that is known."""
    if A.shape != (n, n) or A.dtype.kind != "f":
        raise ValueError(f"{name} is {A.dtype} of shape {A.shape}; allowed: a real matrix of shape {(n, n)}")
    away = float(asymmetry(A)) if away is None else away
    if not math.isfinite(away):
        raise NotFiniteError(f"{name} has an entry that is not finite")
    if away != 0:
        raise ValueError(f"{name} is not skew: max |A + A^T| is {away:.3g}; allowed: exactly 0")


def inverse(A: Array) -> Array:
    """A_tilde = (I + A)^{-1} by LU, in A's own precision; not finite where rounding makes I + A singular.

    For skew A the matrix I + A is never singular: its eigenvalues are 1 + i w.  LAPACK's getri inverts the factors by a
    quarter fewer operations than solving for I takes; CuPy does not have it.
    """
    xp, linalg = xp_of(A), library_of(A).linalg
    I = xp.eye(A.shape[0], dtype=A.dtype)
    if not hasattr(linalg, "lapack"):
        return linalg.lu_solve(linalg.lu_factor(I + A, check_finite=False), I, check_finite=False)
    getrf, getri, getri_lwork = linalg.get_lapack_funcs(("getrf", "getri", "getri_lwork"), (A,))
    # LAPACK's columns are our rows: of the transpose nothing is copied, and its inverse is the transpose of ours
    factors, pivots, singular = getrf((I + A).T, overwrite_a=True)
    if singular:
        return xp.full_like(A, np.nan)
    A_tilde, _ = getri(factors, pivots, lwork=int(getri_lwork(len(A))[0].real), overwrite_lu=True)
    return A_tilde.T


def exact_buffers(A: Array, D: Array) -> Buffers:
    """U, A_tilde = (I + A)^{-1} and D (n,), exactly from A; errors as `check_skew` and `check_orthogonal`."""
    xp = xp_of(A, D)
    check_skew("A", A, D.shape[0])
    A_tilde = inverse(A)
    U = (2 * A_tilde - xp.eye(A.shape[0], dtype=A.dtype)) * D  # [ncgru:2] [ncgru:4]
    check_orthogonal("A", A, U)
    return {"U": U, "A_tilde": A_tilde, "D": D}


def cayley_pullback(A_tilde: Array, D: Array, U: Array, dU: Array) -> Array:
    """dL/dA, exactly skew, from dL/dU."""
    V = A_tilde.T @ dU @ (xp_of(U, dU).diag(D) + U.T)  # [ncgru:6]
    return V.T - V  # [ncgru:5]


@dataclass(frozen=True)
class ScaledCayley(Parametrization):
    """Scaled Cayley transform, exact (scoRNN). Parameter A (n, n), skew.

    Buffers: U; A_tilde; D.

    Parameters
    ----------
    negative_ones : int
        How many of D's diagonal entries are -1; det U = (-1)^negative_ones.

    Raises
    ------
    ValueError
        It is no integer >= 0.

    References
    ----------
    [ncgru:2] [ncgru:3] [ncgru:4] [ncgru:5] [ncgru:6], docs/equations.md.
    """

    negative_ones: int

    def __post_init__(self) -> None:
        check_negative_ones(self.negative_ones)

    def init(self, rng: np.random.Generator, n: int, *, dtype: DTypeLike = np.float32) -> tuple[Params, Buffers]:
        """scoRNN's initial A."""
        rng, dtype = check_draw(rng, n, dtype)
        A = initial_A(rng, n, dtype)
        return {"A": A}, exact_buffers(A, signs(n, self.negative_ones, dtype))

    def rebuild(self, params: Params, buffers: Buffers) -> Buffers:
        """U from A.  ValueError unless A is real, finite, exactly skew, and not too large for its precision."""
        return {**buffers, **exact_buffers(params["A"], buffers["D"])}

    def pullback(self, params: Params, buffers: Buffers, dU: Array) -> Params:
        """dL/dU -> {"A": dL/dA}."""
        return {"A": cayley_pullback(buffers["A_tilde"], buffers["D"], buffers["U"], dU)}

    def retract(self, params: Params, buffers: Buffers, delta: Params) -> tuple[Params, Buffers]:
        """A - delta, and U from it.  ValueError if A does not stay finite and skew."""
        params = {"A": params["A"] - delta["A"]}  # [ncgru:3]
        return params, self.rebuild(params, buffers)  # [ncgru:4]

    def count(self, n: int) -> int:
        """n (n - 1) / 2."""
        return count_skew(n, self.negative_ones)
