"""The structured unitary matrix of the uRNN: eight factors, 7 n parameters.

    U = D_3 R_2 F^{-1} D_2 Pi R_1 F D_1                                         [urnn:6]
    D_j = diag(e^{i w_j})   R_j = I - 2 v_j v_j^H / |v_j|^2   (Pi z)_k = z[permutation k]   F: the DFT   [urnn:blocks]

Pullback: the factors are walked from the left, s_8 = U; the input of each is had by applying its inverse
    D_3, D_2, D_1:  dw = Im(ds * s^*) of its output, ds <- D^H ds               [bp:phase]
    R_2, R_1:  p = v^H s, g = v^H ds of its input s and output's ds;
               dv = -2 / |v|^2 (ds p^H + s g^H) + 4 / |v|^4 Re(g^H p) v;  ds <- R ds   [bp:householder]
    F^{-1}: ds <- F ds / n;  F: ds <- n F^{-1} ds;  Pi: ds[permutation] <- ds   [bp:urnnW]

The columns of I go through the factors together, so that U is dense.  F and F^{-1} occur once each: their scale cancels
(E-urnn-06).  Released code reflects in the conjugate of v.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.backend import Array, complex_dtype, xp_of
from ortho_ref.initial import uniform
from ortho_ref.parametrizations.parametrization import Buffers, Parametrization, Params, check_draw, check_parameter
from ortho_ref.parametrizations.rotations import phase


def reflect(v: Array, s: Array) -> Array:
    """R s = s - 2 v (v^H s) / |v|^2, column by column of s (n, columns); v (n,) is not 0."""
    return s - v[:, None] * (2 / _square(v) * (v.conj() @ s))  # [urnn:blocks]


def reflection_gradient(v: Array, s: Array, ds: Array) -> Array:
    """dL/dv (n,) of R = I - 2 v v^H / |v|^2, from its input s and its output's cotangent ds, (n, columns) each."""
    p, g = v.conj() @ s, v.conj() @ ds  # [bp:householder]
    scale = 2 / _square(v)  # its square would leave the range of the dtype long before U does
    along = scale * (g.conj() * p).real.sum()
    return scale * (along * v - ds @ p.conj() - s @ g.conj())  # [bp:householder]


def _square(v: Array) -> Array:
    return (v.real**2 + v.imag**2).sum()


def _check_square(name: str, v: Array) -> None:
    square, least = float(_square(v)), float(np.finfo(v.dtype).tiny)
    if not least <= square < np.inf:
        raise ValueError(f"the square of {name} is {square}; allowed: at least {least}, finite")


@dataclass(frozen=True)
class StructuredUnitary(Parametrization):
    """uRNN's unitary matrix. Parameters w_1, w_2, w_3 (n,) real; v_1, v_2 (n,) complex, not 0.

    Buffers: U; the permutation, drawn with the first parameters and never trained.

    References
    ----------
    [urnn:6], docs/equations.md.
    """

    complex: ClassVar[bool] = True

    def init(self, rng: np.random.Generator, n: int, *, dtype: DTypeLike = np.float32) -> tuple[Params, Buffers]:
        """w uniform on +-pi, real and imaginary part of v uniform on +-1 (urnn:init); a uniform permutation."""
        rng, dtype = check_draw(rng, n, dtype)
        own, *children = rng.spawn(6)
        w, v = children[:3], children[3:]
        params = {f"w_{j}": uniform(np.pi)(child, (n,), dtype) for j, child in zip((1, 2, 3), w, strict=True)}
        params |= {f"v_{j}": uniform(1)(child, (n,), complex_dtype(dtype)) for j, child in zip((1, 2), v, strict=True)}
        buffers = {"U": np.empty((n, n), complex_dtype(dtype)), "permutation": own.permutation(n)}
        return params, self.rebuild(params, buffers)

    def rebuild(self, params: Params, buffers: Buffers) -> Buffers:
        """U from the parameters.  ValueError for wrong shapes, kinds and values."""
        n = buffers["U"].shape[0]
        for name, kind in (("w_1", "f"), ("w_2", "f"), ("w_3", "f"), ("v_1", "c"), ("v_2", "c")):
            check_parameter(name, params[name], (n,), kind)
            if kind == "c":
                _check_square(name, params[name])
        p, xp = params, xp_of(params["w_1"])
        dtype = p["v_1"].dtype
        s = xp.fft.fft(xp.diag(phase(p["w_1"])[:, 0]), axis=0).astype(dtype, copy=False)  # [urnn:6]
        s = reflect(p["v_1"], s)[buffers["permutation"]]  # [urnn:6]
        s = xp.fft.ifft(phase(p["w_2"]) * s, axis=0).astype(dtype, copy=False)  # [urnn:6]
        return {**buffers, "U": phase(p["w_3"]) * reflect(p["v_2"], s)}  # [urnn:6]

    def pullback(self, params: Params, buffers: Buffers, dU: Array) -> Params:
        """dL/dU -> the gradients of w_1, w_2, w_3 (real) and v_1, v_2 (complex)."""
        p, n, xp = params, len(dU), xp_of(dU, *params.values())
        back = buffers["permutation"].argsort()
        gradients = {}

        def through_diagonal(name: str, s: Array, ds: Array) -> tuple[Array, Array]:
            gradients[name] = (ds * s.conj()).imag.sum(axis=1)  # [bp:phase]
            return phase(-p[name]) * s, phase(-p[name]) * ds  # [bp:phase]

        def through_reflection(name: str, s: Array, ds: Array) -> tuple[Array, Array]:
            s = reflect(p[name], s)
            gradients[name] = reflection_gradient(p[name], s, ds)  # [bp:householder]
            return s, reflect(p[name], ds)  # [bp:householder]

        def fft(s: Array) -> Array:
            return xp.fft.fft(s, axis=0).astype(dU.dtype, copy=False)

        def ifft(s: Array) -> Array:
            return xp.fft.ifft(s, axis=0).astype(dU.dtype, copy=False)

        s, ds = through_diagonal("w_3", buffers["U"], dU)
        s, ds = through_reflection("v_2", s, ds)
        s, ds = fft(s), fft(ds) / n  # [bp:urnnW]
        s, ds = through_diagonal("w_2", s, ds)
        s, ds = s[back], ds[back]  # [bp:urnnW]
        s, ds = through_reflection("v_1", s, ds)
        s, ds = ifft(s), ifft(ds) * n  # [bp:urnnW]
        through_diagonal("w_1", s, ds)
        return {name: gradients[name] for name in params}

    def count(self, n: int) -> int:
        """7 n: three times n phases, two complex vectors."""
        return 7 * n
