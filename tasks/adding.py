"""The adding task (ncgru:task-add): the sum of the two values, of T, that are marked.

Input at every step: a marker and a value, in this order, as the NC-GRU paper prints it; released code has the value
first.  Values are uniform on [0, 1); two markers are 1, the others 0: one at a step uniform over 0..T/2-1, one at a
step uniform over T/2..T-1 (T/2 rounded down).
Target, at the last step only: the sum of the two marked values.  Loss: mean squared error.

Training passes through a fixed set of 100,000 sequences, as in the paper, or sees fresh ones without end.  Of the set
the marked steps are drawn when iteration begins, values when a batch has them: PCG64, the generator of
numpy.random.default_rng, can go to any of its draws at once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ortho_ref.training.examples import passes
from ortho_ref.training.task import Batch, Vectors, check_integer
from tasks.generated import Generated


def values_of(rng: np.random.Generator, count: int, length: int) -> Callable[[np.ndarray], np.ndarray]:
    """Rows of `rng.random((count, length), float32)`, each drawn when it is asked for, by the rows' numbers (B,).

    rng is left where it is after all of them; one that is not of PCG64 draws them at once.
    """
    if not isinstance(rng.bit_generator, np.random.PCG64):
        values = rng.random((count, length), np.float32)
        return lambda rows: values[rows]
    start = rng.bit_generator.state
    own = np.random.Generator(np.random.PCG64())

    def drawn(rows: np.ndarray) -> np.ndarray:
        found = np.empty((len(rows), length), np.float32)
        for values, row in zip(found, rows.tolist(), strict=True):
            own.bit_generator.state = start
            _skip(own, row * length)
            own.random(dtype=np.float32, out=values)
        return found

    _skip(rng, count * length)
    return drawn


def _skip(rng: np.random.Generator, count: int) -> None:
    """Leave a generator of PCG64 as `count` float32 numbers leave it: two are made of one draw, the second is kept."""
    if count and rng.bit_generator.state["has_uint32"]:
        rng.random(dtype=np.float32)
        count -= 1
    if count > 1:
        rng.bit_generator.advance(count // 2)  # type: ignore[attr-defined]
    if count % 2:
        rng.random(dtype=np.float32)


@dataclass(frozen=True)
class Adding(Generated):
    """Add the two marked values of a sequence; ValueError for a number that is not allowed."""

    length: int = 200  # T, at least 2
    training_set: int | None = 100_000  # sequences to train on; None for fresh ones each time

    name: ClassVar[str] = "adding"
    input: ClassVar[Vectors] = Vectors(2)
    output_size: ClassVar[int] = 1
    loss: ClassVar[str] = "mean_squared_error"
    metric: ClassVar[str] = "within_0.04"
    readout: ClassVar[str] = "last"
    held_out: ClassVar[tuple[int, int, int]] = (19971115, 20, 500)

    def __post_init__(self) -> None:
        check_integer("length", self.length, least=2)
        if self.training_set is not None:
            check_integer("training_set", self.training_set)

    @property
    def baseline(self) -> float:
        """The loss of the best constant, 1: the variance of the sum of two independent uniform numbers, 2 / 12."""
        return 1 / 6

    @property
    def baseline_metric(self) -> float:
        """How often the sum of two is within 0.04 of 1."""
        return 1 - 0.96**2

    def _steps(self, rng: np.random.Generator, N: int) -> np.ndarray:
        """Marked steps (N, 2) of N sequences."""
        half = self.length // 2
        return rng.integers([0, half], [half, self.length], (N, 2))

    def batch(self, values: np.ndarray, steps: np.ndarray) -> Batch:
        """The batch of given values (B, T) and marked steps (B, 2): x (T, B, 2), y (B, 1)."""
        B, columns = len(values), np.arange(len(values))
        x = np.zeros((self.length, B, 2), np.float32)
        x[steps.T, columns, 0] = 1
        x[:, :, 1] = values.T
        y = values[columns, steps[:, 0]] + values[columns, steps[:, 1]]
        return Batch(x, y[:, None])

    def fresh(self, rng: np.random.Generator, batch_size: int) -> Batch:
        """A batch of newly drawn sequences: x (T, B, 2), y (B, 1)."""
        values = rng.random((batch_size, self.length), np.float32)
        return self.batch(values, self._steps(rng, batch_size))

    def batches(self, rng: np.random.Generator, batch_size: int) -> Iterator[Batch]:
        """Batches to train on, without end: x (T, B, 2), y (B, 1).

        The training set comes from `rng` as it is when iteration begins, and is passed through again and again, each
        time in a new order; what is left at the end of a pass and does not fill a batch is dropped.  Without a training
        set every sequence is fresh.  ValueError if the training set does not fill a batch.
        """
        N = self.training_set
        if N is None:
            yield from super().batches(rng, batch_size)
            return
        values, steps = values_of(rng, N, self.length), self._steps(rng, N)
        for chosen in passes(rng, N, batch_size, "training_set"):
            yield self.batch(values(chosen), steps[chosen])
