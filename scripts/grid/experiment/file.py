"""The file of an experiment: rows and columns of a table, what is trained for each, and the paper's numbers.

TOML, in one format, which `File` tells and docs/experiments.md explains.  Options are those of `scripts.train`, by
the names that a run's config has, written as there or as on the command line; a list of values is an axis of the grid.
"""
# ruff: noqa: RUF012  a Struct copies an empty default

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ortho_ref import files, models
from ortho_ref.boundary import nearest, not_among
from ortho_ref.formats import Above0, Form, Least0, Misfit, Name, Number, check
from ortho_ref.losses import METRICS, OF_THE_LOSS
from ortho_ref.training.forms import MOST, Count, fields
from ortho_ref.training.trainer import Record
from scripts.grid.experiment.toml_lines import line_of, lines_of
from scripts.grid.options import KINDS, OPTIONS, Option
from tasks import by_name

#: No file is larger: Python's reader takes the square of a key's parts.
LARGEST = 1 << 18
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

#: What a claim may ask: of rows beside the first; of one row beside the baseline; of rows beside a number.
OF_ROWS = ("below", "above", "comparable")
OF_BASELINE = ("at_baseline", "beats_baseline")
OF_NUMBER = ("less_than", "more_than")


def _option(option: Option) -> Any:
    """What a file may give an option: its value in a config, the text of the command line, or a list of these."""
    if option.kind == list[str]:
        return Annotated[dict[Name, Number | bool | str] | UnsetType, Meta(description=option.help)]
    one = KINDS.get(option.kind, Number | str)
    return Annotated[one | _several(one) | UnsetType, Meta(description=option.help)]


def _several(one: Any, least: int = 1, most: int = 1000) -> Any:
    return Annotated[list[one], Meta(min_length=least, max_length=most)]


_Task: Any = Literal[tuple(by_name.NAMES)]
_Statistic: Any = Literal[(*STATISTICS, ON_TEST)]
Options: Any = msgspec.defstruct(
    "Options",
    [
        ("task", _Task | _several(_Task) | UnsetType, UNSET),
        *((own.name, _option(own), UNSET) for own in OPTIONS.values() if own.kept and own.name not in OWN),
    ],
    bases=(Form,),
)
Claim: Any = msgspec.defstruct(
    "Claim",
    [
        ("text", str),
        *fields(OF_ROWS, _several(Name, 2, 50)),
        *fields(OF_BASELINE, Name),
        *fields(OF_NUMBER, Number),
        *fields(("times",), Annotated[float, Meta(ge=1)]),
        *fields(("to",), Annotated[float, Meta(ge=0, le=1)]),
        *fields(("statistic",), _Statistic),
        *fields(("rows", "columns"), _several(Name)),
        *fields(("mean_of_columns",), bool),
        *fields(("why",), str),
    ],
    bases=(Form,),
)
Measure: Any = msgspec.defstruct(
    "Measure",
    [
        ("what", Literal[MEASURES]),
        *fields(("after",), Count),
        *fields(("times",), Annotated[int, Meta(ge=1, le=100)]),
    ],
    bases=(Form,),
)
_Numbers: TypeAlias = dict[Name, dict[Name, Number | Annotated[list[Number], Meta(min_length=2, max_length=2)]]]


class Power(Form):
    """How an option follows the scale S: its value times S^power, no less than `least`."""

    power: Least0
    least: Annotated[int, Meta(ge=1, le=MOST)] = 1
    power_of_two: bool = False  # whether it is then rounded down to a power of two


class Column(Form):
    """A column of the table: what its cells have in common, and which of the paper's columns stands beside it."""

    name: Name
    options: Options = {}
    of: Name = ""
    note: str = ""


class Row(Form):
    """A row of the table."""

    name: Name  # as the paper calls it
    options: Options = {}  # of all its cells
    within: dict[Name, Options] = msgspec.field(name="in", default_factory=dict)  # of those in one column
    # source ("v1", "v2"; a third party) -> the paper's column -> number, or mean and standard deviation
    paper: _Numbers = {}
    others: _Numbers = {}
    quoted: bool = False  # whether there is nothing to run: the paper, too, has the number from elsewhere
    note: str = ""  # what a reader should know of it


_Paper: Any = Literal["ncgru", "urnn", "sgornn", "goru"]
_Seeds: Any = Annotated[int, Meta(ge=1, le=1000)] | _several(Count)
_Metric: Any = Literal[(*OF_EVALUATIONS, *OF_LINES, *OF_A_RUN, *OF_WEIGHTS)]
_Scale: Any = dict[Name, Least0 | Power]


class File(Form):
    """What a file says."""

    format: Literal["ortho_ref experiment 1"]
    title: Name
    paper: _Paper = UNSET
    place: str = ""
    shows: str = ""
    part: bool = False  # whether it is of a part of the data, so that no scale makes it the paper's
    left_open: list[str] = []
    departs: list[str] = []
    found: list[str] = []
    search: str = ""  # which options of a model were searched, where that was not the paper's
    seeds: _Seeds = 1
    metric: _Metric = "evaluation_loss"
    statistic: _Statistic = UNSET
    unit: Above0 = 1.0
    unit_name: Name = ""
    scaling: _Scale = msgspec.field(name="scale", default_factory=lambda: {"iterations": 1})
    options: Options = {}
    columns: Annotated[list[Column], Meta(min_length=1, max_length=100)] = msgspec.field(
        name="column", default_factory=lambda: [Column(name=WHOLE, of=WHOLE)]
    )
    rows: Annotated[list[Row], Meta(min_length=1, max_length=100)] = msgspec.field(
        name="row", default_factory=lambda: [Row(name=WHOLE)]
    )
    claims: list[Claim] = msgspec.field(name="claim", default_factory=list)
    measures: list[Measure] = msgspec.field(name="measure", default_factory=list)


class Experiment(File, kw_only=True):
    """What a file says, its options as a config has them."""

    path: Path
    paper: str | None
    name: str  # paper's folder and file, "ncgru/table-1", or the file's name alone
    seeds: tuple[int, ...]
    statistic: str
    scaling: Mapping[str, Power]

    @property
    def larger_is_better(self) -> bool:
        """Whether of two rows the one with the larger number is the better."""
        return self.statistic == "maximum" or self.metric in LARGER_IS_BETTER

    @property
    def best(self) -> str:
        """The statistic of a run's best evaluation."""
        return "maximum" if self.larger_is_better else "minimum"

    @property
    def of_one_number(self) -> bool:
        """Whether a run has one number of the metric, and no statistics."""
        return self.metric in (*OF_A_RUN, *OF_WEIGHTS)

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
        if len(data) > LARGEST:
            raise ValueError(f"has {len(data):,} bytes; allowed: {LARGEST:,}")
        text = data.decode()
        document = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deep") from None
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    try:
        check(document, File)
        return _experiment(path, document)
    except Misfit as error:
        raise ValueError(f"{path}, line {line_of(lines_of(text), error.where)}: {error}") from None


def _experiment(path: Path, document: Record) -> Experiment:
    seeds, metric = document.get("seeds", 1), document.get("metric", "evaluation_loss")
    experiment: Experiment = _made(
        Experiment,
        {"paper": None, "statistic": "maximum" if metric in LARGER_IS_BETTER else "minimum"} | document,
        path=path,
        name=f"{document['paper']}/{path.stem}" if "paper" in document else path.stem,
        seeds=tuple(seeds if isinstance(seeds, list) else range(seeds)),
        scaling=_scaling(document.get("scale", {"iterations": 1})),
        options=_options("options", document.get("options", {})),
    )
    experiment.columns = [
        _made(Column, {"of": own["name"]} | own, options=_options(f"column[{i}].options", own.get("options", {})))
        for i, own in enumerate(document.get("column", [{"name": WHOLE}]))
    ]
    experiment.rows = [
        _made(
            Row,
            own,
            options=_options(f"row[{i}].options", own.get("options", {})),
            within={column: _options(f"row[{i}].in.{column}", given) for column, given in own.get("in", {}).items()},
        )
        for i, own in enumerate(document.get("row", [{"name": WHOLE}]))
    ]
    for what, named in (("column", experiment.columns), ("row", experiment.rows)):
        names = [own.name for own in named]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise Misfit(f"{what}[{i}].name is {name!r}, as of another {what}", f"{what}[{i}].name")
    _check_names(experiment)
    _check_measures(experiment)
    return experiment


def _made(form: Any, own: Record, **read: Any) -> Any:
    """A part of the file, as it is but for what was read further."""
    names = {field.encode_name: field.name for field in msgspec.structs.fields(form)}
    return form(**{names[name]: value for name, value in own.items()} | read)


def _scaling(document: Record) -> dict[str, Power]:
    found = {}
    for name, own in document.items():
        if name not in OPTIONS:
            raise Misfit(f"scale has {name!r}{nearest(name, OPTIONS)}, which is no option", f"scale.{name}")
        if OPTIONS[name].kind is not int and name not in ("hidden", "negative_ones"):
            raise Misfit(f"scale has {name!r}; allowed: options that count something", f"scale.{name}")
        found[name] = Power(**own) if isinstance(own, dict) else Power(power=own)
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
    if name == "model" and not models.is_of_file(value) and value not in models.names():
        raise Misfit(f"{where}: {not_among(name, value, models.names(), str)}", where)
    if option.kind is str:
        value = str(value)
        check(value, Name, where)
    try:
        if option.read is not None and not isinstance(value, dict):
            value = option.read(value)
        check(value, option.form, where)
    except Misfit:
        raise
    except ValueError as error:
        raise Misfit(f"{where}: {error}", where) from None
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
        raise Misfit(f"claim[{i}] has {' and '.join(own)}; allowed: one of them", f"claim[{i}].{own[1]}")
    if "columns" in claim and claim.get("mean_of_columns"):
        raise Misfit(f"claim[{i}] has columns and mean_of_columns; allowed: one", f"claim[{i}].columns")
    for key, kinds in (("rows", OF_NUMBER), ("times", ("below", "comparable")), ("to", OF_BASELINE)):
        if key in claim and not set(own) & set(kinds):
            raise Misfit(f"claim[{i}] has {key}; allowed: with {' or '.join(kinds)} alone", f"claim[{i}].{key}")
    for key in [key for key in (*own, "rows") if key in claim and key not in OF_NUMBER]:
        names = [claim[key]] if isinstance(claim[key], str) else claim[key]
        _check_known(f"claim[{i}].{key}", names, rows, "row that is run")
    _check_known(f"claim[{i}].columns", claim.get("columns", ()), columns, "column")


def _check_measures(experiment: Experiment) -> None:
    """Misfit for a metric or a statistic that would have to be measured, and for one of another time."""
    measured = [own["what"] for own in experiment.measures]
    if experiment.metric in OF_WEIGHTS and OF_WEIGHTS[experiment.metric][0] not in measured:
        wanted = OF_WEIGHTS[experiment.metric][0]
        raise Misfit(f"metric is {experiment.metric!r}, which needs a measure of {wanted!r}", "metric")
    if experiment.statistic == ON_TEST and (ON_TEST not in measured or experiment.metric not in OF_EVALUATIONS):
        raise Misfit(
            f"statistic is {ON_TEST!r}; allowed: with a measure of {ON_TEST!r}, and a metric of evaluations",
            "statistic",
        )
    _check_statistic(experiment, experiment.statistic, "statistic")
    for i, claim in enumerate(experiment.claims):
        for key in OF_BASELINE:
            if key in claim and experiment.metric not in ("evaluation_loss", *OF_LINES):
                raise Misfit(f"claim[{i}] has {key}; allowed: where metric is a loss", f"claim[{i}].{key}")
            if key in claim and claim.get("mean_of_columns"):
                raise Misfit(
                    f"claim[{i}] has {key} and mean_of_columns; allowed: one, as each column has its own baseline",
                    f"claim[{i}].{key}",
                )
        _check_statistic(experiment, claim.get("statistic", experiment.statistic), f"claim[{i}].statistic")
        if claim.get("statistic") == ON_TEST and ON_TEST not in measured:
            raise Misfit(
                f"claim[{i}].statistic is {ON_TEST!r}; allowed: with a measure of {ON_TEST!r}", f"claim[{i}].statistic"
            )
    for i, own in enumerate(experiment.measures):
        if own["what"] == ON_TEST and own.keys() != {"what"}:
            raise Misfit(
                f"measure[{i}] has more than what; allowed: {ON_TEST!r} is of the best checkpoint, at the end",
                f"measure[{i}]",
            )


def _check_statistic(experiment: Experiment, statistic: str, where: str) -> None:
    """Misfit for the worst of all evaluations, which no summary has."""
    better, worst = ("more", "minimum") if experiment.metric in LARGER_IS_BETTER else ("less", "maximum")
    if statistic == worst and experiment.metric in OF_EVALUATIONS:
        allowed = ", ".join(name for name in STATISTICS if name != worst)
        raise Misfit(f"{where} is {statistic!r}; of {experiment.metric} {better} is better; allowed: {allowed}", where)


def _check_known(where: str, names: Any, known: Any, what: str) -> None:
    for name in names:
        if name not in known:
            allowed = ", ".join(sorted(known))
            near = nearest(name, known)
            raise Misfit(f"{where} names {name!r}{near}, which is no {what}; allowed: {allowed}", f"{where}.{name}")
