"""A word-level update with all outputs at once, and in chunks: time and memory."""

import statistics
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ortho_ref import losses, models
from scripts.maintain.timing.peak import traced
from scripts.maintain.timing.rounds import time_interleaved


class Readout(NamedTuple):
    """Milliseconds of loss and gradients, and the most MiB of arrays that they had at once; whole, and in chunks."""

    whole: float
    chunks: float
    whole_memory: float
    chunks_memory: float


#: Words, n, T, B: Penn Treebank and WikiText-2 at AWD-LSTM's lengths.
SIZES = ((10_000, 650, 35, 20), (10_000, 650, 70, 20), (33_278, 500, 35, 80))


def measure_readout(words: int, n: int, T: int, B: int, rounds: int, seconds: float) -> Readout:
    """Of a tied LSTM language model, one layer, float32."""
    rng = np.random.default_rng(0)
    network = models.network("lstm", words, [n], words, embedding=n, tied=True)
    params, buffers = network.init(rng)
    x, y = rng.integers(0, words, (2, T, B))

    def step() -> object:
        return network.loss_and_gradients(params, buffers, x, y)[0]

    def whole() -> object:
        before, losses.LARGE = losses.LARGE, 10**9
        try:
            return step()
        finally:
            losses.LARGE = before

    contenders: dict[str, Callable[[], object]] = {"whole": whole, "chunks": step}
    times = time_interleaved(contenders, rounds, seconds)
    most = (traced(contender) / 2**20 for contender in contenders.values())
    return Readout(*(statistics.median(own for (own,) in times[name]) for name in contenders), *most)
