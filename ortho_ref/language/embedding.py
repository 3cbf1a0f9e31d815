"""Tokens -> vectors.

e = s_w E_w, row w of E for the token w           [bp:lm-embedding/rows]
dE_w = sum of s_w de over the steps at which w stands   [bp:lm-embedding/gradient]
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.backend import Array
from ortho_ref.boundary import check_integer, generator, precision
from ortho_ref.cells.cell import Weights
from ortho_ref.fused.tokens import sums
from ortho_ref.initial import uniform


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
            check_integer(f"{name} of the embedding", value)

    def init(self, rng: np.random.Generator, *, dtype: DTypeLike = np.float32) -> Weights:
        """E on the host, uniform on +-0.1, as AWD-LSTM's."""
        return {"E": uniform(0.1)(generator(rng), (self.vocabulary, self.size), precision(dtype))}

    def forward(self, weights: Weights, tokens: Array, scale: Array | None = None) -> Array:
        """The rows of E that tokens (T, B), integers, name: vectors (T, B, size).

        `scale` (vocabulary, 1) is of whole words: 0 for those that are dropped.
        """
        e = weights["E"][tokens]
        return e if scale is None else scale[tokens] * e  # [bp:lm-embedding/rows]

    def backward(self, tokens: Array, de: Array, scale: Array | None = None) -> Weights:
        """The adjoint of `forward`, which was given the same tokens and scale: dL/dE of dL/de (T, B, size)."""
        dE = next(sums(tokens.reshape(-1), de.reshape(1, -1, self.size), self.vocabulary))
        return {"E": dE if scale is None else scale * dE}  # [bp:lm-embedding/gradient]
