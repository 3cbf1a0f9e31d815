"""`cells/lstm.py` for a whole sequence, compiled; `scan` holds it (test_compiled).

The gates are kept in the order o, i, f, g.
"""

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.cells.cell import Weights, state_of
from ortho_ref.cells.lstm import LSTM
from ortho_ref.fused.compiled import sequence
from ortho_ref.fused.compiled.jit import compiled
from ortho_ref.fused.compiled.products import product
from ortho_ref.fused.compiled.sequence import Span, open_gate, recurrent_gradient, tanh_of
from ortho_ref.fused.lstm import GATES, Pair
from ortho_ref.fused.sequence import Tape, initial_state, stack, unstack
from ortho_ref.scan import SequenceGradients


def unroll(cell: LSTM, weights: Weights, x: Array, h0: Pair | None = None) -> tuple[Pair, Tape]:
    """States (h, c), each (T+1, B, n), and the tape; see `fused.forward`."""
    W, b, U = stack(weights, "W", GATES), stack(weights, "b", GATES), sequence.packed(stack(weights, "U", GATES))
    h, c = (initial_state(x, weights["U_o"], own) for own in ((None, None) if h0 is None else h0))
    shape = (*x.shape[:2], h.shape[2])
    gates, y = np.empty((4, *shape), h.dtype), np.empty(shape, h.dtype)

    def loop(t: Span, q: Span, a: Array) -> None:
        forward_loop(*t, *q, a, h, c, y, *gates, U)

    sequence.forward(loop, sequence.Inputs(W, b, x), shape)
    return state_of((h, c)), Tape(cell, shape, x, gates, h, c, y)


@compiled
def forward_loop(
    t0: int, t1: int, q0: int, q1: int,
    a: Array, h: Array, c: Array, y: Array, o: Array, i: Array, f: Array, g: Array, U: Array,
) -> None:  # fmt: skip
    """From a = W x + b to o, i, f, g, c, y = tanh(c) and h."""
    n = h.shape[2]
    for t in range(t0, t1):
        for gate in range(4):
            product(h[t, q0:q1], U[gate], a[gate, t - t0], n, True)  # [bp:lstm/o] [bp:lstm/i] [bp:lstm/f] [bp:lstm/g]
        for k in range(q0, q1):
            own = t - t0, k - q0
            a_o, a_i, a_f, a_g = a[0, own[0], own[1]], a[1, own[0], own[1]], a[2, own[0], own[1]], a[3, own[0], own[1]]
            o_t, i_t, f_t, g_t, y_t = o[t, k], i[t, k], f[t, k], g[t, k], y[t, k]
            c_prev, c_t, h_t = c[t, k], c[t + 1, k], h[t + 1, k]
            open_gate(a_o, o_t)  # [bp:lstm/o]
            open_gate(a_i, i_t)  # [bp:lstm/i]
            open_gate(a_f, f_t)  # [bp:lstm/f]
            tanh_of(a_g, g_t)  # [bp:lstm/g]
            for j in range(n):
                c_t[j] = f_t[j] * c_prev[j] + i_t[j] * g_t[j]  # [bp:lstm/c]
            for j in range(n):
                a_g[j] = c_t[j]
            tanh_of(a_g, y_t)  # [bp:lstm/h]
            for j in range(n):
                h_t[j] = o_t[j] * y_t[j]  # [bp:lstm/h]


def unroll_back(cell: LSTM, weights: Weights, tape: Tape, dh: Array, dh_T: Pair | None = None) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    n, h, U = tape.shape[2], tape.h, sequence.packed(stack(weights, "U", GATES), back=True)
    dh_t, dc_t = (sequence.cotangent(dh, own) for own in ((None, None) if dh_T is None else dh_T))
    dh, inputs = sequence.plain(dh, h), sequence.gradients_of(weights, GATES, tape.x)

    def loop(t: Span, q: Span, da: Array, dU: Array) -> None:
        backward_loop(*t, *q, h, tape.c, tape.y, *tape.gates, dh, U, dh_t, dc_t, da, dU)

    (dU,) = sequence.backward(loop, inputs, tape.shape, [(4, n, dh_t.shape[1])])
    dW, db = inputs.sums()
    dweights = unstack("W", GATES, dW) | unstack("U", GATES, sequence.recurrent_gradients(dU)) | unstack("b", GATES, db)
    return SequenceGradients(dweights, inputs.dx, state_of((sequence.cut(dh_t, n), sequence.cut(dc_t, n))))


@compiled
def backward_loop(
    t0: int, t1: int, q0: int, q1: int,
    h: Array, c: Array, y: Array, o: Array, i: Array, f: Array, g: Array, dh: Array, U: Array,
    dh_all: Array, dc_all: Array, da: Array, dU: Array,
) -> None:  # fmt: skip
    """Carries all of dL/dh, and all of dL/dc but what comes through h, to the chunk's beginning."""
    n, one = h.shape[2], h.dtype.type(1)
    for t in range(t1 - 1, t0 - 1, -1):
        for k in range(q0, q1):
            own = t - t0, k - q0
            da_o, da_i = da[0, own[0], own[1]], da[1, own[0], own[1]]
            da_f, da_g = da[2, own[0], own[1]], da[3, own[0], own[1]]
            o_t, i_t, f_t, g_t, y_t, c_prev = o[t, k], i[t, k], f[t, k], g[t, k], y[t, k], c[t, k]
            dh_own, dh_t, dc_t = dh[t, k], dh_all[k], dc_all[k]
            for j in range(n):
                dh_t[j] += dh_own[j]  # [bp:bptt/g]
            for j in range(n):
                da_o[j] = dh_t[j] * y_t[j] * o_t[j] * (one - o_t[j])  # [bp:lstm/1] [bp:lstm/4]
            for j in range(n):
                dc_t[j] += dh_t[j] * o_t[j] * (one - y_t[j] * y_t[j])  # [bp:lstm/1]
            for j in range(n):
                da_i[j] = dc_t[j] * g_t[j] * i_t[j] * (one - i_t[j])  # [bp:lstm/2] [bp:lstm/4]
            for j in range(n):
                da_f[j] = dc_t[j] * c_prev[j] * f_t[j] * (one - f_t[j])  # [bp:lstm/2] [bp:lstm/4]
            for j in range(n):
                da_g[j] = dc_t[j] * i_t[j] * (one - g_t[j] * g_t[j])  # [bp:lstm/2] [bp:lstm/4]
            for j in range(n):
                dc_t[j] *= f_t[j]  # [bp:lstm/3]
        for gate in range(4):
            product(da[gate, t - t0, :, :n], U[gate], dh_all[q0:q1], n, gate > 0)  # [bp:lstm/5]
    for gate in range(4):
        recurrent_gradient(t0, t1, q0, q1, h, da[gate], dU[gate])  # [bp:lstm/5]
