"""The options of a run, in one table; signature, config and checks follow from it.

The order is that of config.json; --help shows them by their panels.  Options of tasks come from tasks/by_name.py.
"""

import contextlib
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from msgspec import Meta

from ortho_ref import models
from ortho_ref.boundary import not_among, short
from ortho_ref.formats import Number
from ortho_ref.parametrizations.by_name import FORMS
from ortho_ref.recurrent import ENGINES
from ortho_ref.training.forms import Count
from ortho_ref.training.optimizers import OPTIMIZERS
from ortho_ref.training.trainer import Record
from scripts.grid.track import TRACKERS
from scripts.program import MOST_THREADS
from tasks import by_name as tasks

MODEL, TASK, TRAINING, RUN = PANELS = ("Model", "Task", "Training", "Run")
#: What a value in a config may be, by the kind of the option, where it is no text.
KINDS: dict[Any, Any] = {int: Count, float: Number, bool: bool}


@dataclass(frozen=True)
class Option:
    """An option of a run."""

    name: str  # its key in the config
    kind: Any  # of its value on the command line; a Path says where something is, not what
    panel: str  # panel, help: as --help has them
    help: str
    default: Any = None  # of a run; None: the task's or the model's own, or none at all
    parameter: str = ""  # its name on the command line, if it has another there
    metavar: str | None = None  # as --help has it
    read: Callable[[Any], Any] | None = None  # the config's value from the command line's
    tasks: tuple[str, ...] | None = None  # those that take it; None: every one
    sets: Mapping[str, str] | None = None  # options of models that it stands for -> how an error calls it then
    # the models' options from its text, where it is not that option itself
    words: Callable[[str], Record] | None = None
    kept: bool = True  # whether the config has it
    values: Any = None  # the form of its value in a config, where it is not its kind's
    new: bool = False  # whether a config may be from before there was such an option

    @property
    def later(self) -> bool:
        """Whether a config need not have it: a task's own options came with the task."""
        return self.new or self.tasks is not None

    @property
    def form(self) -> Any:
        """Of its value in a config."""
        return self.values or (dict[str, str] if self.kind == list[str] else KINDS.get(self.kind, str) | None)

    @property
    def flag(self) -> str:
        """As it is written on the command line."""
        return f"--{(self.parameter or self.name).replace('_', '-')}"

    @property
    def place(self) -> bool:
        """Whether it says where a task's data are: no config has it, and a run that goes on is given it anew."""
        return self.kind is Path and self.tasks is not None

    @property
    def switch(self) -> bool:
        """Whether it can only be set: what a task may have set already, --no-... takes off."""
        return self.kind is bool and not (self.kept and self.tasks is None)

    def on_command_line(self) -> inspect.Parameter:
        """The parameter of a program's function; where it is not given it is None, a switch False."""
        declared = [] if self.kind is not bool else [self.flag if self.switch else f"{self.flag}/--no-{self.flag[2:]}"]
        own = typer.Option(*declared, help=self.help, metavar=self.metavar, rich_help_panel=self.panel)
        annotation: Any = Annotated[self.kind if self.switch else self.kind | None, own]
        default = False if self.switch else None
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(self.parameter or self.name, kind, default=default, annotation=annotation)


def pairs(option: str, texts: list[str]) -> dict[str, str]:
    """Name and value of each text "NAME=VALUE"."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise ValueError(f"--{option} is {text!r}; allowed: NAME=VALUE")
        if name in found:
            raise ValueError(f"--{option} gives {name} twice: {found[name]!r} and {value!r}")
        found[name] = value
    return found


def model_options(texts: list[str]) -> Record:
    """The options of a model from texts "NAME=VALUE".  ValueError: as `pairs`."""
    constants = {"true": True, "false": False, "null": None, "none": None}

    def value_of(text: str) -> Any:
        for read in (lambda text: constants[text.lower()], int, float):
            with contextlib.suppress(ValueError, KeyError, OverflowError):  # an integer that is no float
                value = read(text)
                return value if value is None or math.isfinite(value) else text
        return text

    return {name: value_of(value) for name, value in pairs("model-option", texts).items()}


def rates(texts: list[str]) -> dict[str, float]:
    """Patterns of parameters' names and their learning rates from texts "PATTERN=RATE"."""
    found = {}
    for pattern, text in pairs("rates", texts).items():
        try:
            found[pattern] = float(text)
        except ValueError:
            found[pattern] = math.nan
        if not 0 <= found[pattern] < math.inf:
            raise ValueError(f"--rates gives {pattern} the rate {text!r}; allowed: a finite number >= 0")
    return found


def share(option: str, rate: float) -> float:
    """A share of what is dropped; ValueError, naming the option, unless it is at least 0 and below 1."""
    if not 0 <= rate < 1:
        raise ValueError(f"{option} is {rate}; allowed: 0 <= {option} < 1")
    return rate


def names(option: str, text: str) -> str:
    """Names with commas between them; ValueError, naming the option, where one is empty."""
    if not all(text.split(",")):
        raise ValueError(f"{option} is {short(text)}; allowed: names, as U_r or U_r,U_u")
    return text


def integers(option: str, text: str) -> int | list[int]:
    """A number, or one for each layer.  ValueError for another text."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} is {text!r}; allowed: an integer, or one for each layer: 430,1000,430") from None
    return numbers if len(numbers) > 1 else numbers[0]


def _integer(option: str, text: str, allowed: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{option} is {text!r}; allowed: {allowed}") from None


def _order(text: str) -> Record:
    return {"exact": True} if text == "exact" else {"order": _integer("order", text, "1, 2, 3 or exact")}


def _reset_every(text: str) -> Record:
    return {"reset_every": None if text == "never" else _integer("reset_every", text, "N or never")}


def _engine(text: str) -> str | None:
    if text not in ("auto", *ENGINES):
        raise ValueError(not_among("engine", text, ("auto", *ENGINES)))
    return None if text == "auto" else text


def _of_tasks() -> dict[str, Option]:
    found = {}
    for name, own in tasks.OPTIONS.items():
        takers = tasks.takers_of(name)
        help = own.help.format(tasks=", ".join(takers))
        found[name] = Option(name, own.kind, TASK, help, tasks=takers, kept=own.kind is not Path)
    return found


_TASKS = _of_tasks()

_SIZES: Any = Count | Annotated[list[Count], Meta(min_length=1, max_length=1000)] | None
_SHARES = {
    "dropout": "Dropout on each layer's outputs, drawn anew at every step; default 0.",
    "dropout_words": "Dropout of whole words of the embedding; default: the task's, or 0.",
    "dropout_input": "Locked (variational) dropout on the first layer's input; default: the task's, or 0.",
    "dropout_hidden": "Locked dropout between layers; default: the task's, or 0.",
    "dropout_output": "Locked dropout on the last layer's output; default: the task's, or 0.",
    "dropout_weights": "Dropout on the entries of free recurrent weights; default 0.",
}
#: --dropout-words 0.1 is words=0.1 of the regularizers.
REGULARIZERS = {
    "dropout_words": "words",
    "dropout_input": "inputs",
    "dropout_hidden": "hidden",
    "dropout_output": "outputs",
    "dropout_weights": "weights",
    "dropout_weights_of": "weights_of",
    "alpha": "alpha",
    "beta": "beta",
}

OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("model", str, MODEL, f"{', '.join(models.names())}, FILE.py:NAME; nc-gru unless given.", "nc-gru"),
        Option(
            "hidden",
            str,
            MODEL,
            "Hidden size n, or one for each layer: 430,1000,430; default: the task's for the model.",
            metavar="N[,N...]",
            read=partial(integers, "hidden"),
            values=_SIZES,
        ),
        Option("layers", int, MODEL, "Number of recurrent layers; default: one for each size of --hidden."),
        Option("embedding", int, MODEL, "Embedding size; 0: none, a token selects a column of W."),
        Option("tied", bool, MODEL, "Use the embedding as the readout's weight too; default: the task's.", False),
        _TASKS["length"],
        Option("batch", int, TASK, "Sequences B in a batch; default: the task's."),
        Option("iterations", int, TRAINING, "Number of updates; default: the task's."),
        Option("lr", float, TRAINING, "Learning rate; default: the task's."),
        Option("lr_orthogonal", float, TRAINING, "Learning rate of orthogonal weights; default: the task's, or --lr."),
        Option(
            "optimizer", str, TRAINING, f"{', '.join(OPTIMIZERS)}, rmsprop:DECAY; default: the task's, or adam.", "adam"
        ),
        Option(
            "optimizer_orthogonal",
            str,
            TRAINING,
            "Optimizer of the orthogonal weights; default: --optimizer (full-urnn: sgd).",
        ),
        Option(
            "weight_decay",
            float,
            TRAINING,
            "Weight decay of every parameter except orthogonal weights; default 0.",
            0.0,
        ),
        Option("schedule", str, TRAINING, "constant (default), linear (to zero), step:EVERY:FACTOR.", "constant"),
        Option("clip", str, TRAINING, "Gradient clipping, value:LIMIT or norm:LIMIT; default: none."),
        Option(
            "rates",
            list[str],
            TRAINING,
            "Learning rate of free parameters by name: embedding.*=1e-2.",
            {},
            metavar="PATTERN=RATE",
            read=rates,
            values=dict[str, Number],
        ),
        Option("scale_rate", bool, TRAINING, "Make learning rates proportional to the window's length.", False),
        Option("average", int, TRAINING, "Average parameters once N evaluations bring no improvement; default: never."),
        *(Option(name, float, MODEL, help, 0.0, read=partial(share, name)) for name, help in _SHARES.items()),
        Option(
            "dropout_weights_of",
            str,
            MODEL,
            "The weights for --dropout-weights, as U_r,U_u; default: all, if none is orthogonal.",
            read=partial(names, "dropout_weights_of"),
        ),
        Option("alpha", float, TRAINING, "Activation regularization; default: the task's, or 0.", 0.0),
        Option("beta", float, TRAINING, "Temporal activation regularization; default: the task's, or 0.", 0.0),
        Option(
            "orthogonal",
            str,
            MODEL,
            "nc-gru: which weights are orthogonal, c (default), rc or ruc.",
            sets={"orthogonal": "--orthogonal"},
        ),
        Option(
            "order",
            str,
            MODEL,
            "nc-gru: order of the Neumann series, 1, 2 (default) or 3; or exact.",
            sets={"order": "--order", "exact": "--order exact"},
            words=_order,
        ),
        Option(
            "reset_every",
            str,
            MODEL,
            "nc-gru: updates between exact inverses, or never; default: the task's.",
            sets={"reset_every": "--reset-every"},
            words=_reset_every,
        ),
        Option(
            "negative_ones",
            str,
            MODEL,
            "nc-gru, scornn: number of -1 in D, or one for each layer; default: the task's, or n/2.",
            metavar="N[,N...]",
            read=partial(integers, "negative_ones"),
            values=_SIZES,
            sets={"negative_ones": "--negative-ones"},
        ),
        Option(
            "model_options",
            list[str],
            MODEL,
            "An option of the model (docs/models.md): style=fft.",
            {},
            parameter="model_option",
            metavar="NAME=VALUE",
            read=model_options,
            values=dict[str, Number | bool | str | None],
        ),
        Option(
            "parametrize",
            list[str],
            MODEL,
            f"How a weight is kept orthogonal, U_h=householder:8; {FORMS}.",
            {},
            metavar="WEIGHT=HOW",
            read=partial(pairs, "parametrize"),
        ),
        *(option for name, option in _TASKS.items() if name != "length"),
        Option(
            "seed",
            int,
            TRAINING,
            "Seed of weights, data and dropout; 0 unless given.",
            0,
            values=Annotated[int, Meta(ge=0)],
        ),
        Option("dtype", str, TRAINING, "float32 (default) or float64.", "float32"),
        Option(
            "engine",
            str,
            TRAINING,
            "auto (default): factored, compiled (on a GPU persistent) if possible, else fused; or scan.",
            read=_engine,
            values=Literal[tuple(ENGINES)] | None,
            new=True,
        ),
        Option("device", str, TRAINING, "cpu (default) or gpu.", "cpu"),
        Option(
            "threads",
            int,
            TRAINING,
            "Threads; default: all cores for compiled and factored, 1 (BLAS) for others.",
            values=Annotated[int, Meta(ge=1, le=MOST_THREADS)],
        ),
        Option("track", str, RUN, f"Also write logs for this tracker: {', '.join(TRACKERS)}.", kept=False),
        Option("out", Path, RUN, "The run's folder; runs/TASK-MODEL-SEED unless given.", kept=False),
        Option("resume", bool, RUN, "Resume the run in the folder, with its own options.", False, kept=False),
        Option("init_from", Path, RUN, "Start from the weights of the run in this folder.", metavar="RUN", kept=False),
        Option("which", str, RUN, "With --resume: the checkpoint, last (default), previous or best.", kept=False),
        Option("json", bool, RUN, "Also print the last line of metrics, as JSON.", False, kept=False),
        Option(
            "exact", bool, RUN, "With --resume: refuse if libraries or BLAS differ from the run's.", False, kept=False
        ),
        Option("log_every", int, RUN, "Updates per line of metrics; 50.", 50),
        Option("eval_every", int, RUN, "Updates between evaluations; default: the task's."),
        Option("checkpoint_every", int, RUN, "Updates between checkpoints; --eval-every unless given."),
    )
}

#: What the config of a run has where nothing is given; None: the task's or the model's own, or none at all.
DEFAULT: Record = {option.name: option.default for option in OPTIONS.values() if option.kept}

#: Options that say where a task's data are.
PLACES: tuple[str, ...] = tuple(option.name for option in OPTIONS.values() if option.place)

#: Options of models that have an option of their own on the command line -> that.
FLAGS: dict[str, str] = {name: flag for option in OPTIONS.values() for name, flag in (option.sets or {}).items()}


def takes_options(main: Callable[..., None]) -> Callable[..., None]:
    """Give a program the options of a run."""
    task: Any = Annotated[str, typer.Argument(metavar="TASK", help=f"{', '.join(tasks.NAMES)}.")]
    by_panel = sorted(OPTIONS.values(), key=lambda option: PANELS.index(option.panel))
    parameters = [
        inspect.Parameter("task", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=task),
        *(option.on_command_line() for option in by_panel),
    ]
    main.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    main.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return main


def given_in(values: Mapping[str, Any]) -> Record:
    """What a command line says of the config.  ValueError for a text that cannot be read."""
    given = {}
    for option in OPTIONS.values():
        if option.kept:
            value = values[option.parameter or option.name]
            nothing = value is None or (value is False and option.switch) or value == []
            given[option.name] = None if nothing else option.read(value) if option.read else value
    return given


def places_in(values: Mapping[str, Any]) -> Record:
    """Where a command line says that data are."""
    return {name: values[name] for name in PLACES if values.get(name) is not None}


def check_options(task: str, given: Mapping[str, Any]) -> None:
    """Check that none of the options that are given is another task's.  ValueError for an option of another task."""
    for name, value in given.items():
        takers = OPTIONS[name].tasks
        if value is not None and takers is not None and task not in takers:
            *first, last = takers
            these = f"{', '.join(first)} and {last}" if first else last
            raise ValueError(f"{OPTIONS[name].flag} is for {these}; {task} has none")


def check_task(config: Mapping[str, Any]) -> None:
    """Check that a task has its own options, and no other's."""
    task = config["task"]
    check_options(task, {name: config.get(name) for name in OPTIONS})
    check_needed(task, config)


def check_needed(task: str, given: Mapping[str, Any]) -> None:
    """Check that a task has the options that it cannot do without.  ValueError for want of one."""
    for name in tasks.needed_by(task):
        if given.get(name) is None:
            raise ValueError(f"{task} needs {OPTIONS[name].flag} {name.upper()}, {tasks.OPTIONS[name].needed[task]}")
