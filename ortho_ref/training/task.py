"""What a task is: its input and output, its loss and metric by name, its data, its trivial baseline."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.boundary import (
    check_choice as check_choice,
    check_integer as check_integer,
    kind_of as kind_of,
    nearest as nearest,
    short as short,
)
from ortho_ref.files import opened as opened
from ortho_ref.printing import brief


class Named(NamedTuple):
    """Which data a run is of, by their contents; where they are does not matter.

    published: whether they are what was published; None where nobody has said what that hashes to.  sha256: of the
    contents of each file that was read.
    """

    set: str
    published: bool | None
    sha256: dict[str, str]


class Tokens(NamedTuple):
    """Input of integer tokens, x (T, B): 0 .. vocabulary - 1."""

    vocabulary: int

    @property
    def size(self) -> int:
        """Columns of W."""
        return self.vocabulary


class Vectors(NamedTuple):
    """Input of vectors, x (T, B, size)."""

    size: int


#: How a reader puts story and question together.
JOINS = ("once", "steps")


class StoryAndQuestion(NamedTuple):
    """Input of two texts of tokens of one vocabulary, x a pair of `Padded`; what reads it is a `reader.Reader`."""

    vocabulary: int
    join: str = "once"  # or "steps": how the reader puts the two together

    @property
    def size(self) -> int:
        """Rows of the embedding."""
        return self.vocabulary


class Padded(NamedTuple):
    """Texts of different lengths."""

    tokens: Array  # (T, B); behind a text's end anything that is a token
    lengths: Array  # (B,), 1 to T: how many of its tokens are a text's own

    def __repr__(self) -> str:
        return brief(self)


class Batch(NamedTuple):
    """One batch, on the host."""

    x: Any  # (T, B, m), integer tokens (T, B), or a pair of Padded: a story and a question
    y: Array  # what the loss takes
    mask: Array | None = None  # bool (T, B): which steps count; None is all
    carries_state: bool = False  # x continues the previous batch: the state is carried over, without gradient

    def __repr__(self) -> str:
        return brief(self)


class Task(Protocol):
    """A task: attributes or properties, and its data."""

    @property
    def name(self) -> str:
        """As on the command line."""

    @property
    def input(self) -> Tokens | Vectors | StoryAndQuestion:
        """What the network reads."""

    @property
    def output_size(self) -> int:
        """Width of the readout."""

    @property
    def loss(self) -> str:
        """A name in `losses.LOSSES`."""

    @property
    def metric(self) -> str:
        """A name in `losses.METRICS`."""

    @property
    def readout(self) -> str:
        """Outputs at "every" step, or at the "last"."""

    @property
    def baseline(self) -> float:
        """The loss of the trivial predictor the task names."""

    def batches(self, rng: np.random.Generator, batch_size: int) -> Iterator[Batch]:
        """Training batches without end, on the host, drawn from rng; they depend on nothing else."""

    def evaluation(self) -> Iterable[Batch]:
        """A fixed held-out set from its own seed, in chunks that fit memory."""
