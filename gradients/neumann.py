"""The Neumann series for (I + A - delta)^{-1}, its remainder, its condition, and the defect it leaves.

    M = (I + A)^{-1}, P = M delta
    (I + A - delta)^{-1} = (I - P)^{-1} M = (I + P + P^2 + ...) M               [ncgru:16] [ncgru:17] [ncgru:18]
    converges if and only if the spectral radius of P is below 1;
        ||P||_2 < 1 suffices                                                    [ncgru:neumann-cond]
    what order q leaves out:  P^{q+1} (I - P)^{-1} M                            [ncgru:neumann-q]

Carried from update to update without a reset, A_tilde_k for (I + A_k)^{-1}, R_k = I - A_tilde_k (I + A_k):
    R_k = P_k^{q+1} + (I + P_k + ... + P_k^q) R_{k-1},  P_k = A_tilde_{k-1} delta_k
                                                                                [ncgru:neumann-err/R]
    U_k = (I - R_k) U_exact                                                     [ncgru:neumann-err/U]
    ||U_k^T U_k - I||_2 <= 2 ||R_k||_2 + ||R_k||_2^2                            [ncgru:neumann-err/defect]

The law is exact (E-ncgru-12): errors accumulate, and nothing in Algorithm 1 takes them back but the reset.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gradients.bptt import Matrix, norm
from gradients.cayley import transform


def series(M: Matrix, delta: Matrix, order: int) -> Matrix:
    """The series of order q for (I + A - delta)^{-1}, (I + P + ... + P^q) M, with M = (I + A)^{-1} and P = M delta."""
    P = M @ delta
    return sum(np.linalg.matrix_power(P, i) for i in range(order + 1)) @ M  # [ncgru:16] [ncgru:17] [ncgru:18]


def remainder(M: Matrix, delta: Matrix, order: int) -> Matrix:
    """(I + A - delta)^{-1} less the series, in closed form; it holds where the series diverges too."""
    P = M @ delta
    return np.linalg.matrix_power(P, order + 1) @ np.linalg.solve(np.eye(len(M)) - P, M)  # [ncgru:neumann-q]


def spectral_radius(P: Matrix) -> float:
    """The largest |eigenvalue|: the series converges if and only if it is below 1."""
    return float(abs(np.linalg.eigvals(P)).max())  # [ncgru:neumann-cond]


class Defect(NamedTuple):
    """After one update: R_k by the law and as it is, ||U^T U - I||_2 and its bound, U_k and (I - R_k) U_exact."""

    R_predicted: Matrix
    R: Matrix
    defect: float
    bound: float
    U: Matrix
    U_predicted: Matrix


def defect_law(A: Matrix, D: Matrix, deltas: Sequence[Matrix], order: int) -> list[Defect]:
    """Lines 6 to 8 of Algorithm 1 from an exact start, without a reset, beside what the law says of each update.

    A (n, n) is skew, D (n,) of ones and minus ones; deltas: what each update takes from A.
    """
    I = np.eye(len(A))
    A_tilde = np.linalg.inv(I + A)
    R = np.zeros_like(A)
    steps = []
    for delta in deltas:
        P = A_tilde @ delta
        S = sum(np.linalg.matrix_power(P, i) for i in range(order + 1))
        R = np.linalg.matrix_power(P, order + 1) + S @ R  # [ncgru:neumann-err/R]
        A, A_tilde = A - delta, S @ A_tilde
        U = A_tilde @ (I - A) * D
        size = norm(R)
        bound = 2 * size + size**2  # [ncgru:neumann-err/defect]
        predicted = (I - R) @ transform(A, D)  # [ncgru:neumann-err/U]
        steps.append(Defect(R, I - A_tilde @ (I + A), norm(U.T @ U - I), bound, U, predicted))
    return steps
