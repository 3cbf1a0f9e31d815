"""`cells/lstm.py` for a whole sequence, fast; `scan` holds it (test_fused).

The gates are kept in the order o, i, f, g.

Forward
    P: W x_t + b for all t; of o, i, f -W, -U, -b          [bp:bptt/W]
    o, i, f = 1 / (1 + exp(P + U h_{t-1}))                 [bp:lstm/o] [bp:lstm/i] [bp:lstm/f]
    g = tanh(P + U h_{t-1})                                [bp:lstm/g]
    c_t = f_t * c_{t-1} + i_t * g_t                        [bp:lstm/c]
    h_t = o_t * y_t,  y_t = tanh(c_t)                      [bp:lstm/h]

Backward, dh and dc = all of dL/dh_t and dL/dc_t; F are factors formed chunk by chunk
    dh += dh_t of the loss's own                           [bp:bptt/g]
    da_o = dh * F_o, F_o = y * o * (1 - o)                 [bp:lstm/1] [bp:lstm/4]
    dc += dh * F_y,  F_y = o * (1 - y^2)                   [bp:lstm/1]
    da_i, da_f, da_g = dc * F,  F_i = g * i * (1 - i), F_f = c_prev * f * (1 - f), F_g = i * (1 - g^2)
                                                           [bp:lstm/2] [bp:lstm/4]
    dc <- dc * f                                           [bp:lstm/3]
    dh <- sum over gates of U^T da;  dU = da h_prev^T      [bp:lstm/5]
    dW, db, dx                                             [bp:bptt/W]
"""

import functools
from types import ModuleType

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.cells.cell import Weights, state_of
from ortho_ref.cells.lstm import LSTM
from ortho_ref.fused import sequence
from ortho_ref.fused.kernels import launches
from ortho_ref.fused.kernels import lstm as device
from ortho_ref.fused.layout import Rows, layout_of
from ortho_ref.fused.sequence import Tape
from ortho_ref.scan import SequenceGradients

Pair = tuple[Array, Array]
GATES = "oifg"


def unroll(
    cell: LSTM, weights: Weights, x: Array, h0: Pair | None = None, loops: ModuleType = device
) -> tuple[Pair, Tape]:
    """States (h, c), each (T+1, B, n), and the tape; see `fused.forward`."""
    h0, c0 = (None, None) if h0 is None else h0
    library = library_of(x, h0, c0, *weights.values())
    W, b, U = (sequence.stack(weights, kind, GATES, negated=3) for kind in "WbU")
    layout = layout_of(x, U, one_product=True)
    h, P = layout.begin(W, b, x, h0)  # [bp:bptt/W]
    c = layout.initial_state(x, W, c0)
    y = library.xp.empty_like(P[0])
    loop = loops.forward_loop if launches(library) else functools.partial(forward_loop, layout)
    with sequence.overflow():
        loop(h, c, y, P, layout.factor(U, W, b))
    h = layout.rows(h)
    return state_of((h, layout.rows(c))), Tape(cell, (*x.shape[:2], U.shape[-1]), x, P, h, c, y)


def forward_loop(layout: Rows, h: Array, c: Array, y: Array, P: Array, U: Array) -> None:
    """Over time: h[1:] and c[1:] (T, slab) from h[0] and c[0], y = tanh(c), and o, i, f, g in place of their P.

    P (4, T, slab) is W x + b of o, i, f, times -1, and of g; U the layout's factor of -U of o, i, f, and U of g.
    """
    xp = xp_of(h)
    add_U, ig, sigmoid = layout.product(U, P[:, 0]), xp.empty_like(P[0, 0]), sequence.sigmoid_in_place(P)
    by_step = zip(layout.reads(h), c[:-1], h[1:], c[1:], y, P.swapaxes(0, 1), strict=True)
    for h_prev, c_prev, h_t, c_t, y_t, gates in by_step:
        add_U(h_prev, gates)  # [bp:lstm/o] [bp:lstm/i] [bp:lstm/f] [bp:lstm/g]
        o, i, f, g = gates
        sigmoid(gates[:3])  # [bp:lstm/o] [bp:lstm/i] [bp:lstm/f]
        xp.tanh(g, out=g)  # [bp:lstm/g]
        xp.multiply(f, c_prev, out=c_t)  # [bp:lstm/c]
        xp.multiply(i, g, out=ig)  # [bp:lstm/c]
        xp.add(c_t, ig, out=c_t)  # [bp:lstm/c]
        xp.tanh(c_t, out=y_t)  # [bp:lstm/h]
        xp.multiply(o, y_t, out=h_t)  # [bp:lstm/h]


def unroll_back(
    cell: LSTM,
    weights: Weights,
    tape: Tape,
    dh: Array,
    dh_T: Pair | None = None,
    loops: ModuleType = device,
) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    dh_last, dc_last = (None, None) if dh_T is None else dh_T
    library = library_of(dh, dh_last, dc_last, *weights.values())
    x, (o, i, f, g), h, c, y = tape.x, tape.gates, tape.h, tape.c, tape.y
    U = sequence.stack(weights, "U", GATES)
    xp, layout = library.xp, layout_of(x, U, one_product=True)
    loop = loops.backward_loop if launches(library) else functools.partial(backward_loop, layout)
    dU, U_back = xp.zeros_like(U), layout.factor_back(U)
    inputs = sequence.InputGradients(sequence.stack(weights, "W", GATES), x)
    steps, chunks = sequence.chunks(h[1:])
    dh_t, dc_t = (layout.slabs(sequence.last_cotangent(dh, last)) for last in (dh_last, dc_last))
    da_chunk = layout.chunk(4, steps, dh_t)
    for t in chunks:
        F_o = 1 - o[t]
        F_o *= o[t]
        F_o *= y[t]  # [bp:lstm/1] [bp:lstm/4]
        F_y = y[t] * y[t]
        xp.subtract(1, F_y, out=F_y)
        F_y *= o[t]  # [bp:lstm/1]
        F = xp.empty_like(tape.gates[1:, t])
        xp.subtract(1, tape.gates[1:3, t], out=F[:2])
        F[:2] *= tape.gates[1:3, t]
        F[0] *= g[t]  # [bp:lstm/2] [bp:lstm/4]
        F[1] *= c[:-1][t]  # [bp:lstm/2] [bp:lstm/4]
        xp.multiply(g[t], g[t], out=F[2])
        xp.subtract(1, F[2], out=F[2])
        F[2] *= i[t]  # [bp:lstm/2] [bp:lstm/4]
        da = da_chunk[:, : len(F_o)]
        loop(dh_t, dc_t, layout.slabs(dh[t]), da, F, F_o, F_y, f[t], U_back)
        da = layout.gathered(da)
        dU += sequence.recurrent_gradients(da, h[:-1][t])  # [bp:lstm/5]
        inputs.add(t, da)  # [bp:bptt/W]
    dW, db = inputs.sums()
    dweights: Weights = {}
    for kind, stacked in (("W", dW), ("U", dU), ("b", db)):
        dweights |= sequence.unstack(kind, GATES, stacked)
    return SequenceGradients(dweights, inputs.dx, (layout.rows(dh_t), layout.rows(dc_t)))


def backward_loop(
    layout: Rows,
    dh_t: Array,
    dc_t: Array,
    dh: Array,
    da: Array,
    F: Array,
    F_o: Array,
    F_y: Array,
    f: Array,
    U: Array,
) -> None:
    """Back through a chunk of time.

    dh_t and dc_t (slab), all of dL/dh at its end without dh's and of dL/dc but what comes through h, are carried on in
    place; da (4, steps, slab) of o, i, f, g is written to.  F are the factors of i, f, g, F_o and F_y those of o and y.
    """
    xp = xp_of(dh_t)
    dy, back = xp.empty_like(dh_t), layout.product_back(U, da[:, 0])
    by_step = zip(dh, da.swapaxes(0, 1), F_o, F_y, F.swapaxes(0, 1), f, strict=True)
    for dh_own, da_t, F_o_t, F_y_t, F_t, f_t in reversed(list(by_step)):
        xp.add(dh_t, dh_own, out=dh_t)  # [bp:bptt/g]
        xp.multiply(dh_t, F_o_t, out=da_t[0])  # [bp:lstm/1] [bp:lstm/4]
        xp.multiply(dh_t, F_y_t, out=dy)  # [bp:lstm/1]
        xp.add(dc_t, dy, out=dc_t)  # [bp:lstm/1]
        xp.multiply(dc_t, F_t, out=da_t[1:])  # [bp:lstm/2] [bp:lstm/4]
        xp.multiply(dc_t, f_t, out=dc_t)  # [bp:lstm/3]
        back(da_t, dh_t)  # [bp:lstm/5]
