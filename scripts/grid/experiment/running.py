"""A grid under a progress bar: what it will take, what ended how, and how to go on."""

import math
import shlex
import signal
import sys
import time
from pathlib import Path

import typer
from rich.progress import BarColumn, Progress, TextColumn

from scripts.grid.experiment.engine import Engine
from scripts.grid.experiment.grid import Grid
from scripts.grid.experiment.states import clock, seconds_left, states_of
from scripts.grid.experiment.trial import Estimate, estimates
from scripts.grid.experiment.worker import Order
from scripts.grid.run import signals
from scripts.program import console, say

#: Seconds between looks at the runs' folders, at least; and of the time at most this share.
LOOK, SHARE = 5.0, 0.02
GIB = 2**30


def make_out(out: Path) -> None:
    """Make the folder of a grid's runs, before anything else is done for them."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(f"out is {out}: Not a directory") from None
    except OSError as error:
        raise type(error)(f"out is {out}: {error.strerror}") from error


def say_estimates(orders: list[Order], jobs: int, memory: int | None) -> None:
    """Say what the runs that are left will take, from a trial of one of each line and column."""
    kinds: dict[tuple[str, str], list[Order]] = {}
    for order in orders:
        kinds.setdefault((order.mark["row"], order.mark["column"]), []).append(order)
    say(f"estimate, from a few updates of each of {len(kinds)} kinds of run:")
    found = estimates([own[0] for own in kinds.values()], jobs)
    whole: list[tuple[Estimate, int]] = []
    for (row, column), estimate in zip(kinds, found, strict=True):
        if isinstance(estimate, str):
            say(f"  {row}; {column}: no estimate: {estimate}")
            continue
        whole.append((estimate, len(kinds[row, column])))
        each = f"{clock(estimate.seconds)}, {estimate.memory / GIB:.2f} GiB, {estimate.disk / 1e6:.1f} MB on the disk"
        say(f"  {row}; {column}: {each}; {len(kinds[row, column])} runs")
    if not whole:
        return
    seconds = sum(own.seconds * number for own, number in whole)
    together = jobs * max(own.memory for own, _ in whole)
    disk = sum(own.disk * number for own, number in whole) / 1e6
    say(
        f"together {clock(seconds)} of one worker, {clock(seconds / jobs)} with {jobs}; {together / GIB:.2f} GiB at "
        f"most, {disk:.0f} MB on the disk; unfinished runs need less than this"
    )
    if memory is not None and together > memory:
        say(f"note: {jobs} at a time may need more than {memory / GIB:.2f} GiB; then fewer will run at a time")


class Telling:
    """Says how each run ends, and shows a bar on a terminal."""

    def __init__(self, grid: Grid, jobs: int) -> None:
        self.grid, self.jobs, self._next = grid, jobs, 0.0
        self._names = {str((grid.out / cell.folder).absolute()): cell.name for cell in grid.cells}
        columns = (TextColumn("{task.description}", markup=False), BarColumn(30), TextColumn("{task.fields[left]}"))
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._bar = self._progress.add_task("updates", total=None, left="")

    def __enter__(self) -> "Telling":
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def on_end(self, order: Order, how: str) -> None:
        """A run's worker ended."""
        words = {
            "again": "its worker died; it is resumed",
            "waits": "stopped, out of memory; resumed later",
            "stopped": "saved",
            "changed": "left alone: the code has changed since the grid was begun",
            "held": "another program is working on it; waiting",
        }
        if how:
            say(f"{self._names[order.folder]}: {words.get(how, how)}")

    def on_tick(self) -> None:
        """Look at the folders now and then."""
        began = time.monotonic()
        if not console.is_terminal or began < self._next:
            return
        states = states_of(self.grid.cells, self.grid.out)
        done = sum(own.how in ("done", "failed") for own in states)
        most = max((own.iterations for own in states), default=0)
        left = seconds_left(states) / self.jobs
        text = f"{done} of {len(states)} runs" + ("" if math.isnan(left) else f", {clock(left)} left")
        updates = sum(own.iterations if own.how in ("done", "failed") else own.iteration for own in states)
        self._progress.update(self._bar, completed=updates, total=most * len(states) or None, left=text)
        now = time.monotonic()
        self._next = now + max(LOOK, (now - began) / SHARE)


def run_grid(
    grid: Grid,
    orders: list[Order],
    jobs: int,
    memory: int | None = None,
    scheduler: str | None = None,
    stalled: float | None = None,
) -> None:
    """Do the runs of a grid, and say how each ended."""
    with signals() as received, Telling(grid, jobs) as telling:
        engine = Engine(orders, grid.out, jobs, telling.on_end, memory, stalled, scheduler)
        engine.run(lambda: bool(received), telling.on_tick)
    states = states_of(grid.cells, grid.out)
    for state in states:
        if state.how == "failed":
            say(f"failed: {state.cell.name}: {state.reason}")
    done = sum(state.how == "done" for state in states)
    if received:
        name = signal.Signals(received[0]).name
        say(f"{name}: {done} of {len(states)} runs are done, what was begun is saved; to go on:")
        say(f"python -m scripts.{Path(sys.argv[0]).stem} {shlex.join(sys.argv[1:])}")
        raise typer.Exit(128 + received[0])
    say(f"{done} of {len(states)} runs are done")
    if done < len(states):
        raise typer.Exit(1)
