"""The denoise task (ncgru:task-denoise): pick ten symbols out of noise, remember them, and give them back in order.

Symbols: 0 noise, 1..9 data, 10 marker.  The ten data symbols are drawn independently and uniformly.
Input, T + 20 steps: T + 9 with the data at ten places in their order and noise elsewhere; the marker; 10 of noise.
Target: 0 for T + 10 steps, then the ten symbols; 10 classes.
Loss: cross-entropy, the mean over all T + 20 steps and the batch.

What is left open (E-all-03): the size of the alphabet, and what T counts. By the NC-GRU paper's text the T steps are
ten of data and T - 10 of noise, which leaves none for the marker and the answer.  Here, as in the released code, T is
the delay of the copying task and the sequence has T + 20 steps, with nine data symbols: of the readings this one has
the baseline nearest to the losses the NC-GRU paper prints for models that learn nothing.

Two forms, and two between them, with one of the released form's two differences each:
    paper     the ten places are drawn without replacement; input of 11 tokens
    released  the places are drawn with replacement and sorted.  Of two symbols at one place the later overwrites the
              earlier, but the target lists all ten, so that the answer is not always in the input (T = 200: in 19.6 %
              of the sequences it is not).  Input of one-hot vectors of 10 numbers; the marker is the zero vector.
    places    the released places, the paper's input
    marker    the paper's places, the released input
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ortho_ref.training.task import Batch, Tokens, Vectors, check_choice, check_integer
from tasks.generated import Generated

DATA, COUNT, MARKER = 9, 10, 10
FORMS = ("paper", "released", "places", "marker")
_WITH_REPLACEMENT, _VECTORS = ("released", "places"), ("released", "marker")
# one row for each symbol; the released width has no room for the marker's one
_ONE_HOT = np.eye(DATA + 2, DATA + 1, dtype=np.float32)


@dataclass(frozen=True)
class Denoise(Generated):
    """Recall ten symbols that are scattered over `length` + 9 = T + 9 steps of noise; form: as above."""

    length: int = 200
    form: str = "paper"

    name: ClassVar[str] = "denoise"
    output_size: ClassVar[int] = DATA + 1
    loss: ClassVar[str] = "cross_entropy"
    metric: ClassVar[str] = "accuracy"
    readout: ClassVar[str] = "every"
    held_out: ClassVar[tuple[int, int, int]] = (20170608, 10, 100)

    def __post_init__(self) -> None:
        check_integer("length", self.length)
        check_choice("form", self.form, FORMS)

    @property
    def input(self) -> Tokens | Vectors:
        """11 tokens; with the released marker vectors of 10."""
        return Vectors(DATA + 1) if self.form in _VECTORS else Tokens(DATA + 2)

    @property
    def baseline(self) -> float:
        """The loss of a predictor that knows which steps are the recall, and nothing of the data.

        10 ln 9 / (T + 20): ln 9 at the last ten steps, 0 at the others.
        """
        return COUNT * math.log(DATA) / (self.length + 2 * COUNT)

    @property
    def baseline_metric(self) -> float:
        """Its accuracy: it is right outside the recall, and there once in 9."""
        return (self.length + COUNT + COUNT / DATA) / (self.length + 2 * COUNT)

    def _places(self, rng: np.random.Generator, batch_size: int) -> np.ndarray:
        """The steps of the ten symbols (10, B), ascending."""
        slots = self.length + COUNT - 1
        if self.form in _WITH_REPLACEMENT:
            places = rng.integers(0, slots, (COUNT, batch_size))
        else:
            # where the ten smallest of independent numbers stand is a uniform set of ten
            places = np.argpartition(rng.random((batch_size, slots)), COUNT - 1)[:, :COUNT].T
        return np.sort(places, axis=0)

    def batch(self, data: np.ndarray, places: np.ndarray) -> Batch:
        """The batch of given data symbols (10, B) and their steps (10, B): as of `fresh`."""
        T, columns = self.length, np.arange(data.shape[1])
        x, y = np.zeros((2, T + 2 * COUNT, len(columns)), np.intp)
        # one after the other, so that the later overwrites the earlier
        for place, symbol in zip(places, data, strict=True):
            x[place, columns] = symbol
        x[T + COUNT - 1] = MARKER
        y[T + COUNT :] = data
        return Batch(_ONE_HOT[x] if self.form in _VECTORS else x, y)

    def fresh(self, rng: np.random.Generator, batch_size: int) -> Batch:
        """A batch of newly drawn sequences: x (T + 20, B), with the released marker (T + 20, B, 10); y (T + 20, B)."""
        data = rng.integers(1, DATA + 1, (COUNT, batch_size))
        return self.batch(data, self._places(rng, batch_size))
