"""Whole updates of a trainer against the clock, beside what is in them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.backend import to_device
from ortho_ref.cells.cell import parts_of
from ortho_ref.layers import real_features
from ortho_ref.subnormals import subnormals_as_zero
from ortho_ref.training.trainer import Trainer
from scripts.maintain.timing.rounds import synchronizer, time_interleaved


class Times(NamedTuple):
    """Milliseconds, a figure for each round: a whole update, the bare forward and backward, drawing the batch.

    The bare ones are by the engines that the update is by.
    shape: (B, T, n of each layer).
    """

    shape: tuple[int, ...]
    update: list[float]
    bare: list[float]
    batch: list[float]


def measure(trainer: Trainer, rounds: int, seconds: float, clock: Callable[[], float]) -> Times:
    """The times of the trainer's task and its layers' cells, by a clock."""
    batches = trainer.task.batches(np.random.default_rng(0), trainer.batch_size)
    network, params = trainer.network, trainer.params
    x = to_device(next(batches).x, trainer.device)
    shape: tuple[int, ...] = (x.shape[1], x.shape[0])
    if network.embedding is not None:
        x = params["embedding.E"][x]
    bare_layers: list[tuple[Any, Any, Any, Any, Any]] = []
    for i, layer in enumerate(network.layers):
        weights = network.taken(i, params, trainer.buffers)
        h = parts_of(layer.cell, layer.loops.unroll(layer.cell, weights, x)[0])[0]
        dh = to_device(np.random.default_rng(0).standard_normal(h[1:].shape).astype(h.dtype), trainer.device)
        bare_layers.append((layer.loops, layer.cell, weights, x, dh))
        x = real_features(h[1:])
        shape = (*shape, h.shape[-1])
    kept: list[object] = [None] * len(bare_layers)  # until the next is there, as a trainer holds its tapes

    def bare() -> None:
        for i, (loops, cell, weights, x, dh) in enumerate(bare_layers):
            h, tape = loops.unroll(cell, weights, x)
            loops.unroll_back(cell, weights, tape, dh)
            kept[i] = (h, tape)

    steps = {"update": lambda: trainer.update(next(batches)), "bare": bare, "batch": lambda: next(batches)}
    with subnormals_as_zero():
        times = time_interleaved(steps, rounds, seconds, synchronizer(trainer.device), (clock,))
    return Times(shape, **{name: [own for (own,) in figures] for name, figures in times.items()})
