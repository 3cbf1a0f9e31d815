"""A group of contenders that were measured together, as the benchmark's file keeps it."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType

from ortho_ref.formats import Form
from scripts.maintain.timing.rounds import synchronizer, time_interleaved
from scripts.maintain.timing.steps import Size

Group = dict[str, Any]

#: Milliseconds of a call: process CPU time, of several threads and on a device the clock's.
MILLISECONDS = "ms"
#: Numbers of the states' precision, in units of T B n.
NUMBERS = "T B n numbers"


class Figures(Form):
    """What a contender took: the median, the quartiles, and the median ratio to the reference."""

    median: float
    low: float
    high: float
    ratio: float
    wall: float | UnsetType = UNSET


class GroupForm(Form):
    """A group as the file has it."""

    section: str
    case: dict[str, str | float]
    unit: Literal[MILLISECONDS, NUMBERS]  # type: ignore[valid-type]
    reference: str
    contenders: dict[str, Figures]
    skipped: dict[str, str]


class Settings(NamedTuple):
    """What is measured, and how.

    keep: hold tapes, as the trainer does where the allocator gives memory back.  jax: its version, None where it is not
    installed.  torch: alike.  threads: of every contender but NumPy's BLAS, which has one.
    """

    models: tuple[str, ...]
    sizes: Mapping[str, Size]
    rounds: int
    seconds: float
    dtype: str = "float32"
    device: str = "cpu"
    threads: int = 1
    keep: bool = True
    torch: str | None = None
    jax: str | None = None


def key(group: Group) -> tuple[str, str]:
    """What a group is of."""
    return group["section"], named(group["case"])


def named(case: Mapping[str, Any]) -> str:
    """A case in words."""
    return ", ".join(str(value) if isinstance(value, str) else f"{name} = {value:g}" for name, value in case.items())


def timed(
    section: str,
    case: Mapping[str, Any],
    reference: str,
    steps: Mapping[str, Callable[[], object]],
    own: Settings,
    skipped: Mapping[str, str],
) -> Group:
    """The contenders against the clock, interleaved.

    A ratio is the median over rounds of a contender's time by the reference's of the same round; low and high are the
    quartiles of the time.
    """
    alone = own.device == "cpu" and own.threads == 1
    clocks = (time.process_time if alone else time.perf_counter, time.perf_counter)
    untimed = 2 if own.keep else 1
    times = time_interleaved(steps, own.rounds, own.seconds, synchronizer(own.device), clocks, untimed)
    contenders = {}
    for name, figures in times.items():
        main, walls = zip(*figures, strict=True)
        low, middle, high = np.quantile(main, [0.25, 0.5, 0.75]).tolist()
        against = (theirs[0] / ours[0] for theirs, ours in zip(figures, times[reference], strict=True))
        contenders[name] = {
            "median": middle,
            "low": low,
            "high": high,
            "wall": statistics.median(walls),
            "ratio": statistics.median(against),
        }
    return group(section, case, MILLISECONDS, reference, contenders, skipped)


def group(
    section: str,
    case: Mapping[str, Any],
    unit: str,
    reference: str,
    contenders: Mapping[str, Any],
    skipped: Mapping[str, str],
) -> Group:
    """A group from its figures."""
    return {
        "section": section,
        "case": dict(case),
        "unit": unit,
        "reference": reference,
        "contenders": dict(contenders),
        "skipped": dict(skipped),
    }
