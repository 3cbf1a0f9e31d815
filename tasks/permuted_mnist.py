"""Digits, a pixel a step, in one fixed random order (urnn:task-mnist): `tasks.mnist`, its 784 steps permuted.

The paper does not say which permutation.  Those of released code, by name:
    full-urnn  numpy RandomState(92916), of full-capacity uRNN, scoRNN and expRNN; the default
    eunn       Python's random, seed 2017: the list 0..783 shuffled (Python 3)
    vprnn      numpy seed 314159
    urnn       numpy seed 1234, after the shuffles of 50,000 and 10,000 images, of the uRNN authors' history
oRNN's is in a file of its repository, which is not here.  Step t shows pixel order[t]: pixels are counted row by row.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np

from ortho_ref.training.task import check_choice
from tasks.mnist import SIDE, Mnist


def _urnn(count: int) -> np.ndarray:
    rng = np.random.RandomState(1234)
    for images in (50_000, 10_000):
        rng.shuffle(list(range(images)))
    return rng.permutation(count)


def _eunn(count: int) -> np.ndarray:
    order = list(range(count))
    random.Random(2017).shuffle(order)
    return np.array(order)


PERMUTATIONS: dict[str, Callable[[int], np.ndarray]] = {
    "full-urnn": lambda count: np.random.RandomState(92916).permutation(count),
    "eunn": _eunn,
    "vprnn": lambda count: np.random.RandomState(314159).permutation(count),
    "urnn": _urnn,
}


class PermutedMnist(Mnist):
    """Tell a digit from its pixels, one a step, in a random order that is always the same, named as above."""

    name: ClassVar[str] = "permuted-mnist"

    def __init__(
        self,
        data: Path | str | None = None,
        train_part: str = "train:5000-60000",
        eval_part: str = "train:0-5000",
        permutation: str = "full-urnn",
        other_data: bool = False,
    ) -> None:
        check_choice("permutation", permutation, PERMUTATIONS)
        super().__init__(data, train_part, eval_part, other_data=other_data)
        self.order = PERMUTATIONS[permutation](SIDE * SIDE)
