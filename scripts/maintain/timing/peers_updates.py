"""A whole update in PyTorch: nn.GRU, a linear readout, the task's loss, Adam; its batches are the task's own.

Tokens come as one-hot vectors, which is what nn.GRU takes.  Adam is PyTorch's fused one.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ortho_ref.training.task import Batch, Task, Tokens


def torch_update(task: Task, hidden: int, batch_size: int, lr: float, threads: int = 1) -> Callable[[], Any]:
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
