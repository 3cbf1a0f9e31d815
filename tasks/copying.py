"""The copying task (ncgru:task-copy, urnn:task-copy, E-all-02) in its three layouts: ten symbols after T steps.

Symbols: 0 blank, 1..8 data, 9 marker.  The ten data symbols are drawn independently and uniformly.
Every layout has T + 20 steps; steps count from 0.
    A  input: 10 data, T - 1 blanks, marker, 10 blanks.  The recall begins one step after the marker.
    B  input: 10 data, T blanks, marker, 9 blanks.  The recall begins on the marker.
    C  as A, but the marker of each sequence is at a step of its own, uniform over 10..T+9.
Target: the data in their order during the ten steps of the recall, blank at every other; 9 classes.
Loss: cross-entropy, the mean over all T + 20 steps and the batch.

A is the layout of the uRNN paper and of most released code, B that of the NC-GRU paper's text, C that of the released
oRNN code, whose marker is at 11 at the earliest.  In A and B the recall is the last ten steps.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ortho_ref.training.task import Batch, Tokens, check_choice, check_integer
from tasks.generated import Generated

DATA, COUNT, MARKER = 8, 10, 9
LAYOUTS = ("A", "B", "C")


@dataclass(frozen=True)
class Copying(Generated):
    """Recall ten symbols `length` = T steps after they were shown; layout: as above."""

    length: int = 1000
    layout: str = "A"

    name: ClassVar[str] = "copying"
    input: ClassVar[Tokens] = Tokens(DATA + 2)
    output_size: ClassVar[int] = DATA + 1
    loss: ClassVar[str] = "cross_entropy"
    metric: ClassVar[str] = "accuracy"
    readout: ClassVar[str] = "every"
    held_out: ClassVar[tuple[int, int, int]] = (20151120, 20, 50)

    def __post_init__(self) -> None:
        check_integer("length", self.length)
        check_choice("layout", self.layout, LAYOUTS)

    @property
    def baseline(self) -> float:
        """The loss of a predictor that knows which steps are the recall, and nothing of the data (ncgru:copy-baseline).

        10 ln 8 / (T + 20): ln 8 at the ten steps of the recall, 0 at the others.
        """
        return COUNT * math.log(DATA) / (self.length + 2 * COUNT)

    @property
    def baseline_metric(self) -> float:
        """Its accuracy: it is right outside the recall, and there once in 8."""
        return (self.length + COUNT + COUNT / DATA) / (self.length + 2 * COUNT)

    def batch(self, data: np.ndarray, marker: np.ndarray | None = None) -> Batch:
        """The batch of given data (10, B), of layout C with the step of each marker (B,): x and y (T + 20, B)."""
        T, columns = self.length, np.arange(data.shape[1])
        if marker is None:
            marker = np.full(len(columns), COUNT + T - (self.layout == "A"))
        recall = marker if self.layout == "B" else marker + 1
        x, y = np.zeros((2, T + 2 * COUNT, len(columns)), np.intp)
        x[:COUNT] = data
        x[marker, columns] = MARKER
        y[recall + np.arange(COUNT)[:, None], columns] = data
        return Batch(x, y)

    def fresh(self, rng: np.random.Generator, batch_size: int) -> Batch:
        """A batch of newly drawn sequences: x and y (T + 20, B)."""
        data = rng.integers(1, DATA + 1, (COUNT, batch_size))
        marker = rng.integers(COUNT, COUNT + self.length, batch_size) if self.layout == "C" else None
        return self.batch(data, marker)
