"""What dropout draws for a sequence: once as it runs, or all beforehand, for a sequence that runs again in segments.

The generator is asked in one order: words, what the first layer reads, and of each layer its recurrent weights, its
outputs step by step, its outputs locked.  So both ways draw the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ortho_ref.backend import Array, library_of
from ortho_ref.cells import Weights
from ortho_ref.layers import dropout_kept, dropout_scale, scale_of
from ortho_ref.parametrizations import Params
from ortho_ref.recurrent import Recurrent
from ortho_ref.regularizers import Regularizers, locked_scale


@dataclass(frozen=True)
class Dropout:
    """Draws each thing when it is asked for it; without a generator nothing is dropped.

    Parameters
    ----------
    rate : float
        Of every layer's outputs, step by step.
    regularizers : Regularizers
        The other rates.
    layers : tuple of Recurrent
        The network's.
    rng : numpy.random.Generator or None
        What it is drawn from.
    """

    rate: float
    regularizers: Regularizers
    layers: tuple[Recurrent, ...]
    rng: np.random.Generator | None

    def words(self, E: Array) -> Array | None:
        """s of the embedding's words (vocabulary, 1)."""
        rate = self.regularizers.words
        return dropout_scale(self.rng, rate, E, (len(E), 1)) if self.rng is not None and rate else None

    def inputs(self, x: Array) -> Array | None:
        """s of what the first layer reads, (1, B, m); TypeError for tokens."""
        rate = self.regularizers.inputs
        if self.rng is None or not rate:
            return None
        if x.dtype.kind in "iu":
            raise TypeError("x holds tokens, and dropout of inputs is of vectors; allowed: vectors, or an embedding")
        return locked_scale(self.rng, rate, x)

    def weights(self, i: int, params: Params) -> Weights:
        """s of layer i's recurrent weights, by name; params are its own."""
        if self.rng is None:
            return {}
        names = self.regularizers.dropped_weights(self.layers[i])
        return {name: dropout_scale(self.rng, self.regularizers.weights, params[name]) for name in names}

    def outputs(self, i: int, x: Array) -> Array | None:
        """s of layer i's outputs x (T, B, n)."""
        if self.rng is None:
            return None
        return _both(dropout_scale(self.rng, self.rate, x) if self.rate else None, self._locked(i, x))

    def _locked(self, i: int, x: Array) -> Array | None:
        assert self.rng is not None
        rate = self.regularizers.outputs if i == len(self.layers) - 1 else self.regularizers.hidden
        return locked_scale(self.rng, rate, x) if rate else None


class _Bits(NamedTuple):
    """Which entries are kept, a bit each."""

    packed: np.ndarray
    shape: tuple[int, ...]


class Redrawn:
    """The draws of a whole sequence, made beforehand; `segment` says of which of its segments it then answers.

    Step by step dropout is kept as a bit for each number.

    Parameters
    ----------
    dropout : Dropout
        What draws.
    params : list of dict
        Of each layer its own.
    E : Array or None
        The embedding's.
    x : Array (1, B, m), or integer tokens
        What the first layer reads, one step.
    lengths : sequence of int
        The segments' steps, the first segment's first.
    """

    def __init__(
        self, dropout: Dropout, params: Sequence[Params], E: Array | None, x: Array, lengths: Sequence[int]
    ) -> None:
        self.segment = 0
        self._rate = dropout.rate
        self._words = None if E is None else dropout.words(E)
        self._inputs = dropout.inputs(x)
        self._weights: list[Weights] = []
        self._steps: list[list[_Bits]] = []
        self._locked: list[Array | None] = []
        B = x.shape[1]
        for i, own in enumerate(params):
            self._weights.append(dropout.weights(i, own))
            width = dropout.layers[i].output_size
            assert width is not None
            shapes = [(T, B, width) for T in lengths] if dropout.rng is not None and dropout.rate else []
            self._steps.append([_drawn(dropout.rng, dropout.rate, shape) for shape in shapes])
            # of one step alone: it has the sequence's shape but for its length
            step = library_of(x).xp.empty((1, B, width), next(iter(own.values())).real.dtype)
            self._locked.append(None if dropout.rng is None else dropout._locked(i, step))

    def words(self, E: Array) -> Array | None:
        """As `Dropout.words`."""
        return self._words

    def inputs(self, x: Array) -> Array | None:
        """As `Dropout.inputs`."""
        return self._inputs

    def weights(self, i: int, params: Params) -> Weights:
        """As `Dropout.weights`."""
        return self._weights[i]

    def outputs(self, i: int, x: Array) -> Array | None:
        """As `Dropout.outputs`, of the segment."""
        steps = None
        if self._steps[i]:
            bits = self._steps[i][self.segment]
            kept = np.unpackbits(bits.packed, count=x.size).reshape(bits.shape)
            steps = scale_of(kept, self._rate, x)
        return _both(steps, self._locked[i])


def _drawn(rng: np.random.Generator | None, rate: float, shape: tuple[int, ...]) -> _Bits:
    assert rng is not None
    return _Bits(np.packbits(dropout_kept(rng, rate, shape)), shape)


def _both(steps: Array | None, locked: Array | None) -> Array | None:
    """The product of the two, where both are."""
    if steps is None or locked is None:
        return locked if steps is None else steps
    return steps * locked
