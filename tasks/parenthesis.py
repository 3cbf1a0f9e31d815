"""The parenthesis task (ncgru:task-paren): how many parentheses are open, by type, in two forms.

                      paper          released code
    types of pairs    10             3
    noise symbols     10             1
    counts            0..10          0..5
    loss              cross-entropy  mean squared error against the one-hot count
Input: tokens, drawn independently and uniformly.  With t types:
    token i in 0..t-1: opens type i;  t + i: closes type i;  from 2 t on: noise
Target at every step and for every type: how many parentheses of that type are open, as a class.
    open: count + 1, at most the cap;  close: count - 1, at least 0
Loss: the mean over types, steps and batch; of squared errors also over the classes.
The NC-GRU paper leaves the cap, the noise and the loss open, and whether the counts are per type (E-all-03); its form
here takes them from the GORU authors' code.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ortho_ref.training.task import Batch, Tokens, check_choice, check_integer
from tasks.generated import Generated


class Form(NamedTuple):
    """A form of the task: types of parentheses, noise symbols, the largest count, the loss."""

    types: int
    noise: int
    cap: int
    loss: str


FORMS = {"paper": Form(10, 10, 10, "cross_entropy"), "released": Form(3, 1, 5, "mean_squared_error")}


def open_counts(tokens: np.ndarray, types: int, cap: int) -> np.ndarray:
    """Open parentheses by type after each token (T, B): int8 (T, B, types); the largest count is at most 126."""
    noise = 2 * types
    change = np.zeros((noise + 1, types), np.int8)
    change[:types], change[types:noise] = np.eye(types), -np.eye(types)
    counts = change[np.minimum(tokens, noise)]
    low, high = np.zeros_like(counts[0]), np.full_like(counts[0], cap)
    before = low
    for count in counts:  # of each step its change, until it is one
        np.add(count, before, out=count)
        np.maximum(count, low, out=count)
        np.minimum(count, high, out=count)
        before = count
    return counts


@dataclass(frozen=True)
class Parenthesis(Generated):
    """Count open parentheses by type, over `length` = T steps; form: as above."""

    length: int = 100
    form: str = "paper"

    name: ClassVar[str] = "parenthesis"
    metric: ClassVar[str] = "accuracy"
    readout: ClassVar[str] = "every"
    held_out: ClassVar[tuple[int, int, int]] = (20180705, 10, 100)

    def __post_init__(self) -> None:
        check_integer("length", self.length)
        check_choice("form", self.form, FORMS)

    @property
    def input(self) -> Tokens:
        """Opens, closes and noise."""
        return Tokens(2 * FORMS[self.form].types + FORMS[self.form].noise)

    @property
    def output_size(self) -> int:
        """A class for each count of each type."""
        return FORMS[self.form].types * (FORMS[self.form].cap + 1)

    @property
    def loss(self) -> str:
        """That of the form."""
        return FORMS[self.form].loss

    @cached_property
    def _distributions(self) -> list[np.ndarray]:
        """Of the count of one type at each step: a Markov chain, up and down with probability 1 / vocabulary each."""
        p, cap = 1 / self.input.vocabulary, FORMS[self.form].cap
        up, down = np.eye(cap + 1, k=1), np.eye(cap + 1, k=-1)
        up[cap, cap] = down[0, 0] = 1
        step = (1 - 2 * p) * np.eye(cap + 1) + p * up + p * down
        found = [np.eye(cap + 1)[0]]
        for _ in range(self.length):
            found.append(found[-1] @ step)
        return found[1:]

    @cached_property
    def baseline(self) -> float:
        """The loss of the best constant prediction per step, the count's distribution p there; mean over steps.

        Cross-entropy: -sum_k p_k ln p_k; mean squared error: the mean over k of p_k (1 - p_k).  Exact.
        """
        total = 0.0
        for distribution in self._distributions:
            if self.loss == "cross_entropy":
                positive = distribution[distribution > 0]
                total -= float((positive * np.log(positive)).sum())
            else:
                total += float((distribution * (1 - distribution)).mean())
        return total / self.length

    @property
    def baseline_metric(self) -> float:
        """Its accuracy: the share of the most frequent count, mean over steps."""
        return float(np.mean([distribution.max() for distribution in self._distributions]))

    def batch(self, tokens: np.ndarray) -> Batch:
        """The batch of given tokens: x (T, B), y (T, B, types)."""
        types, _, cap, _ = FORMS[self.form]
        return Batch(tokens, open_counts(tokens, types, cap).astype(np.intp))

    def fresh(self, rng: np.random.Generator, batch_size: int) -> Batch:
        """A batch of newly drawn sequences: x (T, B), y (T, B, types)."""
        return self.batch(rng.integers(0, self.input.vocabulary, (self.length, batch_size)))
