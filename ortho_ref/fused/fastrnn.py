"""`cells/fastrnn.py` for a whole sequence, fast; `scan` holds it (test_fused).

Forward
    alpha_t, beta_t, clipped                               [sgornn:1/gates] [sgornn:3]
    P: W x_t + b for all t                                 [bp:bptt/W]
    z_t = P + U h_{t-1}                                    [sgornn:1/z]
    f_t = Phi(z_t, b)                                      [sgornn:1/f]
    h_t = alpha_t f_t + beta_t h_{t-1}                     [sgornn:1/h]

Backward, g = all of dL/dh_t, kept for a chunk
    g += dh_t                                              [bp:bptt/g]
    dz = g * F,  F = alpha_t Phi'(z)                       [bp:fastrnn/1]
    g <- beta_t g + U^T dz;  dU = sum over t of dz h_prev^T                    [bp:fastrnn/2]
    dalpha_t = sum of g * f    dbeta_t = sum of g * h_prev [bp:fastrnn/3]
    the weights alpha and beta                             [bp:fastrnn/4] [bp:fastrnn/5]
    dW, db, dx                                             [bp:bptt/W]
"""

from types import ModuleType

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.fastrnn import FastRNN
from ortho_ref.fused import sequence
from ortho_ref.fused.kernels import fastrnn as device, launches
from ortho_ref.fused.sequence import Tape, value
from ortho_ref.scan import SequenceGradients


def unroll(
    cell: FastRNN, weights: Weights, x: Array, h0: Array | None = None, loops: ModuleType = device
) -> tuple[Array, Tape]:
    """States (T+1, B, n) and the tape; see `fused.forward`."""
    library = library_of(x, h0, *weights.values())
    P = sequence.input_product(weights["W"], weights["b"], cell.activation, x)  # [bp:bptt/W]
    U = sequence.transposed(weights["U"])
    h = sequence.initial_state(x, U, h0)
    alpha, beta = cell.gates(weights)  # [sgornn:1/gates] [sgornn:3]
    loop = loops.forward_loop if launches(library) else forward_loop
    loop(cell.activation, h, P, U, weights["b"], alpha, beta)
    return h, Tape(cell, (*x.shape[:2], U.shape[-1]), x, P[None], h)


def forward_loop(activation: str, h: Array, P: Array, U: Array, b: Array, alpha: Array, beta: Array) -> None:
    """Over time: h[1:] (T, B, n) from h[0], and f in place of P.

    P (T, B, n) is W x + b, without b for modrelu; U is the weight's transpose.
    """
    xp = xp_of(h)
    for h_prev, h_t, f_t in zip(h[:-1], h[1:], P, strict=True):
        z = f_t + h_prev @ U  # [sgornn:1/z]
        f_t[:] = value(xp, activation, z, b)  # [sgornn:1/f]
        h_t[:] = alpha * f_t + beta * h_prev  # [sgornn:1/h]


def unroll_back(
    cell: FastRNN, weights: Weights, tape: Tape, dh: Array, dh_T: Array | None = None, loops: ModuleType = device
) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    library = library_of(dh, dh_T, *weights.values())
    xp, loop = library.xp, loops.backward_loop if launches(library) else backward_loop
    x, f, h = tape.x, tape.gates[0], tape.h
    U = xp.ascontiguousarray(weights["U"])
    dU, db = xp.zeros_like(U), xp.zeros_like(weights["b"])
    alpha, beta = cell.gates(weights)  # [sgornn:1/gates] [sgornn:3]
    dgates: list[tuple[Array, Array]] = []
    inputs = sequence.InputGradients(weights["W"][None], x)
    last = sequence.last_cotangent(dh, dh_T)
    for t in sequence.chunks(dh):
        F = alpha * sequence.derivative(cell.activation, f[t])  # [bp:fastrnn/1]
        dz, g = xp.empty((1, *F.shape), F.dtype), xp.empty_like(F)
        loop(last, dh[t], g, dz[0], F, U, beta)
        dU += sequence.recurrent_gradients(dz[0], h[:-1][t])  # [bp:fastrnn/2]
        dgates.append(((g * f[t]).sum(), (g * h[:-1][t]).sum()))  # [bp:fastrnn/3]
        if not sequence.bias_before(cell.activation):
            db += sequence.inside_bias_gradient(f[t], dz[0]).sum(axis=(0, 1))  # [bp:fastrnn/1]
        inputs.add(t, dz)  # [bp:bptt/W]
    dW, db_before = inputs.sums()
    dweights = {"W": dW[0], "U": dU, "b": db_before[0] if sequence.bias_before(cell.activation) else db}
    dalpha, dbeta = (xp.stack(parts) for parts in zip(*dgates, strict=True))
    for name, parts in cell.gates_pullback(weights, dalpha, dbeta).items():  # [bp:fastrnn/4] [bp:fastrnn/5]
        dweights[name] = xp.asarray(sum(parts[1:], parts[0]))  # chunk by chunk, as the others
    return SequenceGradients(dweights, inputs.dx, last)


def backward_loop(last: Array, dh: Array, g: Array, dz: Array, F: Array, U: Array, beta: Array) -> None:
    """Back through a chunk of time.

    last (B, n), all of dL/dh at its end without dh's, is carried on in place; g and dz (steps, B, n) are written to. F
    is alpha Phi'(z).
    """
    for dh_t, g_t, dz_t, F_t in reversed(list(zip(dh, g, dz, F, strict=True))):
        g_t[:] = last + dh_t  # [bp:bptt/g]
        dz_t[:] = g_t * F_t  # [bp:fastrnn/1]
        last[:] = beta * g_t + dz_t @ U  # [bp:fastrnn/2]
