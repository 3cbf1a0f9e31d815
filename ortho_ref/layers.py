"""Layers around the recurrent ones.

o = W h + b                                   [bp:heads/affine]
dW = do h^T    db = do    dh = W^T do         [bp:heads/affine]
(of a sequence chunk by chunk of time, the last first, as in `fused.sequence`)

k = [Re h, Im h]                              [urnn:9]
dh = dk_1 + i dk_2, the halves of dk          [bp:heads/complex]

e = s_w E_w, row w of E for the token w           [bp:lm-embedding/rows]
dE_w = sum of s_w de over the steps at which w stands   [bp:lm-embedding/gradient]

Dropout: y = s * x and dx = s * dy, each entry of s being 0 with probability `rate`, else 1 / (1 - rate).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.arguments import check_size, generator, precision
from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.cells.cell import Weights, draw
from ortho_ref.fused.sequence import chunks_of_rows
from ortho_ref.fused.tokens import one_hot, sums
from ortho_ref.initial import uniform


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
        check_size("input_size", self.input_size)
        check_size("output_size", self.output_size)

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
        """
        rows, W = h.reshape(-1, self.input_size), weights["W"]
        xp = xp_of(rows, W)
        o = xp.empty((len(rows), self.output_size), W.dtype)
        for own in chunks_of_rows(h):
            xp.matmul(rows[own], W.T, out=o[own])  # [bp:heads/affine]
            o[own] += weights["b"]  # [bp:heads/affine]
        return o.reshape(*h.shape[:-1], self.output_size)

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
        """
        rows, drows, W = h.reshape(-1, self.input_size), do.reshape(-1, self.output_size), weights["W"]
        xp = xp_of(rows, drows, W)
        dh, dW, db = xp.empty(rows.shape, W.dtype), xp.zeros_like(W), xp.zeros_like(weights["b"])
        for own in chunks_of_rows(h):
            part = drows[own]
            if len(part) == 1:  # a vector: its product rounds by how far apart its numbers lie
                part = xp.ascontiguousarray(part)
            dW += part.T @ rows[own]  # [bp:heads/affine]
            db += part.sum(axis=0)  # [bp:heads/affine]
            xp.matmul(part, W, out=dh[own])  # [bp:heads/affine]
        return dh.reshape(h.shape), {"W": dW, "b": db}


@dataclass(frozen=True)
class Embedding:
    """Tokens -> vectors.  Weight E (vocabulary, size).

    Parameters
    ----------
    vocabulary : int
        Tokens are 0 to vocabulary - 1.
    size : int
        Length of a vector.

    Raises
    ------
    ValueError
        One of them is not an integer >= 1.
    """

    vocabulary: int
    size: int

    def __post_init__(self) -> None:
        for name, value in (("vocabulary", self.vocabulary), ("size", self.size)):
            check_size(f"{name} of the embedding", value)

    def init(self, rng: np.random.Generator, *, dtype: DTypeLike = np.float32) -> Weights:
        """E uniform on +-0.1, as AWD-LSTM's.

        Parameters
        ----------
        rng : numpy.random.Generator
            What it is drawn from.
        dtype : dtype
            Of E.

        Returns
        -------
        Weights
            On the host.
        """
        return {"E": uniform(0.1)(generator(rng), (self.vocabulary, self.size), precision(dtype))}

    def forward(self, weights: Weights, tokens: Array, scale: Array | None = None) -> Array:
        """The rows of E that the tokens name.

        Parameters
        ----------
        weights : Weights
            E.
        tokens : Array (T, B)
            Integers.
        scale : Array (vocabulary, 1), optional
            Of whole words: 0 for those that are dropped.

        Returns
        -------
        Array (T, B, size)
            Vectors.
        """
        e = weights["E"][tokens]
        return e if scale is None else scale[tokens] * e  # [bp:lm-embedding/rows]

    def backward(self, tokens: Array, de: Array, scale: Array | None = None) -> Weights:
        """The adjoint of `forward`.

        Parameters
        ----------
        tokens : Array (T, B)
            As given to `forward`.
        de : Array (T, B, size)
            dL/de.
        scale : Array (vocabulary, 1), optional
            As given to `forward`.

        Returns
        -------
        Weights
            dL/dE.
        """
        words, rows = tokens.reshape(-1), de.reshape(-1, self.size)
        if library_of(de).device == "cpu":
            dE = one_hot(words[::-1], self.vocabulary, de.dtype).T @ rows[::-1]
        else:
            dE = xp_of(de).zeros((self.vocabulary, self.size), de.dtype)
            for own in chunks_of_rows(de):
                self.add(dE, words[own], rows[own])
        return {"E": dE if scale is None else scale * dE}  # [bp:lm-embedding/gradient]

    def add(self, dE: Array, tokens: Array, de: Array) -> None:
        """Take in some steps of a sequence, those after them being in already.

        On the host a row is summed entry by entry, from the last step on: to the bit the gradient of all of them.

        Parameters
        ----------
        dE : Array (vocabulary, size)
            Of the steps after them; added to.
        tokens : Array (N,)
            Integers.
        de : Array (N, size)
            dL/de.
        """
        library = library_of(dE, tokens, de)
        xp = library.xp
        if library.device != "cpu":
            dE += next(sums(tokens, de[None], self.vocabulary))  # [bp:lm-embedding/gradient]
            return
        # of a large vocabulary few words are here; a device would have to wait for how many
        words, which = xp.unique(tokens[::-1], return_inverse=True)
        entries, rows = xp.concatenate([xp.arange(len(words)), which]), xp.concatenate([dE[words], de[::-1]])
        dE[words] = one_hot(entries, len(words), de.dtype).T @ rows  # [bp:lm-embedding/gradient]


def real_features(h: Array) -> Array:
    """[Re h, Im h] of complex states, in which they are read on; real states as they are.

    Parameters
    ----------
    h : Array (..., n)
        States, real or complex.

    Returns
    -------
    Array (..., 2 n) or (..., n)
        Real.
    """
    if h.dtype.kind != "c":
        return h
    return xp_of(h).concatenate([h.real, h.imag], axis=-1)  # [urnn:9]


def real_features_pullback(dfeatures: Array, complex: bool) -> Array:
    """The states' gradient from that of their real features.

    Parameters
    ----------
    dfeatures : Array (..., 2 n) or (..., n)
        The gradient of what `real_features` gave.
    complex : bool
        Whether the states are complex.

    Returns
    -------
    Array (..., n)
        dL/dRe + i dL/dIm where they are; else dfeatures.
    """
    if not complex:
        return dfeatures
    n = dfeatures.shape[-1] // 2
    return dfeatures[..., :n] + 1j * dfeatures[..., n:]  # [bp:heads/complex]


def dropout_scale(rng: np.random.Generator, rate: float, like: Array, shape: tuple[int, ...] | None = None) -> Array:
    """s of dropout; drawn on the host, so that every device gets the same.

    Parameters
    ----------
    rng : numpy.random.Generator
        What it is drawn from.
    rate : float
        The probability of a 0.
    like : Array
        What is to be dropped out of.
    shape : tuple of int, optional
        Of s, to be broadcast; that of `like` unless given.

    Returns
    -------
    Array
        s, of the dtype of `like` and beside it.
    """
    return scale_of(dropout_kept(rng, rate, like.shape if shape is None else shape), rate, like)


def dropout_kept(rng: np.random.Generator, rate: float, shape: tuple[int, ...]) -> np.ndarray:
    """Which entries dropout leaves; of a sequence drawn in stretches of time they are those drawn at once.

    Parameters
    ----------
    rng : numpy.random.Generator
        What it is drawn from.
    rate : float
        The probability of False.
    shape : tuple of int
        Of what is dropped out of.

    Returns
    -------
    numpy.ndarray
        bool.
    """
    return rng.random(shape, np.float32) >= rate


def scale_of(kept: np.ndarray, rate: float, like: Array) -> Array:
    """s of dropout that leaves these entries.

    Parameters
    ----------
    kept : numpy.ndarray
        bool.
    rate : float
        The probability that one was dropped.
    like : Array
        What is to be dropped out of.

    Returns
    -------
    Array
        0 or 1 / (1 - rate), of the dtype of `like` and beside it.
    """
    return library_of(like).from_host(kept.astype(like.dtype) / like.dtype.type(1 - rate))
