"""The file of an experiment: rows and columns of a table, what is trained for each, and the paper's numbers.

TOML, in one format, which `SCHEMA` tells and docs/experiments.md explains.  Options are those of `scripts.train`, by
the names that a run's config has, written as there or as on the command line; a list of values is an axis of the grid.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ortho_ref import files, models, schema
from ortho_ref.boundary import nearest, not_among
from ortho_ref.losses import METRICS, OF_THE_LOSS
from ortho_ref.training.forms import MOST
from ortho_ref.training.trainer import Record
from scripts.grid.experiment.toml_lines import line_of, lines_of
from scripts.grid.options import OPTIONS
from tasks import by_name

FORMAT = "ortho_ref experiment 1"
#: What a table may show: of a run's evaluations; of its lines of metrics, the training loss, a mean over the updates
#: since the line before; and of which there is one number a run.
OF_EVALUATIONS = ("evaluation_loss", *METRICS)
LARGER_IS_BETTER = METRICS.keys() - OF_THE_LOSS
OF_LINES = ("loss",)
OF_A_RUN = ("steps_per_second", "worst_defect", "worst_condition", "forced_resets")
#: Of all evaluations of a run, or of all its lines, which number; of its best checkpoint, on the test part.
STATISTICS = ("minimum", "maximum", "final", "median_of_last_20")
ON_TEST = "on_test"
#: What may be measured of a run's weights besides: after so many updates, or at the end; of sequences `times` as long.
MEASURES = ("gradient_norms", "hidden_norms", "correlation", "training_metric", ON_TEST)
#: Of these, what has a number for every step of a sequence.
OF_STEPS = ("gradient_norms", "hidden_norms")
#: One number a run that a table may show: of which measure, and its name there.
OF_WEIGHTS = {"correlation": ("correlation", "with_first"), "gradient_decay": ("gradient_norms", "first_over_last")}
#: The row or the column of a file that names none.
WHOLE = "all"
#: Options that a grid sets itself, cell by cell, or that its command does.
OWN = ("seed", "device")

_SCALAR = schema.either(schema.NUMBER, schema.BOOLEAN, schema.TEXT)
_TABLE = schema.mapping(_SCALAR)


def _option(name: str) -> schema.Schema:
    """What a file may give an option: its value in a config, the text of the command line, or a list of these."""
    if OPTIONS[name].kind == list[str]:
        return _TABLE
    kinds = {int: schema.NUMBER, float: schema.NUMBER, bool: schema.BOOLEAN}
    kind = kinds.get(OPTIONS[name].kind, schema.either(schema.NUMBER, schema.TEXT))
    return schema.either(kind, schema.list_of(kind, 1, 1000)) | {"description": OPTIONS[name].help}


_OPTIONS = schema.record(
    {},
    {"task": schema.either(schema.one_of(*by_name.NAMES), schema.list_of(schema.one_of(*by_name.NAMES), 1))}
    | {name: _option(name) for name, option in OPTIONS.items() if option.kept and name not in OWN},
)
_NUMBER = schema.either(schema.NUMBER, schema.list_of(schema.NUMBER, 2, 2))
_NUMBERS = schema.mapping(_NUMBER)
_POWER = schema.record({"power": schema.number(0)}, {"least": schema.integer(1, MOST), "power_of_two": schema.BOOLEAN})
_NAMES = schema.list_of(schema.TEXT, 2, 50)
#: What a claim may ask: of rows beside the first; of one row beside the baseline; of rows beside a number.
OF_ROWS = ("below", "above", "comparable")
OF_BASELINE = ("at_baseline", "beats_baseline")
OF_NUMBER = ("less_than", "more_than")
_CLAIM = schema.record(
    {"text": schema.TEXT},
    dict.fromkeys(OF_ROWS, _NAMES)
    | dict.fromkeys(OF_BASELINE, schema.TEXT)
    | dict.fromkeys(OF_NUMBER, schema.NUMBER)
    | {
        "times": schema.number(1),
        "to": schema.number(0),
        "statistic": schema.one_of(*STATISTICS, ON_TEST),
        "rows": schema.list_of(schema.TEXT, 1),
        "columns": schema.list_of(schema.TEXT, 1),
        "mean_of_columns": schema.BOOLEAN,
        "why": schema.TEXT,
    },
)
_MEASURE = schema.record(
    {"what": schema.one_of(*MEASURES)}, {"after": schema.integer(0, MOST), "times": schema.integer(1, 100)}
)

#: The schema of a file, for editors too: scripts/experiments/schema.json.
SCHEMA = schema.record(
    {"format": schema.one_of(FORMAT), "title": schema.TEXT},
    {
        "paper": schema.one_of("ncgru", "urnn", "sgornn", "goru"),
        "place": schema.TEXT,
        "shows": schema.TEXT,
        "part": schema.BOOLEAN,
        "left_open": schema.list_of(schema.TEXT),
        "departs": schema.list_of(schema.TEXT),
        "found": schema.list_of(schema.TEXT),
        "seeds": schema.either(schema.integer(1, 1000), schema.list_of(schema.integer(0, MOST), 1, 1000)),
        "metric": schema.one_of(*OF_EVALUATIONS, *OF_LINES, *OF_A_RUN, *OF_WEIGHTS),
        "statistic": schema.one_of(*STATISTICS, ON_TEST),
        "unit": schema.NUMBER,
        "unit_name": schema.TEXT,
        "scale": schema.mapping(schema.either(schema.number(0), _POWER)),
        "options": _OPTIONS,
        "column": schema.list_of(
            schema.record({"name": schema.TEXT}, {"options": _OPTIONS, "of": schema.TEXT, "note": schema.TEXT}), 1, 100
        ),
        "row": schema.list_of(
            schema.record(
                {"name": schema.TEXT},
                {
                    "options": _OPTIONS,
                    "in": schema.mapping(_OPTIONS),
                    "paper": schema.mapping(_NUMBERS),
                    "others": schema.mapping(_NUMBERS),
                    "quoted": schema.BOOLEAN,
                    "note": schema.TEXT,
                },
            ),
            1,
            100,
        ),
        "claim": schema.list_of(_CLAIM),
        "measure": schema.list_of(_MEASURE),
    },
)


class Power(NamedTuple):
    """How an option follows the scale S: its value times S^power, no less than `least`."""

    power: float
    least: int = 1
    power_of_two: bool = False  # whether it is then rounded down to a power of two


class Column(NamedTuple):
    """A column of the table: what its cells have in common, and which of the paper's columns stands beside it."""

    name: str
    options: Record
    of: str
    note: str


class Row(NamedTuple):
    """A row of the table."""

    name: str  # as the paper calls it
    options: Record  # of all its cells
    within: Record  # column -> options of its cell there alone
    # paper, others: source ("v1", "v2"; a third party) -> the paper's column -> number, or mean and standard
    # deviation
    paper: Record
    others: Record
    quoted: bool  # whether there is nothing to run: the paper, too, has the number from elsewhere
    note: str  # what a reader should know of it


class Experiment(NamedTuple):
    """What a file says; its fields are those of `SCHEMA`."""

    path: Path
    name: str  # paper's folder and file, "ncgru/table-1", or the file's name alone
    title: str
    paper: str | None
    place: str | None
    shows: str
    part: bool  # whether it is of a part of the data, so that no scale makes it the paper's
    left_open: tuple[str, ...]
    departs: tuple[str, ...]
    found: tuple[str, ...]
    seeds: tuple[int, ...]
    metric: str
    statistic: str
    unit: float
    unit_name: str
    scaling: Mapping[str, Power]
    options: Record
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    claims: tuple[Record, ...]
    measures: tuple[Record, ...]

    @property
    def larger_is_better(self) -> bool:
        """Whether of two rows the one with the larger number is the better."""
        return self.statistic == "maximum" or self.metric in LARGER_IS_BETTER

    def less_than_papers(self, scale: float) -> str:
        """What makes runs at a scale less than the paper's; "" where nothing does."""
        less = ["a part of the data"] if self.part else []
        return ", ".join(less + ([] if scale == 1 else [f"scale {scale:g}"]))

    @property
    def run_rows(self) -> tuple[Row, ...]:
        """The rows that are run."""
        return tuple(row for row in self.rows if not row.quoted)


def read(path: Path) -> Experiment:
    """An experiment's file."""
    data = files.read(path)
    try:
        text = data.decode()
        document = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is no TOML: {error}") from None
    try:
        schema.check(document, SCHEMA)
        return _experiment(path, document)
    except schema.Misfit as error:
        raise ValueError(f"{path}, line {line_of(lines_of(text), error.where)}: {error}") from None


def _experiment(path: Path, document: Record) -> Experiment:
    columns = [_column(i, own) for i, own in enumerate(document.get("column", [{"name": WHOLE}]))]
    rows = [_row(i, own) for i, own in enumerate(document.get("row", [{"name": WHOLE}]))]
    for what, names in (("column", [c.name for c in columns]), ("row", [r.name for r in rows])):
        for i, name in enumerate(names):
            if name in names[:i]:
                raise schema.Misfit(f"{what}[{i}].name is {name!r}, as of another {what}", f"{what}[{i}].name")
    if (unit := document.get("unit", 1.0)) <= 0:
        raise schema.Misfit(f"unit is {unit:g}; allowed: a number above 0", "unit")
    seeds, metric = document.get("seeds", 1), document.get("metric", "evaluation_loss")
    experiment = Experiment(
        path=path,
        name=f"{document['paper']}/{path.stem}" if "paper" in document else path.stem,
        title=document["title"],
        paper=document.get("paper"),
        place=document.get("place"),
        shows=document.get("shows", ""),
        part=document.get("part", False),
        left_open=tuple(document.get("left_open", ())),
        departs=tuple(document.get("departs", ())),
        found=tuple(document.get("found", ())),
        seeds=tuple(seeds if isinstance(seeds, list) else range(seeds)),
        metric=metric,
        statistic=document.get("statistic", "maximum" if metric in LARGER_IS_BETTER else "minimum"),
        unit=unit,
        unit_name=document.get("unit_name", ""),
        scaling=_scaling(document.get("scale", {"iterations": 1})),
        options=_options("options", document.get("options", {})),
        columns=tuple(columns),
        rows=tuple(rows),
        claims=tuple(document.get("claim", ())),
        measures=tuple(document.get("measure", ())),
    )
    _check_names(experiment)
    _check_measures(experiment)
    return experiment


def _column(i: int, own: Record) -> Column:
    name: str = own["name"]
    return Column(
        name, _options(f"column[{i}].options", own.get("options", {})), own.get("of", name), own.get("note", "")
    )


def _row(i: int, own: Record) -> Row:
    return Row(
        own["name"],
        _options(f"row[{i}].options", own.get("options", {})),
        {column: _options(f"row[{i}].in.{column}", options) for column, options in own.get("in", {}).items()},
        own.get("paper", {}),
        own.get("others", {}),
        own.get("quoted", False),
        own.get("note", ""),
    )


def _scaling(document: Record) -> dict[str, Power]:
    found = {}
    for name, own in document.items():
        if name not in OPTIONS:
            raise schema.Misfit(f"scale has {name!r}{nearest(name, OPTIONS)}, which is no option", f"scale.{name}")
        if OPTIONS[name].kind is not int and name != "hidden":
            raise schema.Misfit(f"scale has {name!r}; allowed: options that count something", f"scale.{name}")
        found[name] = Power(**own) if isinstance(own, dict) else Power(own)
    return found


def _options(where: str, given: Record) -> Record:
    """Options as a config has them; of an axis the tuple of such values (sizes by layer are one value, a list)."""
    found: Record = {}
    for name, value in given.items():
        place = f"{where}.{name}"
        if name == "task":
            found[name] = tuple(value) if isinstance(value, list) else value
        elif isinstance(value, list):
            found[name] = tuple(option_value(place, name, one) for one in value)
        else:
            found[name] = option_value(place, name, value)
    return found


def option_value(where: str, name: str, value: Any) -> Any:
    """The config's value of an option."""
    option = OPTIONS[name]
    if name == "model" and value not in models.names():
        raise schema.Misfit(f"{where}: {not_among(name, value, models.names(), str)}", where)
    if option.kind is str:
        value = str(value)
    try:
        if option.read is not None and not isinstance(value, dict):
            value = option.read(value)
        schema.check(value, option.form, where)
    except schema.Misfit:
        raise
    except ValueError as error:
        raise schema.Misfit(f"{where}: {error}", where) from None
    return value


def _check_names(experiment: Experiment) -> None:
    """Misfit for a number beside no column, options in none, and a claim about no row."""
    columns, rows = {column.of for column in experiment.columns}, [row.name for row in experiment.run_rows]
    for i, row in enumerate(experiment.rows):
        _check_known(f"row[{i}].in", row.within, [column.name for column in experiment.columns], "column")
        for kind, sources in (("paper", row.paper), ("others", row.others)):
            for source, numbers in sources.items():
                _check_known(f"row[{i}].{kind}.{source}", numbers, columns, "column")
    for i, claim in enumerate(experiment.claims):
        _check_claim(i, claim, rows, [column.name for column in experiment.columns])


def _check_claim(i: int, claim: Record, rows: list[str], columns: list[str]) -> None:
    """Misfit for a claim of several kinds or none of its own words, and for one about no row or column."""
    own = [key for key in (*OF_ROWS, *OF_BASELINE, *OF_NUMBER) if key in claim]
    if len(own) > 1:
        raise schema.Misfit(f"claim[{i}] has {' and '.join(own)}; allowed: one of them", f"claim[{i}].{own[1]}")
    if "columns" in claim and claim.get("mean_of_columns"):
        raise schema.Misfit(f"claim[{i}] has columns and mean_of_columns; allowed: one", f"claim[{i}].columns")
    if claim.get("to", 1) > 1:
        allowed = "a share of the baseline, 0 to 1"
        raise schema.Misfit(f"claim[{i}].to is {claim['to']:g}; allowed: {allowed}", f"claim[{i}].to")
    for key, kinds in (("rows", OF_NUMBER), ("times", ("below", "comparable")), ("to", OF_BASELINE)):
        if key in claim and not set(own) & set(kinds):
            raise schema.Misfit(f"claim[{i}] has {key}; allowed: with {' or '.join(kinds)} alone", f"claim[{i}].{key}")
    for key in [key for key in (*own, "rows") if key in claim and key not in OF_NUMBER]:
        names = [claim[key]] if isinstance(claim[key], str) else claim[key]
        _check_known(f"claim[{i}].{key}", names, rows, "row that is run")
    _check_known(f"claim[{i}].columns", claim.get("columns", ()), columns, "column")


def _check_measures(experiment: Experiment) -> None:
    """Misfit for a metric or a statistic that would have to be measured, and for one of another time."""
    measured = [own["what"] for own in experiment.measures]
    if experiment.metric in OF_WEIGHTS and OF_WEIGHTS[experiment.metric][0] not in measured:
        wanted = OF_WEIGHTS[experiment.metric][0]
        raise schema.Misfit(f"metric is {experiment.metric!r}, which needs a measure of {wanted!r}", "metric")
    if experiment.statistic == ON_TEST and (ON_TEST not in measured or experiment.metric not in OF_EVALUATIONS):
        raise schema.Misfit(
            f"statistic is {ON_TEST!r}; allowed: with a measure of {ON_TEST!r}, and a metric of evaluations",
            "statistic",
        )
    _check_statistic(experiment, experiment.statistic, "statistic")
    for i, claim in enumerate(experiment.claims):
        for key in OF_BASELINE:
            if key in claim and experiment.metric not in ("evaluation_loss", *OF_LINES):
                raise schema.Misfit(f"claim[{i}] has {key}; allowed: where metric is a loss", f"claim[{i}].{key}")
            if key in claim and claim.get("mean_of_columns"):
                raise schema.Misfit(
                    f"claim[{i}] has {key} and mean_of_columns; allowed: one, as each column has its own baseline",
                    f"claim[{i}].{key}",
                )
        _check_statistic(experiment, claim.get("statistic", experiment.statistic), f"claim[{i}].statistic")
        if claim.get("statistic") == ON_TEST and ON_TEST not in measured:
            raise schema.Misfit(
                f"claim[{i}].statistic is {ON_TEST!r}; allowed: with a measure of {ON_TEST!r}", f"claim[{i}].statistic"
            )
    for i, own in enumerate(experiment.measures):
        if own["what"] == ON_TEST and own.keys() != {"what"}:
            raise schema.Misfit(
                f"measure[{i}] has more than what; allowed: {ON_TEST!r} is of the best checkpoint, at the end",
                f"measure[{i}]",
            )


def _check_statistic(experiment: Experiment, statistic: str, where: str) -> None:
    """Misfit for the worst of all evaluations, which no summary has."""
    better, worst = ("more", "minimum") if experiment.metric in LARGER_IS_BETTER else ("less", "maximum")
    if statistic == worst and experiment.metric in OF_EVALUATIONS:
        allowed = ", ".join(name for name in STATISTICS if name != worst)
        raise schema.Misfit(
            f"{where} is {statistic!r}; of {experiment.metric} {better} is better; allowed: {allowed}", where
        )


def _check_known(where: str, names: Any, known: Any, what: str) -> None:
    for name in names:
        if name not in known:
            allowed = ", ".join(sorted(known))
            near = nearest(name, known)
            raise schema.Misfit(
                f"{where} names {name!r}{near}, which is no {what}; allowed: {allowed}", f"{where}.{name}"
            )
