"""Time whole updates of the synthetic tasks at the paper's sizes: python -m scripts.training_speed

An update is drawing a batch, forward and backward of the network, optimizer and retraction.  Beside it, in the same
rounds: the bare forward and backward of the cell on such a batch, and drawing a batch alone.
"""

import resource
import statistics
import sys
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from ortho_ref import fused
from ortho_ref.backend import subnormals_as_zero
from scripts.benchmark import time_interleaved
from scripts.defaults import DEFAULTS
from scripts.program import BAD_INPUT, blas, fail, limit_threads, run
from scripts.train import config_of, make_trainer

TASKS = tuple(task for task in DEFAULTS if task != "text")


def main(
    only: Annotated[list[str] | None, typer.Option(help=f"Tasks: {', '.join(TASKS)}.")] = None,
    model: Annotated[str, typer.Option(help="A model's name.")] = "nc-gru",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 7,
    seconds: Annotated[float, typer.Option(min=0.0, help="Least time for each contender and round.")] = 0.5,
) -> None:
    """Milliseconds of an update, of the bare forward and backward in it, and of its batch; one BLAS thread, float32."""
    limit_threads(1)
    table = Table(title=f"{model}: an update, float32, medians of {rounds} rounds")
    for heading in (
        "task",
        "B, T, n",
        "updates/s",
        "update, ms",
        "bare, ms",
        "update / bare",
        "batch / update",
        "memory",
    ):
        table.add_column(heading, justify="left" if heading == "task" else "right")
    try:
        for task in only or TASKS:
            if task not in TASKS:
                raise ValueError(f"only is {task!r}; allowed: {', '.join(TASKS)}")
            config = config_of(task, model=model)
            trainer = make_trainer(config)
            batches = trainer.task.batches(np.random.default_rng(0), trainer.batch_size)
            batch = next(batches)
            layer = trainer.network.layers[0]
            weights = trainer.network.layer_weights(0, trainer.params, trainer.states)
            T, B = batch.x.shape[:2]
            n = config["hidden"]
            dh = np.random.default_rng(0).standard_normal((T, B, n)).astype(np.float32)
            kept: list[object] = [None]

            def bare(kept=kept, layer=layer, weights=weights, x=batch.x, dh=dh) -> None:  # type: ignore[no-untyped-def]
                h, tape = fused.forward(layer.cell, weights, x)
                fused.backward(layer.cell, weights, tape, dh)
                kept[0] = h, tape  # as in training, where a tape lives until the next is there

            def update(trainer=trainer, batches=batches) -> None:  # type: ignore[no-untyped-def]
                trainer.update(next(batches))

            def draw(batches=batches) -> None:  # type: ignore[no-untyped-def]
                next(batches)

            with subnormals_as_zero():
                times = time_interleaved({"bare": bare, "update": update, "batch": draw}, rounds, seconds)
            median = {name: statistics.median(values) for name, values in times.items()}
            ratio = statistics.median(u / b for u, b in zip(times["update"], times["bare"], strict=True))
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform != "darwin" else 2**30)
            table.add_row(
                task,
                f"{B}, {T}, {n}",
                f"{1e3 / median['update']:.1f}",
                f"{median['update']:.1f}",
                f"{median['bare']:.1f}",
                f"{ratio:.2f}",
                f"{median['batch'] / median['update']:.3f}",
                f"{memory:.2f} GiB",
            )
    except BAD_INPUT as error:
        fail(error)
    console = Console(width=max(120, Console().width))
    console.print(table)
    console.print(f"memory: the largest of this process so far; BLAS: {', '.join(blas())}", highlight=False)


if __name__ == "__main__":
    run(main)
