"""Contenders that take turns against the clock."""

import time
from collections.abc import Callable, Mapping

import numpy as np

from ortho_ref.backend import library_of, to_device


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
) -> dict[str, list[float]]:
    """Milliseconds per call, one figure a round; within a round the contenders take turns.

    synchronize: called before a clock is read; see `synchronizer`.

    Each turn begins with two calls that are not timed, as training repeats one step: otherwise a contender would pay
    for memory that the one before gave back (fresh pages: a tenth of the largest size; the allocator takes two calls).
    """
    repeats = {}
    for name, step in steps.items():
        step()
        synchronize()
        start = time.perf_counter()
        step()
        synchronize()
        repeats[name] = max(1, int(seconds / (time.perf_counter() - start)))
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            step()
            step()
            synchronize()
            start = time.perf_counter()
            for _ in range(repeats[name]):
                step()
            synchronize()
            times[name].append((time.perf_counter() - start) / repeats[name] * 1e3)
    return times
