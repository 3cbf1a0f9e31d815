"""uRNN's loops, U by its factors: the Fourier transforms are SciPy's, what lies between two of them is compiled.

Forward, d_j = e^{i w_j}
    u = D_3 R_2 F^{-1} D_2 Pi R_1 F D_1 h_{t-1}            [urnn:6]
    z_t = W x_t + u                                        [urnn:1/z]
    h_t = z_t max(|z_t| + b, 0) / |z_t|, 0 at z_t = 0      [urnn:8]

Backward, g = all of dL/dh_t; s goes back from u to h_{t-1} by inverses, and ds, dz at first, beside it
    g += dh_t                                              [bp:bptt/g]
    dz from g, and db                                      [bp:modrelu-complex]
    D_j: dw = Im(ds s^*) of its output; s, ds <- d_j^* s, d_j^* ds             [bp:phase]
    R_j: dv and ds from its input s and its output's ds    [bp:householder]
    F, F^{-1} and Pi: their adjoints; g <- ds              [bp:urnnW]
    dW, dx, as of real pairs                               [bp:bptt/W]
(|z_t| below the smallest normal number counts as 0 here.)

Rows are real, (B, 2 n): Re and Im of each number in turn.  The factor 1/n of F^{-1} is in the loop between.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.fft import fft, ifft

from ortho_ref.backend import Array
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.elman import Elman
from ortho_ref.fused import sequence
from ortho_ref.fused.compiled.elman_complex import modrelu_back, size_of
from ortho_ref.fused.compiled.jit import CONTRACT, compiled, inlined
from ortho_ref.fused.elman_complex import real_rows
from ortho_ref.fused.factored import Factors
from ortho_ref.fused.sequence import Tape
from ortho_ref.parametrizations.rotations import phase
from ortho_ref.scan import SequenceGradients

#: A sum over a row is as many sums as the processor's vectors hold: the last digits depend on it.
REORDERED = CONTRACT | {"reassoc"}


class Factor(NamedTuple):
    """A reflection: v (2 n), 2 / |v|^2."""

    v: Array
    scale: Any


def _factors(U: Factors) -> tuple[list[Array], list[Factor]]:
    """d_1, d_2, d_3 (n,) complex, and the two reflections."""
    w = [U.params[f"w_{j}"] for j in (1, 2, 3)]
    v = [np.ascontiguousarray(U.params[f"v_{j}"]) for j in (1, 2)]
    return [phase(own)[:, 0] for own in w], [
        Factor(own.view(own.real.dtype), 2 / (own.real**2 + own.imag**2).sum()) for own in v
    ]


def unroll(cell: Elman, weights: Weights, x: Array, h0: Array | None = None) -> tuple[Array, Tape]:
    """States (T+1, B, n) and the tape; weights["U"] is `Factors`."""
    W, b, U = real_rows(weights["W"]), np.ascontiguousarray(weights["b"]), weights["U"]
    (d_1, d_2, d_3), (first, second) = _factors(U)
    source, kind, n = np.ascontiguousarray(U.buffers["permutation"], np.int64), b.dtype, len(b)
    z = sequence.input_products(W[None], np.zeros((1, 2 * n), kind), x)[0]  # [bp:bptt/W]
    h = sequence.initial_state(x, weights["W"].T, h0)
    u, s, r, states = np.empty_like(z), h[0] * d_1, np.empty_like(h[0]), h.view(kind)  # [urnn:6]
    d_1, d_2, d_3 = d_1.view(kind), (d_2 / n).view(kind), d_3.view(kind)
    for t in range(len(z)):
        s = fft(s, axis=1, overwrite_x=True)  # [urnn:6]
        between(s.view(kind), *first, source, d_2, r.view(kind))
        s = ifft(r, axis=1, norm="forward")  # [urnn:6]
        step(s.view(kind), *second, d_3, b, u[t], z[t], states[t + 1], d_1)
    return h, Tape(cell, (*x.shape[:2], n), x, z, h, y=u)


def _dot(v: Array, s: Array) -> tuple[Any, Any]:
    """Re and Im of v^H s."""
    re = im = s.dtype.type(0)
    for j in range(len(s) // 2):
        re += v[2 * j] * s[2 * j] + v[2 * j + 1] * s[2 * j + 1]
        im += v[2 * j] * s[2 * j + 1] - v[2 * j + 1] * s[2 * j]
    return re, im


_dot = compiled(_dot, REORDERED)


@compiled
def between(s: Array, v: Array, scale: float, source: Array, d: Array, out: Array) -> None:
    """D_2 Pi R_1 s."""
    for k in range(len(s)):
        s_k, out_k = s[k], out[k]
        p_re, p_im = _dot(v, s_k)
        p_re, p_im = scale * p_re, scale * p_im
        for j in range(len(source)):
            i = 2 * source[j]
            re = s_k[i] - (v[i] * p_re - v[i + 1] * p_im)  # [urnn:6]
            im = s_k[i + 1] - (v[i] * p_im + v[i + 1] * p_re)  # [urnn:6]
            out_k[2 * j] = d[2 * j] * re - d[2 * j + 1] * im  # [urnn:6]
            out_k[2 * j + 1] = d[2 * j] * im + d[2 * j + 1] * re  # [urnn:6]


@compiled
def step(s: Array, v: Array, scale: float, d_3: Array, b: Array, u: Array, z: Array, h: Array, d_1: Array) -> None:
    """u = D_3 R_2 s, z += u and h; s becomes D_1 h, for the next step."""
    zero, tiny = b.dtype.type(0), b.dtype.type(np.finfo(b.dtype).tiny)
    for k in range(len(s)):
        s_k, u_k, z_k, h_k = s[k], u[k], z[k], h[k]
        p_re, p_im = _dot(v, s_k)
        p_re, p_im = scale * p_re, scale * p_im
        for j in range(len(b)):
            re = s_k[2 * j] - (v[2 * j] * p_re - v[2 * j + 1] * p_im)  # [urnn:6]
            im = s_k[2 * j + 1] - (v[2 * j] * p_im + v[2 * j + 1] * p_re)  # [urnn:6]
            u_k[2 * j] = d_3[2 * j] * re - d_3[2 * j + 1] * im  # [urnn:6]
            u_k[2 * j + 1] = d_3[2 * j] * im + d_3[2 * j + 1] * re  # [urnn:6]
        for j in range(len(b)):
            re, im = z_k[2 * j] + u_k[2 * j], z_k[2 * j + 1] + u_k[2 * j + 1]  # [urnn:1/z]
            rho = size_of(re, im)
            size = rho + b[j]
            by = zero if size < zero or rho < tiny else size / rho
            z_k[2 * j], z_k[2 * j + 1] = re, im
            h_k[2 * j], h_k[2 * j + 1] = re * by, im * by  # [urnn:8]
        for j in range(len(b)):
            re, im = h_k[2 * j], h_k[2 * j + 1]
            s_k[2 * j] = d_1[2 * j] * re - d_1[2 * j + 1] * im  # [urnn:6]
            s_k[2 * j + 1] = d_1[2 * j] * im + d_1[2 * j + 1] * re  # [urnn:6]


def unroll_back(cell: Elman, weights: Weights, tape: Tape, dh: Array, dh_T: Array | None = None) -> SequenceGradients:
    """Gradients over the sequence; that of U is those of its parameters, by name."""
    W, b, U, z, u = real_rows(weights["W"]), np.ascontiguousarray(weights["b"]), weights["U"], tape.gates, tape.y
    kind, n = b.dtype, len(b)
    d, (first, second) = _factors(U)
    d_1, d_2, d_3 = (own.view(kind) for own in d)
    source, inputs = np.ascontiguousarray(U.buffers["permutation"], np.int64), sequence.InputGradients(W[None], tape.x)
    g = sequence.last_cotangent(dh, dh_T)
    dh, g_real = np.ascontiguousarray(dh, g.dtype).view(kind), g.view(kind)
    dw, dv, db = np.zeros((3, n), kind), np.zeros((2, 2 * n), kind), np.zeros(n, kind)
    both, row = np.empty((2, *g.shape), g.dtype), np.empty((2, 2 * n), kind)  # s, and ds
    for t in sequence.chunks(dh):
        dz = np.empty_like(z[t])
        for k in reversed(range(t.start, t.stop)):
            step_back(g_real, dh[k], z[k], u[k], b, d_3, *second, both.view(kind), dz[k - t.start], db, dw[2], dv[1])
            both = fft(both, axis=2, overwrite_x=True)  # [bp:urnnW]
            between_back(both.view(kind), d_2, source, *first, row, dw[1], dv[0])
            both = ifft(both, axis=2, norm="forward", overwrite_x=True)  # [bp:urnnW]
            begin_back(both.view(kind), d_1, g_real, dw[0])
        inputs.add(t, dz[None])  # [bp:bptt/W]
    dW = inputs.sums()[0][0]
    dw[0] /= n  # [bp:urnnW]
    gradients = {f"w_{j}": own for j, own in enumerate(dw, 1)}
    gradients |= {f"v_{j}": own.view(g.dtype) for j, own in enumerate(dv, 1)}
    dU = {name: gradients[name] for name in U.params}
    return SequenceGradients({"W": dW[0::2] + 1j * dW[1::2], "U": dU, "b": db}, inputs.dx, g)


@inlined
def _reflect_back(s: Array, ds: Array, v: Array, scale: float, dv: Array) -> None:
    """A row of R's output and its cotangent become those of its input; dv is added to."""
    m_re, m_im = _dot(v, s)  # v^H R s = -v^H s
    q_re, q_im = _dot(v, ds)
    along = -scale * (q_re * m_re + q_im * m_im)
    for j in range(len(s) // 2):
        re, im, v_re, v_im = s[2 * j], s[2 * j + 1], v[2 * j], v[2 * j + 1]
        s[2 * j] = re - scale * (v_re * m_re - v_im * m_im)  # [bp:householder]
        s[2 * j + 1] = im - scale * (v_re * m_im + v_im * m_re)  # [bp:householder]
    for j in range(len(s) // 2):
        re, im, d_re, d_im = s[2 * j], s[2 * j + 1], ds[2 * j], ds[2 * j + 1]
        sum_re = re * q_re + im * q_im - (d_re * m_re + d_im * m_im)
        sum_im = im * q_re - re * q_im - (d_im * m_re - d_re * m_im)
        dv[2 * j] += scale * (along * v[2 * j] - sum_re)  # [bp:householder]
        dv[2 * j + 1] += scale * (along * v[2 * j + 1] - sum_im)  # [bp:householder]
    for j in range(len(s) // 2):
        d_re, d_im, v_re, v_im = ds[2 * j], ds[2 * j + 1], v[2 * j], v[2 * j + 1]
        ds[2 * j] = d_re - scale * (v_re * q_re - v_im * q_im)  # [bp:householder]
        ds[2 * j + 1] = d_im - scale * (v_re * q_im + v_im * q_re)  # [bp:householder]


@compiled
def step_back(
    g: Array, dh: Array, z: Array, u: Array, b: Array, d: Array, v: Array, scale: float,
    both: Array, dz: Array, db: Array, dw: Array, dv: Array,
) -> None:  # fmt: skip
    """From g to dz, and back through D_3 and R_2; both is s, and ds."""
    for k in range(len(g)):
        g_k, z_k, dz_k, u_k, s, ds = g[k], z[k], dz[k], u[k], both[0, k], both[1, k]
        for j in range(len(g_k)):
            g_k[j] += dh[k, j]  # [bp:bptt/g]
        for j in range(len(b)):
            db[j] += modrelu_back(z_k, g_k, dz_k, b, j)  # [bp:modrelu-complex]
        for j in range(len(b)):
            re, im, d_re, d_im = u_k[2 * j], u_k[2 * j + 1], dz_k[2 * j], dz_k[2 * j + 1]
            c, i = d[2 * j], d[2 * j + 1]
            dw[j] += d_im * re - d_re * im  # [bp:phase]
            s[2 * j], s[2 * j + 1] = c * re + i * im, c * im - i * re  # [bp:phase]
            ds[2 * j], ds[2 * j + 1] = c * d_re + i * d_im, c * d_im - i * d_re  # [bp:phase]
        _reflect_back(s, ds, v, scale, dv)


@compiled
def between_back(
    both: Array, d: Array, source: Array, v: Array, scale: float, row: Array, dw: Array, dv: Array
) -> None:
    """Back through D_2, Pi and R_1, in place; ds has the factor 1/n of F^{-1}, s not yet."""
    n = len(source)
    by = both.dtype.type(1 / n)
    for k in range(both.shape[1]):
        s, ds = both[0, k], both[1, k]
        for j in range(n):
            re, im, d_re, d_im = s[2 * j], s[2 * j + 1], by * ds[2 * j], by * ds[2 * j + 1]  # [bp:urnnW]
            c, i = d[2 * j], d[2 * j + 1]
            dw[j] += d_im * re - d_re * im  # [bp:phase]
            to = 2 * source[j]
            row[0, to], row[0, to + 1] = c * re + i * im, c * im - i * re  # [bp:phase] [bp:urnnW]
            row[1, to], row[1, to + 1] = c * d_re + i * d_im, c * d_im - i * d_re  # [bp:phase] [bp:urnnW]
        s[:], ds[:] = row[0], row[1]
        _reflect_back(s, ds, v, scale, dv)


@compiled
def begin_back(both: Array, d: Array, g: Array, dw: Array) -> None:
    """Back through D_1, of n s: g is the cotangent of h_{t-1}."""
    for k in range(len(g)):
        s, ds = both[0, k], both[1, k]
        for j in range(len(dw)):
            re, im, d_re, d_im = s[2 * j], s[2 * j + 1], ds[2 * j], ds[2 * j + 1]
            c, i = d[2 * j], d[2 * j + 1]
            dw[j] += d_im * re - d_re * im  # [bp:phase]
            g[k, 2 * j], g[k, 2 * j + 1] = c * d_re + i * d_im, c * d_im - i * d_re  # [bp:phase] [bp:urnnW]
