"""Learning-rate schedules: updates done so far -> rate.

Constant        rate
LinearToZero    rate * max(0, 1 - k / updates)
Step            rate * factor^(k // every)

k is 0 for the first update.  Any function int -> float is a schedule; these have options that can be compared, printed
and checked.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import TypeAlias

Schedule: TypeAlias = Callable[[int], float]


def as_schedule(learning_rate: float | Schedule) -> Schedule:
    """A schedule as it is; a number as the constant schedule.  ValueError for a number that is no rate."""
    if callable(learning_rate):
        return learning_rate
    _check_rate("learning_rate", learning_rate, " or a schedule")
    return Constant(learning_rate)


@dataclass(frozen=True)
class Constant:
    """The same rate at every update.  ValueError unless rate is finite and >= 0."""

    rate: float

    def __post_init__(self) -> None:
        _check_rate("rate", self.rate)

    def __call__(self, k: int) -> float:
        """The rate after k updates."""
        return float(self.rate)


@dataclass(frozen=True)
class LinearToZero:
    """From rate at the first update in equal steps to 0 after `updates` of them; 0 from there on.

    ValueError unless rate is finite and >= 0, and updates an integer >= 1.
    """

    rate: float
    updates: int

    def __post_init__(self) -> None:
        _check_rate("rate", self.rate)
        _check_count("updates", self.updates)

    def __call__(self, k: int) -> float:
        """The rate after k updates."""
        return float(self.rate * max(0.0, 1 - k / self.updates))


@dataclass(frozen=True)
class Step:
    """Times factor after every `every` updates.

    ValueError unless rate is finite and >= 0, every an integer >= 1, and factor above 0 and at most 1.
    """

    rate: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        _check_rate("rate", self.rate)
        _check_count("every", self.every)
        if not 0 < self.factor <= 1:
            raise ValueError(f"factor is {self.factor}; allowed: 0 < factor <= 1")

    def __call__(self, k: int) -> float:
        """The rate after k updates."""
        return float(self.rate * self.factor ** (k // self.every))


def _check_rate(argument: str, rate: float, others: str = "") -> None:
    if not 0 <= rate < math.inf:
        raise ValueError(f"{argument} is {rate}; allowed: a finite number >= 0{others}")


def _check_count(argument: str, count: int) -> None:
    if not isinstance(count, Integral) or count < 1:
        raise ValueError(f"{argument} is {count}; allowed: an integer >= 1")
