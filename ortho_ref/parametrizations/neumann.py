"""The Neumann-Cayley update: (I + A)^{-1} carried along by a truncated Neumann series (Algorithm 1 of NC-GRU).

    given D, A_0, U_0:  A_tilde = (I + A_0)^{-1}                            [ncgru:alg1/2]
    V = A_tilde^T dU (D + U^T)                                              [ncgru:alg1/4]
    delta = optimizer(V^T - V), learning rate included                      [ncgru:alg1/5]
    A <- A - delta                                                          [ncgru:alg1/6]
    A_tilde <- (I + P + ... + P^q) A_tilde,  P = A_tilde delta    [ncgru:alg1/7] [ncgru:16] [ncgru:17] [ncgru:18]
    U <- A_tilde (I - A) D                                                  [ncgru:alg1/8]

Line 7 is printed for q = 2; it is evaluated in Horner form, F <- A_tilde + P F, q times.  The delta of line 7 is the
one that moved A: released code feeds the series lr * gradient although Adam moved A, and U leaves the orthogonal
matrices (docs/errata.md, at its end).  Errors of the series accumulate without self-correction, so A_tilde is computed
afresh by LU at the start and every `reset_every` updates [ncgru:reset].

The series needs spectral radius of P below 1 [ncgru:neumann-cond]; ||P||_2 < 1 suffices.  Every update looks at the
Frobenius norm, an upper bound of ||P||_2, and at ||P||_2 itself where that bound is 1 or more.  If ||P||_2 >= 1 too,
the series is not used: the update is followed by an exact reset, which the buffers count.

On a device the update waits once, for that norm and for whether delta is skew.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.backend import Array, NotFiniteError, xp_of
from ortho_ref.boundary import check_number, is_integer, read
from ortho_ref.parametrizations.cayley import (
    asymmetry,
    cayley_pullback,
    check_negative_ones,
    check_skew,
    count_skew,
    exact_buffers,
    initial_A,
    signs,
)
from ortho_ref.parametrizations.parametrization import (
    Buffers,
    Parametrization,
    Params,
    check_draw,
    defect,
    spectral_norm,
)


def matrix_of_series(A_tilde: Array, delta: Array) -> Array:
    """P = A_tilde delta, whose powers the series sums."""
    return A_tilde @ delta  # [ncgru:alg1/7] [ncgru:neumann-cond]


def neumann_inverse(A_tilde: Array, P: Array, order: int) -> Array:
    """(I + P + ... + P^order) A_tilde, the approximate (I + A - delta)^{-1} for P = A_tilde delta."""
    F = A_tilde
    for _ in range(order):
        F = A_tilde + P @ F  # [ncgru:alg1/7] [ncgru:16] [ncgru:17] [ncgru:18]
    return F


@dataclass(frozen=True)
class NeumannCayley(Parametrization):
    """Neumann-Cayley orthogonal matrix (Algorithm 1). Parameter A (n, n), skew.

    Buffers: U; A_tilde; D; P of the last update; step, the updates so far; forced_resets, those with ||P||_2 >= 1.

    Parameters
    ----------
    negative_ones : int
        How many of D's diagonal entries are -1.
    order : int
        Highest power kept of the series, 1, 2 or 3; the paper's default is 2.
    reset_every : int or None
        Updates between exact inverses; the paper uses 50 (copying: 20). None: only the one at the start.

    Raises
    ------
    ValueError
        One of them is not allowed.

    References
    ----------
    [ncgru:16] [ncgru:17] [ncgru:18], [ncgru:alg1], docs/equations.md.
    """

    negative_ones: int
    order: int = 2
    reset_every: int | None = 50

    def __post_init__(self) -> None:
        check_negative_ones(self.negative_ones)
        check_number("order", self.order, lambda q: is_integer(q) and q in (1, 2, 3), "1, 2, 3")
        if self.reset_every is not None:
            every = "an integer >= 1, or None"
            check_number("reset_every", self.reset_every, lambda k: is_integer(k) and k >= 1, every)

    def init(self, rng: np.random.Generator, n: int, *, dtype: DTypeLike = np.float32) -> tuple[Params, Buffers]:
        """scoRNN's initial A, A_tilde and U exact."""
        rng, dtype = check_draw(rng, n, dtype)
        A = initial_A(rng, n, dtype)
        buffers = exact_buffers(A, signs(n, self.negative_ones, dtype))  # [ncgru:alg1/2]
        return {"A": A}, self.begun({**buffers, "P": A})

    def rebuild(self, params: Params, buffers: Buffers) -> Buffers:
        """A_tilde and U exactly from A; the counters pass through.  ValueError unless A is finite and exactly skew."""
        return {**buffers, **exact_buffers(params["A"], buffers["D"])}  # [ncgru:reset]

    def pullback(self, params: Params, buffers: Buffers, dU: Array) -> Params:
        """dL/dU -> {"A": V^T - V}."""
        return {
            "A": cayley_pullback(buffers["A_tilde"], buffers["D"], buffers["U"], dU)
        }  # [ncgru:alg1/4] [ncgru:alg1/5]

    def retract(self, params: Params, buffers: Buffers, delta: Params) -> tuple[Params, Buffers]:
        """Lines 6 to 8 of Algorithm 1, and the exact reset where it is due or forced; delta must be exactly skew."""
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is told below
            P = matrix_of_series(buffers["A_tilde"], delta["A"])
            norm, away = read(xp_of(P).linalg.norm(P), asymmetry(delta["A"]))
        check_skew("delta of A", delta["A"], buffers["D"].shape[0], away)
        step = buffers["step"] + 1
        if not math.isfinite(norm):
            raise NotFiniteError(f"||A_tilde delta|| is {norm} in update {step} of A")
        forced = norm >= 1 and spectral_norm(P) >= 1  # [ncgru:neumann-cond]
        A = params["A"] - delta["A"]  # [ncgru:alg1/6]
        buffers = {**buffers, "P": P, "step": step, "forced_resets": buffers["forced_resets"] + forced}
        if forced or (self.reset_every is not None and step % self.reset_every == 0):
            return {"A": A}, self.rebuild({"A": A}, buffers)  # [ncgru:reset]
        A_tilde = neumann_inverse(buffers["A_tilde"], P, self.order)  # [ncgru:alg1/7] [ncgru:16] [ncgru:17] [ncgru:18]
        U = A_tilde @ (xp_of(A).eye(A.shape[0], dtype=A.dtype) - A) * buffers["D"]  # [ncgru:alg1/8]
        return {"A": A}, {**buffers, "U": U, "A_tilde": A_tilde}

    def begun(self, buffers: Buffers) -> Buffers:
        """P and the two counters are 0."""
        return {**buffers, "P": xp_of(buffers["P"]).zeros_like(buffers["P"]), "step": 0, "forced_resets": 0}

    def count(self, n: int) -> int:
        """n (n - 1) / 2."""
        return count_skew(n, self.negative_ones)

    def health(self, buffers: Buffers) -> dict[str, float]:
        """Defect ||U^T U - I||_2, Neumann condition ||P||_2 of the last update, forced resets so far."""
        return {
            "defect": defect(buffers["U"]),
            "condition": spectral_norm(buffers["P"]),
            "forced_resets": buffers["forced_resets"],
        }
