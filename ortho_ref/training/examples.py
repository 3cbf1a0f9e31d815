"""What tasks on a fixed set of examples share: passes, each in a new order, and a held-out set in its own."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from ortho_ref.training.task import Batch


def passes(rng: np.random.Generator, count: int, batch_size: int, what: str) -> Iterator[np.ndarray]:
    """Which of `count` examples are in each batch, (batch_size,), without end; ValueError if they do not fill one.

    All are passed through again and again, each time in a new order; what is left at the end of a pass and does not
    fill a batch is dropped.  what: the examples, for the error.
    """
    if not 1 <= batch_size <= count:
        raise ValueError(f"batch_size is {batch_size}; allowed: 1 to {what} = {count}")
    while True:
        order = rng.permutation(count)
        for start in range(0, count - batch_size + 1, batch_size):
            yield order[start : start + batch_size]


def frequency_baseline(trained: np.ndarray, held_out: np.ndarray, classes: int) -> float:
    """The held-out cross-entropy of a predictor that knows how often each class is, and nothing of the input."""
    return baseline_of_counts(*(np.bincount(own.reshape(-1), minlength=classes) for own in (trained, held_out)))


def baseline_of_counts(trained: np.ndarray, held_out: np.ndarray) -> float:
    """`frequency_baseline` of how often each class is, (classes,): p by the counts trained on, one added to each."""
    p = (trained + 1.0) / (trained + 1.0).sum()
    return float(-(held_out * np.log(p)).sum() / held_out.sum())


class Examples(ABC):
    """A task on a set of examples, some of which are held out."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Examples that are trained on, and held out."""

    @abstractmethod
    def batch(self, chosen: np.ndarray, held_out: bool = False) -> Batch:
        """The batch of the examples with these numbers (B,), of those held out or of those trained on."""

    @property
    def chunk(self) -> int:
        """Held-out examples in a batch."""
        return 100

    def batches(self, rng: np.random.Generator, batch_size: int) -> Iterator[Batch]:
        """Batches to train on, without end: `passes`."""
        for chosen in passes(rng, self.sizes[0], batch_size, "the examples to train on"):
            yield self.batch(chosen)

    def evaluation(self) -> Iterator[Batch]:
        """Every held-out example, once, in their order; the last batch may be smaller."""
        count, chunk = self.sizes[1], self.chunk
        for start in range(0, count, chunk):
            yield self.batch(np.arange(start, min(start + chunk, count)), held_out=True)
