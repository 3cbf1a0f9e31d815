"""The first and the worst wrong entry of an output: where it is, what is expected there, and what was given."""

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from ortho_ref.conformance.cases.case import Vector
from ortho_ref.conformance.compare import Comparison, scales_of
from ortho_ref.conformance.findings import Count
from ortho_ref.conformance.running.outputs import NoArray


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """A wrong entry."""

    index: tuple[Count, ...]  # where; () in a number
    expected: float
    given: Annotated[float | None, Meta(description="null: not finite")]

    def __str__(self) -> str:
        """In words."""
        return f"{list(self.index)} {self.given:.8g}, expected {self.expected:.8g}"


class Wrong(Struct, frozen=True, forbid_unknown_fields=True):
    """The wrong entries of an output."""

    count: Count
    of: Count  # how many are wrong, and how many there are
    first: Entry
    worst: Entry  # what is not finite is furthest off

    def __str__(self) -> str:
        """In words."""
        worst = "" if self.worst.index == self.first.index else f"; worst {self.worst}"
        return f"{self.count} of {self.of} entries wrong: first {self.first}{worst}"


def wrong_entries(
    vector: Vector, given: Mapping[str, np.ndarray | NoArray], compared: Mapping[str, Comparison]
) -> dict[str, Wrong]:
    """Of every output that is wrong and of the right shape its wrong entries."""
    if vector.case.kind == "initial":  # of draws no entry is right or wrong
        return {}
    size, found = scales_of(vector), {}
    for name, comparison in compared.items():
        array, expected = given[name], vector.expected[name]
        if comparison.passed or not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
            continue
        if array.shape != expected.shape or not array.size:
            continue
        with np.errstate(all="ignore"):
            array = array.astype(np.float64)
            at_kink = name in vector.low and name in vector.high
            low, high = (vector.low[name], vector.high[name]) if at_kink else (expected, expected)
            off = np.nan_to_num(np.asarray(np.maximum(low - array, array - high)), nan=np.inf, posinf=np.inf)
        wrong = np.argwhere(off > comparison.tolerance * size[name])  # [] for a number that is right, else [[]]
        if len(wrong):
            worst = np.unravel_index(int(np.argmax(off)), off.shape) if off.ndim else ()
            places = [tuple(int(i) for i in index) for index in (wrong[0], worst)]
            first, last = (Entry(place, float(expected[place]), float(array[place])) for place in places)
            found[name] = Wrong(len(wrong), off.size, first, last)
    return found
