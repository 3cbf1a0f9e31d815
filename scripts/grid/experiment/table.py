"""The table of a grid: over the seeds of each cell, what came out, beside what was published."""

import csv
import io
import itertools
import json
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from ortho_ref.terminal import shown
from ortho_ref.training.trainer import Record
from scripts.grid.build import engine_of
from scripts.grid.experiment.file import OF_LINES, OF_WEIGHTS, ON_TEST, STATISTICS, Column, Experiment, Row
from scripts.grid.experiment.states import State, by_line, clock, markdown_table


class Line(NamedTuple):
    """A line of a table: a row in a column."""

    name: str  # the row's, in the file
    row: str  # row, column: which; the row with the values of its lists
    column: str
    values: dict[str, list[float]]  # statistic -> one number for each seed that is done, in the file's unit
    seeds: tuple[int, ...]
    wanted: int  # seeds that are to be run
    failed: tuple[str, ...]
    diverged: int  # of these
    parameters: int | None
    seconds: float  # of a run, on average; 0 where that was not noted
    paper: Record  # paper, others: source -> mean, or mean and standard deviation
    others: Record


def lines_of(experiment: Experiment, states: Sequence[State]) -> list[Line]:
    """The lines of an experiment's table."""
    found = []
    for row in experiment.rows:
        own = by_line(state for state in states if state.cell.row is row)
        lines = dict.fromkeys(line for line, _ in own) or ([row.name] if row.quoted else [])
        for column, line in itertools.product(experiment.columns, lines):
            found.append(_line(experiment, row, line, column, own.get((line, column.name), [])))
    quoted = {row.name for row in experiment.rows if row.quoted}
    return [line for line in found if line.wanted or (line.name in quoted and (line.paper or line.others))]


def _line(experiment: Experiment, row: Row, line: str, column: Column, cells: Sequence[State]) -> Line:
    paper, others = (
        {source: numbers[column.of] for source, numbers in kind.items() if column.of in numbers}
        for kind in (row.paper, row.others)
    )
    done = [(state, state.summary) for state in cells if state.summary is not None]
    values: dict[str, list[float]] = {}
    for state, summary in done:
        own = summary.get(experiment.metric)
        if experiment.metric in OF_LINES:
            own = _of_lines([record[experiment.metric] for record in state.records])
        if experiment.metric in OF_WEIGHTS:
            own = _measured(state, *OF_WEIGHTS[experiment.metric])
        if experiment.of_one_number:
            own = {} if own is None else {experiment.statistic: own}
        for name in STATISTICS:
            if own is not None and name in own:
                values.setdefault(name, []).append(own[name] / experiment.unit)
        tested = _measured(state, ON_TEST, experiment.metric)
        if tested is not None:
            values.setdefault(ON_TEST, []).append(tested / experiment.unit)
    seconds = [state.seconds for state, _ in done if state.seconds]
    return Line(
        row.name,
        line,
        column.name,
        values,
        tuple(state.cell.seed for state, _ in done),
        len(cells),
        tuple(f"seed {state.cell.seed}: {shown(state.reason)}" for state in cells if state.how == "failed"),
        sum(state.how == "failed" and state.diverged for state in cells),
        next((summary["parameters"] for _, summary in done), None),
        statistics.mean(seconds) if seconds else 0.0,
        paper,
        others,
    )


def _of_lines(values: Sequence[float]) -> dict[str, float]:
    """Statistics of a number that every line of metrics has."""
    numbers = (min(values), max(values), values[-1], statistics.median(values[-20:]))
    return dict(zip(STATISTICS, numbers, strict=True))


def _measured(state: State, what: str, name: str) -> float | None:
    """One of the numbers that were measured last of a run."""
    found = [own["values"] for own in state.measured if own["what"] == what]
    return found[-1].get(name) if found else None


def number(value: float) -> str:
    """Four digits."""
    return f"{value:.4g}"


def with_spread(values: Sequence[float]) -> str:
    """'1.234 ± 0.056', mean and standard deviation of a sample, or one or two numbers themselves."""
    if len(values) < 3:
        return ", ".join(map(number, values))
    return f"{number(statistics.mean(values))} ± {number(statistics.stdev(values))}"


def published(value: Any) -> str:
    """A published number, with its deviation where there is one."""
    return f"{value[0]:g} ± {value[1]:g}" if isinstance(value, list) else f"{value:g}"


def cells_of_line(line: Line, shown: Sequence[str]) -> list[str]:
    """What stands in a line of the Markdown table, of statistics."""
    seeds = f"{len(line.seeds)} of {line.wanted}" if len(line.seeds) < line.wanted else str(line.wanted)
    failed = f", {len(line.failed)} failed" if line.failed else ""
    own = [with_spread(line.values[name]) if name in line.values else "" for name in shown]
    parameters = "" if line.parameters is None else f"{line.parameters:,}"
    return [
        line.row,
        line.column,
        f"{seeds}{failed}" if line.wanted else "quoted",
        f"**{own[0]}**" if own[0] else "",
        *own[1:],
        parameters,
        clock(line.seconds) if line.seconds else "",
    ]


def _columns(experiment: Experiment) -> list[str]:
    """The statistics that a table shows, its own first."""
    others = [] if experiment.of_one_number else [experiment.best, "final", "median_of_last_20"]
    if ON_TEST in [own["what"] for own in experiment.measures]:
        others.append(ON_TEST)
    return list(dict.fromkeys([experiment.statistic, *others]))


def markdown(experiment: Experiment, lines: Sequence[Line], scale: float) -> str:
    """The table in Markdown: mean ± standard deviation over the seeds that are done, of two both."""
    unit = "" if experiment.unit == 1 else f"in units of {experiment.unit:g}"
    what = ", ".join(filter(None, [experiment.metric.replace("_", " "), unit, experiment.unit_name]))
    less = experiment.less_than_papers(scale)
    size = f"; {less}: **not the paper's size**" if less else "; scale 1"
    paper = dict.fromkeys(source for line in lines for source in line.paper)
    others = dict.fromkeys(source for line in lines for source in line.others)
    shown = _columns(experiment)
    head = ["row", "column", "seeds", *(name.replace("_", " ") for name in shown)]
    head += ["parameters", "time of a run", *(s if s == "paper" else f"paper {s}" for s in paper), *others]
    rows = [
        [
            *cells_of_line(line, shown),
            *(published(line.paper[source]) if source in line.paper else "" for source in paper),
            *(published(line.others[source]) if source in line.others else "" for source in others),
        ]
        for line in lines
    ]
    text = [f"{experiment.title}: {what}{size}.", "", markdown_table(head, rows)]
    failures = [f"* {line.row}, {line.column}, {reason}" for line in lines for reason in line.failed]
    return "\n".join(text + (["", "Failed:", "", *failures] if failures else []))


def measured(experiment: Experiment, states: Sequence[State]) -> str:
    """What was measured of the runs besides, in Markdown: mean ± standard deviation over the seeds; "" for nothing.

    Of what has a number for every step: of the first, the middle and the last one.  What is `on_test` is in the table.
    """
    wanted = [own for own in experiment.measures if own["what"] != ON_TEST]
    found: dict[tuple[str, str, str, int], dict[str, list[float]]] = {}
    for state in states if wanted else ():
        for own in [own for own in state.measured if own["what"] != ON_TEST]:
            for name, value in own["values"].items():
                what = f"{own['what']}: {name}".replace("_", " ")
                numbers = found.setdefault((state.cell.line, state.cell.column.name, what, own["after"]), {})
                steps = (
                    {t: value[t - 1] for t in (1, (len(value) + 1) // 2, len(value))} if isinstance(value, list) else {}
                )
                for at, one in steps.items() or [(None, value)]:
                    numbers.setdefault("" if at is None else f" at t = {at}", []).append(one)
    if not found:
        return ""
    head = ["row", "column", "measured", "after updates", "value"]
    rows = [
        [row, column, what, f"{after:,}", ", ".join(f"{with_spread(own)}{at}" for at, own in numbers.items())]
        for (row, column, what, after), numbers in found.items()
    ]
    return "\n".join(["Measured besides:", "", markdown_table(head, rows)])


def _flat(experiment: Experiment, lines: Sequence[Line], scale: float) -> list[Record]:
    """One record for each line and statistic, of plain values."""
    found = []
    for line in lines:
        own: Record = {
            "experiment": experiment.name,
            "row": line.row,
            "column": line.column,
            "scale": scale,
            "part": experiment.part,
            "metric": experiment.metric,
            "unit": experiment.unit,
            "seeds": " ".join(map(str, line.seeds)),
            "wanted": line.wanted,
            "failed": len(line.failed),
            "parameters": line.parameters,
            "seconds": round(line.seconds, 1),
        }
        for name in (*STATISTICS, *([ON_TEST] if ON_TEST in line.values else [])):
            values = line.values.get(name, [])
            own[f"{name}_mean"] = statistics.mean(values) if values else None
            own[f"{name}_sd"] = statistics.stdev(values) if len(values) > 1 else None
        for kind, sources in (("paper", line.paper), ("others", line.others)):
            for source, value in sources.items():
                mean, deviation = value if isinstance(value, list) else (value, None)
                own |= {f"{kind}: {source}": mean, f"{kind}: {source}, sd": deviation}
        found.append(own)
    return found


def as_json(experiment: Experiment, lines: Sequence[Line], scale: float) -> str:
    """The table as JSON: a list of records, with each seed's value."""
    records = _flat(experiment, lines, scale)
    for record, line in zip(records, lines, strict=True):
        record["values"] = line.values
    return json.dumps(records, indent=1, allow_nan=False)


def as_csv(experiment: Experiment, lines: Sequence[Line], scale: float) -> str:
    """The table as CSV, a header first; no text is a formula to the program that opens it."""
    records = [{name: _no_formula(value) for name, value in own.items()} for own in _flat(experiment, lines, scale)]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(dict.fromkeys(name for own in records for name in own)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return stream.getvalue().rstrip("\n")


def _no_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(tuple("=+-@\t\r")) else value


def made_by(states: Sequence[State]) -> str:
    """Under which commits, by which engines and BLAS kernels and on which processors runs were made."""
    commits = {(own.config.get("experiment") or {}).get("commit") for own in states if own.config}
    kernels = {blas for own in states if own.config for blas in own.config["made_by"]["blas"]}
    engines = {engine_of(own.config) for own in states if own.config}
    machines = {own["machine"] for state in states for own in state.sessions}
    short = sorted(commit[:7] for commit in commits if commit)
    return "; ".join(
        [f"commit {', '.join(short) or 'not known'}", *(", ".join(sorted(own)) for own in (engines, kernels, machines))]
    )


FORMS = {"markdown": markdown, "csv": as_csv, "json": as_json}
