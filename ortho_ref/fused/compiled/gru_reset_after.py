"""`cells/gru_reset_after.py` for a whole sequence, compiled; `scan` holds it (test_compiled).

G are the gates that are on, of r and z, in this order.
"""

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.gru_reset_after import GRUResetAfter
from ortho_ref.fused.compiled import sequence
from ortho_ref.fused.compiled.jit import compiled
from ortho_ref.fused.compiled.products import product, rows_like
from ortho_ref.fused.compiled.sequence import PHI, Span, activate, derivative, open_gate, recurrent_gradient
from ortho_ref.fused.sequence import Tape, bias_before, initial_state, stack, unstack
from ortho_ref.scan import SequenceGradients


def unroll(cell: GRUResetAfter, weights: Weights, x: Array, h0: Array | None = None) -> tuple[Array, Tape]:
    """States (T+1, B, n) and the tape; see `fused.forward`."""
    gates = "".join(cell.products)
    W, b, U = stack(weights, "W", gates), stack(weights, "b", gates), sequence.packed(stack(weights, "U", gates))
    if not bias_before(cell.activation):
        b[-1] = 0
    h = initial_state(x, weights["U_h"], h0)
    shape = (*x.shape[:2], h.shape[2])
    values, p = np.empty((len(gates), *shape), h.dtype), np.empty(shape, h.dtype)
    options, r, z, b_h, b_hh = _options(cell, weights)

    def loop(t: Span, q: Span, a: Array) -> None:
        forward_loop(*options, *t, *q, a, h, values, p, U, r, z, b_h, b_hh)

    sequence.forward(loop, sequence.Inputs(W, b, x), shape)
    return h, Tape(cell, shape, x, values, h, None, p)


def _options(cell: GRUResetAfter, weights: Weights) -> tuple[tuple[int, bool, bool], Array, Array, Array, Array]:
    """Phi, which gates are on; r and z (n,) of those that are off, b_h and b_hh, 0 where there is none."""
    none = np.zeros_like(weights["b_h"])
    vectors = (np.ascontiguousarray(weights.get(name, none)) for name in ("r", "z", "b_h", "b_hh"))
    return (PHI[cell.activation], cell.reset_gate, cell.update_gate), *vectors  # type: ignore[return-value]


@compiled
def forward_loop(
    phi: int, has_r: bool, has_z: bool, t0: int, t1: int, q0: int, q1: int,
    a: Array, h: Array, gates: Array, p: Array, U: Array, r_off: Array, z_off: Array, b_h: Array, b_hh: Array,
) -> None:  # fmt: skip
    """From a = W x + b, without b_h for modrelu, to the gates, c, p and h."""
    n, G = h.shape[2], len(gates) - 1
    Uh = rows_like(q1 - q0, n, h)
    for t in range(t0, t1):
        for gate in range(G):
            product(h[t, q0:q1], U[gate], a[gate, t - t0], n, True)  # [goru:2.4] [goru:2.3]
        product(h[t, q0:q1], U[G], Uh, n, False)  # [goru:2.2/p]
        for k in range(q0, q1):
            for gate in range(G):
                open_gate(a[gate, t - t0, k - q0], gates[gate, t, k])  # [goru:2.4] [goru:2.3]
            r = gates[0, t, k] if has_r else r_off  # [goru:abl]
            z = gates[G - 1, t, k] if has_z else z_off  # [goru:abl]
            a_h, p_t, Uh_t = a[G, t - t0, k - q0], p[t, k], Uh[k - q0]
            c, h_prev, h_t = gates[G, t, k], h[t, k], h[t + 1, k]
            for j in range(n):
                p_t[j] = Uh_t[j] + b_hh[j]  # [goru:2.2/p]
            for j in range(n):
                a_h[j] += r[j] * p_t[j]  # [goru:2.2/a]
            activate(phi, a_h, b_h, c)  # [goru:2.2/c]
            for j in range(n):
                h_t[j] = c[j] + z[j] * (h_prev[j] - c[j])  # [goru:2.2/h]


def unroll_back(
    cell: GRUResetAfter, weights: Weights, tape: Tape, dh: Array, dh_T: Array | None = None
) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    gates, n, h = "".join(cell.products), tape.shape[2], tape.h
    U, inputs = sequence.packed(stack(weights, "U", gates), back=True), sequence.gradients_of(weights, gates, tape.x)
    g, dh = sequence.cotangent(dh, dh_T), sequence.plain(dh, h)
    options, r, z, _, _ = _options(cell, weights)

    def loop(t: Span, q: Span, da: Array, dU: Array, dr: Array, dz: Array, db_h: Array, db_hh: Array) -> None:
        backward_loop(*options, *t, *q, h, tape.gates, tape.y, dh, U, r, z, g, da, dU, dr, dz, db_h, db_hh)

    shapes = [(len(gates), n, g.shape[1]), *[(n,)] * 4]
    dU, dr, dz, db_h, db_hh = sequence.backward(loop, inputs, tape.shape, shapes)
    dW, db = inputs.sums()
    if not bias_before(cell.activation):
        db[-1] = db_h
    dweights = unstack("W", gates, dW) | unstack("U", gates, sequence.recurrent_gradients(dU)) | unstack("b", gates, db)
    others = {"r": dr, "z": dz, "b_hh": db_hh}
    dweights |= {name: own for name, own in others.items() if name in weights}
    return SequenceGradients(dweights, inputs.dx, sequence.cut(g, n))


@compiled
def backward_loop(
    phi: int, has_r: bool, has_z: bool, t0: int, t1: int, q0: int, q1: int,
    h: Array, gates: Array, p: Array, dh: Array, U: Array, r_off: Array, z_off: Array,
    g: Array, da: Array, dU: Array, dr: Array, dz: Array, db_h: Array, db_hh: Array,
) -> None:  # fmt: skip
    """Carries g, all of dL/dh, to the chunk's beginning; dr and dz are of gates that are off."""
    n, G, one, zero = h.shape[2], len(gates) - 1, h.dtype.type(1), h.dtype.type(0)
    dp = rows_like((t1 - t0) * (q1 - q0), n, h).reshape(t1 - t0, q1 - q0, g.shape[1])
    for t in range(t1 - 1, t0 - 1, -1):
        for k in range(q0, q1):
            r = gates[0, t, k] if has_r else r_off  # [goru:abl]
            z = gates[G - 1, t, k] if has_z else z_off  # [goru:abl]
            da_h, dp_t, p_t, c = da[G, t - t0, k - q0], dp[t - t0, k - q0], p[t, k], gates[G, t, k]
            g_k, dh_t, h_prev = g[k], dh[t, k], h[t, k]
            for j in range(n):
                g_k[j] += dh_t[j]  # [bp:bptt/g]
            for j in range(n):
                da_h[j] = g_k[j] * (one - z[j]) * derivative(phi, c[j])  # [bp:gru2/1] [bp:gru2/2]
            for j in range(n):
                db_h[j] += da_h[j] if c[j] > zero else -da_h[j]  # [bp:gru2/2]
            for j in range(n):
                dp_t[j] = da_h[j] * r[j]  # [bp:gru2/3]
            for j in range(n):
                db_hh[j] += dp_t[j]  # [bp:gru2/3]
            if has_r:
                da_r = da[0, t - t0, k - q0]
                for j in range(n):
                    da_r[j] = da_h[j] * p_t[j] * r[j] * (one - r[j])  # [bp:gru2/3] [bp:gru2/4]
            else:
                for j in range(n):
                    dr[j] += da_h[j] * p_t[j]  # [bp:gru2/5]
            if has_z:
                da_z = da[G - 1, t - t0, k - q0]
                for j in range(n):
                    da_z[j] = g_k[j] * (h_prev[j] - c[j]) * z[j] * (one - z[j])  # [bp:gru2/1] [bp:gru2/4]
            else:
                for j in range(n):
                    dz[j] += g_k[j] * (h_prev[j] - c[j])  # [bp:gru2/5]
            for j in range(n):
                g_k[j] *= z[j]  # [bp:gru2/1]
        product(dp[t - t0, :, :n], U[G], g[q0:q1], n, True)  # [bp:gru2/3]
        for gate in range(G):
            product(da[gate, t - t0, :, :n], U[gate], g[q0:q1], n, True)  # [bp:gru2/4]
    recurrent_gradient(t0, t1, q0, q1, h, dp, dU[G])  # [bp:gru2/3]
    for gate in range(G):
        recurrent_gradient(t0, t1, q0, q1, h, da[gate], dU[gate])  # [bp:gru2/4]
