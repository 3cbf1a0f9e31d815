"""What dropout draws for a sequence: s of every entry, or one for all of its steps ("locked").

The generator is asked in one order: words, what the first layer reads, and of each layer its recurrent weights, its
outputs step by step, its outputs locked.
"""

from dataclasses import dataclass

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.cells import Weights
from ortho_ref.language.regularizers import Regularizers
from ortho_ref.layers import dropout_scale
from ortho_ref.parametrizations import Params
from ortho_ref.recurrent import Recurrent


def locked_scale(rng: np.random.Generator, rate: float, x: Array) -> Array:
    """s (1, B, n) of variational dropout of x (T, B, n): one for every sequence and unit, the same at all steps."""
    return dropout_scale(rng, rate, x, (1, *x.shape[1:]))


@dataclass(frozen=True)
class Dropout:
    """Draws each s when it is asked for it; without a generator nothing is dropped, and s is None."""

    rate: float  # of every layer's outputs, step by step
    regularizers: Regularizers  # the other rates
    layers: tuple[Recurrent, ...]  # the network's
    rng: np.random.Generator | None  # what each s is drawn from

    def words(self, E: Array) -> Array | None:
        """s of the embedding's words (vocabulary, 1)."""
        rate = self.regularizers.words
        return dropout_scale(self.rng, rate, E, (len(E), 1)) if self.rng is not None and rate else None

    def inputs(self, x: Array) -> Array | None:
        """s of what the first layer reads, (1, B, m)."""
        rate = self.regularizers.inputs
        return locked_scale(self.rng, rate, x) if self.rng is not None and rate else None

    def weights(self, i: int, params: Params) -> Weights:
        """s of layer i's recurrent weights, by name; params are its own."""
        if self.rng is None:
            return {}
        names = self.regularizers.dropped_weights(self.layers[i])
        return {name: dropout_scale(self.rng, self.regularizers.weights, params[name]) for name in names}

    def outputs(self, i: int, x: Array) -> Array | None:
        """s of layer i's outputs x (T, B, n), (T, B, n) or (1, B, n)."""
        if self.rng is None:
            return None
        every = dropout_scale(self.rng, self.rate, x) if self.rate else None
        rate = self.regularizers.outputs if i == len(self.layers) - 1 else self.regularizers.hidden
        locked = locked_scale(self.rng, rate, x) if rate else None
        return every if locked is None else locked if every is None else every * locked
