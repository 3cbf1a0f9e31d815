"""The cells of a grid: every row in every column, for every value of what is a list, for every seed."""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ortho_ref.boundary import nearest, short
from ortho_ref.training.schedules import Step
from ortho_ref.training.trainer import Record
from scripts.grid.build import make_schedule
from scripts.grid.config import config_of
from scripts.grid.experiment.file import Column, Experiment, Power, Row

#: Of a run's updates, at a scale below 1: a tenth lies between evaluations at most, a hundredth between lines.
EVALUATIONS, LINES = 10, 100
#: No grid has more runs.
MOST_RUNS = 10_000


class Cell(NamedTuple):
    """One run of a grid."""

    row: Row
    column: Column
    chosen: Record  # the values of what is a list there, in this cell
    seed: int
    options: Record  # every option that is given, the task among them; not the seed
    measures: tuple[Record, ...] = ()  # what is measured of it besides

    @property
    def line(self) -> str:
        """What a line of the table is called: the row, with the values of its lists."""
        return ", ".join([self.row.name, *(f"{name} = {_shown(value)}" for name, value in self.chosen.items())])

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.line}; {self.column.name}; seed {self.seed}"

    @property
    def folder(self) -> Path:
        """Where the run is, in the grid's folder."""
        return Path(_slug(self.line), _slug(self.column.name), f"seed-{self.seed}")


def cells_of(
    experiment: Experiment, rows: Sequence[str] = (), columns: Sequence[str] = (), seeds: Iterable[int] | None = None
) -> list[Cell]:
    """The cells of an experiment, one seed after the other.  ValueError where they are more than MOST_RUNS."""
    chosen_rows = _named("row", rows, experiment.run_rows)
    chosen_columns = _named("column", columns, experiment.columns)
    kinds = []
    for row, column in itertools.product(chosen_rows, chosen_columns):
        options = experiment.options | column.options | row.options | row.within.get(column.name, {})
        if "task" not in options:
            raise ValueError(f"{experiment.path}: {row.name}, {column.name} has no task; options need one")
        axes = {name: value for name, value in options.items() if isinstance(value, tuple)}
        kinds.append((row, column, options, axes))
    seeds = experiment.seeds if seeds is None else tuple(seeds)
    if (runs := len(seeds) * sum(math.prod(map(len, axes.values())) for *_, axes in kinds)) > MOST_RUNS:
        raise ValueError(f"{experiment.path} has {short(runs)} runs; allowed: {MOST_RUNS:,}")
    found = [
        Cell(row, column, own, seed, options | own, tuple(experiment.measures))
        for seed in seeds
        for row, column, options, axes in kinds
        for values in itertools.product(*axes.values())
        for own in [dict(zip(axes, values, strict=True))]
    ]
    folders: dict[Path, Cell] = {}
    for cell in found:
        other = folders.setdefault(cell.folder, cell)
        if other is not cell:
            raise ValueError(f"{experiment.path}: {cell.name} and {other.name} would be in one folder, {cell.folder}")
    return found


def _named(what: str, names: Sequence[str], among: Sequence[Any]) -> list[Any]:
    known = [one.name for one in among]
    for name in names:
        if name not in known:
            near = nearest(name, known)
            raise ValueError(f"{what} is {name!r}{near}; allowed: {'; '.join(known)}")
    return [one for one in among if not names or one.name in names]


def given(cell: Cell, experiment: Experiment, scale: float, places: Mapping[str, Path]) -> Record:
    """The options that a cell's run is given, at a scale."""
    options = cell.options | {"seed": cell.seed}
    if scale == 1:
        return options
    try:
        full = config_of(**options | dict(places) | {"engine": None})  # that is checked beside the command's device
    except (ValueError, TypeError) as error:
        raise type(error)(f"{cell.name}: {error}") from None
    scaled = {name: _scaled(full[name], power, scale) for name, power in experiment.scaling.items()}
    options |= {name: value for name, value in scaled.items() if value is not None}
    before: int = full["iterations"]
    N: int = options.get("iterations", before)
    full |= options
    options["eval_every"] = min(full["eval_every"], max(1, -(-N // EVALUATIONS)))
    options["checkpoint_every"] = min(full["checkpoint_every"], options["eval_every"])
    options["log_every"] = min(full["log_every"], max(1, -(-N // LINES)))
    schedule = make_schedule(full["schedule"], 1.0, before)
    if isinstance(schedule, Step):
        every = max(1, round(schedule.every * N / before))
        options["schedule"] = ":".join(["step", str(every), *full["schedule"].split(":")[2:]])
    return options


def _scaled(value: Any, power: Power, scale: float) -> Any:
    if isinstance(value, list):
        return [_scaled(one, power, scale) for one in value]
    if not value:
        return value
    number = max(power.least, round(value * scale**power.power))
    return 2 ** (number.bit_length() - 1) if power.power_of_two else number


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _slug(text: str) -> str:
    """A text as a folder's name: small letters, digits, dots and hyphens."""
    return re.sub(r"[^a-z0-9.=+]+", "-", text.lower().replace(" = ", "=")).strip("-.")[:200] or "x"
