"""The SGORNN paper's theorems: generalization gap, sizes of gradients, and of the hidden state.

    R_x, R_W, R_v bound |x_t|, ||W||_F, |v|;  C = R_x R_W R_v;  kappa = beta + 2 alpha

Theorem 1, kappa <= 1, M samples, a loss in [0, B] and 1-Lipschitz, with probability 1 - delta
    gap <= 4 C alpha T / sqrt(M) + 3 B sqrt(ln(2 / delta) / (2 M))              [sgornn:thm1]
    by the recursion R_T <= kappa R_{T-1} + 2 alpha R_W R_x / sqrt(M), R_0 = 0  [sgornn:21]
    which ends at 2 alpha T R_W R_x / sqrt(M) for kappa = 1; for kappa not 1 (1 - kappa^T) / (1 - kappa) stands for T
                                                                                [sgornn:22]
Theorem 2, alpha + |beta| <= 1, |dphi/dTheta| <= M_phi entry by entry
    max |dL/dTheta| <= C M_phi n (alpha T)^2                                    [sgornn:7]
    max |dL/dW| <= sqrt(n) C alpha T / R_W                                      [sgornn:8]
    |h_t| <= alpha t R_W R_x                                                    [sgornn:31b]
Corollary 1: M_phi = 4 sqrt(n) log2(n) for VPRNN's map                          [sgornn:cor1]
    tighter: M_phi = 1, and |dL/dTheta| <= C alpha^2 T (T - 1) / 2              [sgornn:cor1/tight]
FastRNN's condition
    alpha <= min(1 / (4 T |D ||U|| - 1|), 1 / (4 T R_U), 1 / (T | ||U|| - 1 |)) [sgornn:4]

The bounds are of a ReLU network without bias that is read at T (E-sgornn-07); the proof of Theorem 1 has a step that
does not hold in general (E-sgornn-01), the bound itself has not been refuted.  printed: Theorem 2's proof goes through
||X||_{1,1} <= sqrt(n) ||X||_F, which is false (E-sgornn-02); a sum of rank-one terms makes it true.
"""

import math

import numpy as np

from gradients import bptt, fastrnn
from gradients.bptt import Bound, Matrix, Vector, Weights, norm
from ortho_ref.cells import FastRNN


def generalization_gap(C: float, alpha: float, T: int, M: int, B: float, delta: float) -> float:
    """The right-hand side of Theorem 1 without the empirical loss; it supposes |beta| + 2 alpha <= 1 (E-sgornn-04)."""
    return 4 * C * alpha * T / math.sqrt(M) + 3 * B * math.sqrt(math.log(2 / delta) / (2 * M))  # [sgornn:thm1]


def rademacher(alpha: float, beta: float, T: int, R_W: float, R_x: float, M: int) -> list[float]:
    """The recursion's bounds of R_0 .. R_T, where ||W||_F <= R_W and |x_t| <= R_x, of M samples."""
    kappa, bounds = beta + 2 * alpha, [0.0]
    for _ in range(T):
        bounds.append(kappa * bounds[-1] + 2 * alpha * R_W * R_x / math.sqrt(M))  # [sgornn:21]
    return bounds


def rademacher_closed(alpha: float, beta: float, T: int, R_W: float, R_x: float, M: int) -> float:
    """The recursion's end in closed form."""
    kappa = beta + 2 * alpha
    steps = T if kappa == 1 else (1 - kappa**T) / (1 - kappa)
    return 2 * alpha * steps * R_W * R_x / math.sqrt(M)  # [sgornn:22]


def theta_bound(C: float, M_phi: float, n: int, alpha: float, T: int) -> float:
    """Of max |dL/dTheta|."""
    return C * M_phi * n * (alpha * T) ** 2  # [sgornn:7]


def theta_bound_tight(C: float, alpha: float, T: int) -> float:
    """Of max |dL/dTheta| for a product of rotations; n is not in it."""
    return C * alpha**2 * T * (T - 1) / 2  # [sgornn:cor1/tight]


def M_phi_printed(n: int) -> float:
    """Corollary 1's bound of |dphi/dTheta|, whose true value is 1."""
    return 4 * math.sqrt(n) * math.log2(n)  # [sgornn:cor1]


def W_bound(n: int, C: float, alpha: float, T: int, R_W: float) -> float:
    """Of max |dL/dW|; it holds without sqrt(n), and for the Frobenius norm."""
    return math.sqrt(n) * C * alpha * T / R_W  # [sgornn:8]


def state_bound(alpha: float, t: int, R_W: float, R_x: float) -> float:
    """Of |h_t| from h_0 = 0; attained with U = I and a constant input."""
    return alpha * t * R_W * R_x  # [sgornn:31b]


def fastrnn_condition(U: Matrix, R_U: float, D: float, T: int) -> float:
    """The largest alpha of FastRNN's condition, where ||U||_F <= R_U; a denominator of 0 sets no limit."""
    size = norm(U)
    denominators = (4 * T * abs(D * size - 1), 4 * T * R_U, T * abs(size - 1))
    return min(math.inf if d < 1e-12 else 1 / d for d in denominators)  # [sgornn:4]


def of_network(cell: FastRNN, w: Weights, x: Matrix, v: Vector) -> dict[str, Bound]:
    """Bounds of |h_T| ("h_T"), max |dL/dW| ("W") and ||dL/dU||_2 ("U") of a network, h_0 = 0 and L = v^T h_T.

    x is (T, m).  ValueError unless its Phi is relu, b is 0, and alpha + |beta| <= 1: the theorems are of these alone.
    """
    alpha, beta = (float(gate) for gate in cell.gates(w))
    if cell.activation != "relu" or np.any(w["b"]) or alpha + abs(beta) > 1:
        raise ValueError(
            f"activation is {cell.activation!r}, max |b| is {abs(w['b']).max()}, alpha + |beta| is {alpha + abs(beta)};"
            " allowed: 'relu', 0, at most 1"
        )
    T, n = len(x), len(v)
    R_W, R_x, R_v = (
        float(size) for size in (np.linalg.norm(w["W"]), np.linalg.norm(x, axis=1).max(), np.linalg.norm(v))
    )
    C, h0 = R_W * R_x * R_v, np.zeros(n)
    h_T = bptt.run(fastrnn.step, cell, w, x, h0)[-1].h
    dU, dW = fastrnn.printed_gradients(cell, w, x, h0, v)
    return {
        "h_T": Bound(state_bound(alpha, T, R_W, R_x), float(np.linalg.norm(h_T))),
        "W": Bound(W_bound(n, C, alpha, T, R_W), float(abs(dW).max())),
        "U": Bound(theta_bound_tight(C, alpha, T), norm(dU)),
    }
