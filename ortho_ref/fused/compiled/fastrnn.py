"""`cells/fastrnn.py` for a whole sequence, compiled; `scan` holds it (test_compiled)."""

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.fastrnn import FastRNN
from ortho_ref.fused.compiled import sequence
from ortho_ref.fused.compiled.jit import compiled
from ortho_ref.fused.compiled.sequence import PHI, Span, activate, derivative, recur, recur_back, sum_up
from ortho_ref.fused.sequence import Tape, initial_state
from ortho_ref.scan import SequenceGradients


def unroll(cell: FastRNN, weights: Weights, x: Array, h0: Array | None = None) -> tuple[Array, Tape]:
    """States (T+1, B, n) and the tape; see `fused.forward`."""
    h, U = initial_state(x, weights["W"].T, h0), sequence.packed(weights["U"])
    shape, b = (*x.shape[:2], h.shape[2]), np.ascontiguousarray(weights["b"])
    f = np.empty(shape, h.dtype)
    alpha, beta = (gate[()] for gate in cell.gates(weights))  # [sgornn:1/gates] [sgornn:3]

    def loop(t: Span, q: Span, a: Array) -> None:
        forward_loop(PHI[cell.activation], *t, *q, alpha, beta, a, h, f, U, b)

    sequence.forward(loop, sequence.inputs_of_one(weights, cell.activation, x), shape)
    return h, Tape(cell, shape, x, f[None], h)


@compiled
def forward_loop(
    phi: int, t0: int, t1: int, q0: int, q1: int,
    alpha: float, beta: float, a: Array, h: Array, f: Array, U: Array, b: Array,
) -> None:  # fmt: skip
    """From a = W x + b, without b for modrelu, to f and h."""
    n = h.shape[2]
    for t in range(t0, t1):
        recur(h[t, q0:q1], U, a[0, t - t0])  # [sgornn:1/z]
        for k in range(q0, q1):
            h_prev, h_t, f_t = h[t, k], h[t + 1, k], f[t, k]
            activate(phi, a[0, t - t0, k - q0], b, f_t)  # [sgornn:1/f]
            for j in range(n):
                h_t[j] = alpha * f_t[j] + beta * h_prev[j]  # [sgornn:1/h]


def unroll_back(cell: FastRNN, weights: Weights, tape: Tape, dh: Array, dh_T: Array | None = None) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    n, h, U = tape.shape[2], tape.h, sequence.packed(weights["U"], back=True)
    g, dh = sequence.cotangent(dh, dh_T), sequence.plain(dh, h)
    inputs = sequence.InputGradients(weights["W"][None], tape.x)
    alpha, beta = (gate[()] for gate in cell.gates(weights))  # [sgornn:1/gates] [sgornn:3]

    def loop(t: Span, q: Span, dz: Array, dU: Array, db: Array, dalpha: Array, dbeta: Array) -> None:
        backward_loop(PHI[cell.activation], *t, *q, alpha, beta, h, tape.gates[0], dh, U, g, dz, dU, db, dalpha, dbeta)

    shapes = [sequence.shape_of_sums(U, g), (n,), (n,), (n,)]
    dU, db_inside, dalpha, dbeta = sequence.backward(loop, inputs, tape.shape, shapes)
    dW, db = sequence.sums_of_one(inputs, cell.activation, db_inside)
    gates = cell.gates_pullback(weights, dalpha.sum(), dbeta.sum())  # [bp:fastrnn/4] [bp:fastrnn/5]
    dweights = {"W": dW, "U": sequence.gradient_of_one(weights["U"], U, dU), "b": db} | gates
    return SequenceGradients(dweights, inputs.dx, sequence.cut(g, n))


@compiled
def backward_loop(
    phi: int, t0: int, t1: int, q0: int, q1: int,
    alpha: float, beta: float, h: Array, f: Array, dh: Array, U: Array,
    g: Array, dz: Array, dU: Array, db: Array, dalpha: Array, dbeta: Array,
) -> None:  # fmt: skip
    """Carries g, all of dL/dh, to the chunk's beginning; dalpha and dbeta (n,) are sums by unit."""
    n, zero = h.shape[2], h.dtype.type(0)
    for t in range(t1 - 1, t0 - 1, -1):
        for k in range(q0, q1):
            g_k, dh_t, h_prev, f_t, dz_t = g[k], dh[t, k], h[t, k], f[t, k], dz[0, t - t0, k - q0]
            for j in range(n):
                g_k[j] += dh_t[j]  # [bp:bptt/g]
            for j in range(n):
                dz_t[j] = g_k[j] * alpha * derivative(phi, f_t[j])  # [bp:fastrnn/1]
            for j in range(n):
                db[j] += dz_t[j] if f_t[j] > zero else -dz_t[j]  # [bp:fastrnn/1]
            for j in range(n):
                dalpha[j] += g_k[j] * f_t[j]  # [bp:fastrnn/3]
            for j in range(n):
                dbeta[j] += g_k[j] * h_prev[j]  # [bp:fastrnn/3]
            for j in range(n):
                g_k[j] *= beta  # [bp:fastrnn/2]
        recur_back(h[t, q0:q1], dz[0, t - t0], U, g[q0:q1], True, dU[0])  # [bp:fastrnn/2]
    sum_up(U, t0, t1, q0, q1, h, dz[0], dU[0])  # [bp:fastrnn/2]
