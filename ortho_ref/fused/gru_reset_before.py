"""`cells/gru_reset_before.py` for a whole sequence.

Forward
    P_r, P_u, P_c: W x_t + b for all t, without b_c where
        Phi takes it inside; W, U, b of r and u are halved [bp:bptt/W]
    r_t, u_t = 0.5 + 0.5 tanh(P + U h_{t-1})               [ncgru:1/r] [ncgru:1/u]
    s_t = r_t * h_{t-1}                                    [ncgru:1/s]
    a_t = P_c + U_c s_t                                    [ncgru:35]
    c_t = Phi(a_t, b_c)                                    [ncgru:1/c] [ncgru:19/c]
    h_t = h_{t-1} + u_t * (c_t - h_{t-1})                  [ncgru:1/h]

Backward, g = all of dL/dh_t; F are factors formed chunk by chunk, products of the rules they are tagged with
    g += dh_t                                              [bp:bptt/g]
    da_u = g * F_u,  F_u = (c - h_prev) * u * (1 - u)      [bp:gru1/1] [bp:gru1/4]
    da_c = g * F_c,  F_c = u * Phi'(a)                     [bp:gru1/1] [bp:gru1/2]
    ds = U_c^T da_c                                        [bp:gru1/2]
    da_r = ds * F_r, F_r = h_prev * r * (1 - r)            [bp:gru1/3] [bp:gru1/4]
    g <- g * (1 - u) + ds * r + U_r^T da_r + U_u^T da_u    [bp:gru1/1] [bp:gru1/3] [bp:gru1/5]
    dU_g = sum over t of da_g (h_prev or s)^T              [bp:gru1/5] [bp:gru1/2]
    db_c = sum of sgn(c) * da_c where Phi is modrelu       [bp:gru1/2]
    dW_g, db_g, dx                                         [bp:bptt/W]
"""

from typing import Any

from ortho_ref.backend import Array, fuses, kernel, library_of
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.gru_reset_before import GRUResetBefore
from ortho_ref.fused import sequence
from ortho_ref.fused.sequence import Tape
from ortho_ref.scan import SequenceGradients


def _gates(xp: Any, r: Array, u: Array, Uh_r: Array, Uh_u: Array, h_prev: Array, s: Array) -> None:
    r[...] = sequence.sigmoid(xp, r + Uh_r)  # [ncgru:1/r]
    u[...] = sequence.sigmoid(xp, u + Uh_u)  # [ncgru:1/u]
    s[...] = r * h_prev  # [ncgru:1/s]


def _state(xp: Any, activation: str, c: Array, u: Array, Us: Array, b_c: Array, h_prev: Array, h: Array) -> None:
    c[...] = sequence.value(xp, activation, c + Us, b_c)  # [ncgru:35] [ncgru:1/c] [ncgru:19/c]
    h[...] = (c - h_prev) * u + h_prev  # [ncgru:1/h]


def _meet(xp: Any, g: Array, dh: Array, F_u: Array, F_c: Array, da_u: Array, da_c: Array) -> None:
    g[...] = g + dh  # [bp:bptt/g]
    da_u[...] = g * F_u  # [bp:gru1/1] [bp:gru1/4]
    da_c[...] = g * F_c  # [bp:gru1/1] [bp:gru1/2]


def _carry(xp: Any, g: Array, keep: Array, ds: Array, r: Array, Uda_r: Array, Uda_u: Array) -> None:
    g[...] = g * keep + ds * r + Uda_r + Uda_u  # [bp:gru1/1] [bp:gru1/3] [bp:gru1/5]


def forward(cell: GRUResetBefore, weights: Weights, x: Array, h0: Array | None = None) -> tuple[Array, Tape]:
    """States (T+1, B, n) and the tape; see `fused.forward`."""
    library = library_of(x, h0, *weights.values())
    xp = library.xp
    W, b = sequence.stack(weights, "W", "ruc", halved=2), sequence.stack(weights, "b", "ruc", halved=2)
    if not sequence.bias_before(cell.activation):
        b[2] = 0
    P = sequence.input_products(W, b, x)  # [bp:bptt/W]
    U_ru = sequence.transposed(sequence.stack(weights, "U", "ru", halved=2))
    U_c = sequence.transposed(weights["U_c"])
    h = sequence.initial_state(x, U_c, h0)
    s, Us = xp.empty_like(P[2, 0]), xp.empty_like(P[2, 0])
    Uh, half = xp.empty_like(P[:2, 0]), xp.full((), 0.5, P.dtype)
    if fuses(library):
        gates, state = kernel(library, _gates), kernel(library, _state, cell.activation)
        Uh_r, Uh_u = Uh
        for h_prev, h_t, r, u, c in zip(h[:-1], h[1:], *P, strict=True):
            xp.matmul(h_prev, U_ru, out=Uh)  # [ncgru:1/r] [ncgru:1/u]
            gates(r, u, Uh_r, Uh_u, h_prev, s)
            xp.matmul(s, U_c, out=Us)  # [ncgru:35]
            state(c, u, Us, weights["b_c"], h_prev, h_t)
        return h, Tape(x, P, h, None, None)
    phi = sequence.in_place(cell.activation, weights["b_c"], xp.empty_like(Us))
    for h_prev, h_t, ru, c in zip(h[:-1], h[1:], P[:2].swapaxes(0, 1), P[2], strict=True):
        xp.matmul(h_prev, U_ru, out=Uh)  # [ncgru:1/r] [ncgru:1/u]
        xp.add(ru, Uh, out=ru)  # [ncgru:1/r] [ncgru:1/u]
        xp.tanh(ru, out=ru)  # [ncgru:1/r] [ncgru:1/u]
        xp.multiply(ru, half, out=ru)  # [ncgru:1/r] [ncgru:1/u]
        xp.add(ru, half, out=ru)  # [ncgru:1/r] [ncgru:1/u]
        xp.multiply(ru[0], h_prev, out=s)  # [ncgru:1/s]
        xp.matmul(s, U_c, out=Us)  # [ncgru:35]
        xp.add(c, Us, out=c)  # [ncgru:35]
        phi(c)  # [ncgru:1/c] [ncgru:19/c]
        xp.subtract(c, h_prev, out=h_t)  # [ncgru:1/h]
        xp.multiply(h_t, ru[1], out=h_t)  # [ncgru:1/h]
        xp.add(h_t, h_prev, out=h_t)  # [ncgru:1/h]
    return h, Tape(x, P, h, None, None)


def backward(
    cell: GRUResetBefore, weights: Weights, tape: Tape, dh: Array, dh_T: Array | None = None
) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    library = library_of(dh, dh_T, *weights.values())
    xp = library.xp
    x, (r, u, c), h = tape.x, tape.gates, tape.h
    U_ru, U_c = sequence.stack(weights, "U", "ru"), xp.ascontiguousarray(weights["U_c"])
    dU_ru, dU_c, db_c = xp.zeros_like(U_ru), xp.zeros_like(U_c), xp.zeros_like(weights["b_c"])
    inputs = sequence.InputGradients(sequence.stack(weights, "W", "ruc"), x)
    steps, chunks = sequence.chunks(c)
    g = sequence.last_cotangent(dh, dh_T)
    ds, da_chunk = xp.empty_like(g), xp.empty((3, steps, *g.shape), g.dtype)
    Uda = xp.empty_like(da_chunk[:2, 0])
    kernels = sequence.Backwards(library, _carry, _meet) if fuses(library) else None
    for t in chunks:
        h_prev = h[:-1][t]
        keep = 1 - u[t]
        F_u = c[t] - h_prev  # [bp:gru1/1]
        F_u *= u[t]
        F_u *= keep  # [bp:gru1/4]
        F_c = sequence.derivative(cell.activation, c[t])  # [bp:gru1/2]
        F_c *= u[t]  # [bp:gru1/1]
        s = r[t] * h_prev  # [ncgru:1/s]
        F_r = 1 - r[t]
        F_r *= s  # [bp:gru1/3] [bp:gru1/4]
        da = da_chunk[:, : len(keep)]
        by_step = zip(dh[t], da.swapaxes(0, 1), F_u, F_c, F_r, r[t], keep, strict=True)
        for dh_t, da_t, F_u_t, F_c_t, F_r_t, r_t, keep_t in reversed(list(by_step)):
            if kernels:
                kernels.step(g, (dh_t, F_u_t, F_c_t, da_t[1], da_t[2]), (keep_t, ds, r_t, Uda[0], Uda[1]))
                xp.matmul(da_t[2], U_c, out=ds)  # [bp:gru1/2]
                xp.multiply(ds, F_r_t, out=da_t[0])  # [bp:gru1/3] [bp:gru1/4]
                xp.matmul(da_t[:2], U_ru, out=Uda)  # [bp:gru1/5]
                continue
            xp.add(g, dh_t, out=g)  # [bp:bptt/g]
            xp.multiply(g, F_u_t, out=da_t[1])  # [bp:gru1/1] [bp:gru1/4]
            xp.multiply(g, F_c_t, out=da_t[2])  # [bp:gru1/1] [bp:gru1/2]
            xp.matmul(da_t[2], U_c, out=ds)  # [bp:gru1/2]
            xp.multiply(ds, F_r_t, out=da_t[0])  # [bp:gru1/3] [bp:gru1/4]
            xp.matmul(da_t[:2], U_ru, out=Uda)  # [bp:gru1/5]
            xp.multiply(g, keep_t, out=g)  # [bp:gru1/1]
            xp.multiply(ds, r_t, out=ds)  # [bp:gru1/3]
            xp.add(g, ds, out=g)  # [bp:gru1/3]
            xp.add(g, Uda[0], out=g)  # [bp:gru1/5]
            xp.add(g, Uda[1], out=g)  # [bp:gru1/5]
        dU_ru += sequence.recurrent_gradients(da[:2], h_prev)  # [bp:gru1/5]
        dU_c += sequence.recurrent_gradients(da[2], s)  # [bp:gru1/2]
        if not sequence.bias_before(cell.activation):
            db_c += sequence.inside_bias_gradient(c[t], da[2])  # [bp:gru1/2]
        inputs.add(t, da)  # [bp:bptt/W]
    if kernels:
        kernels.last(g)
    dW, db = inputs.sums()
    dweights = sequence.unstack("W", "ruc", dW) | sequence.unstack("U", "ru", dU_ru) | sequence.unstack("b", "ruc", db)
    dweights["U_c"] = dU_c
    if not sequence.bias_before(cell.activation):
        dweights["b_c"] = db_c
    return SequenceGradients(dweights, inputs.dx, g)
