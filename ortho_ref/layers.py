"""Layers around the recurrent ones.

o = W h + b                                   [bp:heads/affine]
dW = do h^T    db = do    dh = W^T do         [bp:heads/affine]

k = [Re h, Im h]                              [urnn:9]
dh = dk_1 + i dk_2, the halves of dk          [bp:heads/complex]

Dropout: y = s * x and dx = s * dy, each entry of s being 0 with probability `rate`, else 1 / (1 - rate).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.cells.cell import Weights, draw


@dataclass(frozen=True)
class Dense:
    """Affine readout.  Weights W (output_size, input_size), b (output_size,)."""

    input_size: int
    output_size: int

    def init(self, rng: np.random.Generator, dtype: Any) -> Weights:
        """W Glorot uniform, b = 0."""
        return draw({"W": (self.output_size, self.input_size), "b": (self.output_size,)}, rng, dtype)

    def forward(self, weights: Weights, h: Array) -> Array:
        """h (..., input_size) -> o (..., output_size)."""
        rows = h.reshape(-1, self.input_size) @ weights["W"].T + weights["b"]  # [bp:heads/affine]
        return rows.reshape(*h.shape[:-1], self.output_size)

    def backward(self, weights: Weights, h: Array, do: Array) -> tuple[Array, Weights]:
        """(dh, dweights) from do (..., output_size)."""
        rows, drows = h.reshape(-1, self.input_size), do.reshape(-1, self.output_size)
        dweights = {"W": drows.T @ rows, "b": drows.sum(axis=0)}  # [bp:heads/affine]
        return (drows @ weights["W"]).reshape(h.shape), dweights  # [bp:heads/affine]


def real_features(h: Array) -> Array:
    """[Re h, Im h] (..., 2 n) of complex states h (..., n), in which they are read on; real states as they are."""
    if h.dtype.kind != "c":
        return h
    return xp_of(h).concatenate([h.real, h.imag], axis=-1)  # [urnn:9]


def real_features_pullback(dfeatures: Array, complex: bool) -> Array:
    """The states' gradient, dL/dRe + i dL/dIm where they are complex, from that of their real features."""
    if not complex:
        return dfeatures
    n = dfeatures.shape[-1] // 2
    return dfeatures[..., :n] + 1j * dfeatures[..., n:]  # [bp:heads/complex]


def dropout_scale(rng: np.random.Generator, rate: float, like: Array) -> Array:
    """s of dropout, shaped like `like` and beside it; drawn on the host, so that every device gets the same."""
    kept = rng.random(like.shape, np.float32) >= rate
    return library_of(like).from_host(kept.astype(like.dtype) / like.dtype.type(1 - rate))
