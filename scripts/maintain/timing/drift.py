"""Ratios of today beside stored ones."""

from collections.abc import Iterable
from typing import NamedTuple

from scripts.maintain.timing.benchmark_file import Report
from scripts.maintain.timing.groups import NUMBERS, Group, key

#: By how much a ratio may move: by a factor of 1 + LIMIT, up or down.
LIMIT = 0.25


class Moved(NamedTuple):
    """A figure of a case: a contender's time / ours, or memory."""

    section: str
    case: str
    figure: str
    stored: float
    now: float

    @property
    def factor(self) -> float:
        """By which it has grown."""
        return self.now / self.stored


def compare(stored: Report, groups: Iterable[Group]) -> tuple[list[Moved], list[str]]:
    """Every figure that both have, and what cannot be compared because one lacks it."""
    before = {key(group): group for group in stored["groups"]}
    found, missing = [], []
    for group in groups:
        section, case = key(group)
        if (section, case) not in before:
            missing.append(f"{section}: {case}")
            continue
        now, then = figures(group), figures(before[section, case])
        found += [Moved(section, case, name, then[name], now[name]) for name in then if name in now]
        missing += [f"{section}: {case}: {name}" for name in then if name not in now]
    return found, missing


def figures(group: Group) -> dict[str, float]:
    """The figures of a group that are compared."""
    if group["unit"] == NUMBERS:
        return {name: own["median"] for name, own in group["contenders"].items()}
    return {name: own["ratio"] for name, own in group["contenders"].items() if name != group["reference"]}


def beyond(found: Iterable[Moved]) -> list[Moved]:
    """Those that moved by more, either way: what is stored is true no longer."""
    return [own for own in found if not 1 / (1 + LIMIT) <= own.factor <= 1 + LIMIT]
