"""The matrix exponential (EXPRNN).

    U = exp(A),  A^T = -A                                                       [sgornn:2-alt]
    L = derivative of exp at A^T in the direction dU                            [bp:expm/1]
    dA = L - L^T                                                                [bp:expm/2]

The derivative of exp at any A in the direction E, through the Pade approximant that computes exp:
    A, E <- A / 2^s, E / 2^s, until ||A||_1 is small                            [bp:expm/halved]
    X = q(A)^{-1} q(-A),  q(A) = even - odd, the two halves of a polynomial     [bp:expm/pade]
    q(A) L = d_even + d_odd + (d_odd - d_even) X                                [bp:expm/pade-derivative]
    s times:  L <- X L + L X,  X <- X X                                         [bp:expm/squared]

dA is the derivative by the free entries above the diagonal, A_ij = a_ij = -A_ji, as in `cayley.py`.  Why L is this:
docs/derivations/exponential.md.  NOT this file: a base that moves, as in dtriv.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.backend import Array, library_of, to_host, xp_of
from ortho_ref.boundary import check_choice
from ortho_ref.parametrizations.cayley import check_skew, initial_A
from ortho_ref.parametrizations.parametrization import Buffers, Parametrization, Params, check_draw, check_orthogonal


def henaff_A(rng: np.random.Generator, n: int, dtype: DTypeLike) -> Array:
    """A of 2x2 blocks (0, t; -t, 0), t ~ U[-pi, pi), on the host: exp(A) turns by any angle (Henaff et al. 2016)."""
    t = rng.uniform(-np.pi, np.pi, n // 2).astype(dtype)
    A = np.zeros((n, n), dtype)
    i = np.arange(0, n - 1, 2)
    A[i, i + 1], A[i + 1, i] = t, -t
    return A


#: Degree of the Pade approximant -> the coefficients of its numerator.
_PADE = {
    3: (120.0, 60.0, 12.0, 1.0),
    5: (30240.0, 15120.0, 3360.0, 420.0, 30.0, 1.0),
    7: (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
}
#: Degree -> ||A||_1 up to which its backward error, and its derivative's, is below half a unit in the last place
#: (Al-Mohy and Higham 2009, table 6.1, for float64).
_BOUNDS = {
    np.dtype(np.float32): {3: 0.308, 5: 1.48, 7: 3.24},
    np.dtype(np.float64): {3: 0.0108, 5: 0.199, 7: 0.783},
}
#: So many halvings are far beyond those after which squarings have lost every digit.
_LOST = 60


def exponential(A: Array) -> Array:
    """exp(A): a Pade approximant where one is exact to rounding without squarings, else the library's.

    On a device NaN where ||A||_1 is above 2^60, of which no digit is known.
    """
    library, (degree, halvings) = library_of(A), _degree(A)
    linalg = library.linalg
    if halvings > _LOST and library.device != "cpu":  # CuPy's raises: it has 2^s as an integer
        return library.xp.full_like(A, np.nan)
    if halvings:
        return linalg.expm(A)  # [sgornn:2-alt]
    odd, even = _halves(A, _even_powers(A, degree), degree)
    factors = linalg.lu_factor(even - odd, check_finite=False)
    return linalg.lu_solve(factors, even + odd, check_finite=False)  # [sgornn:2-alt] [bp:expm/pade]


def exponential_derivative(A: Array, E: Array) -> Array:
    """Derivative of exp at A in direction E (Al-Mohy and Higham 2009, algorithm 6.4, up to degree 7)."""
    xp, linalg, (degree, halvings) = xp_of(A, E), library_of(A, E).linalg, _degree(A)
    A, E, c = A * 0.5**halvings, E * 0.5**halvings, _PADE[degree]  # [bp:expm/halved]
    P = _even_powers(A, degree)
    dP = [xp.zeros_like(E), A @ E + E @ A]
    for power in P[1:-1]:
        dP.append(P[1] @ dP[-1] + dP[1] @ power)
    odd, even = _halves(A, P, degree)
    d_odd, d_even = A @ _combined(c[1::2], dP) + E @ _combined(c[1::2], P), _combined(c[::2], dP)
    factors = linalg.lu_factor(even - odd, check_finite=False)
    X = linalg.lu_solve(factors, even + odd, check_finite=False)  # [bp:expm/pade]
    L = linalg.lu_solve(factors, d_even + d_odd + (d_odd - d_even) @ X, check_finite=False)  # [bp:expm/pade-derivative]
    for k in range(halvings):
        L = X @ L + L @ X  # [bp:expm/squared]
        if k < halvings - 1:
            X = X @ X  # [bp:expm/squared]
    return L


def _degree(A: Array) -> tuple[int, int]:
    """The smallest degree that serves A, and how often A is halved before."""
    norm, bounds = float(to_host(abs(A).sum(axis=0).max())), _BOUNDS[A.real.dtype]
    degree = next((degree for degree, most in bounds.items() if norm <= most), max(bounds))
    return degree, max(0, math.frexp(norm / bounds[degree])[1])


def _even_powers(A: Array, degree: int) -> list[Array]:
    """I, A^2, A^4 ... below the degree."""
    powers = [xp_of(A).eye(len(A), dtype=A.dtype), A @ A]
    while 2 * len(powers) < degree:
        powers.append(powers[1] @ powers[-1])
    return powers


def _halves(A: Array, P: list[Array], degree: int) -> tuple[Array, Array]:
    """The odd and the even half of the numerator, from the even powers."""
    c = _PADE[degree]
    return A @ _combined(c[1::2], P), _combined(c[::2], P)


def _combined(coefficients: Sequence[float], powers: list[Array]) -> Array:
    """The sum of coefficient times power."""
    total = coefficients[-1] * powers[-1]
    for coefficient, power in zip(coefficients[:-1], powers[:-1], strict=True):
        total += coefficient * power
    return total


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
        check_choice("initial", self.initial, _INITIAL)

    def init(self, rng: np.random.Generator, n: int, *, dtype: DTypeLike = np.float32) -> tuple[Params, Buffers]:
        """A of random planar rotations, the last row and column 0 for odd n."""
        rng, dtype = check_draw(rng, n, dtype)
        params = {"A": _INITIAL[self.initial](rng, n, dtype)}
        return params, self.rebuild(params, {"U": params["A"]})

    def rebuild(self, params: Params, buffers: Buffers) -> Buffers:
        """U from A.  ValueError unless A is real, finite, exactly skew, and not too large for its precision."""
        A = params["A"]
        check_skew("A", A, buffers["U"].shape[0])
        with np.errstate(all="ignore"):  # what overflows is told below
            U = exponential(A)  # [sgornn:2-alt]
        check_orthogonal("A", A, U)
        return {**buffers, "U": U}

    def pullback(self, params: Params, buffers: Buffers, dU: Array) -> Params:
        """dL/dU -> {"A": dL/dA}, exactly skew."""
        L = exponential_derivative(params["A"].T, dU)  # [bp:expm/1]
        return {"A": L - L.T}  # [bp:expm/2]

    def count(self, n: int) -> int:
        """n (n - 1) / 2."""
        return n * (n - 1) // 2
