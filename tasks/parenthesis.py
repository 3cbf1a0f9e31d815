"""The parenthesis task (ncgru:task-paren), in the form of the NC-GRU paper's text.

10 types of parentheses and 10 noise symbols: 30 input tokens, drawn independently and uniformly.
    token i in 0..9: opens type i;  10 + i: closes type i;  20..29: noise
Target at every step and for every type: how many parentheses of that type are open, one of 11 classes.
    open: count + 1, at most 10;  close: count - 1, at least 0
Loss: cross-entropy, the mean over types, steps and batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ortho_ref.task import Batch, Tokens

TYPES, NOISE, CAP = 10, 10, 10
_EVALUATION_SEED, _EVALUATION_CHUNKS, _EVALUATION_CHUNK = 20180705, 10, 100


def open_counts(tokens: np.ndarray) -> np.ndarray:
    """Open parentheses by type (T, B, TYPES) after each of the tokens (T, B)."""
    T, B = tokens.shape
    types = np.arange(TYPES)
    change = (tokens[:, :, None] == types).astype(np.int8) - (tokens[:, :, None] == types + TYPES)
    counts = np.empty((T, B, TYPES), np.int8)
    count, low, high = np.zeros((B, TYPES), np.int8), np.int8(0), np.int8(CAP)
    for t in range(T):
        np.add(count, change[t], out=count)
        np.maximum(count, low, out=count)
        np.minimum(count, high, out=count)
        counts[t] = count
    return counts


@dataclass(frozen=True)
class Parenthesis:
    """Count open parentheses of ten types over `length` tokens."""

    length: int = 100

    name: ClassVar[str] = "parenthesis"
    input: ClassVar[Tokens] = Tokens(2 * TYPES + NOISE)
    output_size: ClassVar[int] = TYPES * (CAP + 1)
    loss: ClassVar[str] = "cross_entropy"
    metric: ClassVar[str] = "accuracy"
    readout: ClassVar[str] = "every"

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length is {self.length}; allowed: at least 1")

    @cached_property
    def baseline(self) -> float:
        """The loss of the best constant prediction per step: the entropy of the count's distribution, mean over steps.

        Exact: the count of one type is a Markov chain on 0..10 that goes up and down with probability 1/30 each.
        """
        p = 1 / self.input.vocabulary
        up, down = np.eye(CAP + 1, k=1), np.eye(CAP + 1, k=-1)
        up[CAP, CAP] = down[0, 0] = 1
        step = (1 - 2 * p) * np.eye(CAP + 1) + p * up + p * down
        distribution, entropies = np.eye(CAP + 1)[0], []
        for _ in range(self.length):
            distribution = distribution @ step
            positive = distribution[distribution > 0]
            entropies.append(-(positive * np.log(positive)).sum())
        return float(np.mean(entropies))

    def _batch(self, rng: np.random.Generator, batch_size: int) -> Batch:
        tokens = rng.integers(0, self.input.vocabulary, (self.length, batch_size))
        return Batch(tokens, open_counts(tokens).astype(np.intp))

    def batches(self, rng: np.random.Generator, batch_size: int) -> Iterator[Batch]:
        """Fresh sequences without end: x (T, B), y (T, B, TYPES)."""
        while True:
            yield self._batch(rng, batch_size)

    def evaluation(self) -> Iterator[Batch]:
        """1,000 sequences from a seed of their own, 100 at a time."""
        rng = np.random.default_rng(_EVALUATION_SEED)
        for _ in range(_EVALUATION_CHUNKS):
            yield self._batch(rng, _EVALUATION_CHUNK)
