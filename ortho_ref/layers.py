"""Layers around the recurrent ones.

o = W h + b                                   [bp:heads/affine]
dW = do h^T    db = do    dh = W^T do         [bp:heads/affine]

k = [Re h, Im h]                              [urnn:9]
dh = dk_1 + i dk_2, the halves of dk          [bp:heads/complex]

Dropout: y = s * x and dx = s * dy, each entry of s being 0 with probability `rate`, else 1 / (1 - rate).
"""

import numpy as np

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.cells.cell import Weights


def affine(W: Array, b: Array, h: Array) -> Array:
    """o = W h + b, (..., q), of h (..., n)."""
    return (h.reshape(-1, h.shape[-1]) @ W.T + b).reshape(*h.shape[:-1], len(b))  # [bp:heads/affine]


def affine_pullback(W: Array, h: Array, do: Array) -> tuple[Array, Weights]:
    """The adjoint of `affine` at do (..., q): dh (..., n), and dW and db, summed over all axes but the last."""
    rows, drows = h.reshape(-1, h.shape[-1]), do.reshape(-1, do.shape[-1])
    dweights = {"W": drows.T @ rows, "b": drows.sum(axis=0)}  # [bp:heads/affine]
    return (drows @ W).reshape(h.shape), dweights  # [bp:heads/affine]


def real_features(h: Array) -> Array:
    """[Re h, Im h], (..., 2 n), of complex states h (..., n), in which they are read on; real states as they are."""
    if h.dtype.kind != "c":
        return h
    return xp_of(h).concatenate([h.real, h.imag], axis=-1)  # [urnn:9]


def real_features_pullback(dfeatures: Array, complex: bool) -> Array:
    """The gradient by states h (..., n), dL/dRe + i dL/dIm where they are complex, from that of their real features."""
    if not complex:
        return dfeatures
    n = dfeatures.shape[-1] // 2
    return dfeatures[..., :n] + 1j * dfeatures[..., n:]  # [bp:heads/complex]


def dropout_scale(rng: np.random.Generator, rate: float, like: Array, shape: tuple[int, ...] | None = None) -> Array:
    """s of dropout, of the dtype of `like` and beside it, of its shape or another; drawn on the host for every device.

    Each entry is 0 with probability `rate`, else 1 / (1 - rate).
    """
    kept = rng.random(like.shape if shape is None else shape, np.float32) >= rate
    return library_of(like).from_host(kept.astype(like.dtype) / like.dtype.type(1 - rate))


def dropped(s: Array | None, x: Array) -> Array:
    """s * x; x where nothing is dropped, and s is None."""
    return x if s is None else s * x
