"""`cells/lstm.py` for a whole sequence, fast; `scan` holds it (test_fused).

The gates are kept in the order o, i, f, g.

Forward
    P: W x_t + b for all t                                 [bp:bptt/W]
    o, i, f = sigma(P + U h_{t-1})                         [bp:lstm/o] [bp:lstm/i] [bp:lstm/f]
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

from types import ModuleType

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.cells.cell import Weights, state_of
from ortho_ref.cells.lstm import LSTM
from ortho_ref.fused import sequence
from ortho_ref.fused.kernels import launches, lstm as device
from ortho_ref.fused.sequence import Tape, sigmoid
from ortho_ref.scan import SequenceGradients

Pair = tuple[Array, Array]
GATES = "oifg"


def unroll(
    cell: LSTM, weights: Weights, x: Array, h0: Pair | None = None, loops: ModuleType = device
) -> tuple[Pair, Tape]:
    """States (h, c), each (T+1, B, n), and the tape; see `fused.forward`."""
    h0, c0 = (None, None) if h0 is None else h0
    library = library_of(x, h0, c0, *weights.values())
    W, b, U = (sequence.stack(weights, kind, GATES) for kind in "WbU")
    h, c, P = sequence.initial_state(x, U, h0), sequence.initial_state(x, U, c0), sequence.input_products(W, b, x)
    y = library.xp.empty_like(P[0])
    loop = loops.forward_loop if launches(library) else forward_loop
    with sequence.overflow():
        loop(h, c, y, P, sequence.transposed(U))
    return state_of((h, c)), Tape(cell, (*x.shape[:2], U.shape[-1]), x, P, h, c, y)


def forward_loop(h: Array, c: Array, y: Array, P: Array, U: Array) -> None:
    """Over time: h[1:] and c[1:] (T, B, n) from h[0] and c[0], y = tanh(c), and o, i, f, g in place of their P.

    P (4, T, B, n) is W x + b; U (4, n, n) are transposes.
    """
    xp = xp_of(h)
    for h_prev, c_prev, h_t, c_t, y_t, gates in zip(h[:-1], c[:-1], h[1:], c[1:], y, P.swapaxes(0, 1), strict=True):
        gates += h_prev @ U  # [bp:lstm/o] [bp:lstm/i] [bp:lstm/f] [bp:lstm/g]
        gates[:3] = sigmoid(xp, gates[:3])  # [bp:lstm/o] [bp:lstm/i] [bp:lstm/f]
        gates[3] = xp.tanh(gates[3])  # [bp:lstm/g]
        o, i, f, g = gates
        c_t[:] = f * c_prev + i * g  # [bp:lstm/c]
        y_t[:] = xp.tanh(c_t)  # [bp:lstm/h]
        h_t[:] = o * y_t  # [bp:lstm/h]


def unroll_back(
    cell: LSTM, weights: Weights, tape: Tape, dh: Array, dh_T: Pair | None = None, loops: ModuleType = device
) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    dh_last, dc_last = (None, None) if dh_T is None else dh_T
    library = library_of(dh, dh_last, dc_last, *weights.values())
    xp, loop = library.xp, loops.backward_loop if launches(library) else backward_loop
    x, h, c = tape.x, tape.h, tape.c
    U = sequence.stack(weights, "U", GATES)
    dU, inputs = xp.zeros_like(U), sequence.InputGradients(sequence.stack(weights, "W", GATES), x)
    dh_t, dc_t = sequence.last_cotangent(dh, dh_last), sequence.last_cotangent(dh, dc_last)
    for t in sequence.chunks(dh):
        (o, i, f, g), y = tape.gates[:, t], tape.y[t]
        F_o = y * o * (1 - o)  # [bp:lstm/1] [bp:lstm/4]
        F_y = o * (1 - y * y)  # [bp:lstm/1]
        F = xp.stack([g * i * (1 - i), c[:-1][t] * f * (1 - f), i * (1 - g * g)])  # [bp:lstm/2] [bp:lstm/4]
        da = xp.empty((4, *o.shape), o.dtype)
        loop(dh_t, dc_t, dh[t], da, F, F_o, F_y, f, U)
        dU += sequence.recurrent_gradients(da, h[:-1][t])  # [bp:lstm/5]
        inputs.add(t, da)  # [bp:bptt/W]
    dW, db = inputs.sums()
    dweights: Weights = {}
    for kind, stacked in (("W", dW), ("U", dU), ("b", db)):
        dweights |= sequence.unstack(kind, GATES, stacked)
    return SequenceGradients(dweights, inputs.dx, (dh_t, dc_t))


def backward_loop(
    dh_t: Array, dc_t: Array, dh: Array, da: Array, F: Array, F_o: Array, F_y: Array, f: Array, U: Array
) -> None:
    """Back through a chunk of time.

    dh_t and dc_t (B, n), all of dL/dh at its end without dh's and of dL/dc but what comes through h, are carried on in
    place; da (4, steps, B, n) of o, i, f, g is written to.  F are the factors of i, f, g, F_o and F_y those of o and y.
    """
    by_step = zip(dh, da.swapaxes(0, 1), F_o, F_y, F.swapaxes(0, 1), f, strict=True)
    for dh_own, da_t, F_o_t, F_y_t, F_t, f_t in reversed(list(by_step)):
        dh_t += dh_own  # [bp:bptt/g]
        da_t[0] = dh_t * F_o_t  # [bp:lstm/1] [bp:lstm/4]
        dc_t += dh_t * F_y_t  # [bp:lstm/1]
        da_t[1:] = dc_t * F_t  # [bp:lstm/2] [bp:lstm/4]
        dc_t *= f_t  # [bp:lstm/3]
        dh_t[:] = (da_t @ U).sum(axis=0)  # [bp:lstm/5]
