"""Train a model on a task: python -m scripts.train parenthesis --model nc-gru --hidden 56 --out runs/paren"""

import enum
import itertools
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import typer
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text as Line

from ortho_ref import models
from ortho_ref.network import Network
from ortho_ref.optimizers import Adam, ByName
from ortho_ref.task import Task
from ortho_ref.training import Record, Trainer, new_run_folder
from tasks.parenthesis import Parenthesis
from tasks.text import Text

console = Console(stderr=True)


class TaskName(enum.StrEnum):
    parenthesis = "parenthesis"
    text = "text"


def fail(message: object, code: int = 2) -> NoReturn:
    """One line on stderr, and the exit code."""
    console.print(f"[red]error:[/red] {escape(str(message))}", highlight=False, soft_wrap=True)
    raise typer.Exit(code)


def limit_threads(threads: int) -> None:
    """Give every BLAS in this process that many threads: NumPy's, and SciPy's own."""
    import scipy.linalg  # noqa: F401  loads SciPy's BLAS; a limit holds for what is loaded
    from threadpoolctl import threadpool_limits

    if threads < 1:
        raise ValueError(f"threads is {threads}; allowed: at least 1")
    threadpool_limits(threads)


def make_task(name: TaskName, length: int, file: Path | None) -> Task:
    """The task of that name; ValueError or OSError for a wrong option or file."""
    if name is TaskName.text:
        if file is None:
            raise ValueError("text needs --file FILE, a UTF-8 text")
        return Text(file, length)
    if file is not None:
        raise ValueError(f"--file is for text; {name} is generated")
    return Parenthesis(length)


def make_network(task: Task, model: str, hidden: int, layers: int, options: dict[str, Any]) -> Network:
    """`layers` copies of the model under a readout for the task."""
    sizes = [task.input.size, *[hidden] * layers]
    stack = tuple(models.build(model, m, n, **options) for m, n in itertools.pairwise(sizes))
    return Network(stack, task.output_size, task.readout, task.loss)


def show(task: Task, record: Record) -> str:
    """The figures of a metrics line that fit beside a progress bar."""
    parts = [f"loss {record['loss']:.4f} (baseline {task.baseline:.4f})"]
    if task.metric == "bits_per_character":
        parts.append(f"{record['loss'] / math.log(2):.3f} bits")
    health = record["weights"].values()
    for key, label in (("defect", "defect"), ("condition", "Neumann"), ("forced_resets", "forced resets")):
        values = [figures[key] for figures in health if key in figures]
        if values and (key != "forced_resets" or max(values)):
            parts.append(f"{label} {max(values):.1e}" if key != "forced_resets" else f"{label} {sum(values)}")
    if "evaluation_loss" in record:
        parts.append(f"held out {record['evaluation_loss']:.4f}")
    return "  ".join(parts)


class FiguresUnderBar(Progress):
    """A progress bar with the figures on a line of their own under it."""

    figures = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, then the line."""
        yield from super().get_renderables()
        yield Line(self.figures)


def train(trainer: Trainer, out: Path, config: dict[str, Any], label: str) -> list[Record]:
    """Run the trainer under a progress bar, into the new run folder `out`."""
    new_run_folder(out, config)
    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
    with FiguresUnderBar(*columns, console=console) as progress:
        bar = progress.add_task(label, total=trainer.iterations)

        def on_record(record: Record) -> None:
            progress.figures = show(trainer.task, record)
            progress.update(bar, completed=record["iteration"])

        # what overflows is reported by the trainer, by name
        with np.errstate(all="ignore"):
            return trainer.run(out, on_record)


def main(
    task: Annotated[TaskName, typer.Argument(help="The task.")],
    out: Annotated[Path, typer.Option(help="Folder for config.json and metrics.jsonl; must not hold a run.")],
    model: Annotated[str, typer.Option(help=f"One of {', '.join(models.names())}.")] = "nc-gru",
    hidden: Annotated[int, typer.Option(help="Hidden size n.")] = 56,
    layers: Annotated[int, typer.Option(help="Recurrent layers.")] = 1,
    length: Annotated[int, typer.Option(help="Time steps T of a sequence or window.")] = 100,
    batch: Annotated[int, typer.Option(help="Sequences B in a batch.")] = 16,
    iterations: Annotated[int, typer.Option(help="Updates.")] = 4000,
    lr: Annotated[float, typer.Option(help="Adam's learning rate.")] = 1e-3,
    lr_a: Annotated[float | None, typer.Option("--lr-A", help="The rate for A; --lr unless given.")] = None,
    seed: Annotated[int, typer.Option(help="Of initial weights and data.")] = 0,
    file: Annotated[Path | None, typer.Option(help="text: the UTF-8 text to learn.")] = None,
    orthogonal: Annotated[str | None, typer.Option(help="nc-gru: c, rc or ruc.")] = None,
    order: Annotated[int | None, typer.Option(help="nc-gru: order of the Neumann series, 1 to 3.")] = None,
    reset_every: Annotated[int | None, typer.Option(help="nc-gru: updates between exact inverses.")] = None,
    negative_ones: Annotated[int | None, typer.Option(help="nc-gru, scornn: entries -1 of D.")] = None,
    log_every: Annotated[int, typer.Option(help="Iterations per line of metrics.")] = 50,
    evaluate_every: Annotated[int, typer.Option(help="Iterations between runs of the held-out set.")] = 1000,
    threads: Annotated[int, typer.Option(help="BLAS threads.")] = 1,
) -> None:
    """Train MODEL on TASK with Adam; metrics go to OUT/metrics.jsonl, one JSON object per line."""
    config = {key: str(value) if isinstance(value, Path) else value for key, value in locals().items()}
    options = {"orthogonal": orthogonal, "order": order, "reset_every": reset_every, "negative_ones": negative_ones}
    try:
        limit_threads(threads)
        the_task = make_task(task, length, file)
        network = make_network(
            the_task, model, hidden, layers, {name: value for name, value in options.items() if value is not None}
        )
        optimizer = ByName({"*.A": Adam(lr if lr_a is None else lr_a), "*": Adam(lr)})
        trainer = Trainer(
            network, the_task, optimizer, iterations, batch, seed, log_every=log_every, evaluate_every=evaluate_every
        )
        next(the_task.batches(np.random.default_rng(0), batch))  # a batch that cannot be had is said before the folder
        records = train(trainer, out, config, f"{model} {task}")
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        fail(error)
    except MemoryError as error:
        fail(f"out of memory: {error}; a smaller --hidden, --batch or --length needs less")
    except KeyboardInterrupt:
        fail(f"interrupted; the metrics so far are in {out / 'metrics.jsonl'}", 130)
    last = records[-1]
    console.print(
        f"{network.count(trainer.params)} parameters; held out: loss {last['evaluation_loss']:.4f}, "
        f"{the_task.metric} {last[the_task.metric]:.4f}; baseline loss {the_task.baseline:.4f}; "
        f"{out / 'metrics.jsonl'}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    typer.echo(json.dumps(last))


if __name__ == "__main__":
    typer.run(main)
