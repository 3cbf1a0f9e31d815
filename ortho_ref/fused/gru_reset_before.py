"""`cells/gru_reset_before.py` for a whole sequence, fast; `scan` holds it (test_fused).

Forward
    P_r, P_u, P_c: W x_t + b for all t, without b_c where
        Phi takes it inside; of r and u -W, -U, -b         [bp:bptt/W]
    r_t, u_t = 1 / (1 + exp(P + U h_{t-1}))                [ncgru:1/r] [ncgru:1/u]
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

import functools
from types import ModuleType

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.gru_reset_before import GRUResetBefore
from ortho_ref.fused import sequence
from ortho_ref.fused.kernels import gru_reset_before as device
from ortho_ref.fused.kernels import launches
from ortho_ref.fused.layout import Rows, layout_of
from ortho_ref.fused.sequence import Tape
from ortho_ref.scan import SequenceGradients


def unroll(
    cell: GRUResetBefore, weights: Weights, x: Array, h0: Array | None = None, loops: ModuleType = device
) -> tuple[Array, Tape]:
    """States (T+1, B, n) and the tape; see `fused.forward`."""
    library = library_of(x, h0, *weights.values())
    W, b = sequence.stack(weights, "W", "ruc", negated=2), sequence.stack(weights, "b", "ruc", negated=2)
    if not sequence.bias_before(cell.activation):
        b[2] = 0
    minus_U_ru, U_c = sequence.stack(weights, "U", "ru", negated=2), weights["U_c"]
    layout = layout_of(x, U_c)
    h, P = layout.begin(W, b, x, h0)  # [bp:bptt/W]
    factors = layout.factor(minus_U_ru, W[:2], b[:2]), layout.factor(U_c, W[2], b[2])
    loop = loops.forward_loop if launches(library) else functools.partial(forward_loop, layout)
    with sequence.overflow():
        loop(cell.activation, h, P, *factors, weights["b_c"])
    return layout.rows(h), Tape(cell, (*x.shape[:2], U_c.shape[-1]), x, P, h)


def forward_loop(layout: Rows, activation: str, h: Array, P: Array, minus_U_ru: Array, U_c: Array, b_c: Array) -> None:
    """Over time: h[1:] (T, slab) from h[0], and r, u, c in place of their P.

    P (3, T, slab) is W x + b of r and u, times -1, and of c, without b_c for modrelu. The layout's factors are those of
    -U_r and -U_u, and of U_c.
    """
    xp = xp_of(h)
    s, scratch, sigmoid = xp.empty_like(h[0]), xp.empty_like(h[0]), sequence.sigmoid_in_place(P)
    add_minus_U_ru, add_U_c = layout.product(minus_U_ru, P[:2, 0]), layout.product(U_c, s)
    phi = sequence.in_place(activation, layout.bias(b_c), scratch)
    for h_prev, h_t, ru, c in zip(h[:-1], h[1:], P[:2].swapaxes(0, 1), P[2], strict=True):
        add_minus_U_ru(h_prev, ru)  # [ncgru:1/r] [ncgru:1/u]
        sigmoid(ru)  # [ncgru:1/r] [ncgru:1/u]
        xp.multiply(ru[0], h_prev, out=s)  # [ncgru:1/s]
        add_U_c(s, c)  # [ncgru:35]
        phi(c)  # [ncgru:1/c] [ncgru:19/c]
        xp.subtract(c, h_prev, out=h_t)  # [ncgru:1/h]
        xp.multiply(h_t, ru[1], out=h_t)  # [ncgru:1/h]
        xp.add(h_t, h_prev, out=h_t)  # [ncgru:1/h]


def unroll_back(
    cell: GRUResetBefore,
    weights: Weights,
    tape: Tape,
    dh: Array,
    dh_T: Array | None = None,
    loops: ModuleType = device,
) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    library = library_of(dh, dh_T, *weights.values())
    xp, x, (r, u, c), h = library.xp, tape.x, tape.gates, tape.h
    U_ru, U_c = sequence.stack(weights, "U", "ru"), weights["U_c"]
    layout = layout_of(x, U_c)
    loop = loops.backward_loop if launches(library) else functools.partial(backward_loop, layout)
    dU_ru, dU_c, db_c = xp.zeros_like(U_ru), xp.zeros_like(U_c), xp.zeros_like(weights["b_c"])
    U_ru, U_c = layout.factor_back(U_ru), layout.factor_back(U_c)
    inputs = sequence.InputGradients(sequence.stack(weights, "W", "ruc"), x)
    steps, chunks = sequence.chunks(dh)
    g = layout.slabs(sequence.last_cotangent(dh, dh_T))
    da_chunk = layout.chunk(3, steps, g)
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
        loop(g, layout.slabs(dh[t]), da, (F_u, F_c, F_r), r[t], keep, U_ru, U_c)
        if not sequence.bias_before(cell.activation):
            db_c += layout.sum_to_bias(sequence.inside_bias_gradient(c[t], da[2]))  # [bp:gru1/2]
        da = layout.gathered(da)
        dU_ru += sequence.recurrent_gradients(da[:2], layout.gathered(h_prev))  # [bp:gru1/5]
        dU_c += sequence.recurrent_gradients(da[2], layout.gathered(s))  # [bp:gru1/2]
        inputs.add(t, da)  # [bp:bptt/W]
    dW, db = inputs.sums()
    dweights = sequence.unstack("W", "ruc", dW) | sequence.unstack("U", "ru", dU_ru) | sequence.unstack("b", "ruc", db)
    dweights["U_c"] = dU_c
    if not sequence.bias_before(cell.activation):
        dweights["b_c"] = db_c
    return SequenceGradients(dweights, inputs.dx, layout.rows(g))


def backward_loop(
    layout: Rows,
    g: Array,
    dh: Array,
    da: Array,
    F: tuple[Array, ...],
    r: Array,
    keep: Array,
    U_ru: Array,
    U_c: Array,
) -> None:
    """Back through a chunk of time.

    g (slab), all of dL/dh at its end without dh's, is carried on in place; da (3, steps, slab) of r, u, c is written
    to. F are the factors of u, c, r, `keep` is 1 - u, (steps, slab) each; the layout's factors are those for the way
    back.
    """
    xp = xp_of(g)
    ds, pulled = xp.empty_like(g), xp.empty_like(g)
    back_ru, back_c = layout.product_back(U_ru, da[:2, 0]), layout.product_back(U_c, g)
    by_step = zip(dh, da.swapaxes(0, 1), *F, r, keep, strict=True)
    for dh_t, da_t, F_u, F_c, F_r, r_t, keep_t in reversed(list(by_step)):
        xp.add(g, dh_t, out=g)  # [bp:bptt/g]
        xp.multiply(g, F_u, out=da_t[1])  # [bp:gru1/1] [bp:gru1/4]
        xp.multiply(g, F_c, out=da_t[2])  # [bp:gru1/1] [bp:gru1/2]
        back_c(da_t[2], ds)  # [bp:gru1/2]
        xp.multiply(ds, F_r, out=da_t[0])  # [bp:gru1/3] [bp:gru1/4]
        back_ru(da_t[:2], pulled)  # [bp:gru1/5]
        xp.multiply(g, keep_t, out=g)  # [bp:gru1/1]
        xp.multiply(ds, r_t, out=ds)  # [bp:gru1/3]
        xp.add(g, ds, out=g)  # [bp:gru1/3]
        xp.add(g, pulled, out=g)  # [bp:gru1/5]
