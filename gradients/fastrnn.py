"""FastRNN and SGORNN: the derivative of a step, and the gradients of U and W as the SGORNN paper prints them.

dh_t/dh = alpha D U + beta I,  D = diag(Phi'(W x_t + U h))                  [sgornn:25/J]
||dh_t/dh|| <= alpha ||D|| ||U|| + |beta|                                   [sgornn:25/bound]
of a loss of h_T alone, with dh_T = dL/dh_T, the product's factor k = t leftmost:
dL/dU = alpha sum_t D_t [prod_{k=t}^{T-1} (alpha U^T D_{k+1} + beta I)] dh_T h_{t-1}^T          [sgornn:25]
dL/dW = the same with x_t^T for h_{t-1}^T                                   [sgornn:26]
"""

import numpy as np

from gradients.bptt import Bound, Matrix, Step, Vector, Weights, norm, one_step
from ortho_ref.activations import activation
from ortho_ref.cells import FastRNN


def step(cell: FastRNN, w: Weights, x: Vector, h: Vector) -> Step:
    """One step for `bptt`."""
    w, x, h = one_step(cell, w, x, h)
    phi = activation(cell.activation)
    alpha, beta = (float(gate) for gate in cell.gates(w))
    z = w["W"] @ x + w["U"] @ h
    f = phi.value(z, w["b"])
    slope, bias_slope = phi.pullback(np.ones_like(z), z, w["b"], f)
    D = np.diag(slope)
    J = alpha * D @ w["U"] + beta * np.eye(len(h))  # [sgornn:25/J]
    S: dict[str, tuple[Matrix, Vector | None]] = {
        "W": (alpha * D, x),
        "U": (alpha * D, h),
        "b": (alpha * np.diag(bias_slope), None),
    }
    # the pullback of the gates is linear: unit by unit, dh_t by the weights alpha and beta
    S |= {name: (column[:, None], None) for name, column in cell.gates_pullback(w, f, h).items()}
    return Step(alpha * f + beta * h, J, S)


def bound(cell: FastRNN, w: Weights, x: Vector, h: Vector) -> Bound:
    """alpha ||D|| ||U|| + |beta|, of dh_t/dh_{t-1}."""
    own = step(cell, w, x, h)
    limit = norm(own.S["U"][0]) * norm(w["U"]) + abs(float(cell.gates(w)[1]))  # [sgornn:25/bound]
    return Bound(limit, norm(own.J))


def printed_gradients(cell: FastRNN, w: Weights, x: Matrix, h0: Vector, dh_T: Vector) -> tuple[Matrix, Matrix]:
    """dU and dW of a loss of h_T as printed, from x (T, m), h0 and dh_T = dL/dh_T (n,).

    Phi has its bias added before, as there.
    """
    alpha, beta = (float(gate) for gate in cell.gates(w))
    phi = activation(cell.activation)
    h, D = [h0], []
    for x_t in x:
        z = w["W"] @ x_t + w["U"] @ h[-1]
        f = phi.value(z, w["b"])
        D.append(np.diag(phi.pullback(np.ones_like(z), z, w["b"], f)[0]))
        h.append(alpha * f + beta * h[-1])
    dU, dW, T, I = np.zeros_like(w["U"]), np.zeros_like(w["W"]), len(x), np.eye(len(h0))
    for t in range(1, T + 1):
        product = I
        for k in range(t, T):
            product = product @ (alpha * w["U"].T @ D[k] + beta * I)  # D[k] is D_{k+1}: lists begin at 0
        dU += alpha * D[t - 1] @ product @ np.outer(dh_T, h[t - 1])  # [sgornn:25]
        dW += alpha * D[t - 1] @ product @ np.outer(dh_T, x[t - 1])  # [sgornn:26]
    return dU, dW
