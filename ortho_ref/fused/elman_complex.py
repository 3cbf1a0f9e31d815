"""`cells/elman.py` for a whole sequence of complex states, fast; `scan` holds it (test_fused).

Forward
    P: W x_t for all t, W as the 2 n real rows Re W_1, Im W_1, Re W_2 ...      [bp:bptt/W]
    z_t = P + U h_{t-1}                                    [urnn:1/z]
    h_t = z_t max(|z_t| + b, 0) / |z_t|, 0 at z_t = 0      [urnn:8]
(|z_t| below the smallest normal number counts as 0 here.)

Backward, g = all of dL/dh_t, kept for a chunk; F, G and e are formed chunk by chunk, 0 where the unit is off or z = 0
    g += dh_t                                              [bp:bptt/g]
    dz = F g + G g^*,  F = 1 + b / 2|z|,  G = -(b / 2|z|) e^2,  e = z / |z|    [bp:modrelu-complex]
    g <- U^H dz    dU = sum over t of dz h_prev^H          [bp:rnn/2] [bp:urnn/U]
    db = sum of Re(e^* g)                                  [bp:modrelu-complex]
    dW, dx, as of real pairs                               [bp:bptt/W]
"""

from types import ModuleType

from ortho_ref.backend import Array, xp_of
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.elman import Elman
from ortho_ref.fused import sequence
from ortho_ref.fused.sequence import Tape
from ortho_ref.scan import SequenceGradients


def real_rows(W: Array) -> Array:
    """(2n, m) real from W (n, m) complex: Re and Im of each row in turn."""
    return sequence.transposed(W).view(W.real.dtype).T


def _tiny(rho: Array) -> Array:
    """The smallest normal number of rho's precision, 0-d."""
    xp = xp_of(rho)
    return xp.full((), xp.finfo(rho.dtype).tiny, rho.dtype)


def unroll(
    cell: Elman, weights: Weights, x: Array, h0: Array | None = None, loops: ModuleType | None = None
) -> tuple[Array, Tape]:
    """States (T+1, B, n) and the tape; see `fused.forward`."""
    xp = xp_of(x, h0, *weights.values())
    W, b = real_rows(weights["W"]), weights["b"]
    P = sequence.input_products(W[None], xp.zeros((1, len(W)), W.dtype), x)  # [bp:bptt/W]
    z = P[0].view(weights["W"].dtype)
    U = sequence.transposed(weights["U"])
    h = sequence.initial_state(x, U, h0)
    loop = loops.forward_loop if loops else forward_loop
    loop(h, z, U, b)
    return h, Tape(cell, (*x.shape[:2], U.shape[-1]), x, z, h)


def forward_loop(h: Array, z: Array, U: Array, b: Array) -> None:
    """Over time: h[1:] (T, B, n) from h[0], and z in place of P = W x; U is the weight's transpose."""
    xp, tiny = xp_of(h), _tiny(b)
    for h_prev, h_t, z_t in zip(h[:-1], h[1:], z, strict=True):
        z_t += h_prev @ U  # [urnn:1/z]
        rho = xp.abs(z_t)
        h_t[:] = z_t * (xp.maximum(rho + b, 0) / (rho + (rho < tiny)))  # [urnn:8]


def unroll_back(
    cell: Elman, weights: Weights, tape: Tape, dh: Array, dh_T: Array | None = None, loops: ModuleType | None = None
) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    xp = xp_of(dh, dh_T, *weights.values())
    x, z, h, b = tape.x, tape.gates, tape.h, weights["b"]
    W, U = real_rows(weights["W"]), xp.ascontiguousarray(weights["U"].conj())
    dU, db = xp.zeros_like(U), xp.zeros_like(b)
    inputs = sequence.InputGradients(W[None], x)
    g = sequence.last_cotangent(dh, dh_T)
    loop = loops.backward_loop if loops else backward_loop
    for t in sequence.chunks(dh):
        rho = xp.abs(z[t])
        chi = (rho + b > 0) & (rho >= _tiny(rho))
        rho = xp.where(chi, rho, 1)
        e = chi * (z[t] / rho)
        half = chi * b / (2 * rho)
        F, G = (chi + half).astype(g.dtype), -half * (e * e)  # [bp:modrelu-complex]
        dz, g_t = xp.empty_like(F), xp.empty_like(F)
        loop(g, dh[t], dz, g_t, F, G, U)
        dU += sequence.recurrent_gradients(dz, h[:-1][t].conj())  # [bp:rnn/2] [bp:urnn/U]
        db += (e.conj() * g_t).real.sum(axis=(0, 1))  # [bp:modrelu-complex]
        inputs.add(t, dz.view(W.dtype)[None])  # [bp:bptt/W]
    dW = inputs.sums()[0][0]
    return SequenceGradients({"W": dW[0::2] + 1j * dW[1::2], "U": dU, "b": db}, inputs.dx, g)


def backward_loop(g: Array, dh: Array, dz: Array, g_t: Array, F: Array, G: Array, U: Array) -> None:
    """Back through a chunk of time.

    g (B, n) is carried on in place, dz and g_t (steps, B, n) are written to. F and G (steps, B, n) are the factors of g
    and of its conjugate, U is the weight's conjugate.
    """
    for dh_now, dz_now, g_now, F_now, G_now in reversed(list(zip(dh, dz, g_t, F, G, strict=True))):
        g_now[:] = g + dh_now  # [bp:bptt/g]
        dz_now[:] = F_now * g_now + G_now * g_now.conj()  # [bp:modrelu-complex]
        g[:] = dz_now @ U  # [bp:rnn/2]
