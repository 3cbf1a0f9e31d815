"""Time whole updates of the tasks at the papers' sizes: python -m scripts.maintain.training_speed

The tasks that need no data unless one is named: --only ptb-word --data DIR.  An update is drawing a batch, forward and
backward of the network, optimizer and retraction.  Beside it, in the same rounds: drawing a batch alone.  Windows of a
text are of one length here.

With --words instead: loss and gradients of a word-level LSTM, its readout in chunks and all at once.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from ortho_ref.subnormals import subnormals_as_zero
from ortho_ref.training.trainer import Trainer
from scripts.grid.build import make_trainer
from scripts.grid.config import begun
from scripts.maintain.timing.readout import SIZES as READOUTS, measure_readout
from scripts.maintain.timing.rounds import check_rounds, synchronizer, time_interleaved
from scripts.program import BAD_INPUT, blas, check_beside, chosen, fail, give, limit_threads, run
from scripts.program.usage import peak_memory
from tasks import by_name
from tasks.by_name import GENERATED


def _words(rounds: int, seconds: float) -> Table:
    """The table of the readout of words, as its rows are measured."""
    table = Table(title=f"A word-level LSTM, loss and gradients, float32, cpu, medians of {rounds} rounds")
    for heading in ("words, n, T, B", "whole, ms", "chunks, ms", "whole, MiB", "chunks, MiB"):
        table.add_column(heading, justify="right")
    for size in READOUTS:
        own = measure_readout(*size, rounds, seconds)
        table.add_row(", ".join(map(str, size)), *(f"{figure:,.0f}" for figure in own))
    return table


def _measured(
    trainer: Trainer, rounds: int, seconds: float, clock: Callable[[], float]
) -> tuple[tuple[int, int], float, float]:
    """(B, T); medians in milliseconds of a whole update, and of drawing its batch."""
    batches = trainer.task.batches(np.random.default_rng(0), trainer.batch_size)
    T, B = next(batches).x.shape[:2]
    steps = {"update": lambda: trainer.update(next(batches)), "batch": lambda: next(batches)}
    with subnormals_as_zero():
        times = time_interleaved(steps, rounds, seconds, synchronizer(trainer.device), (clock,))
    update, batch = (statistics.median(own for (own,) in times[name]) for name in steps)
    return (B, T), update, batch


def main(
    only: Annotated[list[str] | None, typer.Option(help="Tasks; default: those that need no data.")] = None,
    data: Annotated[Path | None, typer.Option(help="As in scripts.train, for a single task.")] = None,
    other_data: Annotated[bool, typer.Option("--other-data", help="As in scripts.train.")] = False,
    train_part: Annotated[str | None, typer.Option(help="As in scripts.train.")] = None,
    eval_part: Annotated[str | None, typer.Option(help="As in scripts.train.")] = None,
    model: Annotated[str, typer.Option(help="A model's name.")] = "nc-gru",
    hidden: Annotated[int | None, typer.Option(help="As in scripts.train.")] = None,
    engine: Annotated[str | None, typer.Option(help="As in scripts.train.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 7,
    seconds: Annotated[float, typer.Option(min=0.0, help="Minimum time for each contender and round.")] = 0.5,
    device: Annotated[str, typer.Option(help="cpu or gpu; the batch is drawn on the host.")] = "cpu",
    cpu_time: Annotated[bool, typer.Option("--cpu-time", help="Measure CPU time, for a busy machine.")] = False,
    words: Annotated[bool, typer.Option("--words", help="Time the readout of words instead.")] = False,
) -> None:
    """Milliseconds of an update, and the share of it that drawing its batch takes; one BLAS thread, float32."""
    given = locals()
    limit_threads(1)
    table = Table(title=f"{model}: an update, float32, {device}, medians of {rounds} rounds")
    figures = ("updates/s", "update, ms", "batch / update", "memory")
    for heading in ("task", "B, T, n", *figures):
        table.add_column(heading, justify="left" if heading == "task" else "right")
    try:
        check_rounds(rounds, seconds)
        if words:
            check_beside(main, given, "words", "rounds", "seconds")
            give(_words(rounds, seconds), 120)
            give(f"BLAS: {', '.join(blas())}")
            return
        places = {"data": data, "other_data": other_data or None, "train_part": train_part, "eval_part": eval_part}
        for task in chosen("only", only or GENERATED, by_name.NAMES):
            fixed = {"windows": "fixed"} if "windows" in by_name.options_of(task) else {}
            config, its_task = begun(task, model=model, hidden=hidden, engine=engine, device=device, **fixed, **places)
            clock = time.process_time if cpu_time else time.perf_counter
            shape, update, batch = _measured(make_trainer(config, its_task), rounds, seconds, clock)
            memory = peak_memory() / 2**30
            table.add_row(
                task,
                ", ".join(map(str, (*shape, *config["network"]["hidden_sizes"]))),
                f"{1e3 / update:.1f}",
                f"{update:.1f}",
                f"{batch / update:.3f}",
                f"{memory:.2f} GiB",
            )
    except BAD_INPUT as error:
        fail(error)
    give(table, 120)
    timed = "this process's" if cpu_time else "the clock's"
    give(f"time: {timed}; memory: the largest of this process so far; BLAS: {', '.join(blas())}")


if __name__ == "__main__":
    run(main, keeps_memory=True)
