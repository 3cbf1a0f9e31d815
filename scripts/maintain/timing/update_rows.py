"""The section of the benchmark of whole updates: ours by both engines, and PyTorch's on such batches.

PyTorch's is nn.GRU, a linear readout, the task's loss, and its fused Adam; tokens come as one-hot vectors.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ortho_ref.subnormals import subnormals_as_zero
from ortho_ref.training.task import Batch, Task, Tokens
from scripts.grid.build import make_trainer
from scripts.grid.config import begun
from scripts.maintain.timing.groups import Group, Settings, timed
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


def torch_update(task: Task, hidden: int, batch_size: int, lr: float, threads: int) -> Callable[[], Any]:
    """An update, its batch drawn; it returns the loss, float32."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    gru, readout = torch.nn.GRU(task.input.size, hidden), torch.nn.Linear(hidden, task.output_size)
    optimizer = torch.optim.Adam([*gru.parameters(), *readout.parameters()], lr, fused=True)
    batches = task.batches(np.random.default_rng(0), batch_size)

    def update() -> Any:
        batch = next(batches)
        optimizer.zero_grad()
        value = loss(task, readout(_states(task, gru, batch)), batch)
        value.backward()
        optimizer.step()
        return value.detach()

    return update


def _states(task: Task, gru: Any, batch: Batch) -> Any:
    """h of the steps that are read."""
    import torch

    x = torch.from_numpy(batch.x)
    if isinstance(task.input, Tokens):
        x = torch.nn.functional.one_hot(x, task.input.size).float()
    h = gru(x)[0]
    return h if task.readout == "every" else h[-1]


def loss(task: Task, outputs: Any, batch: Batch) -> Any:
    """The task's loss of outputs (..., output size) as PyTorch has it; its tasks have no mask."""
    import torch

    y = torch.from_numpy(batch.y)
    if task.loss == "mean_squared_error":
        return torch.nn.functional.mse_loss(outputs, y)
    targets = y.shape[-1] if y.ndim == outputs.ndim else 1  # several digits of classes in an output, as parenthesis
    return torch.nn.functional.cross_entropy(outputs.reshape(-1, task.output_size // targets), y.reshape(-1))
