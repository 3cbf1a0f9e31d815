"""A run under a progress bar, which a signal stops after its update."""

import contextlib
import math
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text as Line

from ortho_ref.training.run_folder import RunFolder
from ortho_ref.training.runs import TrainingRun
from ortho_ref.training.task import Task
from ortho_ref.training.trainer import Record
from scripts.grid.track import tracked
from scripts.program import console, say


def show(task: Task, record: Record) -> str:
    """The figures of a metrics line under a progress bar; what a narrow terminal cuts off comes last."""
    parts = [f"loss {record['loss']:.4g} (baseline {task.baseline:.4g})"]
    if task.metric == "bits_per_character":
        parts.append(f"{record['loss'] / math.log(2):.3f} bits")
    if task.metric == "perplexity":
        parts.append(f"perplexity {math.exp(min(record['loss'], 700)):.4g}")
    if "evaluation_loss" in record:
        parts.append(f"held out {record['evaluation_loss']:.4g}")
    parts.append(f"{record['steps_per_second']:.1f} steps/s")
    health = record["weights"].values()
    for key, label in (("defect", "defect"), ("condition", "Neumann")):
        values = [figures[key] for figures in health if key in figures]
        if values:
            parts.append(f"{label} {max(values):.1e}")
    if resets := sum(figures.get("forced_resets", 0) for figures in health):
        parts.append(f"forced resets {resets}")
    return "  ".join(parts)


class FiguresUnderBar(Progress):
    """A progress bar with the figures on a line of their own under it."""

    figures = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, then the line."""
        yield from super().get_renderables()
        yield Line(self.figures, no_wrap=True, overflow="ellipsis")


@contextlib.contextmanager
def preparing(what: str) -> Iterator[None]:
    """On a terminal, a bar while something is read that may be large; it leaves nothing."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(20), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        progress.add_task(what, total=None)
        yield


@contextlib.contextmanager
def quiet_arithmetic() -> Iterator[None]:
    """Within, nobody warns: what overflows, and what has no inverse, is reported by the trainer, by name."""
    from scipy.linalg import LinAlgWarning  # a third of a program's start: not before there is something to see

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)
        yield


STOPS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


def handle(numbers: Iterable[int], handler: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Handle signals, but for those that are ignored, as nohup has it, and a shell in the background."""
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in heard}


@contextlib.contextmanager
def signals() -> Iterator[list[int]]:
    """SIGINT, SIGTERM and SIGHUP go into a list, for the trainer to stop after its update; a second one interrupts.

    One that is ignored stays so.
    """
    received: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        say("stopping after this update; press again to stop at once")

    before = handle(STOPS, handler)
    try:
        yield received
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def train(
    trainer: TrainingRun,
    folder: RunFolder,
    config: Record,
    label: str,
    resume: bool,
    which: str | None,
    should_stop: Callable[[], bool],
    track: str | None,
) -> list[Record]:
    """Run the trainer in a folder under a progress bar."""
    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
    progress = FiguresUnderBar(*columns, console=console, transient=True)
    bar = progress.add_task(label, total=trainer.iterations)

    def on_record(record: Record) -> None:
        note(record)
        progress.figures = show(trainer.task, record)
        progress.update(bar, completed=record["iteration"])
        if not console.is_terminal:
            say(f"{record['iteration']}/{trainer.iterations}  {progress.figures}")

    def after_update() -> bool:
        progress.start()
        progress.live.transient = False  # not before: an error at the beginning stands alone
        return should_stop()

    if console.is_terminal:
        progress.start()
    try:
        with quiet_arithmetic(), tracked(track, folder) as note:
            return trainer.run(
                folder,
                config,
                resume=resume,
                which=which,
                lengthen=resume,
                on_record=on_record,
                should_stop=after_update,
            )
    finally:
        if progress.live.is_started:
            progress.stop()
