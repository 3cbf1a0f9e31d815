"""Train a model on a task: python -m scripts.train denoise --model nc-gru --out runs/denoise"""

import contextlib
import enum
import json
import math
import os
import shlex
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text as Line

import ortho_ref
from ortho_ref import models
from ortho_ref.checkpoint import locked
from ortho_ref.optimizers import OPTIMIZERS, ByName, Optimizer
from ortho_ref.parametrizations import Exponential, GeodesicUnitary, NeumannCayley, ScaledCayley
from ortho_ref.parametrizations.by_name import FORMS
from ortho_ref.schedules import Constant, LinearToZero, Schedule, Step
from ortho_ref.task import Task, check_integer
from ortho_ref.training import CONFIG, LAST, RUN_FILES, Record, Trainer, read_config
from scripts.defaults import DEFAULTS
from scripts.program import BAD_INPUT, blas, console, device_option, fail, limit_threads, run, say
from tasks.adding import Adding
from tasks.copying import Copying
from tasks.denoise import Denoise
from tasks.parenthesis import Parenthesis
from tasks.text import Text


class TaskName(enum.StrEnum):
    parenthesis = "parenthesis"
    denoise = "denoise"
    adding = "adding"
    copying = "copying"
    text = "text"


def make_task(config: Record) -> Task:
    """The task of a config that `config_of` completed; ValueError or OSError for a wrong option or file."""
    name, length = config["task"], config["length"]
    for option, own in (("file", ("text",)), ("form", ("parenthesis", "denoise")), ("layout", ("copying",))):
        if config[option] is not None and name not in own:
            raise ValueError(f"--{option} is for {' and '.join(own)}; {name} has none")
    if name == "text":
        if config["file"] is None:
            raise ValueError("text needs --file FILE, a UTF-8 text")
        return Text(Path(config["file"]), length)
    if name == "copying":
        return Copying(length, config["layout"])
    if name == "adding":
        return Adding(length)
    if name == "denoise":
        return Denoise(length, config["form"])
    if name == "parenthesis":
        return Parenthesis(length, config["form"])
    raise ValueError(f"task is {name!r}; allowed: {', '.join(TaskName)}")


def network_arguments(task: Task, config: Record) -> Record:
    """The arguments of `models.network` for a config, as JSON."""
    model, n = config["model"], config["hidden"]
    options: Record = {name: config[name] for name in ("orthogonal", "negative_ones") if config[name] is not None}
    if config["order"] == "exact":
        options["exact"] = True
    elif config["order"] is not None:
        options["order"] = _integer("order", config["order"], "1, 2, 3 or exact")
    if config["reset_every"] is not None:
        never = config["reset_every"] == "never"
        options["reset_every"] = None if never else _integer("reset_every", config["reset_every"], "N or never")
    own = [option for option in models.options_of(model) if option not in FLAGS]
    for option in config["model_options"]:
        if option in FLAGS:
            raise ValueError(f"--model-option names {option!r}, which is {FLAGS[option]}")
        if option not in own:
            raise ValueError(f"--model-option names {option!r}; allowed for {model}: {', '.join(own) or 'none'}")
    options |= config["model_options"]
    if config["parametrize"]:
        options["parametrize"] = config["parametrize"]
    return {
        "name": model,
        "input_size": task.input.size,
        "hidden_sizes": [n] * config["layers"],
        "output_size": task.output_size,
        "readout": task.readout,
        "loss": task.loss,
        "dropout": config["dropout"],
        **options,
    }


#: Options of models that have an option of their own on the command line.
FLAGS = {
    "orthogonal": "--orthogonal",
    "order": "--order",
    "reset_every": "--reset-every",
    "negative_ones": "--negative-ones",
    "exact": "--order exact",
}


def _integer(option: str, text: str, allowed: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{option} is {text!r}; allowed: {allowed}") from None


def make_schedule(text: str, rate: float, iterations: int) -> Schedule:
    """ "constant", "linear" (to zero over the run), or "step:EVERY:FACTOR"."""
    kind, *numbers = text.split(":")
    if kind == "constant" and not numbers:
        return Constant(rate)
    if kind == "linear" and not numbers:
        return LinearToZero(rate, iterations)
    if kind == "step" and len(numbers) == 2:
        with contextlib.suppress(ValueError):
            every, factor = int(numbers[0]), float(numbers[1])
            return Step(rate, every, factor)
    raise ValueError(
        f"schedule is {text!r}; allowed: constant, linear, or step:EVERY:FACTOR with EVERY >= 1 and 0 < FACTOR <= 1"
    )


def make_optimizer(config: Record) -> Optimizer:
    """For the parameters of orthogonal weights one optimizer, for all else another, each with its own rate."""

    def make(kind: str, rate: float, decay: float) -> Optimizer:
        if kind not in OPTIMIZERS:
            raise ValueError(f"optimizer is {kind!r}; allowed: {', '.join(OPTIMIZERS)}")
        return OPTIMIZERS[kind](make_schedule(config["schedule"], rate, config["iterations"]), weight_decay=decay)

    return ByName(
        {
            "layer*.*.*": make(config["optimizer_orthogonal"], config["lr_orthogonal"], 0.0),
            "*": make(config["optimizer"], config["lr"], config["weight_decay"]),
        }
    )


def model_options(texts: list[str]) -> Record:
    """ "NAME=VALUE" each: a number, true, false or null, in Python's spelling too, or else a string."""
    constants = {"true": True, "false": False, "null": None, "none": None}

    def value_of(text: str) -> Any:
        for read in (lambda text: constants[text.lower()], int, float):
            with contextlib.suppress(ValueError, KeyError):
                value = read(text)
                return value if value is None or math.isfinite(value) else text
        return text

    return {name: value_of(value) for name, value in pairs("model-option", texts).items()}


def pairs(option: str, texts: list[str]) -> dict[str, str]:
    """ "NAME=VALUE" each."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise ValueError(f"--{option} is {text!r}; allowed: NAME=VALUE")
        if name in found:
            raise ValueError(f"--{option} gives {name} twice: {found[name]!r} and {value!r}")
        found[name] = value
    return found


def clipping(text: str | None) -> dict[str, float]:
    """ "value:LIMIT" or "norm:LIMIT" as the trainer's argument."""
    if text is None:
        return {}
    kind, _, limit = text.partition(":")
    with contextlib.suppress(ValueError):
        if kind in ("value", "norm"):
            return {f"clip_{kind}": float(limit)}
    raise ValueError(f"clip is {text!r}; allowed: value:LIMIT or norm:LIMIT with LIMIT above 0")


def make_trainer(config: Record) -> Trainer:
    """The trainer a config describes; its network from config["network"]."""
    return Trainer(
        models.network(**config["network"]),
        make_task(config),
        make_optimizer(config),
        config["iterations"],
        config["batch"],
        config["seed"],
        log_every=config["log_every"],
        evaluate_every=config["eval_every"],
        checkpoint_every=config["checkpoint_every"],
        device=config["device"],
        dtype=np.dtype(config["dtype"]),
        **clipping(config["clip"]),
    )


# Every option and its default; None: the task's or the model's own, or none at all
OPTIONS: Record = {
    "model": "nc-gru",
    "hidden": None,
    "layers": 1,
    "length": None,
    "batch": None,
    "iterations": None,
    "lr": None,
    "lr_orthogonal": None,
    "optimizer": "adam",
    "optimizer_orthogonal": None,
    "weight_decay": 0.0,
    "schedule": "constant",
    "clip": None,
    "dropout": 0.0,
    "orthogonal": None,
    "order": None,
    "reset_every": None,
    "negative_ones": None,
    "model_options": {},
    "parametrize": {},
    "form": None,
    "layout": None,
    "file": None,
    "seed": 0,
    "dtype": "float32",
    "device": "cpu",
    "threads": 1,
    "log_every": 50,
    "eval_every": None,
    "checkpoint_every": None,
}


def config_of(task: str, **options: Any) -> Record:
    """Every option of a run: as given, or where None the task's and the model's default; and its network's form."""
    if unknown := sorted(options.keys() - OPTIONS.keys()):
        raise TypeError(f"there is no option {', '.join(unknown)}; allowed: {', '.join(OPTIONS)}")
    given = OPTIONS | {name: value for name, value in options.items() if value is not None}
    defaults, model = DEFAULTS[task], given["model"]
    if model not in models.names():
        raise ValueError(f"model is {model!r}; allowed: {', '.join(models.names())}")
    if given["dtype"] not in ("float32", "float64"):
        raise ValueError(f"dtype is {given['dtype']!r}; allowed: float32, float64")
    config: Record = {"task": task, **given}
    own: Record = {
        "length": defaults.length,
        "batch": defaults.batch,
        "iterations": defaults.iterations,
        "hidden": defaults.hidden_of(model),
        "lr": defaults.lr,
        "eval_every": defaults.eval_every,
    }
    config |= {name: value for name, value in own.items() if config[name] is None}
    own_weights = {"nc-gru": [f"U_{gate}" for gate in config["orthogonal"] or "c"], "scornn": ["U"]}.get(model, [])
    replaced = bool(own_weights) and set(own_weights) <= config["parametrize"].keys()
    if replaced:
        for name in ("negative_ones", "order", "reset_every"):
            if config[name] is not None:
                raise ValueError(f"{name} is {config[name]!r}, but --parametrize replaces {', '.join(own_weights)}")
    elif model in ("nc-gru", "scornn") and config["negative_ones"] is None:
        paper = defaults.negative_ones.get(model) if config["hidden"] == own["hidden"] else None
        config["negative_ones"] = config["hidden"] // 2 if paper is None else paper
    if config["form"] is None and task in ("parenthesis", "denoise"):
        config["form"] = "paper"
    if config["layout"] is None and task == "copying":
        config["layout"] = "A"
    if model == "nc-gru":
        if config["order"] == "exact" and config["reset_every"] is not None:
            raise ValueError(f"reset_every is {config['reset_every']!r}, but order exact has no series to reset")
        config["orthogonal"] = config["orthogonal"] or "c"
        if not replaced:
            config["order"] = config["order"] or "2"
        if config["order"] not in (None, "exact") and config["reset_every"] is None:
            config["reset_every"] = str(defaults.reset_every)
    if config["checkpoint_every"] is None:
        config["checkpoint_every"] = config["eval_every"]
    for name in ("hidden", "layers", "batch", "iterations", "eval_every", "checkpoint_every"):
        check_integer(name, config[name])
    for name in ("lr", "lr_orthogonal"):
        if config[name] is not None and not 0 <= config[name] < math.inf:
            raise ValueError(f"{name} is {config[name]}; allowed: a finite number >= 0")
    if config["file"] is not None:
        config["file"] = os.path.abspath(config["file"])
    the_task = make_task(config)
    next(the_task.batches(np.random.default_rng(0), config["batch"]))  # a batch that cannot be had is said here
    config["network"] = network_arguments(the_task, config)
    kept = models.network(**config["network"]).layers[0].constrained.values()
    for name in ("lr_orthogonal", "optimizer_orthogonal"):
        if not kept and config[name] is not None:
            raise ValueError(f"{name} is {config[name]!r}, but {model} has no orthogonal weight")
    if config["lr_orthogonal"] is None:
        skew = any(isinstance(p, ScaledCayley | NeumannCayley | Exponential) for p in kept)
        slower = 1.0 if defaults.lr_orthogonal is None or not skew else defaults.lr_orthogonal / defaults.lr
        config["lr_orthogonal"] = config["lr"] * slower
    if config["optimizer_orthogonal"] is None:
        geodesic = any(isinstance(p, GeodesicUnitary) for p in kept)
        config["optimizer_orthogonal"] = "sgd" if geodesic else config["optimizer"]
    config["baseline"] = the_task.baseline
    config["file_sha256"] = getattr(the_task, "sha256", None)
    config["made_by"] = made_by()
    return config


def remove_run(out: Path, name: str, mark: str) -> None:
    """Remove the run in out/name that an earlier call of the program which sets config[mark] left there.

    ValueError if the folder holds another run.
    """
    folder = out / name
    if not (folder / CONFIG).exists():
        return
    with locked(folder):
        if not read_config(folder).get(mark):
            raise ValueError(f"out is {out}, where {name} holds another run; choose another folder")
        for file in RUN_FILES:
            (folder / file).unlink(missing_ok=True)


def made_by() -> Record:
    """What the bits of a run depend on besides its config."""
    return {"ortho_ref": ortho_ref.__version__, "numpy": np.__version__, "blas": sorted(blas())}


def resumed_config(out: Path, task: str, given: Record) -> Record:
    """The config of the run in `out`, its BLAS threads set; ValueError where an option given is another than the run's.

    A text may have been moved: its contents count.
    """
    config = read_config(out)
    for option, value in {"task": task, **given}.items():
        if value is not None and value != config.get(option) and option != "file":
            raise ValueError(f"{option} is {value!r}; the run in {out} has {config.get(option)!r}")
    task_of(out, config, given["file"])
    limit_threads(config["threads"])
    if config["made_by"] != made_by():
        say(f"note: the run was begun by {config['made_by']}, this is {made_by()}: its bits may differ from here on")
    return config


def task_of(run: Path, config: Record, file: str | None = None) -> Task:
    """The task of the run in the folder `run`; file: where its text is now, if it was moved.

    ValueError if the config is not one of this program, or if the text has changed.
    """
    if missing := sorted((OPTIONS.keys() | {"task", "network", "file_sha256", "made_by"}) - config.keys()):
        raise ValueError(f"{run}: its config.json has no {', '.join(missing)}; it is not one that scripts.train wrote")
    task = make_task(config if file is None else config | {"file": file})
    if config["file_sha256"] != getattr(task, "sha256", None):
        raise ValueError(f"file is {file or config['file']}, which is not the text that the run in {run} began with")
    return task


def show(task: Task, record: Record) -> str:
    """The figures of a metrics line that fit beside a progress bar."""
    parts = [f"loss {record['loss']:.4g} (baseline {task.baseline:.4g})"]
    if task.metric == "bits_per_character":
        parts.append(f"{record['loss'] / math.log(2):.3f} bits")
    health = record["weights"].values()
    for key, label in (("defect", "defect"), ("condition", "Neumann"), ("forced_resets", "forced resets")):
        values = [figures[key] for figures in health if key in figures]
        if values and (key != "forced_resets" or max(values)):
            parts.append(f"{label} {max(values):.1e}" if key != "forced_resets" else f"{label} {sum(values)}")
    if "evaluation_loss" in record:
        parts.append(f"held out {record['evaluation_loss']:.4g}")
    return "  ".join([*parts, f"{record['steps_per_second']:.1f} steps/s"])


class FiguresUnderBar(Progress):
    """A progress bar with the figures on a line of their own under it."""

    figures = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, then the line."""
        yield from super().get_renderables()
        yield Line(self.figures)


STOPS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


@contextlib.contextmanager
def signals() -> Iterator[list[int]]:
    """SIGINT, SIGTERM and SIGHUP go into a list, for the trainer to stop after its update; a second one interrupts."""
    received: list[int] = []

    def handler(number: int, frame: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        say("stopping after this update; once more to break off")

    before = {number: signal.signal(number, handler) for number in STOPS}
    try:
        yield received
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def train(
    trainer: Trainer,
    out: Path,
    config: Record,
    label: str,
    resume: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Record]:
    """Run the trainer in the folder `out` under a progress bar."""
    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
    progress = FiguresUnderBar(*columns, console=console)
    bar = progress.add_task(label, total=trainer.iterations)

    def on_record(record: Record) -> None:
        progress.figures = show(trainer.task, record)
        progress.update(bar, completed=record["iteration"])
        if not console.is_terminal:
            say(f"{record['iteration']}/{trainer.iterations}  {progress.figures}")

    def after_update() -> bool:
        progress.start()  # not before: an error at the beginning stands alone
        return should_stop()

    try:
        # what overflows is reported by the trainer, by name
        with np.errstate(all="ignore"):
            return trainer.run(out, config, resume=resume, on_record=on_record, should_stop=after_update)
    finally:
        if progress.live.is_started:
            progress.stop()


_MODEL: Any = {"rich_help_panel": "Model"}
_TASK: Any = {"rich_help_panel": "Task"}
_TRAINING: Any = {"rich_help_panel": "Training"}
_RUN: Any = {"rich_help_panel": "Run"}


def main(
    task: Annotated[TaskName, typer.Argument(help="The task.")],
    model: Annotated[
        str | None, typer.Option(help=f"{', '.join(models.names())}; nc-gru unless given.", **_MODEL)
    ] = None,
    hidden: Annotated[int | None, typer.Option(help="Hidden size n; the task's for the model.", **_MODEL)] = None,
    layers: Annotated[int | None, typer.Option(help="Recurrent layers; 1 unless given.", **_MODEL)] = None,
    dropout: Annotated[float | None, typer.Option(help="Share of each layer's outputs dropped; 0.", **_MODEL)] = None,
    orthogonal: Annotated[str | None, typer.Option(help="nc-gru: c (default), rc or ruc.", **_MODEL)] = None,
    order: Annotated[
        str | None, typer.Option(help="nc-gru: Neumann series, 1, 2 (default), 3; exact.", **_MODEL)
    ] = None,
    reset_every: Annotated[
        str | None, typer.Option(help="nc-gru: updates between exact inverses, or never; the task's.", **_MODEL)
    ] = None,
    negative_ones: Annotated[
        int | None, typer.Option(help="nc-gru, scornn: entries -1 of D; the task's, or n/2.", **_MODEL)
    ] = None,
    model_option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the model (docs/models.md): style=fft.", **_MODEL),
    ] = None,
    parametrize: Annotated[
        list[str] | None, typer.Option(metavar="WEIGHT=HOW", help=f"U_h=householder:8; {FORMS}.", **_MODEL)
    ] = None,
    length: Annotated[int | None, typer.Option(help="T: of a sequence, delay or window; the task's.", **_TASK)] = None,
    batch: Annotated[int | None, typer.Option(help="Sequences B in a batch; the task's.", **_TASK)] = None,
    form: Annotated[str | None, typer.Option(help="parenthesis, denoise: paper (default), released.", **_TASK)] = None,
    layout: Annotated[str | None, typer.Option(help="copying: A (default), B or C.", **_TASK)] = None,
    file: Annotated[Path | None, typer.Option(help="text: the UTF-8 text to learn.", **_TASK)] = None,
    iterations: Annotated[int | None, typer.Option(help="Updates; the task's.", **_TRAINING)] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate; the task's.", **_TRAINING)] = None,
    lr_orthogonal: Annotated[
        float | None, typer.Option(help="The rate of orthogonal weights; the task's, or --lr.", **_TRAINING)
    ] = None,
    optimizer: Annotated[
        str | None, typer.Option(help=f"{', '.join(OPTIMIZERS)}; adam unless given.", **_TRAINING)
    ] = None,
    optimizer_orthogonal: Annotated[
        str | None, typer.Option(help="Theirs; as --optimizer (full-urnn: sgd).", **_TRAINING)
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(help="constant (default), linear (to zero), step:EVERY:FACTOR.", **_TRAINING)
    ] = None,
    clip: Annotated[str | None, typer.Option(help="value:LIMIT or norm:LIMIT; none unless given.", **_TRAINING)] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Of every parameter but theirs; 0.", **_TRAINING)] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights, data and dropout; 0 unless given.", **_TRAINING)] = None,
    dtype: Annotated[str | None, typer.Option(help="float32 (default) or float64.", **_TRAINING)] = None,
    device: Annotated[str | None, device_option("cpu (default) or gpu.", **_TRAINING)] = None,
    threads: Annotated[int | None, typer.Option(help="BLAS threads; 1 unless given.", **_TRAINING)] = None,
    out: Annotated[Path | None, typer.Option(help="The folder; runs/TASK-MODEL-SEED unless given.", **_RUN)] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder, with its own options.", **_RUN)
    ] = False,
    log_every: Annotated[int | None, typer.Option(help="Updates per line of metrics; 50.", **_RUN)] = None,
    eval_every: Annotated[int | None, typer.Option(help="Updates between evaluations; the task's.", **_RUN)] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(help="Updates between checkpoints; --eval-every unless given.", **_RUN)
    ] = None,
) -> None:
    """Train a model on a task.  What is not given is the NC-GRU paper's for the task and the model (docs/training.md).

    The folder gets config.json, metrics.jsonl, summary.json, last.safetensors, best.safetensors and curve.png.

    Ctrl-C saves; --resume goes on.
    """
    given = {key: str(v) if isinstance(v, Path) else v for key, v in locals().items()}
    del given["task"], given["out"], given["resume"]
    if out == Path():
        fail("out is the current folder; name another")
    out = out or Path("runs") / f"{task}-{model or OPTIONS['model']}-{OPTIONS['seed'] if seed is None else seed}"
    del given["model_option"]
    to_go_on = f"python -m scripts.train {task} --out {shlex.quote(str(out))} --resume"
    try:
        given["model_options"] = model_options(model_option) if model_option else None
        given["parametrize"] = pairs("parametrize", parametrize) if parametrize else None
        if resume:
            config = resumed_config(out, task.value, given)
        else:
            limit_threads(1 if threads is None else threads)
            config = config_of(task.value, **given)
        trainer = make_trainer(config if file is None else config | {"file": str(file)})
        with signals() as received:
            records = train(trainer, out, config, f"{config['model']} {task}", resume, lambda: bool(received))
        if trainer.iteration < trainer.iterations:
            name = signal.Signals(received[0]).name
            say(f"{name}: saved after update {trainer.iteration} of {trainer.iterations}; to go on:")
            say(to_go_on)
            raise typer.Exit(128 + received[0])
        from scripts.pictures.losses import draw, run_of

        draw([run_of(out)], out / "curve.png")
    except FloatingPointError as error:
        fail(f"{error}; the last good checkpoint is {out / LAST}", 1)
    except BAD_INPUT as error:
        fail(error)
    except KeyboardInterrupt:
        fail(f"interrupted{f'; go on from the last checkpoint: {to_go_on}' if (out / LAST).exists() else ''}", 130)
    last = records[-1]
    say(
        f"{trainer.network.count(trainer.params)} parameters; held out: loss {last['evaluation_loss']:.4g}, "
        f"{trainer.task.metric} {last[trainer.task.metric]:.4f}; baseline loss {trainer.task.baseline:.4g}; {out}"
    )
    typer.echo(json.dumps(last))


if __name__ == "__main__":
    run(main)
