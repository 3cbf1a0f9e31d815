"""A long sequence with all of its states kept, and in segments: time and memory."""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ortho_ref import models
from scripts.timing.rounds import time_interleaved
from scripts.timing.traced import traced

#: Readout, T, B, n: adding's and copying's, of a length at which they are seldom run.
SIZES = (("last", 10_000, 8, 118), ("last", 10_000, 16, 118), ("every", 10_000, 8, 118), ("every", 10_000, 16, 118))


class Long(NamedTuple):
    """MiB of arrays at most, keeping all and in segments, and the ratio of their times, segments to all."""

    kept: float
    segments: float
    slower: float


def measure_long(readout: str, T: int, B: int, n: int, rounds: int, seconds: float) -> Long:
    """Loss and gradients of NC-GRU(U_c), float32, recompute "auto"; time of this process."""
    rng = np.random.default_rng(0)
    if readout == "last":
        network = models.network("nc-gru", 2, [n], 1, readout="last", loss="mean_squared_error")
        x, y = rng.random((T, B, 2), np.float32), rng.random((B, 1), np.float32)
    else:
        network = models.network("nc-gru", 10, [n], 10)
        x, y = rng.integers(0, 10, (2, T, B))
    params, buffers = network.init(rng)

    def step(recompute: str | None) -> Callable[[], object]:
        # loss and gradients alone: a tape that outlives the call would be counted with the next one
        return lambda: network.loss_and_gradients(params, buffers, x, y, recompute=recompute)[:2]

    contenders = {"kept": step(None), "segments": step("auto")}
    times = time_interleaved(contenders, rounds, seconds, lambda: None, time.process_time)
    ratio = statistics.median(b / a for a, b in zip(times["kept"], times["segments"], strict=True))
    return Long(traced(contenders["kept"]) / 2**20, traced(contenders["segments"]) / 2**20, ratio)
