"""`cells/gru_reset_before.py` for a whole sequence, fast; `scan` holds it (test_fused).

Forward
    P_r, P_u, P_c: W x_t + b for all t, without b_c where
        Phi takes it inside                                [bp:bptt/W]
    r_t, u_t = sigma(P + U h_{t-1})                        [ncgru:1/r] [ncgru:1/u]
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

from types import ModuleType

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.gru_reset_before import GRUResetBefore
from ortho_ref.fused import sequence
from ortho_ref.fused.kernels import gru_reset_before as device, launches
from ortho_ref.fused.sequence import Tape, sigmoid, value
from ortho_ref.scan import SequenceGradients


def unroll(
    cell: GRUResetBefore, weights: Weights, x: Array, h0: Array | None = None, loops: ModuleType = device
) -> tuple[Array, Tape]:
    """States (T+1, B, n) and the tape; see `fused.forward`."""
    library = library_of(x, h0, *weights.values())
    W, b = sequence.stack(weights, "W", "ruc"), sequence.stack(weights, "b", "ruc")
    if not sequence.bias_before(cell.activation):
        b[2] = 0
    U_ru, U_c = sequence.transposed(sequence.stack(weights, "U", "ru")), sequence.transposed(weights["U_c"])
    h, P = sequence.initial_state(x, U_c, h0), sequence.input_products(W, b, x)  # [bp:bptt/W]
    loop = loops.forward_loop if launches(library) else forward_loop
    with sequence.overflow():
        loop(cell.activation, h, P, U_ru, U_c, weights["b_c"])
    return h, Tape(cell, (*x.shape[:2], U_c.shape[-1]), x, P, h)


def forward_loop(activation: str, h: Array, P: Array, U_ru: Array, U_c: Array, b_c: Array) -> None:
    """Over time: h[1:] (T, B, n) from h[0], and r, u, c in place of their P.

    P (3, T, B, n) is W x + b, of c without b_c for modrelu. U_ru (2, n, n) and U_c are transposes.
    """
    xp = xp_of(h)
    for h_prev, h_t, ru, c in zip(h[:-1], h[1:], P[:2].swapaxes(0, 1), P[2], strict=True):
        ru[:] = sigmoid(xp, ru + h_prev @ U_ru)  # [ncgru:1/r] [ncgru:1/u]
        r, u = ru
        s = r * h_prev  # [ncgru:1/s]
        c[:] = value(xp, activation, c + s @ U_c, b_c)  # [ncgru:35] [ncgru:1/c] [ncgru:19/c]
        h_t[:] = h_prev + u * (c - h_prev)  # [ncgru:1/h]


def unroll_back(
    cell: GRUResetBefore, weights: Weights, tape: Tape, dh: Array, dh_T: Array | None = None, loops: ModuleType = device
) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    library = library_of(dh, dh_T, *weights.values())
    xp, loop = library.xp, loops.backward_loop if launches(library) else backward_loop
    x, (r, u, c), h = tape.x, tape.gates, tape.h
    U_ru, U_c = sequence.stack(weights, "U", "ru"), xp.ascontiguousarray(weights["U_c"])
    dU_ru, dU_c, db_c = xp.zeros_like(U_ru), xp.zeros_like(U_c), xp.zeros_like(weights["b_c"])
    inputs = sequence.InputGradients(sequence.stack(weights, "W", "ruc"), x)
    g = sequence.last_cotangent(dh, dh_T)
    for t in sequence.chunks(dh):
        h_prev = h[:-1][t]
        keep = 1 - u[t]
        F_u = (c[t] - h_prev) * u[t] * keep  # [bp:gru1/1] [bp:gru1/4]
        F_c = sequence.derivative(cell.activation, c[t]) * u[t]  # [bp:gru1/1] [bp:gru1/2]
        s = r[t] * h_prev  # [ncgru:1/s]
        F_r = (1 - r[t]) * s  # [bp:gru1/3] [bp:gru1/4]
        da = xp.empty((3, *keep.shape), keep.dtype)
        loop(g, dh[t], da, (F_u, F_c, F_r), r[t], keep, U_ru, U_c)
        if not sequence.bias_before(cell.activation):
            db_c += sequence.inside_bias_gradient(c[t], da[2]).sum(axis=(0, 1))  # [bp:gru1/2]
        dU_ru += sequence.recurrent_gradients(da[:2], h_prev)  # [bp:gru1/5]
        dU_c += sequence.recurrent_gradients(da[2], s)  # [bp:gru1/2]
        inputs.add(t, da)  # [bp:bptt/W]
    dW, db = inputs.sums()
    dweights = sequence.unstack("W", "ruc", dW) | sequence.unstack("U", "ru", dU_ru) | sequence.unstack("b", "ruc", db)
    dweights["U_c"] = dU_c
    if not sequence.bias_before(cell.activation):
        dweights["b_c"] = db_c
    return SequenceGradients(dweights, inputs.dx, g)


def backward_loop(
    g: Array, dh: Array, da: Array, F: tuple[Array, ...], r: Array, keep: Array, U_ru: Array, U_c: Array
) -> None:
    """Back through a chunk of time.

    g (B, n), all of dL/dh at its end without dh's, is carried on in place; da (3, steps, B, n) of r, u, c is written
    to. F are the factors of u, c, r, `keep` is 1 - u, (steps, B, n) each.
    """
    by_step = zip(dh, *da, *F, r, keep, strict=True)
    for dh_t, da_r, da_u, da_c, F_u, F_c, F_r, r_t, keep_t in reversed(list(by_step)):
        g += dh_t  # [bp:bptt/g]
        da_u[:] = g * F_u  # [bp:gru1/1] [bp:gru1/4]
        da_c[:] = g * F_c  # [bp:gru1/1] [bp:gru1/2]
        ds = da_c @ U_c  # [bp:gru1/2]
        da_r[:] = ds * F_r  # [bp:gru1/3] [bp:gru1/4]
        g[:] = g * keep_t + ds * r_t + da_r @ U_ru[0] + da_u @ U_ru[1]  # [bp:gru1/1] [bp:gru1/3] [bp:gru1/5]
