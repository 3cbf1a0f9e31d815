"""`cells/elman.py` for a whole sequence.

Forward
    P: W x_t + b for all t                                 [bp:bptt/W]
    z_t = P + U h_{t-1}                                    [urnn:1/z]
    h_t = Phi(z_t, b)                                      [urnn:1/h] [goru:2.6]

Backward, g = all of dL/dh_t
    dz = g * Phi'(z)                                       [bp:rnn/1]
    g <- U^T dz    dU = sum over t of dz h_prev^T          [bp:rnn/2]
    dW, db, dx                                             [bp:bptt/W]
"""

from ortho_ref.backend import Array, xp_of
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.elman import Elman
from ortho_ref.fused import sequence
from ortho_ref.fused.sequence import Tape
from ortho_ref.scan import SequenceGradients


def forward(cell: Elman, weights: Weights, x: Array, h0: Array | None = None) -> tuple[Array, Tape]:
    """States (T+1, B, n) and the tape; see `fused.forward`."""
    xp = xp_of(x, h0, *weights.values())
    b = weights["b"]
    before = b if sequence.bias_before(cell.activation) else xp.zeros_like(b)
    P = sequence.input_products(weights["W"][None], before[None], x)  # [bp:bptt/W]
    U = sequence.transposed(weights["U"])
    h = sequence.initial_state(x, U, h0)
    scratch = xp.empty_like(P[0, 0])
    for h_prev, h_t, P_t in zip(h[:-1], h[1:], P[0], strict=True):
        xp.matmul(h_prev, U, out=h_t)  # [urnn:1/z]
        xp.add(h_t, P_t, out=h_t)  # [urnn:1/z]
        sequence.activate(cell.activation, h_t, b, scratch)  # [urnn:1/h] [goru:2.6]
    return h, Tape(x, None, h, None, None)


def backward(cell: Elman, weights: Weights, tape: Tape, dh: Array, dh_T: Array | None = None) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    xp = xp_of(dh, dh_T, *weights.values())
    x, h = tape.x, tape.h
    U = xp.ascontiguousarray(weights["U"])
    dz = xp.empty_like(h[1:])
    g = sequence.last_cotangent(dh, dh_T)
    for t in sequence.chunks(dz):
        F = sequence.derivative(cell.activation, h[1:][t])  # [bp:rnn/1]
        for dh_t, dz_t, F_t in reversed(list(zip(dh[t], dz[t], F, strict=True))):
            xp.add(g, dh_t, out=g)
            xp.multiply(g, F_t, out=dz_t)  # [bp:rnn/1]
            xp.matmul(dz_t, U, out=g)  # [bp:rnn/2]
    dU = sequence.recurrent_gradients(dz, h[:-1])  # [bp:rnn/2]
    dW, db, dx = sequence.input_gradients(weights["W"][None], x, dz[None])  # [bp:bptt/W]
    inside = not sequence.bias_before(cell.activation)
    return SequenceGradients(
        {"W": dW[0], "U": dU, "b": sequence.inside_bias_gradient(h[1:], dz) if inside else db[0]}, dx, g
    )
