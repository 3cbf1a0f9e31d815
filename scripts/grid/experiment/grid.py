"""A grid as it is run: its folder, its scale, where it computes; and what each worker is told."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ortho_ref.losses import METRICS
from ortho_ref.training.run_folder import CONFIG, SUMMARY, RunFolder
from ortho_ref.training.task import Task
from ortho_ref.training.trainer import Record
from scripts.grid.config import begun
from scripts.grid.experiment import sessions
from scripts.grid.experiment.begun import changed, mark_of
from scripts.grid.experiment.cells import Cell, given
from scripts.grid.experiment.file import Experiment
from scripts.grid.experiment.measures import check_wanted, missing, read_measured
from scripts.grid.experiment.worker import Order


class Grid(NamedTuple):
    """An experiment that is run."""

    experiment: Experiment
    cells: tuple[Cell, ...]  # those that are wanted
    out: Path  # the folder of all runs
    scale: float = 1.0  # S; 1 is the paper's size
    device: str = "cpu"
    threads: int = 1  # of each run
    places: Mapping[str, Path] = MappingProxyType({})  # where the data are, by option
    track: str | None = None  # for which other programs lines of metrics are written too
    engines: Mapping[tuple[str, str], str] = MappingProxyType({})  # of a line in a column, where its other seeds say so

    def given(self, cell: Cell) -> Record:
        """Every option that a cell's run is given."""
        own = given(cell, self.experiment, self.scale, self.places)
        engine = self.engines.get((cell.line, cell.column.name))
        return {"threads": self.threads, "engine": engine} | own | {"device": self.device}

    def order(self, cell: Cell) -> Order:
        """What a worker is told."""
        options = self.given(cell)
        task = options.pop("task")
        mark = {
            "name": self.experiment.name,
            "row": cell.line,
            "column": cell.column.name,
            "scale": self.scale,
            "commit": sessions.commit(),
        }
        places = {name: str(place.absolute()) for name, place in self.places.items()}
        folder = str((self.out / cell.folder).absolute())
        return Order(folder, task, options, places, mark, self.experiment.measures, self.track)


def orders_of(grid: Grid, retry: bool = False, other_commit: bool = False) -> list[Order]:
    """What is left to do of a grid, checked before anything is begun."""
    found, configs = [], dict[str, Record]()
    for cell in grid.cells:
        folder = grid.out / cell.folder
        try:
            if _has_failed(folder) and not retry:
                continue
        except (OSError, ValueError):  # the states of the runs say it; no other waits for it
            continue
        order = grid.order(cell)
        kind = json.dumps([order.task, order.given | {"seed": 0}], sort_keys=True, default=str)
        if kind not in configs:  # another seed changes nothing of what is allowed
            try:
                configs[kind], task = begun(order.task, **order.given, **grid.places)
                check_wanted(cell.measures, configs[kind], task)
                _check_metric(grid.experiment.metric, task)
            except (ValueError, TypeError) as error:
                raise type(error)(f"{grid.experiment.path}: {cell.name}: {error}") from None
        if not folder.exists():
            found.append(order)
            continue
        with RunFolder(folder) as run:
            if run.has(CONFIG):
                _check_begun(run, order, configs[kind] | {"seed": cell.seed}, other_commit)
            if not run.has(SUMMARY) or missing(read_measured(run), cell.measures, configs[kind]["iterations"]):
                found.append(order)
    return found


def _has_failed(folder: Path) -> bool:
    """Whether a cell's run failed; DamagedFile where the files that say what it is are not what was written."""
    if not folder.exists():
        return False
    with RunFolder(folder) as run:
        failed = sessions.failure(sessions.read_sessions(run)) is not None
        if run.has(CONFIG):
            _ = run.config, read_measured(run)
    return failed


def _check_metric(metric: str, task: Task) -> None:
    """ValueError for a metric of evaluations that the task does not have."""
    if metric in METRICS and metric != task.metric:
        raise ValueError(f"metric is {metric!r}; the task has {task.metric!r}")


def _check_begun(run: RunFolder, order: Order, wanted: Record, other_commit: bool) -> None:
    """ValueError unless the run in a cell's folder is the cell's, whose config is wanted."""
    config, folder = run.config, run.path
    mark = mark_of(folder, config)
    for name in ("name", "row", "column", "scale"):
        if mark[name] != order.mark[name]:
            raise ValueError(f"{name} is {order.mark[name]!r}; the run in {folder} has {mark[name]!r}")
    for name in ("task", *order.given):
        if name != "threads" and config.get(name) != wanted[name]:
            raise ValueError(changed(name, wanted[name], folder, config))
    if run.has(SUMMARY) or other_commit:
        return
    if mark["commit"] != (this := order.mark["commit"]):
        raise ValueError(
            f"{folder} was begun under commit {mark['commit']}, and this is {this}: go on in a worktree of "
            "that commit, or give --other-commit"
        )
