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
from numpy.typing import DTypeLike

from ortho_ref.backend import Array, is_array, library_of, xp_of
from ortho_ref.boundary import check_array, check_dicts, check_integer, kind_of
from ortho_ref.cells.cell import Weights, draw


@dataclass(frozen=True)
class Dense:
    """Affine readout. Weights W (output_size, input_size), b (output_size,).

    Parameters
    ----------
    input_size : int
        Length of h.
    output_size : int
        Length of o.

    Raises
    ------
    ValueError
        One of them is not an integer >= 1.
    """

    input_size: int
    output_size: int

    def __post_init__(self) -> None:
        check_integer("input_size", self.input_size)
        check_integer("output_size", self.output_size)

    def init(self, rng: np.random.Generator, *, dtype: DTypeLike = np.float32) -> Weights:
        """W Glorot uniform, b = 0.

        Parameters
        ----------
        rng : numpy.random.Generator
            Each weight is drawn from its own child.
        dtype : dtype
            Of the weights.

        Returns
        -------
        Weights
            On the host.
        """
        return draw({"W": (self.output_size, self.input_size), "b": (self.output_size,)}, rng, dtype)

    def forward(self, weights: Weights, h: Array) -> Array:
        """o = W h + b.

        Parameters
        ----------
        weights : Weights
            W and b.
        h : Array (..., input_size)
            What is read.

        Returns
        -------
        Array (..., output_size)
            o.

        Raises
        ------
        ValueError, TypeError
            Naming the argument, for wrong shapes and dtypes.
        """
        self._check(weights, h)
        return affine(weights["W"], weights["b"], h)

    def backward(self, weights: Weights, h: Array, do: Array) -> tuple[Array, Weights]:
        """The adjoint of `forward`.

        Parameters
        ----------
        weights : Weights
            W and b.
        h : Array (..., input_size)
            As given to `forward`.
        do : Array (..., output_size)
            dL/do.

        Returns
        -------
        dh : Array (..., input_size)
            dL/dh.
        dweights : Weights
            dL/dW and dL/db, summed over all axes of h but the last.

        Raises
        ------
        ValueError, TypeError
            Naming the argument, for wrong shapes and dtypes.
        """
        self._check(weights, h)
        check_array("do", do, (*h.shape[:-1], self.output_size), h.dtype)
        return affine_pullback(weights["W"], h, do)

    def _check(self, weights: Any, h: Any) -> None:
        check_dicts(weights=weights)
        for name, shape in (("W", (self.output_size, self.input_size)), ("b", (self.output_size,))):
            check_array(name, weights.get(name), shape, weights["W"].dtype)
        if not is_array(h) or h.ndim == 0 or h.shape[-1] != self.input_size:
            given = f"has shape {h.shape}" if is_array(h) else f"is {kind_of(h)}"
            raise ValueError(f"h {given}; expected (..., {self.input_size})")
        check_array("h", h, h.shape, weights["W"].dtype)
        library_of(h, *weights.values())


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
