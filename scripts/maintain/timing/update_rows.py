"""The section of the benchmark of whole updates: ours, what is bare in them, and nn.GRU with Adam on such batches."""

from collections.abc import Callable, Iterator

from ortho_ref.subnormals import subnormals_as_zero
from scripts.grid.build import make_trainer
from scripts.grid.config import begun
from scripts.maintain.timing.groups import Group, Settings, timed
from scripts.maintain.timing.peers_updates import torch_update
from scripts.maintain.timing.updates import steps_of

TASKS = ("parenthesis", "denoise", "adding", "copying")
#: Ours, of those that are asked for: the paper's model, and PyTorch's own cell.
MODELS = ("nc-gru", "gru-cudnn")


def updates(own: Settings) -> Iterator[Group]:
    """An update of each task at the paper's size, float32; PyTorch's too with subnormal numbers as 0."""
    for task in (task for task in TASKS if task in own.sizes):
        for model in (model for model in MODELS if model in own.models):
            config, its_task = begun(task, model=model)
            (B, T, n), parts = steps_of(make_trainer(config, its_task), own.keep)
            steps: dict[str, Callable[[], object]] = dict(parts)
            if own.torch:
                steps["torch nn.GRU"] = torch_update(its_task, n, B, config["lr"])
            skipped = {} if own.torch else {"torch nn.GRU": "PyTorch is not installed"}
            with subnormals_as_zero():
                case = {"task": task, "model": model, "B": B, "T": T, "n": n}
                yield timed("updates", case, "update", steps, own, skipped)
