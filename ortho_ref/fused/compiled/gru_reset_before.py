"""`cells/gru_reset_before.py` for a whole sequence, compiled; `scan` holds it (test_compiled)."""

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.gru_reset_before import GRUResetBefore
from ortho_ref.fused.compiled import sequence
from ortho_ref.fused.compiled.jit import compiled
from ortho_ref.fused.compiled.products import outer, product, rows_like
from ortho_ref.fused.compiled.sequence import PHI, Span, activate, derivative, open_gate, recurrent_gradient
from ortho_ref.fused.sequence import Tape, bias_before, initial_state, stack, unstack
from ortho_ref.scan import SequenceGradients

GATES = "ruc"


def unroll(cell: GRUResetBefore, weights: Weights, x: Array, h0: Array | None = None) -> tuple[Array, Tape]:
    """States (T+1, B, n) and the tape; see `fused.forward`."""
    W, b, b_c = stack(weights, "W", GATES), stack(weights, "b", GATES), np.ascontiguousarray(weights["b_c"])
    if not bias_before(cell.activation):
        b[2] = 0
    h, U = initial_state(x, weights["U_c"], h0), sequence.packed(stack(weights, "U", GATES))
    shape = (*x.shape[:2], h.shape[2])
    gates = np.empty((3, *shape), h.dtype)

    def loop(t: Span, q: Span, a: Array) -> None:
        forward_loop(PHI[cell.activation], *t, *q, a, h, *gates, U, b_c)

    sequence.forward(loop, sequence.Inputs(W, b, x), shape)
    return h, Tape(cell, shape, x, gates, h)


@compiled
def forward_loop(
    phi: int, t0: int, t1: int, q0: int, q1: int,
    a: Array, h: Array, r: Array, u: Array, c: Array, U: Array, b_c: Array,
) -> None:  # fmt: skip
    """From a = W x + b, without b_c for modrelu, to r, u, c and h."""
    n = h.shape[2]
    s = np.empty((q1 - q0, n), h.dtype)
    for t in range(t0, t1):
        product(h[t, q0:q1], U[0], a[0, t - t0], n, True)  # [ncgru:1/r]
        product(h[t, q0:q1], U[1], a[1, t - t0], n, True)  # [ncgru:1/u]
        for k in range(q0, q1):
            h_prev, r_t, u_t, a_r, a_u = h[t, k], r[t, k], u[t, k], a[0, t - t0, k - q0], a[1, t - t0, k - q0]
            open_gate(a_r, r_t)  # [ncgru:1/r]
            open_gate(a_u, u_t)  # [ncgru:1/u]
            for j in range(n):
                s[k - q0, j] = r_t[j] * h_prev[j]  # [ncgru:1/s]
        product(s, U[2], a[2, t - t0], n, True)  # [ncgru:35]
        for k in range(q0, q1):
            h_prev, h_t, u_t, c_t = h[t, k], h[t + 1, k], u[t, k], c[t, k]
            activate(phi, a[2, t - t0, k - q0], b_c, c_t)  # [ncgru:1/c] [ncgru:19/c]
            for j in range(n):
                h_t[j] = h_prev[j] + u_t[j] * (c_t[j] - h_prev[j])  # [ncgru:1/h]


def unroll_back(
    cell: GRUResetBefore, weights: Weights, tape: Tape, dh: Array, dh_T: Array | None = None
) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    n, h, U = tape.shape[2], tape.h, sequence.packed(stack(weights, "U", GATES), back=True)
    g, dh, inputs = sequence.cotangent(dh, dh_T), sequence.plain(dh, h), sequence.gradients_of(weights, GATES, tape.x)

    def loop(t: Span, q: Span, da: Array, dU: Array, db_c: Array) -> None:
        backward_loop(PHI[cell.activation], *t, *q, h, *tape.gates, dh, U, g, da, dU, db_c)

    dU, db_c = sequence.backward(loop, inputs, tape.shape, [(3, n, g.shape[1]), (n,)])
    dW, db = inputs.sums()
    if not bias_before(cell.activation):
        db[2] = db_c
    dweights = unstack("W", GATES, dW) | unstack("U", GATES, sequence.recurrent_gradients(dU)) | unstack("b", GATES, db)
    return SequenceGradients(dweights, inputs.dx, sequence.cut(g, n))


@compiled
def backward_loop(
    phi: int, t0: int, t1: int, q0: int, q1: int,
    h: Array, r: Array, u: Array, c: Array, dh: Array, U: Array,
    g: Array, da: Array, dU: Array, db_c: Array,
) -> None:  # fmt: skip
    """Carries g, all of dL/dh, to the chunk's beginning."""
    n, one, zero = h.shape[2], h.dtype.type(1), h.dtype.type(0)
    s, ds = np.empty((t1 - t0, q1 - q0, n), h.dtype), rows_like(q1 - q0, n, h)
    for t in range(t1 - 1, t0 - 1, -1):
        for k in range(q0, q1):
            g_k, dh_t, h_prev, u_t, c_t = g[k], dh[t, k], h[t, k], u[t, k], c[t, k]
            da_u, da_c = da[1, t - t0, k - q0], da[2, t - t0, k - q0]
            for j in range(n):
                g_k[j] += dh_t[j]  # [bp:bptt/g]
            for j in range(n):
                da_u[j] = g_k[j] * (c_t[j] - h_prev[j]) * u_t[j] * (one - u_t[j])  # [bp:gru1/1] [bp:gru1/4]
            for j in range(n):
                da_c[j] = g_k[j] * u_t[j] * derivative(phi, c_t[j])  # [bp:gru1/1] [bp:gru1/2]
            for j in range(n):
                db_c[j] += da_c[j] if c_t[j] > zero else -da_c[j]  # [bp:gru1/2]
            for j in range(n):
                g_k[j] *= one - u_t[j]  # [bp:gru1/1]
        product(da[2, t - t0, :, :n], U[2], ds, n, False)  # [bp:gru1/2]
        for k in range(q0, q1):
            g_k, h_prev, r_t, s_t, ds_t = g[k], h[t, k], r[t, k], s[t - t0, k - q0], ds[k - q0]
            da_r = da[0, t - t0, k - q0]
            for j in range(n):
                s_t[j] = r_t[j] * h_prev[j]  # [ncgru:1/s]
            for j in range(n):
                da_r[j] = ds_t[j] * s_t[j] * (one - r_t[j])  # [bp:gru1/3] [bp:gru1/4]
            for j in range(n):
                g_k[j] += ds_t[j] * r_t[j]  # [bp:gru1/3]
        product(da[0, t - t0, :, :n], U[0], g[q0:q1], n, True)  # [bp:gru1/5]
        product(da[1, t - t0, :, :n], U[1], g[q0:q1], n, True)  # [bp:gru1/5]
    recurrent_gradient(t0, t1, q0, q1, h, da[0], dU[0])  # [bp:gru1/5]
    recurrent_gradient(t0, t1, q0, q1, h, da[1], dU[1])  # [bp:gru1/5]
    outer(s, da[2, : t1 - t0, :, :n], dU[2])  # [bp:gru1/2]
