"""`cells/elman.py` for a whole sequence, fast; `scan` holds it (test_fused).

Forward
    P: W x_t + b for all t                                 [bp:bptt/W]
    z_t = P + U h_{t-1}                                    [urnn:1/z]
    h_t = Phi(z_t, b)                                      [urnn:1/h] [goru:2.6]

Backward, g = all of dL/dh_t
    g += dh_t                                              [bp:bptt/g]
    dz = g * Phi'(z)                                       [bp:rnn/1]
    g <- U^T dz    dU = sum over t of dz h_prev^T          [bp:rnn/2]
    dW, db, dx                                             [bp:bptt/W]
"""

from types import ModuleType

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.elman import Elman
from ortho_ref.fused import sequence
from ortho_ref.fused.kernels import elman as device, launches
from ortho_ref.fused.sequence import Tape, value
from ortho_ref.scan import SequenceGradients


def unroll(
    cell: Elman, weights: Weights, x: Array, h0: Array | None = None, loops: ModuleType = device
) -> tuple[Array, Tape]:
    """States (T+1, B, n) and the tape; see `fused.forward`."""
    library = library_of(x, h0, *weights.values())
    P = sequence.input_product(weights["W"], weights["b"], cell.activation, x)  # [bp:bptt/W]
    U = sequence.transposed(weights["U"])
    h = sequence.initial_state(x, U, h0)
    loop = loops.forward_loop if launches(library) else forward_loop
    loop(cell.activation, h, P, U, weights["b"])
    return h, Tape(cell, (*x.shape[:2], U.shape[-1]), x, None, h)


def forward_loop(activation: str, h: Array, P: Array, U: Array, b: Array) -> None:
    """Over time: h[1:] (T, B, n) from h[0].

    P (T, B, n) is W x + b, without b for modrelu; U is the weight's transpose.
    """
    xp = xp_of(h)
    for h_prev, h_t, P_t in zip(h[:-1], h[1:], P, strict=True):
        z = P_t + h_prev @ U  # [urnn:1/z]
        h_t[:] = value(xp, activation, z, b)  # [urnn:1/h] [goru:2.6]


def unroll_back(
    cell: Elman, weights: Weights, tape: Tape, dh: Array, dh_T: Array | None = None, loops: ModuleType = device
) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    library = library_of(dh, dh_T, *weights.values())
    xp, loop = library.xp, loops.backward_loop if launches(library) else backward_loop
    x, h = tape.x, tape.h
    U = xp.ascontiguousarray(weights["U"])
    dU, db = xp.zeros_like(U), xp.zeros_like(weights["b"])
    inputs = sequence.InputGradients(weights["W"][None], x)
    g = sequence.last_cotangent(dh, dh_T)
    for t in sequence.chunks(dh):
        F = sequence.derivative(cell.activation, h[1:][t])  # [bp:rnn/1]
        dz = xp.empty((1, *F.shape), F.dtype)
        loop(g, dh[t], dz[0], F, U)
        dU += sequence.recurrent_gradients(dz[0], h[:-1][t])  # [bp:rnn/2]
        if not sequence.bias_before(cell.activation):
            db += sequence.inside_bias_gradient(h[1:][t], dz[0]).sum(axis=(0, 1))  # [bp:rnn/1]
        inputs.add(t, dz)  # [bp:bptt/W]
    dW, db_before = inputs.sums()
    dweights = {"W": dW[0], "U": dU, "b": db_before[0] if sequence.bias_before(cell.activation) else db}
    return SequenceGradients(dweights, inputs.dx, g)


def backward_loop(g: Array, dh: Array, dz: Array, F: Array, U: Array) -> None:
    """Back through a chunk of time.

    g (B, n) is carried on in place, dz written to; dh, dz and F = Phi'(z) are (steps, B, n).
    """
    for dh_t, dz_t, F_t in reversed(list(zip(dh, dz, F, strict=True))):
        dz_t[:] = (g + dh_t) * F_t  # [bp:bptt/g] [bp:rnn/1]
        g[:] = dz_t @ U  # [bp:rnn/2]
