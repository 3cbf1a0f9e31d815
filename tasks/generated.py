"""What the generated tasks share: fresh sequences without end, and a held-out set from a seed of its own."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from ortho_ref.training.task import Batch


class Generated(ABC):
    """A task that draws its sequences; held_out: of the held-out set seed, chunks, and sequences in each."""

    held_out: ClassVar[tuple[int, int, int]]

    @abstractmethod
    def fresh(self, rng: np.random.Generator, batch_size: int) -> Batch:
        """A batch of newly drawn sequences."""

    def batches(self, rng: np.random.Generator, batch_size: int) -> Iterator[Batch]:
        """Fresh sequences without end."""
        while True:
            yield self.fresh(rng, batch_size)

    def evaluation(self) -> Iterator[Batch]:
        """The held-out set in its chunks, the same at every call."""
        seed, chunks, size = self.held_out
        rng = np.random.default_rng(seed)
        for _ in range(chunks):
            yield self.fresh(rng, size)
