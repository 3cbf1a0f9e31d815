"""What tasks on labelled examples of a data set share: what trains and what is held out are stretches of its parts."""

from abc import abstractmethod
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from ortho_ref.training.examples import Examples, frequency_baseline
from ortho_ref.training.task import Named
from tasks.files import Folder
from tasks.parts import Part, check_apart, copy_without_baseline, part_of
from tasks.sets import DataSet


class Stretches(Examples):
    """A task on a data set whose parts, train and test, are examples with labels.

    data: the set's folder, in its own layout; None: that of the cache; then, as an attribute, what was read.
    train_part, eval_part: what is trained on and what is held out, train or test, or a stretch of it, train:5000-60000.
    other_data: whether the files may be others than were published.  OSError: a file is not there, or cannot be read;
    ValueError: one is not what it should be, or an option has no such value.
    """

    SET: ClassVar[DataSet]
    PARTS: ClassVar[tuple[str, ...]] = ("train", "test")
    classes: int  # that labels are of, from 0 on

    def __init__(self, data: Path | str | None, train_part: str, eval_part: str, other_data: bool) -> None:
        train, held_out = part_of(train_part, self.PARTS, "train_part"), part_of(eval_part, self.PARTS, "eval_part")
        self._folder = Folder(self.SET, data, other_data)
        self._parts: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._training = self._stretch(train, "train_part")
        self._held_out = self._stretch(held_out, "eval_part")
        check_apart(train, held_out, len(self._parts[train.name][1]))
        self.data: Named = self._folder.named

    @abstractmethod
    def _read(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        """Examples and labels of a part; OSError and ValueError as above."""

    def _stretch(self, part: Part, option: str) -> tuple[np.ndarray, np.ndarray]:
        """Examples and labels of a stretch of a part; they are views of it."""
        if part.name not in self._parts:
            self._parts[part.name] = self._read(part.name)
        examples, labels = self._parts[part.name]
        start, stop = part.bounds(len(labels), option)
        return examples[start:stop], labels[start:stop]

    @cached_property
    def baseline(self) -> float:
        """The loss of a predictor that knows how often each class is."""
        return frequency_baseline(self._training[1], self._held_out[1], self.classes)

    @property
    def sizes(self) -> tuple[int, int]:
        """Examples that are trained on, and held out."""
        return len(self._training[1]), len(self._held_out[1])

    def on(self, part: str) -> Self:
        """The same task, as it was made of what it trains on, with another part held out; errors as above."""
        other = copy_without_baseline(self)
        other._held_out = self._stretch(part_of(part, self.PARTS, "part"), "part")
        other.data = self._folder.named
        return other
