"""`cells/elman.py` for a whole sequence of complex states, compiled; `scan` holds it (test_compiled).

Rows are real: Re and Im of each number in turn, (..., 2 n).  U is the real matrix that does to them what U does to
complex ones, dU the part of its gradient that is such a matrix.
"""

import math

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.elman import Elman
from ortho_ref.fused.compiled import sequence
from ortho_ref.fused.compiled.jit import compiled, inlined
from ortho_ref.fused.compiled.sequence import Span, recur, recur_back, sum_up
from ortho_ref.fused.elman_complex import real_rows
from ortho_ref.fused.factored import Factors
from ortho_ref.fused.sequence import Tape, initial_state
from ortho_ref.parametrizations import Params
from ortho_ref.scan import SequenceGradients


def _real(U: Array | Factors) -> Array | Factors:
    """The real matrix (2 n, 2 n) of a complex one (n, n); of factors, themselves."""
    if isinstance(U, Factors):
        return U
    n = len(U)
    whole = np.empty((n, 2, n, 2), U.real.dtype)
    whole[:, 0, :, 0] = whole[:, 1, :, 1] = U.real
    whole[:, 1, :, 0], whole[:, 0, :, 1] = U.imag, -U.imag
    return whole.reshape(2 * n, 2 * n)


def _complex(dU: Array | Params) -> Array | Params:
    """The gradient of U (n, n) from that of its real matrix: the adjoint of `_real`."""
    if isinstance(dU, dict):
        return dU
    n = len(dU) // 2
    parts = dU.reshape(n, 2, n, 2)
    return parts[:, 0, :, 0] + parts[:, 1, :, 1] + 1j * (parts[:, 1, :, 0] - parts[:, 0, :, 1])


def unroll(cell: Elman, weights: Weights, x: Array, h0: Array | None = None) -> tuple[Array, Tape]:
    """States (T+1, B, n) and the tape; see `fused.forward`."""
    W, b = real_rows(weights["W"]), np.ascontiguousarray(weights["b"])
    h, U = initial_state(x, weights["W"].T, h0), sequence.packed(_real(weights["U"]))
    (T, B), n = x.shape[:2], h.shape[2]
    z = np.empty((T, B, n), h.dtype)
    h_real, z_real = h.view(b.dtype), z.view(b.dtype)

    def loop(t: Span, q: Span, a: Array) -> None:
        forward_loop(*t, *q, a, h_real, z_real, U, b)

    sequence.forward(loop, sequence.Inputs(W[None], np.zeros((1, 2 * n), b.dtype), x), (T, B, 2 * n))
    return h, Tape(cell, (T, B, n), x, z, h)


@inlined
def size_of(re: float, im: float) -> float:
    """|z|, whose square may be too large or too small a number."""
    re, im = abs(re), abs(im)
    most, least = max(re, im), min(re, im)
    ratio = least / most if most > 0 else most
    return most * type(most)(math.sqrt(type(most)(1) + ratio * ratio))


@compiled
def forward_loop(t0: int, t1: int, q0: int, q1: int, a: Array, h: Array, z: Array, U: Array, b: Array) -> None:
    """From a = W x to z and h."""
    n, N, zero = len(b), h.shape[2], b.dtype.type(0)
    tiny = b.dtype.type(np.finfo(b.dtype).tiny)
    for t in range(t0, t1):
        recur(h[t, q0:q1], U, a[0, t - t0])  # [urnn:1/z]
        for k in range(q0, q1):
            a_t, z_t, h_t = a[0, t - t0, k - q0], z[t, k], h[t + 1, k]
            for j in range(N):
                z_t[j] = a_t[j]  # [urnn:1/z]
            for j in range(n):
                rho = size_of(z_t[2 * j], z_t[2 * j + 1])
                size = rho + b[j]
                scale = zero if size < zero or rho < tiny else size / rho
                h_t[2 * j], h_t[2 * j + 1] = z_t[2 * j] * scale, z_t[2 * j + 1] * scale  # [urnn:8]


def unroll_back(cell: Elman, weights: Weights, tape: Tape, dh: Array, dh_T: Array | None = None) -> SequenceGradients:
    """Gradients over the sequence; see `fused.backward`."""
    T, B, n = tape.shape
    b, W = np.ascontiguousarray(weights["b"]), real_rows(weights["W"])
    U, inputs = sequence.packed(_real(weights["U"]), back=True), sequence.InputGradients(W[None], tape.x)
    h, z, dh = tape.h.view(b.dtype), tape.gates.view(b.dtype), sequence.plain(dh, tape.h).view(b.dtype)
    g = sequence.cotangent(dh, None if dh_T is None else np.ascontiguousarray(dh_T).view(b.dtype))

    def loop(t: Span, q: Span, dz: Array, dU: Array, db: Array) -> None:
        backward_loop(*t, *q, h, z, dh, U, b, g, dz, dU, db)

    dU, db = sequence.backward(loop, inputs, (T, B, 2 * n), [sequence.shape_of_sums(U, g), (n,)])
    dW = inputs.sums()[0][0]
    dweights = {"W": dW[0::2] + 1j * dW[1::2], "U": _complex(sequence.gradient_of_one(weights["U"], U, dU)), "b": db}
    return SequenceGradients(dweights, inputs.dx, sequence.cut(g, 2 * n).view(tape.h.dtype))


@inlined
def modrelu_back(z: Array, g: Array, dz: Array, b: Array, j: int) -> float:
    """Unit j's dz from the cotangent g of its state, rows of real pairs, and its db."""
    zero, one, tiny = b.dtype.type(0), b.dtype.type(1), b.dtype.type(np.finfo(b.dtype).tiny)
    g_re, g_im, rho = g[2 * j], g[2 * j + 1], size_of(z[2 * j], z[2 * j + 1])
    chi = zero if rho + b[j] <= zero or rho < tiny else one
    rho = rho if chi > zero else one
    e_re, e_im = z[2 * j] / rho, z[2 * j + 1] / rho
    gamma = chi * (e_re * g_re + e_im * g_im)  # [bp:modrelu-complex]
    across = chi * (one + b[j] / rho)
    dz[2 * j] = e_re * gamma + across * (g_re - e_re * gamma)  # [bp:modrelu-complex]
    dz[2 * j + 1] = e_im * gamma + across * (g_im - e_im * gamma)  # [bp:modrelu-complex]
    return gamma


@compiled
def backward_loop(
    t0: int, t1: int, q0: int, q1: int,
    h: Array, z: Array, dh: Array, U: Array, b: Array, g: Array, dz: Array, dU: Array, db: Array,
) -> None:  # fmt: skip
    """Carries g, all of dL/dh, to the chunk's beginning; dz and db are 0 where the unit is off, or z is 0."""
    n, N = len(b), h.shape[2]
    for t in range(t1 - 1, t0 - 1, -1):
        for k in range(q0, q1):
            g_k, dh_t, z_t, dz_t = g[k], dh[t, k], z[t, k], dz[0, t - t0, k - q0]
            for j in range(N):
                g_k[j] += dh_t[j]  # [bp:bptt/g]
            for j in range(n):
                db[j] += modrelu_back(z_t, g_k, dz_t, b, j)  # [bp:modrelu-complex]
        recur_back(h[t, q0:q1], dz[0, t - t0], U, g[q0:q1], False, dU[0])  # [bp:rnn/2]
    sum_up(U, t0, t1, q0, q1, h, dz[0], dU[0])  # [bp:rnn/2] [bp:urnn/U]
