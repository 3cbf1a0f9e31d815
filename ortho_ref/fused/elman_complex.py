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
    xp = xp_of(h)
    rho, scale = xp.empty_like(z[0].real, order="C"), xp.empty_like(z[0].real, order="C")
    zero, tiny, none = xp.zeros((), rho.dtype), _tiny(rho), xp.empty(rho.shape, bool)
    for h_prev, h_t, z_t in zip(h[:-1], h[1:], z, strict=True):
        xp.matmul(h_prev, U, out=h_t)  # [urnn:1/z]
        xp.add(z_t, h_t, out=z_t)  # [urnn:1/z]
        xp.abs(z_t, out=rho)
        xp.add(rho, b, out=scale)
        xp.maximum(scale, zero, out=scale)
        xp.less(rho, tiny, out=none)
        xp.add(rho, none, out=rho)
        xp.divide(scale, rho, out=scale)
        xp.multiply(z_t, scale, out=h_t)  # [urnn:8]


def unroll_back(
    cell: Elman,
    weights: Weights,
    tape: Tape,
    dh: Array,
    dh_T: Array | None = None,
    loops: ModuleType | None = None,
) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    xp = xp_of(dh, dh_T, *weights.values())
    x, z, h, b = tape.x, tape.gates, tape.h, weights["b"]
    W, U = real_rows(weights["W"]), xp.ascontiguousarray(weights["U"].conj())
    dU, db = xp.zeros_like(U), xp.zeros_like(b)
    inputs = sequence.InputGradients(W[None], x)
    steps, chunks = sequence.chunks(z)
    g = sequence.last_cotangent(dh, dh_T)
    dz_chunk, g_chunk = xp.empty((steps, *g.shape), g.dtype), xp.empty((steps, *g.shape), g.dtype)
    loop = loops.backward_loop if loops else backward_loop
    for t in chunks:
        rho = xp.abs(z[t])
        chi = (rho + b > 0) & (rho >= _tiny(rho))
        rho = xp.where(chi, rho, 1)
        e = chi * (z[t] / rho)
        half = chi * b / (2 * rho)
        F, G = (chi + half).astype(g.dtype), -half * (e * e)  # [bp:modrelu-complex]
        dz, g_t = dz_chunk[: len(F)], g_chunk[: len(F)]
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
    xp = xp_of(g)
    turned = xp.empty_like(g)
    for dh_now, dz_now, g_now, F_now, G_now in reversed(list(zip(dh, dz, g_t, F, G, strict=True))):
        xp.add(g, dh_now, out=g_now)  # [bp:bptt/g]
        xp.multiply(g_now, F_now, out=dz_now)  # [bp:modrelu-complex]
        xp.conj(g_now, out=turned)
        xp.multiply(turned, G_now, out=turned)  # [bp:modrelu-complex]
        xp.add(dz_now, turned, out=dz_now)  # [bp:modrelu-complex]
        xp.matmul(dz_now, U, out=g)  # [bp:rnn/2]
