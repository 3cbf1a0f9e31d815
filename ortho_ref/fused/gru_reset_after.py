"""`cells/gru_reset_after.py` for a whole sequence, fast; `scan` holds it (test_fused).

G are the gates that are on, of r and z, in this order.

Forward
    P_G, P_h: W x_t + b for all t, without b_h where Phi
        takes it inside                                    [bp:bptt/W]
    r_t, z_t = sigma(P + U h_{t-1})                        [goru:2.4] [goru:2.3]
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
from ortho_ref.fused.kernels import gru_reset_after as device, launches
from ortho_ref.fused.sequence import Tape, sigmoid, value
from ortho_ref.scan import SequenceGradients


def unroll(
    cell: GRUResetAfter, weights: Weights, x: Array, h0: Array | None = None, loops: ModuleType = device
) -> tuple[Array, Tape]:
    """States (T+1, B, n) and the tape; see `fused.forward`."""
    library = library_of(x, h0, *weights.values())
    G = "".join(cell.products[:-1])
    W, b = (sequence.stack(weights, kind, G + "h") for kind in "Wb")
    if not sequence.bias_before(cell.activation):
        b[-1] = 0
    P = sequence.input_products(W, b, x)  # [bp:bptt/W]
    U_h = sequence.transposed(weights["U_h"])
    U_G = sequence.transposed(sequence.stack(weights, "U", G)) if G else None
    h, p = sequence.initial_state(x, U_h, h0), library.xp.empty_like(P[0])
    loop = loops.forward_loop if launches(library) else forward_loop
    with sequence.overflow():
        loop(cell, weights, h, p, P, U_G, U_h)
    return h, Tape(cell, (*x.shape[:2], U_h.shape[-1]), x, P, h, None, p)


def forward_loop(cell: GRUResetAfter, weights: Weights, h: Array, p: Array, P: Array, U_G: Array, U_h: Array) -> None:
    """Over time: h[1:] (T, B, n) from h[0], p (T, B, n), and the gates that are on and c in place of their P.

    P (G + 1, T, B, n) is W x + b of these gates and of the candidate, without b_h for modrelu. U_G (G, n, n), which is
    None where no gate is on, and U_h are transposes.
    """
    xp = xp_of(h)
    for h_prev, h_t, p_t, gates, c in zip(h[:-1], h[1:], p, P[:-1].swapaxes(0, 1), P[-1], strict=True):
        if len(gates):
            gates[:] = sigmoid(xp, gates + h_prev @ U_G)  # [goru:2.4] [goru:2.3]
        r = gates[0] if cell.reset_gate else weights["r"]  # [goru:abl]
        z = gates[-1] if cell.update_gate else weights["z"]  # [goru:abl]
        p_t[:] = h_prev @ U_h  # [goru:2.2/p]
        if cell.recurrent_bias:
            p_t += weights["b_hh"]  # [goru:2.2/p]
        a = c + r * p_t  # [goru:2.2/a]
        c[:] = value(xp, cell.activation, a, weights["b_h"])  # [goru:2.2/c]
        h_t[:] = c + z * (h_prev - c)  # [goru:2.2/h]


def unroll_back(
    cell: GRUResetAfter, weights: Weights, tape: Tape, dh: Array, dh_T: Array | None = None, loops: ModuleType = device
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
    g = sequence.last_cotangent(dh, dh_T)
    for t in sequence.chunks(dh):
        h_prev = h[:-1][t]
        r_t = gates[0, t] if cell.reset_gate else xp.broadcast_to(weights["r"], h_prev.shape)  # [goru:abl]
        z_t = gates[-1, t] if cell.update_gate else xp.broadcast_to(weights["z"], h_prev.shape)  # [goru:abl]
        F_h = (1 - z_t) * sequence.derivative(cell.activation, c[t])  # [bp:gru2/1] [bp:gru2/2]
        F_r = p[t] * (r_t * (1 - r_t)) if cell.reset_gate else p[t]  # [bp:gru2/3] [bp:gru2/4] [bp:gru2/5]
        F_z = h_prev - c[t]  # [bp:gru2/1] [bp:gru2/5]
        if cell.update_gate:
            F_z *= z_t * (1 - z_t)  # [bp:gru2/4]
        da, dp = xp.empty((len(G) + 1, *F_h.shape), F_h.dtype), xp.empty_like(F_h)
        of_off = {gate: xp.empty_like(F_h) for gate in off}
        da_r = da[0] if cell.reset_gate else of_off["r"]
        da_z = da[-2] if cell.update_gate else of_off["z"]
        loop(g, dh[t], da, (dp, da_r, da_z), (F_h, F_r, F_z, r_t, z_t), U_G, U_h)
        dU_h += sequence.recurrent_gradients(dp, h_prev)  # [bp:gru2/3]
        if G:
            dU_G += sequence.recurrent_gradients(da[:-1], h_prev)  # [bp:gru2/4]
        for gate in off:
            off[gate] += of_off[gate].sum(axis=(0, 1))  # [bp:gru2/5]
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
    by_step = zip(dh, da.swapaxes(0, 1), *others, *F, strict=True)
    for dh_t, da_t, dp_t, da_r, da_z, F_h, F_r, F_z, r, z in reversed(list(by_step)):
        g += dh_t  # [bp:bptt/g]
        da_t[-1] = g * F_h  # [bp:gru2/1] [bp:gru2/2]
        dp_t[:] = da_t[-1] * r  # [bp:gru2/3]
        da_r[:] = da_t[-1] * F_r  # [bp:gru2/3] [bp:gru2/4]
        da_z[:] = g * F_z  # [bp:gru2/1] [bp:gru2/4]
        g *= z  # [bp:gru2/1]
        g += dp_t @ U_h  # [bp:gru2/3]
        if len(da_t) > 1:
            g += (da_t[:-1] @ U_G).sum(axis=0)  # [bp:gru2/4]
