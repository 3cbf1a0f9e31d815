"""Whole updates of a trainer against the clock, beside what is in them."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ortho_ref import fused
from ortho_ref.backend import to_device
from ortho_ref.subnormals import subnormals_as_zero
from ortho_ref.training import Trainer
from scripts.timing.rounds import synchronizer, time_interleaved


class Times(NamedTuple):
    """Milliseconds, a figure for each round: a whole update, the bare forward and backward, drawing the batch.

    shape: (B, T, n).
    """

    shape: tuple[int, int, int]
    update: list[float]
    bare: list[float]
    batch: list[float]


def measure(trainer: Trainer, rounds: int, seconds: float) -> Times:
    """The times of the trainer's task and its first layer's cell."""
    batches = trainer.task.batches(np.random.default_rng(0), trainer.batch_size)
    x = next(batches).x
    cell = trainer.network.layers[0].cell
    weights = trainer.network.layer_weights(0, trainer.params, trainer.buffers)
    n = next(weight.shape[0] for weight in weights.values())
    dh = np.random.default_rng(0).standard_normal((*x.shape[:2], n)).astype(np.float32)
    x, dh = to_device((x, dh), trainer.device)
    kept: list[object] = [None]

    def bare() -> None:
        h, tape = fused.forward(cell, weights, x)
        fused.backward(cell, weights, tape, dh)
        kept[0] = h, tape  # as in training, where a tape lives until the next is there

    steps: dict[str, Callable[[], object]] = {
        "update": lambda: trainer.update(next(batches)),
        "bare": bare,
        "batch": lambda: next(batches),
    }
    with subnormals_as_zero():
        return Times((*x.shape[1::-1], n), **time_interleaved(steps, rounds, seconds, synchronizer(trainer.device)))
