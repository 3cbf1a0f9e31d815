"""`cells/lstm.py` for a whole sequence.  The gates are kept in the order o, i, f, g.

Forward
    P: W x_t + b for all t; W, U, b of o, i, f are halved  [bp:bptt/W]
    o, i, f = 0.5 + 0.5 tanh(P + U h_{t-1})                [bp:lstm/o] [bp:lstm/i] [bp:lstm/f]
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

from typing import Any

from ortho_ref.backend import Array, fuses, kernel, library_of
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.lstm import LSTM
from ortho_ref.fused import sequence
from ortho_ref.fused.sequence import Tape
from ortho_ref.scan import SequenceGradients

Pair = tuple[Array, Array]
GATES = "oifg"


def _state(
    xp: Any, o: Array, i: Array, f: Array, g: Array, Uh_o: Array, Uh_i: Array, Uh_f: Array, Uh_g: Array, *states: Array
) -> None:
    c_prev, c, y, h = states
    o[...] = sequence.sigmoid(xp, o + Uh_o)  # [bp:lstm/o]
    i[...] = sequence.sigmoid(xp, i + Uh_i)  # [bp:lstm/i]
    f[...] = sequence.sigmoid(xp, f + Uh_f)  # [bp:lstm/f]
    g[...] = xp.tanh(g + Uh_g)  # [bp:lstm/g]
    c[...] = f * c_prev + i * g  # [bp:lstm/c]
    y[...] = xp.tanh(c)  # [bp:lstm/h]
    h[...] = o * y  # [bp:lstm/h]


def _meet(xp: Any, dh: Array, dc: Array, dh_own: Array, f: Array, *of_gates: Array) -> None:
    F_o, F_y, F_i, F_f, F_g, da_o, da_i, da_f, da_g = of_gates
    dh[...] = dh + dh_own  # [bp:bptt/g]
    da_o[...] = dh * F_o  # [bp:lstm/1] [bp:lstm/4]
    dc[...] = dc + dh * F_y  # [bp:lstm/1]
    da_i[...] = dc * F_i  # [bp:lstm/2] [bp:lstm/4]
    da_f[...] = dc * F_f  # [bp:lstm/2] [bp:lstm/4]
    da_g[...] = dc * F_g  # [bp:lstm/2] [bp:lstm/4]
    dc[...] = dc * f  # [bp:lstm/3]


def _carry(xp: Any, dh: Array, Uda_o: Array, Uda_i: Array, Uda_f: Array, Uda_g: Array) -> None:
    dh[...] = Uda_o + Uda_i + Uda_f + Uda_g  # [bp:lstm/5]


def forward(cell: LSTM, weights: Weights, x: Array, h0: Pair | None = None) -> tuple[Pair, Tape]:
    """States (h, c), each (T+1, B, n), and the tape; see `fused.forward`."""
    h0, c0 = (None, None) if h0 is None else h0
    library = library_of(x, h0, c0, *weights.values())
    xp = library.xp
    W, b = (sequence.stack(weights, kind, GATES, halved=3) for kind in "Wb")
    U = sequence.transposed(sequence.stack(weights, "U", GATES, halved=3))
    P = sequence.input_products(W, b, x)  # [bp:bptt/W]
    h, c = sequence.initial_state(x, U, h0), sequence.initial_state(x, U, c0)
    y = xp.empty_like(P[0])
    Uh, ig, half = xp.empty_like(P[:, 0]), xp.empty_like(P[0, 0]), xp.full((), 0.5, P.dtype)
    if fuses(library):
        state, Uh_of = kernel(library, _state), tuple(Uh)
        for h_prev, h_t, *gates, c_prev, c_t, y_t in zip(h[:-1], h[1:], *P, c[:-1], c[1:], y, strict=True):
            xp.matmul(h_prev, U, out=Uh)  # [bp:lstm/o] [bp:lstm/i] [bp:lstm/f] [bp:lstm/g]
            state(*gates, *Uh_of, c_prev, c_t, y_t, h_t)
        return (h, c), Tape(x, P, h, c, y)
    for h_prev, c_prev, h_t, c_t, y_t, gates in zip(h[:-1], c[:-1], h[1:], c[1:], y, P.swapaxes(0, 1), strict=True):
        xp.matmul(h_prev, U, out=Uh)  # [bp:lstm/o] [bp:lstm/i] [bp:lstm/f] [bp:lstm/g]
        xp.add(gates, Uh, out=gates)  # [bp:lstm/o] [bp:lstm/i] [bp:lstm/f] [bp:lstm/g]
        xp.tanh(gates, out=gates)  # [bp:lstm/o] [bp:lstm/i] [bp:lstm/f] [bp:lstm/g]
        oif = gates[:3]
        xp.multiply(oif, half, out=oif)  # [bp:lstm/o] [bp:lstm/i] [bp:lstm/f]
        xp.add(oif, half, out=oif)  # [bp:lstm/o] [bp:lstm/i] [bp:lstm/f]
        o, i, f, g = gates
        xp.multiply(f, c_prev, out=c_t)  # [bp:lstm/c]
        xp.multiply(i, g, out=ig)  # [bp:lstm/c]
        xp.add(c_t, ig, out=c_t)  # [bp:lstm/c]
        xp.tanh(c_t, out=y_t)  # [bp:lstm/h]
        xp.multiply(o, y_t, out=h_t)  # [bp:lstm/h]
    return (h, c), Tape(x, P, h, c, y)


def backward(cell: LSTM, weights: Weights, tape: Tape, dh: Array, dh_T: Pair | None = None) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    dh_last, dc_last = (None, None) if dh_T is None else dh_T
    library = library_of(dh, dh_last, dc_last, *weights.values())
    xp = library.xp
    x, (o, i, f, g), h, c, y = tape.x, tape.gates, tape.h, tape.c, tape.y
    U = sequence.stack(weights, "U", GATES)
    dU = xp.zeros_like(U)
    inputs = sequence.InputGradients(sequence.stack(weights, "W", GATES), x)
    steps, chunks = sequence.chunks(y)
    dh_t, dc_t = sequence.last_cotangent(dh, dh_last), sequence.last_cotangent(dh, dc_last)
    da_chunk, dy = xp.empty((4, steps, *dh_t.shape), dh_t.dtype), xp.empty_like(dh_t)
    Uda = xp.empty_like(da_chunk[:, 0])
    kernels, Uda_of = sequence.Backwards(library, _carry, _meet) if fuses(library) else None, tuple(Uda)
    for t in chunks:
        F_o = 1 - o[t]
        F_o *= h[1:][t]  # h = o * y  [bp:lstm/1] [bp:lstm/4]
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
        by_step = zip(dh[t], da.swapaxes(0, 1), F_o, F_y, F.swapaxes(0, 1), f[t], strict=True)
        for dh_own, da_t, F_o_t, F_y_t, F_t, f_t in reversed(list(by_step)):
            if kernels:
                kernels.step(dh_t, (dc_t, dh_own, f_t, F_o_t, F_y_t, *F_t, *da_t), Uda_of)
                xp.matmul(da_t, U, out=Uda)  # [bp:lstm/5]
                continue
            xp.add(dh_t, dh_own, out=dh_t)  # [bp:bptt/g]
            xp.multiply(dh_t, F_o_t, out=da_t[0])  # [bp:lstm/1] [bp:lstm/4]
            xp.multiply(dh_t, F_y_t, out=dy)  # [bp:lstm/1]
            xp.add(dc_t, dy, out=dc_t)  # [bp:lstm/1]
            xp.multiply(dc_t, F_t, out=da_t[1:])  # [bp:lstm/2] [bp:lstm/4]
            xp.multiply(dc_t, f_t, out=dc_t)  # [bp:lstm/3]
            xp.matmul(da_t, U, out=Uda)  # [bp:lstm/5]
            xp.sum(Uda, axis=0, out=dh_t)  # [bp:lstm/5]
        dU += sequence.recurrent_gradients(da, h[:-1][t])  # [bp:lstm/5]
        inputs.add(t, da)  # [bp:bptt/W]
    if kernels:
        kernels.last(dh_t)
    dW, db = inputs.sums()
    dweights: Weights = {}
    for kind, stacked in (("W", dW), ("U", dU), ("b", db)):
        dweights |= sequence.unstack(kind, GATES, stacked)
    return SequenceGradients(dweights, inputs.dx, (dh_t, dc_t))
