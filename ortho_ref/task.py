"""What a task is: its input and output, its loss and metric by name, its data, its trivial baseline."""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from ortho_ref.backend import Array


class Tokens(NamedTuple):
    """Input of integer tokens 0 .. vocabulary - 1: x (T, B)."""

    vocabulary: int

    @property
    def size(self) -> int:
        """Columns of W."""
        return self.vocabulary


class Vectors(NamedTuple):
    """Input of vectors: x (T, B, size)."""

    size: int


class Batch(NamedTuple):
    """One batch, on the host.

    x: tokens (T, B) or vectors (T, B, m).  y: what the loss takes.  mask (T, B), bool: which steps count; None is all.
    carries_state: x continues the previous batch, so the state is carried over (without gradient).
    """

    x: Array
    y: Array
    mask: Array | None = None
    carries_state: bool = False


class Task(Protocol):
    """A task: attributes or properties, and its data."""

    @property
    def name(self) -> str:
        """As on the command line."""
        ...

    @property
    def input(self) -> Tokens | Vectors:
        """What the network reads."""
        ...

    @property
    def output_size(self) -> int:
        """Width of the readout."""
        ...

    @property
    def loss(self) -> str:
        """A name in `losses.LOSSES`."""
        ...

    @property
    def metric(self) -> str:
        """A name in `losses.METRICS`."""
        ...

    @property
    def readout(self) -> str:
        """Outputs at "every" step, or at the "last"."""
        ...

    @property
    def baseline(self) -> float:
        """The loss of the trivial predictor the task names."""
        ...

    def batches(self, rng: np.random.Generator, batch_size: int) -> Iterator[Batch]:
        """Training batches without end."""
        ...

    def evaluation(self) -> Iterable[Batch]:
        """A fixed held-out set from its own seed, in chunks that fit memory."""
        ...


def check_integer(argument: str, value: object, least: int = 1) -> None:
    """ValueError unless value is an integer >= least; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{argument} is {value!r}; allowed: an integer >= {least}")


def check_choice(argument: str, value: str, allowed: Collection[str]) -> None:
    """ValueError unless value is one of those allowed."""
    if value not in allowed:
        raise ValueError(f"{argument} is {value!r}; allowed: {', '.join(map(repr, allowed))}")
