"""The config of a run: completed, and read again when the run goes on."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

import ortho_ref
from ortho_ref import models
from ortho_ref.formats import Form, Least0, Number, Sha256, check
from ortho_ref.training.forms import Network
from ortho_ref.training.run_folder import CONFIG, RunFolder
from ortho_ref.training.runs import Loaded, check_run, loaded
from ortho_ref.training.task import Task, Vectors
from ortho_ref.training.trainer import Record
from scripts.grid import own_cell
from scripts.grid.build import check_trainer, engine_of, make_task, network_arguments
from scripts.grid.options import OPTIONS, PLACES, check_needed, check_options
from scripts.grid.settled import known, settled
from scripts.program import OWN_THREADS, blas, limit_threads, say
from tasks import by_name


class Data(Form):
    """The data that a run is of: the set, whether they are what was published, and the contents by file."""

    set: str
    published: bool | None
    sha256: dict[str, Sha256]


class Mark(Form):
    """Of a run of a grid: which, at which scale, under which commit of this code."""

    name: str
    row: str
    column: str
    scale: Least0
    commit: str | None


class MadeBy(Form):
    """What the bits of a run depend on besides its config."""

    ortho_ref: str
    numpy: str
    blas: list[str]


class InitFrom(Form):
    """The weights of another run that it began with."""

    checkpoint: Literal["best", "last"]
    sha256: Sha256


#: A config: every option that is kept, and what follows from them; the marks of programs that train.
FORM = msgspec.defstruct(
    "Config",
    [
        *((own.name, own.form) for own in OPTIONS.values() if own.kept and not own.later),
        ("task", Literal[tuple(by_name.NAMES)]),
        ("network", Network),
        ("baseline", Number),
        ("data", Data | None),
        ("made_by", MadeBy),
        *((own.name, own.form, None) for own in OPTIONS.values() if own.kept and own.later),
        ("init_from", InitFrom, None),
        ("experiment", Mark, None),
        ("recompute", None, None),  # an option that was: stored runs have it
    ],
    bases=(Form,),
)


def config_of(task: str, **options: Any) -> Record:
    """The config of a run: `begun`, without its task."""
    return begun(task, **options)[0]


def begun(task: str, **options: Any) -> tuple[Record, Task]:
    """The config of a run, and its task; the process has its threads then."""
    places = {name: options.pop(name) for name in PLACES if name in options}
    config = settled(task, **options)
    limit_threads(config["threads"], config["engine"])
    the_task = make_task(config, places)
    if (size := options.get("embedding")) is not None and isinstance(the_task.input, Vectors):
        raise ValueError(f"embedding is {size}, but the input of {task} is vectors, not tokens")
    next(the_task.batches(np.random.default_rng(0), config["batch"]))  # a batch that cannot be had is said here
    config["network"] = network_arguments(the_task, config)
    _check_groups(config)
    _check_dropped(config, the_task)
    config["baseline"] = the_task.baseline
    config["data"] = data_of(the_task)
    config["made_by"] = made_by()
    check(config, FORM)
    check_trainer(config)
    if models.is_of_file(config["model"]):
        own_cell.check(config["model"], models.network(**config["network"]).layers[0].cell)
    return config, the_task


def data_of(task: Task) -> Record | None:
    """Which data a task is of, for a config; None where it makes its own."""
    own = getattr(task, "data", None)
    return None if own is None else own._asdict()


def tell(task: Task) -> None:
    """Say what a person should know of a task's data."""
    own = getattr(task, "data", None)
    if own is not None and own.published is False:
        say(f"note: the data are not {own.set} as it was published; the config says so")
    for note in getattr(task, "notes", ()):
        say(f"note: {note}")


def _check_groups(config: Record) -> None:
    """ValueError for a pattern of --rates that no free parameter's name fits, or none that is left."""
    network = models.network(**config["network"])
    names = ["readout.b", *([] if network.tied else ["readout.W"]), *(["embedding.E"] if network.embedding else [])]
    for i, layer in enumerate(network.layers):
        names += [f"layer{i}.{name}" for name in layer.free]
    left = names
    for pattern in config["rates"]:
        if "/" in pattern:  # between the parts of a path, in a checkpoint
            raise ValueError(f"--rates names {pattern!r}; allowed: a pattern without /")
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"--rates names {pattern!r}, which matches no free parameter: {', '.join(names)}")
        if not any(fnmatchcase(name, pattern) for name in left):  # a parameter's rate is that of the first that fits
            raise ValueError(
                f"--rates names {pattern!r} after patterns that match all its parameters; give it before them"
            )
        left = [name for name in left if not fnmatchcase(name, pattern)]


def _check_dropped(config: Record, task: Task) -> None:
    """ValueError where inputs are to be dropped, and are tokens."""
    rate = config["dropout_input"]
    if rate and config["embedding"] is None and not isinstance(task.input, Vectors):
        raise ValueError(f"--dropout-input is {rate:g}, and the input of {config['task']} is tokens; give --embedding")


def made_by() -> Record:
    """`MadeBy` of this process."""
    return {"ortho_ref": ortho_ref.__version__, "numpy": np.__version__, "blas": sorted(blas())}


def read_run(folder: RunFolder) -> Record:
    """The config of a run of `scripts.train`, or of a program that trains as it does."""
    config = folder.config
    try:
        check(config, FORM)
    except ValueError as error:
        raise ValueError(f"{folder.path / CONFIG} was not written by scripts.train: {error}") from None
    return config


def resumed(
    folder: RunFolder, task: str, given: Record, places: Record, which: str | None = None, exact: bool = False
) -> tuple[Record, Task]:
    """The config of a run that goes on, and its task; the process has its threads then."""
    config, given = read_run(folder), known(given)
    engine = engine_of(config)
    threads = config["threads"] if given.get("threads") is None else given["threads"]
    if engine in OWN_THREADS:
        given = given | {"threads": None}
    for option, value in {"task": task, **given}.items():
        none = option == "embedding" and value == 0 and config[option] is None
        some = option == "model_options" and value is not None and value.items() <= config[option].items()
        before = option == "engine" and value == engine
        judged = option == "iterations"  # by `length_of`, who knows how long the run has become
        if value is not None and value != config.get(option) and not (judged or none or some or before):
            raise ValueError(f"{option} is {value!r}; the run in {folder.path} has {config.get(option)!r}")
    check_run(folder, which)
    the_task = task_of(folder.path, config, places)
    limit_threads(threads, engine)
    if config["made_by"] != made_by():
        if exact:
            raise ValueError(f"--exact, but the run was begun by {config['made_by']}, and this is {made_by()}")
        say(f"note: the run was begun by {config['made_by']}, this is {made_by()}: its bits may differ from here on")
    return config, the_task


def weights_of(run: Path) -> tuple[Record, Loaded]:
    """The weights of a run that another begins with, and what its config says of them: the checkpoint, its SHA-256."""
    try:
        with RunFolder(run) as folder:
            which = folder.best_or_last()
        weights, sha256 = loaded(run, which)
    except (OSError, ValueError) as error:
        raise ValueError(f"init_from is {run}: {error}") from error
    return {"init_from": {"checkpoint": which, "sha256": sha256}}, weights


def length_of(folder: RunFolder, config: Record, wanted: int | None, which: str | None) -> int:
    """How many updates a run that goes on is to have."""
    has, out = folder.iterations(which) or config["iterations"], folder.path
    if wanted is None or wanted == has:
        return has
    if wanted < has:
        raise ValueError(f"iterations is {wanted}; the run in {out} has {has}: it can be made longer, not shorter")
    if "experiment" in config:
        raise ValueError(
            f"iterations is {wanted}; the run in {out} is one of the grid {config['experiment']['name']}, whose runs "
            f"have {has}; allowed: another run with --init-from {out}"
        )
    if config["schedule"] == "linear":
        raise ValueError(
            f"iterations is {wanted}; the run in {out} has {has}, and its schedule, linear, goes to zero over them: "
            "a longer run would have had different rates from the first update on"
        )
    return wanted


def task_of(run: Path, config: Record, places: Record) -> Task:
    """The task of a run."""
    check_options(config["task"], places)
    check_needed(config["task"], places)
    try:
        task = make_task(config, places)
        network = network_arguments(task, config)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{run / CONFIG}: {error}") from error
    _check_data(run, config["data"], data_of(task), places)
    if network != config["network"]:
        raise ValueError(f"{run / CONFIG}: network is {config['network']}; its other options say {network}")
    return task


def _check_data(run: Path, written: Record | None, found: Record | None, places: Record) -> None:
    """ValueError unless the data are those that the run began with."""
    if written == found:
        return
    theirs, ours = ((own or {}).get("sha256", {}) for own in (written, found))
    other = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
    where = ", ".join(f"{name} is {place}" for name, place in places.items()) or "the data are those of the cache"
    which = f"{', '.join(other)} (by SHA-256)" if other else "another set"
    raise ValueError(f"{where}, which is not what the run in {run} began with: {which}")
