"""The section of the benchmark of whole updates: ours by both engines, and nn.GRU with Adam on such batches."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ortho_ref.subnormals import subnormals_as_zero
from scripts.grid.build import make_trainer
from scripts.grid.config import begun
from scripts.maintain.timing.groups import Group, Settings, timed
from scripts.maintain.timing.peers_updates import torch_update
from scripts.program import limit_threads

TASKS = ("parenthesis", "denoise", "adding", "copying")
ENGINES = ("compiled", "fused")


def updates(own: Settings) -> Iterator[Group]:
    """An update of each task at the paper's size, float32; PyTorch's too with subnormal numbers as 0."""
    for task in (task for task in TASKS if task in own.sizes):
        config, its_task = begun(task, engine="fused")
        steps = {engine: _update(task, engine) for engine in ENGINES}
        limit_threads(own.threads, "compiled")
        B, n = config["batch"], config["hidden"]
        if own.torch:
            steps["torch nn.GRU"] = torch_update(its_task, n, B, config["lr"], own.threads)
        skipped = {} if own.torch else {"torch nn.GRU": "PyTorch is not installed"}
        with subnormals_as_zero():
            case = {"task": task, "B": B, "n": n, "threads": own.threads}
            yield timed("updates", case, "compiled", steps, own, skipped)


def _update(task: str, engine: str) -> Callable[[], Any]:
    """Drawing a batch, and an update on it."""
    trainer = make_trainer(*begun(task, engine=engine))
    batches = trainer.task.batches(np.random.default_rng(0), trainer.batch_size)
    return lambda: trainer.update(next(batches))
