"""What results/ has of the papers' runs: for each file of scripts/experiments one of lines, each line a run.

A run that one file stored counts for every other that has one of the same options, as they are resolved.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec

from ortho_ref import files
from ortho_ref.formats import Form, check, from_json
from ortho_ref.training.forms import Summary
from ortho_ref.training.trainer import Record
from scripts.grid.experiment.begun import check_begun
from scripts.grid.experiment.cells import Cell, cells_of
from scripts.grid.experiment.file import Experiment, read
from scripts.grid.experiment.measures import Measure
from scripts.grid.experiment.sessions import Past
from scripts.grid.experiment.states import State, state_from
from scripts.grid.options import DEFAULT
from scripts.grid.settled import settled

FORMAT = "ortho_ref stored run 1"
#: Row, column and seed.
Key: TypeAlias = tuple[str, str, int]
#: A run that is stored has no more lines of metrics.
LINES = 300
#: How a run ends that may be stored: what diverged, too, is a result.
ENDED = ("done", "failed")
#: Options that say where and how a run is computed, not which it is.
_WHERE = ("device", "engine", "threads", "checkpoint_every")

#: A number of every line of metrics: one for all, or each line's, null where it has none.
Column: TypeAlias = list[float | None] | float
Columns: TypeAlias = dict[str, Column | dict[str, Column | dict[str, Column]]]


class Made(msgspec.Struct):
    """What made a run."""

    blas: list[str]


class Options(msgspec.Struct):
    """What is asked of a run's config; it has every option besides, the network's arguments, the data."""

    task: str
    model: str
    iterations: Annotated[int, msgspec.Meta(ge=1)]
    made_by: Made


class StoredRun(Form):
    """A line of a file."""

    format: Literal["ortho_ref stored run 1"]
    row: str
    column: str
    seed: Annotated[int, msgspec.Meta(ge=0)]
    commit: str | None
    sessions: list[Past]
    summary: Summary | None  # type: ignore[valid-type]  # None of one that diverged
    measured: list[Measure]
    config: Options
    metrics: Columns


class Stored(NamedTuple):
    """A stored run."""

    place: Path  # FILE:LINE
    experiment: str  # whose file that is
    run: Record  # as of `StoredRun`

    @property
    def config(self) -> Record:
        """As it was in the run's folder."""
        mark = {"name": self.experiment, "scale": 1.0} | {name: self.run[name] for name in ("row", "column", "commit")}
        whole: Record = self.run["config"] | {"seed": self.run["seed"], "experiment": mark}
        return whole

    def state(self, cell: Cell) -> State:
        """As a cell's run: "done", "failed" where it diverged, "stopped" where the cell wants more to be measured."""
        own = self.run
        lines = lines_of(own["metrics"])
        return state_from(cell, self.place, self.config, own["sessions"], lines, own["summary"], own["measured"])

    def fits(self, options: Record) -> bool:
        """Whether it has the options of a run, as they are resolved; one that was not yet there is at its default."""
        config = DEFAULT | self.run["config"] | {"seed": self.run["seed"]}
        return all(config[name] == value for name, value in options.items() if name not in _WHERE)


def columns_of(lines: Sequence[Record]) -> Columns:
    """Lines of metrics by their columns; the iteration is one of each line."""

    def column(values: list[Any]) -> Any:
        if isinstance(values[0], dict):
            names = dict.fromkeys(name for value in values for name in value)
            return {name: column([value.get(name) for value in values]) for name in names}
        return values[0] if values.count(values[0]) == len(values) else values

    return {**(column(list(lines)) if lines else {}), "iteration": [line["iteration"] for line in lines]}


def lines_of(columns: Columns) -> list[Record]:
    """Lines of metrics from their columns."""

    def at(own: Any, i: int) -> Any:
        if isinstance(own, dict):
            return {name: value for name, one in own.items() if (value := at(one, i)) is not None}
        return own[i] if isinstance(own, list) else own

    iterations = columns["iteration"]
    return [at(columns, i) for i in range(len(iterations))]  # type: ignore[arg-type]  # a list, as of `columns_of`


def read_runs(path: Path, experiment: str = "") -> dict[Key, Stored]:
    """The runs of a file, by row, column and seed.  DamagedFile where a line is none, or that of another."""
    found: dict[Key, Stored] = {}
    for i, text in enumerate(files.read(path).splitlines(), 1):
        try:
            run = from_json(text)
            check(run, StoredRun)
            _check_lengths("metrics", run["metrics"], run["metrics"].get("iteration"))
            key = run["row"], run["column"], run["seed"]
            if key in found:
                raise ValueError(f"it belongs to the run of {found[key].place.name}")
        except ValueError as error:
            raise files.DamagedFile(path, f"line {i}: {error}") from None
        found[key] = Stored(path.with_name(f"{path.name}:{i}"), experiment, run)
    return found


def _check_lengths(where: str, column: Any, iterations: Any) -> None:
    if not isinstance(iterations, list):
        raise ValueError(f"{where} has no list of iterations")
    if isinstance(column, dict):
        for name, own in column.items():
            _check_lengths(f"{where}.{name}", own, iterations)
    elif isinstance(column, list) and len(column) != len(iterations):
        raise ValueError(f"{where} has {len(column)} values; its lines are {len(iterations)}")


def write_runs(path: Path, runs: Iterable[Record]) -> None:
    """Write a file of runs, whole or not at all."""
    runs = list(runs)
    for run in runs:
        check(run, StoredRun)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, b"".join(msgspec.json.encode(run) + b"\n" for run in runs))


def run_of(state: State) -> Record:
    """A run that ended, as it is stored."""
    cell, mark = state.cell, state.config["experiment"]
    return {
        "format": FORMAT,
        "row": cell.line,
        "column": cell.column.name,
        "seed": cell.seed,
        "commit": mark["commit"],
        "sessions": state.sessions,
        "summary": state.summary,
        "measured": state.measured,
        "config": {name: value for name, value in state.config.items() if name not in ("seed", "experiment")},
        "metrics": columns_of(state.records),
    }


def _key(cell: Cell) -> Key:
    return cell.line, cell.column.name, cell.seed


class Results:
    """The papers' files, and the runs of them that are stored."""

    def __init__(self, root: Path) -> None:
        self._files, self._results = root / "scripts" / "experiments", root / "results" / "experiments"
        self._options: dict[str, Record] = {}

    def is_papers(self, experiment: Experiment) -> bool:
        """Whether an experiment's file is one of the papers', so that results/ has a place for it."""
        return self._files in experiment.path.resolve().parents

    def place(self, experiment: Experiment) -> Path:
        """The file of the runs that an experiment's own file stored."""
        return self._results / f"{experiment.name}.jsonl"

    @cached_property
    def experiments(self) -> list[Experiment]:
        """Those of all files."""
        return [read(path) for path in sorted(self._files.rglob("*.toml"))]

    @cached_property
    def _stored(self) -> dict[str, dict[Key, Stored]]:
        """Every run, by the file's name, and by row, column and seed."""
        names = {path: path.relative_to(self._results).as_posix() for path in self._results.rglob("*.jsonl")}
        return {(own := name.removesuffix(".jsonl")): read_runs(path, own) for path, name in sorted(names.items())}

    @cached_property
    def _alike(self) -> dict[tuple[str, str, int], list[Stored]]:
        """Every run, by task, model and seed."""
        found: dict[tuple[str, str, int], list[Stored]] = {}
        for runs in self._stored.values():
            for own in runs.values():
                found.setdefault((own.config["task"], own.config["model"], own.config["seed"]), []).append(own)
        return found

    def _lent(self, cell: Cell) -> list[Stored]:
        """Runs that have a cell's options, whatever file stored them."""
        kind = cell.options["task"], cell.options.get("model", DEFAULT["model"]), cell.seed
        if kind not in self._alike:
            return []
        options: Record = {"seed": 0} | cell.options
        key = repr(sorted(options.items()))
        if key not in self._options:
            try:
                self._options[key] = settled(**options)
            except (ValueError, TypeError) as error:
                raise type(error)(f"{cell.name}: {error}") from None
        return [own for own in self._alike[kind] if own.fits(self._options[key] | {"seed": cell.seed})]

    def states(self, experiment: Experiment, cells: Iterable[Cell]) -> list[State]:
        """How far each cell's run is: "done" where it is stored, "failed" where a stored one diverged.

        It is one of the experiment's own file, or one that another file stored, where that measured as much.
        """
        found = []
        for cell in cells:
            own = self._stored.get(experiment.name, {}).get(_key(cell))
            state = State(cell, self.place(experiment), "waiting") if own is None else own.state(cell)
            check_begun([state], experiment, 1.0)
            if state.how not in ENDED:
                state = next((one for lent in self._lent(cell) if (one := lent.state(cell)).how in ENDED), state)
            found.append(state)
        return found

    def lenders(self, experiment: Experiment, states: Sequence[State]) -> list[str]:
        """The names of the other experiments, some of whose runs these are."""
        names = {state.config["experiment"]["name"] for state in states if state.config}
        return sorted(names - {experiment.name})

    def store(self, experiment: Experiment, states: Sequence[State]) -> list[State]:
        """Put runs that are done, or diverged, and not there yet, into the experiment's file, in the table's order."""
        there = self._stored.get(experiment.name, {})
        runs = {key: own.run for key, own in there.items()}
        added = []
        for state in states:
            key = _key(state.cell)
            is_there = key in there and there[key].state(state.cell).how in ENDED
            if is_there or not (state.how == "done" or state.diverged):
                continue
            if len(state.records) > LINES:
                raise ValueError(
                    f"{state.folder} has {len(state.records)} lines of metrics; allowed: {LINES}; log less often"
                )
            runs[key] = run_of(state)
            added.append(state)
        if added:
            order = [_key(cell)[:2] for cell in cells_of(experiment)]
            order += [key[:2] for key in runs]  # of rows and columns that the file has no more
            keys = sorted(runs, key=lambda key: (order.index(key[:2]), key[2]))
            write_runs(self.place(experiment), [runs[key] for key in keys])
        return added
