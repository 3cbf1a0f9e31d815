"""Learning-rate schedules: updates done so far -> rate.

Constant        rate
LinearToZero    rate * max(0, 1 - k / updates)
Step            rate * factor^(k // every)

k is 0 for the first update.  Any function int -> float is a schedule; these have options that can be compared, printed
and checked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ortho_ref.boundary import check_integer, check_number

Schedule: TypeAlias = Callable[[int], float]


def as_schedule(learning_rate: float | Schedule) -> Schedule:
    """A schedule as it is; a number, finite and >= 0, as the constant schedule."""
    if callable(learning_rate):
        if isinstance(learning_rate, type):  # the class, where one made of it is meant
            raise ValueError(f"learning_rate is the class {learning_rate.__name__}; allowed: one made of it")
        return learning_rate
    _check_rate("learning_rate", learning_rate, " or a schedule")
    return Constant(learning_rate)


@dataclass(frozen=True)
class Constant:
    """The same rate, finite and >= 0, at every update."""

    rate: float

    def __post_init__(self) -> None:
        _check_rate("rate", self.rate)

    def __call__(self, k: int) -> float:
        """The rate after k updates."""
        return float(self.rate)


@dataclass(frozen=True)
class LinearToZero:
    """From rate, finite and >= 0, at the first update in equal steps to 0 after `updates` of them; 0 from there on."""

    rate: float
    updates: int

    def __post_init__(self) -> None:
        _check_rate("rate", self.rate)
        check_integer("updates", self.updates)

    def __call__(self, k: int) -> float:
        """The rate after k updates."""
        return float(self.rate * max(0.0, 1 - k / self.updates))


@dataclass(frozen=True)
class Step:
    """Rate, finite and >= 0, times factor, above 0 and at most 1, after every `every` updates."""

    rate: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        _check_rate("rate", self.rate)
        check_integer("every", self.every)
        check_number("factor", self.factor, lambda factor: 0 < factor <= 1, "0 < factor <= 1")

    def __call__(self, k: int) -> float:
        """The rate after k updates."""
        return float(self.rate * self.factor ** (k // self.every))


def _check_rate(argument: str, rate: float, others: str = "") -> None:
    check_number(argument, rate, lambda rate: rate >= 0, f"a finite number >= 0{others}")
