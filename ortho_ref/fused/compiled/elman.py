"""`cells/elman.py` for a whole sequence, compiled; `scan` holds it (test_compiled)."""

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.elman import Elman
from ortho_ref.fused.compiled import sequence
from ortho_ref.fused.compiled.jit import compiled
from ortho_ref.fused.compiled.sequence import PHI, Span, activate, derivative, recur, recur_back, sum_up
from ortho_ref.fused.sequence import Tape, initial_state
from ortho_ref.scan import SequenceGradients


def unroll(cell: Elman, weights: Weights, x: Array, h0: Array | None = None) -> tuple[Array, Tape]:
    """States (T+1, B, n) and the tape; see `fused.forward`."""
    h, U = initial_state(x, weights["W"].T, h0), sequence.packed(weights["U"])
    shape, b = (*x.shape[:2], h.shape[2]), np.ascontiguousarray(weights["b"])

    def loop(t: Span, q: Span, a: Array) -> None:
        forward_loop(PHI[cell.activation], *t, *q, a, h, U, b)

    sequence.forward(loop, sequence.inputs_of_one(weights, cell.activation, x), shape)
    return h, Tape(cell, shape, x, None, h)


@compiled
def forward_loop(phi: int, t0: int, t1: int, q0: int, q1: int, a: Array, h: Array, U: Array, b: Array) -> None:
    """From a = W x + b, without b for modrelu, to h."""
    for t in range(t0, t1):
        recur(h[t, q0:q1], U, a[0, t - t0])  # [urnn:1/z]
        for k in range(q0, q1):
            activate(phi, a[0, t - t0, k - q0], b, h[t + 1, k])  # [urnn:1/h] [goru:2.6]


def unroll_back(cell: Elman, weights: Weights, tape: Tape, dh: Array, dh_T: Array | None = None) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    n, h, U = tape.shape[2], tape.h, sequence.packed(weights["U"], back=True)
    g, dh = sequence.cotangent(dh, dh_T), sequence.plain(dh, h)
    inputs = sequence.InputGradients(weights["W"][None], tape.x)

    def loop(t: Span, q: Span, dz: Array, dU: Array, db: Array) -> None:
        backward_loop(PHI[cell.activation], *t, *q, h, dh, U, g, dz, dU, db)

    dU, db_inside = sequence.backward(loop, inputs, tape.shape, [sequence.shape_of_sums(U, g), (n,)])
    dW, db = sequence.sums_of_one(inputs, cell.activation, db_inside)
    return SequenceGradients(
        {"W": dW, "U": sequence.gradient_of_one(weights["U"], U, dU), "b": db}, inputs.dx, sequence.cut(g, n)
    )


@compiled
def backward_loop(
    phi: int, t0: int, t1: int, q0: int, q1: int,
    h: Array, dh: Array, U: Array, g: Array, dz: Array, dU: Array, db: Array,
) -> None:  # fmt: skip
    """Carries g, all of dL/dh, to the chunk's beginning."""
    n, zero = h.shape[2], h.dtype.type(0)
    for t in range(t1 - 1, t0 - 1, -1):
        for k in range(q0, q1):
            g_k, dh_t, h_t, dz_t = g[k], dh[t, k], h[t + 1, k], dz[0, t - t0, k - q0]
            for j in range(n):
                dz_t[j] = (g_k[j] + dh_t[j]) * derivative(phi, h_t[j])  # [bp:bptt/g] [bp:rnn/1]
            for j in range(n):
                db[j] += dz_t[j] if h_t[j] > zero else -dz_t[j]  # [bp:rnn/1]
        recur_back(h[t, q0:q1], dz[0, t - t0], U, g[q0:q1], False, dU[0])  # [bp:rnn/2]
    sum_up(U, t0, t1, q0, q1, h, dz[0], dU[0])  # [bp:rnn/2]
