"""What a config describes, built: task, network, optimizer, trainer."""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ortho_ref import models
from ortho_ref.boundary import nearest, short
from ortho_ref.network import Network
from ortho_ref.training.averaging import check_averages
from ortho_ref.training.optimizers import OPTIMIZERS, ByName, Optimizer
from ortho_ref.training.runs import TrainingRun
from ortho_ref.training.schedules import Constant, LinearToZero, Schedule, Step
from ortho_ref.training.task import StoryAndQuestion, Task
from ortho_ref.training.trainer import Record
from scripts.grid.options import FLAGS, OPTIONS, PLACES, REGULARIZERS, check_task
from scripts.program.malloc import keeps_freed_memory
from tasks import by_name


def make_task(config: Record, places: Record | None = None) -> Task:
    """The task of a config."""
    name = config["task"]
    # under a place's name the config has which data they are
    given = {option: value for option, value in config.items() if option not in PLACES} | (places or {})
    check_task(given)
    return by_name.make(name, **{option: given.get(option) for option in by_name.options_of(name)})


def network_arguments(task: Task, config: Record) -> Record:
    """The arguments of `models.network` for a config."""
    model, n = config["model"], config["hidden"]
    given = [option for option in OPTIONS.values() if option.sets and config[option.name] is not None]
    options: Record = {option.name: config[option.name] for option in given if option.words is None}
    for option in given:
        if option.words is not None:
            options |= option.words(config[option.name])
    own = [name for name in models.options_of(model) if name not in FLAGS]
    for name in config["model_options"]:
        if name in FLAGS:
            raise ValueError(f"--model-option names {name!r}, which is {FLAGS[name]}")
        if name not in own:
            near = nearest(name, own)
            raise ValueError(f"--model-option names {name!r}{near}; allowed for {model}: {', '.join(own) or 'none'}")
    options |= config["model_options"]
    if config["parametrize"]:
        options["parametrize"] = config["parametrize"]
    return {
        "name": model,
        "input_size": task.input.size,
        "hidden_sizes": n if isinstance(n, list) else [n] * config["layers"],
        "output_size": task.output_size,
        "readout": task.readout,
        "loss": task.loss,
        "dropout": config["dropout"],
        "embedding": config["embedding"],
        "tied": config["tied"],
        "regularizers": {own: value for name, own in REGULARIZERS.items() if (value := _regularizer(config, name))},
        **({"reader": task.input.join} if isinstance(task.input, StoryAndQuestion) else {}),
        **options,
    }


def _regularizer(config: Record, name: str) -> Any:
    if name != "dropout_weights_of" or config[name] is None:
        return config[name]
    if not config["dropout_weights"]:
        raise ValueError(f"dropout_weights_of is {short(config[name])}, but dropout_weights is 0")
    return config[name].split(",")


def make_schedule(text: str, rate: float, iterations: int) -> Schedule:
    """The schedule of a text: "constant", "linear" (to zero over the run), or "step:EVERY:FACTOR"."""
    kind, *numbers = text.split(":")
    if kind == "constant" and not numbers:
        return Constant(rate)
    if kind == "linear" and not numbers:
        return LinearToZero(rate, iterations)
    if kind == "step" and len(numbers) == 2:
        with contextlib.suppress(ValueError):
            every, factor = int(numbers[0]), float(numbers[1])
            return Step(rate, every, factor)
    kinds = ("constant", "linear", "step")
    near = "" if kind in kinds else nearest(kind, kinds)
    raise ValueError(
        f"schedule is {text!r}{near}; "
        "allowed: constant, linear, or step:EVERY:FACTOR with EVERY >= 1 and 0 < FACTOR <= 1"
    )


def make_optimizer(config: Record) -> Optimizer:
    """One optimizer for the parameters of orthogonal weights, one for each group of --rates, one for the rest."""

    def make(option: str, rate: float, decay: float) -> Optimizer:
        kind, colon, square = config[option].partition(":")
        own: Record = {"compiled": True} if kind == "adam" and config.get("engine") == "compiled" else {}
        if colon and kind.startswith("rmsprop"):
            with contextlib.suppress(ValueError):
                own["decay"] = float(square)
        if kind not in OPTIMIZERS or (colon and "decay" not in own):
            allowed = ", ".join(OPTIMIZERS)
            near = "" if kind in OPTIMIZERS else nearest(kind, OPTIMIZERS)
            raise ValueError(
                f"{option} is {config[option]!r}{near}; allowed: {allowed}; of rmsprop its decay, rmsprop:0.99"
            )
        schedule = make_schedule(config["schedule"], rate, config["iterations"])
        return OPTIMIZERS[kind](schedule, weight_decay=decay, **own)

    others = make("optimizer", config["lr"], config["weight_decay"])  # whose error comes first: it is the default
    orthogonal = {"layer*.*.*": make("optimizer_orthogonal", config["lr_orthogonal"], 0.0)}
    groups = {pattern: make("optimizer", rate, config["weight_decay"]) for pattern, rate in config["rates"].items()}
    return ByName({**orthogonal, **groups} | ({} if "*" in groups else {"*": others}))


def clipping(text: str | None) -> dict[str, Any]:
    """The trainer's argument for a text: "value:LIMIT", "norm:LIMIT", or None."""
    if text is None:
        return {}
    kind, _, limit = text.partition(":")
    with contextlib.suppress(ValueError):
        if kind in ("value", "norm") and 0 < float(limit) < math.inf:
            return {f"clip_{kind}": float(limit)}
    raise ValueError(f"clip is {text!r}; allowed: value:LIMIT or norm:LIMIT with LIMIT above 0")


def engine_of(config: Mapping[str, Any]) -> str:
    """What runs the layers; a config of before there were engines names none."""
    return config.get("engine") or "fused"


def make_network(config: Record) -> Network:
    """The network that a config trains, by its engine."""
    network, engine = models.network(**config["network"]), engine_of(config)
    if engine == "persistent" and config["device"] != "gpu":
        raise ValueError(
            f"engine is 'persistent', which is for device 'gpu', and device is {config['device']!r}; allowed there: "
            "'compiled', 'fused', 'scan'"
        )
    return by_engine(network, engine)


def by_engine(network: Network, engine: str) -> Network:
    """The same network, whose layers an engine runs."""
    return replace(network, layers=tuple(replace(layer, engine=engine) for layer in network.layers))


def check_trainer(config: Record) -> None:
    """Check what `make_trainer` would refuse, without the weights that it makes."""
    make_optimizer(config)
    clipping(config["clip"])
    network = make_network(config)
    if config["average"] is not None:
        check_averages(network)


def make_trainer(config: Record, task: Task | None = None, iterations: int | None = None) -> TrainingRun:
    """The trainer a config describes."""
    return TrainingRun(
        make_network(config),
        task or make_task(config),
        make_optimizer(config),
        config["batch"],
        config["seed"],
        iterations=iterations or config["iterations"],
        log_every=config["log_every"],
        evaluate_every=config["eval_every"],
        checkpoint_every=config["checkpoint_every"],
        device=config["device"],
        dtype=np.dtype(config["dtype"]),
        average_after=config["average"],
        rate_per_window=config["length"] if config["scale_rate"] else None,
        holds_tape=not keeps_freed_memory(),
        **clipping(config["clip"]),
    )
