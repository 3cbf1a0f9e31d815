"""The papers' tables, or a grid of yours: python -m scripts.experiment run scripts/experiments/ncgru/table-1.toml"""

import enum
import inspect
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ortho_ref import formats
from ortho_ref.memory import free_memory
from ortho_ref.terminal import shown_lines
from ortho_ref.training.task import check_choice, check_integer
from ortho_ref.training.trainer import Record
from scripts.grid.build import engine_of
from scripts.grid.experiment.begun import check_begun
from scripts.grid.experiment.cells import Cell, cells_of
from scripts.grid.experiment.claims import MEAN, Comparison, comparisons_of
from scripts.grid.experiment.file import Experiment, File, read
from scripts.grid.experiment.grid import Grid, orders_of
from scripts.grid.experiment.results import ENDED, Results
from scripts.grid.experiment.running import GIB, make_out, run_grid, say_estimates
from scripts.grid.experiment.states import State, overview, states_of
from scripts.grid.experiment.table import FORMS, Line, lines_of, measured
from scripts.grid.experiment.verdicts import verdicts
from scripts.grid.options import places_in
from scripts.grid.track import TRACKERS
from scripts.program import BAD_INPUT, check_beside, check_device, check_number, fail, give, run, say

ROOT = Path(__file__).resolve().parents[1]
Action = enum.StrEnum("Action", "run status table plot store schema")
Form = enum.StrEnum("Form", "markdown csv json")


def main(
    action: Annotated[
        Action,
        typer.Argument(
            help="What to do with the grid; store: copy runs to results/; schema: print the JSON Schema of the files."
        ),
    ],
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="scripts/experiments/PAPER/TABLE.toml, or yours.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the runs; runs/experiments/NAME unless given.")] = None,
    row: Annotated[list[str] | None, typer.Option(help="Only this row; repeat for more.")] = None,
    column: Annotated[list[str] | None, typer.Option(help="Only this column; repeat for more.")] = None,
    seeds: Annotated[str | None, typer.Option(help="How many, 3, or which, 0,4,5 (one: 4,); the file's.")] = None,
    stored: Annotated[bool, typer.Option("--stored", help="status, table, plot: use the runs in results/.")] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="Only runs missing from results/, with the engine of their other seeds.")
    ] = False,
    scale: Annotated[float, typer.Option(help="Scale S; 1 is the paper's size. The file says what it changes.")] = 1.0,
    data: Annotated[Path | None, typer.Option(help="run: where the data are, a folder, for text the file.")] = None,
    held_out: Annotated[Path | None, typer.Option(help="run: for arrays, the held-out file, if there is one.")] = None,
    device: Annotated[str, typer.Option(help="run: cpu or gpu; on a GPU one run at a time, or --per-device.")] = "cpu",
    per_device: Annotated[int, typer.Option(min=1, max=64, help="run: runs at a time on a GPU.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, max=1024, help="run: worker processes.")] = 1,
    threads: Annotated[int, typer.Option(min=1, max=64, help="run: threads of each run.")] = 1,
    memory: Annotated[
        float | None, typer.Option(help="run: GiB for all workers; default: nine tenths of what is free.")
    ] = None,
    no_estimate: Annotated[
        bool, typer.Option("--no-estimate", help="run: skip the estimate of time and memory.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="run: only estimate time and memory.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="run: resume failed runs too.")] = False,
    other_commit: Annotated[bool, typer.Option("--other-commit", help="run: resume under another commit.")] = False,
    scheduler: Annotated[
        str | None, typer.Option(help="run: run on the workers of the Dask scheduler at this address.")
    ] = None,
    stalled: Annotated[
        float | None,
        typer.Option(min=1.0, help="run: end a worker after so many seconds without an update; default: never."),
    ] = None,
    track: Annotated[
        str | None, typer.Option(help=f"run: also write logs for this tracker: {', '.join(TRACKERS)}.")
    ] = None,
    form: Annotated[Form, typer.Option(help="table: format.")] = Form.markdown,
    picture: Annotated[Path | None, typer.Option(help="plot: .png, .pdf or .svg; OUT/curves.png unless given.")] = None,
) -> None:
    """Run the grid that a file describes, say how far it is, write its table, draw its curves.

    run skips what is done and goes on where it stopped; Ctrl-C saves.  Its exit code is 1 where a run failed.
    """
    given = locals()
    try:
        _check_alone(action, given)
        if action is Action.schema:
            give(
                formats.to_json(
                    {"$schema": "https://json-schema.org/draft/2020-12/schema"} | msgspec.json.schema(File), 1
                )
            )
            return
        if file is None:
            raise ValueError(f"{action} needs a FILE, as scripts/experiments/ncgru/table-1.toml")
        check_number("scale", scale, 1.0, 1e-6)
        experiment = read(file)
        out = out or default_out(experiment, scale)
        cells = tuple(cells_of(experiment, row or (), column or (), _seeds(seeds)))
        engines: dict[tuple[str, str], str] = {}
        if missing:
            cells, engines = _not_stored(cells, experiment, scale)
        if track is not None:
            check_choice("track", track, TRACKERS)
        grid = Grid(
            experiment,
            cells,
            out,
            scale,
            device,
            threads,
            _places({"data": data, "held_out": held_out}),
            track,
            engines,
        )
        if action is Action.run:
            at_a_time, limit = per_device if device == "gpu" else jobs, _bytes(memory)
            check_device(device)
            orders = orders_of(grid, retry, other_commit)
            done = len(cells) - len(orders)
            if not dry_run:
                make_out(out)
            say(f"{experiment.title}: {len(cells)} runs, {done} of them done or failed; in {out}")
            if orders and not (no_estimate and not dry_run):
                say_estimates(orders, at_a_time, limit)
            if not dry_run:
                run_grid(grid, orders, at_a_time, limit, scheduler, stalled)
        else:
            _show(action, grid, form, picture or out / "curves.png", stored)
    except BAD_INPUT as error:
        fail(error)


def _bytes(memory: float | None) -> int | None:
    """For all workers; nine tenths of what is free unless given, None where that is not known."""
    if memory is None:
        free = free_memory()
        return None if free is None else free * 9 // 10
    check_number("memory", memory, 2**20)
    return int(memory * GIB)


def _places(given: Record) -> dict[str, Path]:
    """Where the data are, by option."""
    for name, place in (found := places_in(given)).items():
        if not os.path.exists(place):
            raise ValueError(f"{name} is {place}, which is not there")
    return found


def _check_alone(action: Action, given: dict[str, object]) -> None:
    """ValueError for an option that nothing would read: its help begins with another action's name, say."""
    for name, own in inspect.signature(main).parameters.items():
        of = own.annotation.__metadata__[0].help.partition(": ")[0]
        if given[name] != own.default and action not in of.split(", ") and {*of.split(", ")} <= {*Action}:
            raise ValueError(f"{name} is {str(given[name])!r}, and is for {of}; the action is {action}")
    if action is Action.schema:
        check_beside(main, {name: value for name, value in given.items() if name != "action"}, action)
    for name, wanted in (("jobs", "cpu"), ("per_device", "gpu")):
        if given[name] != 1 and given["device"] != wanted:
            raise ValueError(f"{name} is {given[name]}, and is for --device {wanted}; device is {given['device']!r}")


def _show(action: Action, grid: Grid, form: Form, picture: Path, stored: bool) -> None:
    experiment = grid.experiment
    if stored:
        _check_papers("--stored", experiment, grid.scale)
        states = Results(ROOT).states(experiment, grid.cells)
    else:
        states = states_of(grid.cells, grid.out)
        check_begun(states, experiment, grid.scale)
    if action is Action.status:
        give(shown_lines(overview(states)))
    elif action is Action.table:
        lines = lines_of(experiment, states)
        text = FORMS[form](experiment, lines, grid.scale)
        besides = [_verdicts(experiment, lines, states), measured(experiment, states)] if form is Form.markdown else []
        give(shown_lines("\n\n".join(filter(None, [text, *besides]))))
    elif action is Action.store:
        _check_papers("store", experiment, grid.scale)
        for state in Results(ROOT).store(experiment, states):
            say(f"{state.cell.name}: stored")
        for state in states:
            if state.how == "failed" and not state.diverged:
                say(f"{state.cell.name}: not stored, as it failed: {state.reason}")
    else:
        from scripts.pictures.curves import check_picture, draw_experiment, draw_measured, has_series

        check_picture("picture", picture)
        if stored and picture.parent == grid.out and any(state.records for state in states):
            make_out(grid.out)  # no run was there
        draw_experiment(experiment, states, grid.scale, picture)
        say(str(picture))
        if has_series(experiment):
            second = picture.with_name(f"{picture.stem}-measured{picture.suffix}")
            draw_measured(experiment, states, grid.scale, second)
            say(str(second))


def _verdicts(experiment: Experiment, lines: Sequence[Line], states: Sequence[State]) -> str:
    """What the runs say of the claims about the rows and columns that are shown, and no others."""
    there = {(line.name, line.column) for line in lines}
    rows, every = {row.name for row in experiment.run_rows}, [column.name for column in experiment.columns]

    def shown(own: Comparison) -> bool:
        columns = every if own.column == MEAN else [own.column]
        return all((row, column) in there for row in rows & {own.model, own.rival} for column in columns)

    return verdicts(experiment, [own for own in comparisons_of(experiment, lines, states) if shown(own)])


def _check_papers(what: str, experiment: Experiment, scale: float) -> None:
    """ValueError for what results/ has no place for."""
    if scale != 1 or not Results(ROOT).is_papers(experiment):
        raise ValueError(f"{what} is for files in scripts/experiments, at scale 1")


def _not_stored(
    cells: Iterable[Cell], experiment: Experiment, scale: float
) -> tuple[tuple[Cell, ...], dict[tuple[str, str], str]]:
    """The cells whose runs are not stored, and of which engine the stored ones of each line and column are."""
    _check_papers("--missing", experiment, scale)
    results = Results(ROOT)
    engines = {
        (state.cell.line, state.cell.column.name): engine_of(state.config)
        for state in results.states(experiment, cells_of(experiment))
        if state.how in ENDED and state.config
    }
    return tuple(state.cell for state in results.states(experiment, cells) if state.how not in ENDED), engines


def default_out(experiment: Experiment, scale: float) -> Path:
    """The folder of an experiment's runs unless another is named: one for each scale."""
    return Path("runs/experiments") / (experiment.name + ("" if scale == 1 else f"-scale-{scale:g}"))


def _seeds(text: str | None) -> Sequence[int] | None:
    """How many seeds, "3", or which, "0,4,5"; with a comma behind it, "4,", a single one."""
    if text is None:
        return None
    which = text.removesuffix(",")
    try:
        numbers = [int(part) for part in which.split(",")]
    except ValueError:
        raise ValueError(f"seeds is {text!r}; allowed: how many, 3, or which, 0,4,5 or 4,") from None
    if "," not in text:
        check_integer("seeds", numbers[0], most=1000)
        return range(numbers[0])
    for number in numbers:
        check_integer("seeds", number, least=0)
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"seeds is {text!r}, where one comes twice")
    return numbers


if __name__ == "__main__":
    run(main)
