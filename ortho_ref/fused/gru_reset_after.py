"""`cells/gru_reset_after.py` for a whole sequence, fast; `scan` holds it (test_fused).

G are the gates that are on, of r and z, in this order.

Forward
    P_G, P_h: W x_t + b for all t, without b_h where Phi
        takes it inside; of r and z -W, -U, -b             [bp:bptt/W]
    r_t, z_t = 1 / (1 + exp(P + U h_{t-1}))                [goru:2.4] [goru:2.3]
    r_t = r, z_t = z, where a gate is off                  [goru:abl]
    p_t = U_h h_{t-1}  (+ b_hh)                            [goru:2.2/p]
    a_t = P_h + r_t * p_t                                  [goru:2.2/a]
    c_t = Phi(a_t, b_h)                                    [goru:2.2/c]
    h_t = c_t + z_t * (h_{t-1} - c_t)                      [goru:2.2/h]

Backward, g = all of dL/dh_t; F are factors formed chunk by chunk, products of the rules they are tagged with
    g += dh_t                                              [bp:bptt/g]
    da_h = g * F_h,  F_h = (1 - z) * Phi'(a)               [bp:gru2/1] [bp:gru2/2]
    dp = da_h * r                                          [bp:gru2/3]
    da_r = da_h * F_r,  F_r = p * r * (1 - r)              [bp:gru2/3] [bp:gru2/4]
    da_z = g * F_z,  F_z = (h_prev - c) * z * (1 - z)      [bp:gru2/1] [bp:gru2/4]
    g <- g * z + U_h^T dp + sum over G of U^T da           [bp:gru2/1] [bp:gru2/3] [bp:gru2/4]
    a gate that is off: F without g * (1 - g), the sum of its "da" is the vector's gradient  [bp:gru2/5]
    dU_h = sum over t of dp h_prev^T    dU_g = of da_g h_prev^T                [bp:gru2/3] [bp:gru2/4]
    db_h = sum of sgn(c) * da_h where Phi is modrelu       [bp:gru2/2]
    dW_g, db_g, dx                                         [bp:bptt/W]
"""

import functools
from types import ModuleType

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.gru_reset_after import GRUResetAfter
from ortho_ref.fused import sequence
from ortho_ref.fused.kernels import gru_reset_after as device
from ortho_ref.fused.kernels import launches
from ortho_ref.fused.sequence import Tape
from ortho_ref.scan import SequenceGradients


def unroll(
    cell: GRUResetAfter, weights: Weights, x: Array, h0: Array | None = None, loops: ModuleType = device
) -> tuple[Array, Tape]:
    """States (T+1, B, n) and the tape; see `fused.forward`."""
    library = library_of(x, h0, *weights.values())
    G = "".join(cell.products[:-1])
    W, b = (sequence.stack(weights, kind, G + "h", negated=len(G)) for kind in "Wb")
    if not sequence.bias_before(cell.activation):
        b[-1] = 0
    P = sequence.input_products(W, b, x)  # [bp:bptt/W]
    U_h = sequence.transposed(weights["U_h"])
    U_G = sequence.transposed(sequence.stack(weights, "U", G, negated=len(G))) if G else None
    h, p = sequence.initial_state(x, U_h, h0), library.xp.empty_like(P[0])
    loop = loops.forward_loop if launches(library) else forward_loop
    with sequence.overflow():
        loop(cell, weights, h, p, P, U_G, U_h)
    return h, Tape(cell, (*x.shape[:2], U_h.shape[-1]), x, P, h, None, p)


def forward_loop(cell: GRUResetAfter, weights: Weights, h: Array, p: Array, P: Array, U_G: Array, U_h: Array) -> None:
    """Over time: h[1:] (T, B, n) from h[0], p (T, B, n), and the gates that are on and c in place of their P.

    P (G + 1, T, B, n) is W x + b of these gates, times -1, and of the candidate, without b_h for modrelu. U_G (G, n, n)
    are the transposes of the gates' -U, None where none is on, U_h that of the weight.
    """
    xp = xp_of(h)
    scratch, Uh, sigmoid = xp.empty_like(p[0]), xp.empty_like(P[:-1, 0]), sequence.sigmoid_in_place(P)
    phi = sequence.in_place(cell.activation, weights["b_h"], xp.empty_like(scratch))
    for h_prev, h_t, p_t, gates, c in zip(h[:-1], h[1:], p, P[:-1].swapaxes(0, 1), P[-1], strict=True):
        if len(Uh):
            xp.matmul(h_prev, U_G, out=Uh)  # [goru:2.4] [goru:2.3]
            xp.add(gates, Uh, out=gates)  # [goru:2.4] [goru:2.3]
            sigmoid(gates)  # [goru:2.4] [goru:2.3]
        r = gates[0] if cell.reset_gate else weights["r"]  # [goru:abl]
        z = gates[-1] if cell.update_gate else weights["z"]  # [goru:abl]
        xp.matmul(h_prev, U_h, out=p_t)  # [goru:2.2/p]
        if cell.recurrent_bias:
            xp.add(p_t, weights["b_hh"], out=p_t)  # [goru:2.2/p]
        xp.multiply(p_t, r, out=scratch)  # [goru:2.2/a]
        xp.add(c, scratch, out=c)  # [goru:2.2/a]
        phi(c)  # [goru:2.2/c]
        xp.subtract(h_prev, c, out=h_t)  # [goru:2.2/h]
        xp.multiply(h_t, z, out=h_t)  # [goru:2.2/h]
        xp.add(h_t, c, out=h_t)  # [goru:2.2/h]


def unroll_back(
    cell: GRUResetAfter,
    weights: Weights,
    tape: Tape,
    dh: Array,
    dh_T: Array | None = None,
    loops: ModuleType = device,
) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    library = library_of(dh, dh_T, *weights.values())
    xp, x, gates, c, h, p = library.xp, tape.x, tape.gates[:-1], tape.gates[-1], tape.h, tape.y
    G = "".join(cell.products[:-1])
    loop = functools.partial(loops.backward_loop, G) if launches(library) else backward_loop
    U_h = xp.ascontiguousarray(weights["U_h"])
    U_G = sequence.stack(weights, "U", G) if G else None
    dU_h, db_h, db_hh = xp.zeros_like(U_h), xp.zeros_like(weights["b_h"]), xp.zeros_like(weights["b_h"])
    dU_G = None if U_G is None else xp.zeros_like(U_G)
    off = {gate: xp.zeros_like(weights[gate]) for gate in "rz" if gate not in G}
    inputs = sequence.InputGradients(sequence.stack(weights, "W", G + "h"), x)
    steps, chunks = sequence.chunks(c)
    g = sequence.last_cotangent(dh, dh_T)
    chunk = (steps, *g.shape)
    da_chunk, dp_chunk = xp.empty((len(G) + 1, *chunk), g.dtype), xp.empty(chunk, g.dtype)
    off_chunk = {gate: xp.empty(chunk, g.dtype) for gate in off}
    for t in chunks:
        h_prev = h[:-1][t]
        r_t = gates[0, t] if cell.reset_gate else xp.broadcast_to(weights["r"], h_prev.shape)  # [goru:abl]
        z_t = gates[-1, t] if cell.update_gate else xp.broadcast_to(weights["z"], h_prev.shape)  # [goru:abl]
        write = 1 - z_t
        F_h = sequence.derivative(cell.activation, c[t])  # [bp:gru2/2]
        F_h *= write  # [bp:gru2/1]
        F_r = p[t] * (r_t * (1 - r_t)) if cell.reset_gate else p[t]  # [bp:gru2/3] [bp:gru2/4] [bp:gru2/5]
        F_z = h_prev - c[t]  # [bp:gru2/1] [bp:gru2/5]
        if cell.update_gate:
            F_z *= z_t  # [bp:gru2/4]
            F_z *= write  # [bp:gru2/4]
        da, dp = da_chunk[:, : len(F_h)], dp_chunk[: len(F_h)]
        da_r = da[0] if cell.reset_gate else off_chunk["r"][: len(F_h)]
        da_z = da[-2] if cell.update_gate else off_chunk["z"][: len(F_h)]
        loop(g, dh[t], da, (dp, da_r, da_z), (F_h, F_r, F_z, r_t, z_t), U_G, U_h)
        dU_h += sequence.recurrent_gradients(dp, h_prev)  # [bp:gru2/3]
        if G:
            dU_G += sequence.recurrent_gradients(da[:-1], h_prev)  # [bp:gru2/4]
        for gate in off:
            off[gate] += off_chunk[gate][: len(F_h)].sum(axis=(0, 1))  # [bp:gru2/5]
        if not sequence.bias_before(cell.activation):
            db_h += sequence.inside_bias_gradient(c[t], da[-1]).sum(axis=(0, 1))  # [bp:gru2/2]
        if cell.recurrent_bias:
            db_hh += dp.sum(axis=(0, 1))  # [bp:gru2/3]
        inputs.add(t, da)  # [bp:bptt/W]
    dW, db = inputs.sums()
    dweights = sequence.unstack("W", G + "h", dW) | sequence.unstack("b", G + "h", db) | off | {"U_h": dU_h}
    if G:
        dweights |= sequence.unstack("U", G, dU_G)
    if not sequence.bias_before(cell.activation):
        dweights["b_h"] = db_h
    if cell.recurrent_bias:
        dweights["b_hh"] = db_hh
    return SequenceGradients(dweights, inputs.dx, g)


def backward_loop(
    g: Array, dh: Array, da: Array, others: tuple[Array, ...], F: tuple[Array, ...], U_G: Array, U_h: Array
) -> None:
    """Back through a chunk of time.

    g (B, n), all of dL/dh at its end without dh's, is carried on in place. Written to: da (G + 1, steps, B, n) of the
    gates that are on and of h; others: dp, da_r, da_z (steps, B, n), those of gates that are on being parts of da. F
    are F_h, F_r, F_z, r, z (steps, B, n).
    """
    xp = xp_of(g)
    Udp, Uda = xp.empty_like(g), xp.empty_like(da[:-1, 0])
    by_step = zip(dh, da.swapaxes(0, 1), *others, *F, strict=True)
    for dh_t, da_t, dp_t, da_r, da_z, F_h, F_r, F_z, r, z in reversed(list(by_step)):
        xp.add(g, dh_t, out=g)  # [bp:bptt/g]
        xp.multiply(g, F_h, out=da_t[-1])  # [bp:gru2/1] [bp:gru2/2]
        xp.multiply(da_t[-1], r, out=dp_t)  # [bp:gru2/3]
        xp.multiply(da_t[-1], F_r, out=da_r)  # [bp:gru2/3] [bp:gru2/4]
        xp.multiply(g, F_z, out=da_z)  # [bp:gru2/1] [bp:gru2/4]
        xp.multiply(g, z, out=g)  # [bp:gru2/1]
        xp.matmul(dp_t, U_h, out=Udp)  # [bp:gru2/3]
        xp.add(g, Udp, out=g)  # [bp:gru2/3]
        if len(Uda):
            xp.matmul(da_t[:-1], U_G, out=Uda)  # [bp:gru2/4]
            for own in Uda:
                xp.add(g, own, out=g)  # [bp:gru2/4]
