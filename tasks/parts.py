"""Parts of data sets by name, "train", or stretches of them, "train:5000-60000": what is trained on, what held out."""

import copy
import re
from collections.abc import Collection
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Part(NamedTuple):
    """A part of a data set, or its examples from `start` to before `stop`; None: to the end."""

    name: str
    start: int = 0
    stop: int | None = None

    def bounds(self, count: int, option: str) -> tuple[int, int]:
        """First and behind-the-last of `count` examples; ValueError, naming the option, where there are not so many."""
        stop = count if self.stop is None else self.stop
        if not self.start < stop <= count:
            own = f"{self.start}-{'' if self.stop is None else self.stop}"
            raise ValueError(f"{option} is {self.name}:{own}; {self.name} has {count:,} examples here")
        return self.start, stop


def part_of(text: str, names: Collection[str], option: str, whole: bool = False) -> Part:
    """The part that NAME, NAME:FROM-TO, or NAME:FROM- names; ValueError, naming the option, for another text.

    whole: whether only whole parts are allowed.
    """
    found = re.fullmatch(r"([^:]+)(?::(\d{1,9})-(\d{0,9}))?", text)
    if found is None or found[1] not in names or (whole and found[2]):
        allowed = ", ".join(names)
        stretch = "" if whole else f", or a stretch of one as {next(iter(names))}:0-1000"
        raise ValueError(f"{option} is {text!r}; allowed: {allowed}{stretch}")
    return Part(found[1], int(found[2] or 0), int(found[3]) if found[3] else None)


def check_apart(train: Part, held_out: Part, count: int) -> None:
    """ValueError where examples of the `count` of one part that are trained on are held out as well."""
    if train.name != held_out.name:
        return
    (first, last), (begin, end) = train.bounds(count, "train_part"), held_out.bounds(count, "eval_part")
    if first < end and begin < last:
        raise ValueError(
            f"train_part and eval_part are both of {train.name}, and share examples {max(first, begin)} to "
            f"{min(last, end) - 1}; give them apart"
        )


def copy_without_baseline(task: T) -> T:
    """A copy of a task, to hold something else out: what was computed of its baseline is not the copy's."""
    other = copy.copy(task)
    vars(other).pop("baseline", None)
    return other
