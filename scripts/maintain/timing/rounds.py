"""Contenders that take turns against the clock."""

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ortho_ref.backend import library_of, to_device
from ortho_ref.training.task import check_integer
from scripts.program import check_number

#: What a clock that has not moved is taken to have seen: ratios of times are numbers.
TICK = time.get_clock_info("perf_counter").resolution
MOST_REPEATS = 1000  # of one turn: so that a clock that stands still holds nobody up


def check_rounds(rounds: int, seconds: float) -> None:
    """ValueError unless there is a number of rounds, and an end to each."""
    check_integer("rounds", rounds, most=10_000)
    check_number("seconds", seconds, 3600)


def since(start: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds since then, at least a tick."""
    return max(clock() - start, TICK)


def synchronizer(device: str) -> Callable[[], object]:
    """A function that waits until the device has done all it was given; the host waits by itself."""
    if device != "gpu":
        return lambda: None
    wait: Callable[[], object] = library_of(to_device(np.zeros(1), device)).xp.cuda.runtime.deviceSynchronize
    return wait


def time_interleaved(
    steps: Mapping[str, Callable[[], object]],
    rounds: int,
    seconds: float,
    synchronize: Callable[[], object] = lambda: None,
    clocks: Sequence[Callable[[], float]] = (time.perf_counter,),
    untimed: int = 2,
) -> dict[str, list[tuple[float, ...]]]:
    """Milliseconds per call, by each clock, one entry a round; within a round the contenders take turns.

    synchronize: called before a clock is read; see `synchronizer`.  clocks: the first decides how often a turn repeats
    its step; time.process_time counts what this process computes, whatever else the machine does.

    untimed: calls at the beginning of a turn.  Two, as training repeats one step: otherwise a contender would pay for
    memory that the one before gave back (fresh pages: a tenth of the largest size; the allocator takes two calls).
    Where freed memory is kept one is enough, for the caches.
    """
    repeats = {}
    for name, step in steps.items():
        step()
        synchronize()
        start = clocks[0]()
        step()
        synchronize()
        repeats[name] = min(max(1, int(seconds / since(start, clocks[0]))), MOST_REPEATS)
    times: dict[str, list[tuple[float, ...]]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            for _ in range(untimed):
                step()
            synchronize()
            starts = [clock() for clock in clocks]
            for _ in range(repeats[name]):
                step()
            synchronize()
            taken = (since(start, clock) for start, clock in zip(starts, clocks, strict=True))
            times[name].append(tuple(seconds / repeats[name] * 1e3 for seconds in taken))
    return times
