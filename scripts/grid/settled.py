"""Every option of a run: what is given, and what the paper has for the task and the model where nothing is."""

import copy
import math
import operator
from types import SimpleNamespace
from typing import Any

from ortho_ref import models
from ortho_ref.boundary import nearest, not_among
from ortho_ref.fused import compiled, factored, kernels
from ortho_ref.network import Network
from ortho_ref.parametrizations import Exponential, GeodesicUnitary, NeumannCayley, ScaledCayley
from ortho_ref.training.forms import MOST, WIDEST
from ortho_ref.training.task import Vectors, check_integer
from ortho_ref.training.trainer import Record
from scripts.grid.build import network_arguments
from scripts.grid.defaults import defaults_of
from scripts.grid.options import DEFAULT, PLACES
from scripts.program import MOST_THREADS, OWN_THREADS
from tasks import by_name

MOST_LAYERS = 1000
#: Up to this n an engine is quicker than "fused", or within a tenth of it (docs/performance.md, docs/gpu.md).
LARGEST = {"compiled": 1024, "persistent": 768}

#: What the options of a run need to know of its task: nothing that depends on data.
_ANY: Any = SimpleNamespace(input=Vectors(1), output_size=1, readout="last", loss="cross_entropy")


def settled(task: str, **options: Any) -> Record:
    """Every option of a run: what is given, and what the task and the model have where nothing is; without data."""
    given = _given(task, options)
    chosen: Record = {"task": task} | DEFAULT | _setting(task, given) | given
    chosen["model_options"] = model_options_of(task, given)
    config = chosen | _defaults(chosen)
    config |= _weights(config)
    _check_numbers(config)
    config |= _embedding(config, given)
    network = models.network(**_bare(config))
    config |= _optimizers(config, network)
    if config["engine"] is None:
        config["engine"] = _engine(config, network)
    if config["threads"] is None:
        config["threads"] = min(compiled.cores(), MOST_THREADS) if config["engine"] in OWN_THREADS else 1
    return config


def _engine(config: Record, network: Network) -> str:
    """The device's fast engine where that can run all cells of a network, and is no slower, else "fused"."""
    sizes = config["hidden"] if isinstance(config["hidden"], list) else [config["hidden"]]

    def suits(engine: str) -> bool:
        if any(layer.refusal(engine) is not None for layer in network.layers):
            return False
        if engine == "factored":
            least = [factored.least(layer.cell, layer.constrained["U"]) for layer in network.layers]
            return all(map(operator.ge, sizes, least))
        return all(n <= LARGEST[engine] for n in sizes)

    if config["device"] == "gpu":
        return "persistent" if kernels.are_on() and suits("persistent") else "fused"
    return next(filter(suits, ("factored", "compiled")), "fused")


def _bare(config: Record) -> Record:
    """The arguments of a run's network, without what stands before and behind its layers, and at no task's sizes."""
    return network_arguments(_ANY, config) | {"embedding": None, "tied": False, "regularizers": {}}


def _given(task: str, options: Record) -> Record:
    """The options that are given, the model among them, and dtype; ValueError for what no task or model has."""
    if unknown := sorted(options.keys() - DEFAULT.keys()):
        near = nearest(unknown[0], DEFAULT) if len(unknown) == 1 else ""
        raise TypeError(f"there is no option {', '.join(unknown)}{near}; allowed: {', '.join(DEFAULT)}")
    by_name.options_of(task)  # a task that is none is said here
    given = {name: DEFAULT[name] for name in ("model", "dtype")}
    given |= known({name: value for name, value in options.items() if value is not None})
    models.options_of(given["model"])  # a model that is none is said here
    if given["dtype"] not in ("float32", "float64"):
        raise ValueError(not_among("dtype", given["dtype"], ("float32", "float64"), str))
    return given


def known(given: Record) -> Record:
    """What is given, a model of a file by the name that it has once it is loaded."""
    model = given.get("model")
    return given | {"model": models.own(model)} if models.is_of_file(model) else given


def _setting(task: str, given: Record) -> Record:
    """The paper's other options for the task and the model, less those that do not go with what is given."""
    defaults = defaults_of(task, given["model"])
    setting = copy.deepcopy(defaults.options)
    if given.get("hidden", n := defaults.hidden_of(given["model"])) == n and defaults.of_size:
        setting["model_options"] = dict(defaults.of_size)
    if given.get("state") == "zero" and setting.get("windows") == "random":
        del setting["windows"]
    if (setting | given).get("windows") != "random":
        setting.pop("scale_rate", None)
    return setting


def model_options_of(task: str, given: Record) -> Record:
    """The options of the model: those that the task has for it, and those that are given."""
    of_task: Record = _setting(task, given).get("model_options", {})
    return of_task | given.get("model_options", {})


def _embedding(config: Record, given: Record) -> Record:
    """The embedding and whether it is tied, where the task has one: as wide as what the readout reads, unless given.

    Without one, --embedding 0, no words and no inputs are dropped unless that is asked for.
    """
    defaults = defaults_of(config["task"], config["model"])
    if not defaults.embedding:
        return {"embedding": config["embedding"] or None}
    width = models.network(**_bare(config)).layers[-1].output_size
    size = given.get("embedding", width) or None
    needing = ("dropout_words", "dropout_input")
    return {
        "embedding": size,
        "tied": given.get("tied", defaults.tied and size == width),
        **({} if size else {name: given.get(name, 0.0) for name in needing}),
    }


def _defaults(config: Record) -> Record:
    """The task's own values of the options that are not given, at the paper's size for the model."""
    defaults = defaults_of(config["task"], config["model"])
    of_task = by_name.options_of(config["task"])
    own: Record = {name: value for name, value in of_task.items() if name not in PLACES} | {
        "batch": defaults.batch,
        "iterations": defaults.iterations,
        "hidden": defaults.hidden_of(config["model"]),
        "lr": defaults.lr,
        "eval_every": defaults.eval_every,
    }
    missing = {name: value for name, value in own.items() if config[name] is None}
    sizes = (config | missing)["hidden"]
    if config["layers"] is None:
        missing["layers"] = len(sizes) if isinstance(sizes, list) else 1
    if config["checkpoint_every"] is None:
        missing["checkpoint_every"] = (config | missing)["eval_every"]
    return missing


def _weights(config: Record) -> Record:
    """The options of the model's orthogonal weights: its own or the task's where none is given.

    Raises ValueError for those of weights that --parametrize replaces, and for a reset of what has no series.
    """
    of_model = models.options_of(config["model"])
    if replaced := _replaced(config, of_model):
        for name in ("negative_ones", "order", "reset_every"):
            if config[name] is not None:
                raise ValueError(f"{name} is {config[name]!r}, but --parametrize replaces {', '.join(replaced)}")
    completed: Record = {}
    if "negative_ones" in of_model and config["negative_ones"] is None and not replaced:
        completed["negative_ones"] = _negative_ones(config)
    if "order" in of_model:
        completed |= _neumann(config, of_model, replaced=bool(replaced))
    return completed


def _replaced(config: Record, of_model: Record) -> list[str]:
    """The orthogonal weights of the model's own, if --parametrize replaces them all; else none."""
    if "orthogonal" in of_model:
        own = [f"U_{gate}" for gate in config["orthogonal"] or of_model["orthogonal"]]
    else:
        own = ["U"] if "negative_ones" in of_model else []
    return own if set(own) <= config["parametrize"].keys() else []


def _negative_ones(config: Record) -> int | list[int]:
    """The paper's count of -1s where the hidden size is the paper's, else n/2."""
    defaults, n = defaults_of(config["task"], config["model"]), config["hidden"]
    paper = defaults.negative_ones_of(config["model"]) if n == defaults.hidden_of(config["model"]) else None
    if paper is not None:
        return paper
    return [size // 2 for size in n] if isinstance(n, list) else n // 2


def _neumann(config: Record, of_model: Record, replaced: bool) -> Record:
    """Which weights are orthogonal, the series' order, and when it is reset; no order where they are replaced."""
    order, reset_every = config["order"], config["reset_every"]
    if order == "exact" and reset_every is not None:
        raise ValueError(f"reset_every is {reset_every!r}, but order exact has no series to reset")
    if not replaced:
        order = order or str(of_model["order"])
    if order not in (None, "exact") and reset_every is None:
        reset_every = str(defaults_of(config["task"], config["model"]).reset_every)
    return {"orthogonal": config["orthogonal"] or of_model["orthogonal"], "order": order, "reset_every": reset_every}


def _check_numbers(config: Record) -> None:
    """ValueError for a count below 1, and for a rate that is none."""
    sizes = config["hidden"]
    for size in sizes if isinstance(sizes, list) else [sizes]:
        check_integer("hidden", size, most=MOST)
    if isinstance(sizes, list) and len(sizes) != config["layers"]:
        raise ValueError(f"layers is {config['layers']}, but hidden has {len(sizes)} sizes; allowed: {len(sizes)}")
    for name in ("layers", "batch", "iterations", "log_every", "eval_every", "checkpoint_every"):
        check_integer(name, config[name], most=MOST_LAYERS if name == "layers" else MOST)
    check_integer("seed", config["seed"], least=0, most=10**40 - 1)
    if config["scale_rate"] and config["windows"] != "random":
        raise ValueError(f"--scale-rate is for --windows random; all windows of {config['task']} have the same length")
    if config["average"] is not None:
        check_integer("average", config["average"], most=MOST)
    if config["embedding"] is not None:
        check_integer("embedding", config["embedding"], least=0, most=WIDEST)
    for name in ("lr", "lr_orthogonal"):
        if config[name] is not None and not 0 <= config[name] < math.inf:
            raise ValueError(f"{name} is {config[name]}; allowed: a finite number >= 0")


def _optimizers(config: Record, network: Network) -> Record:
    """Rate and optimizer of the orthogonal weights, where none is given; ValueError where one is, and no such weight.

    A skew A has the task's slower rate, if the paper has one; geodesic steps are SGD.
    """
    kept = network.layers[0].constrained.values()
    for name in ("lr_orthogonal", "optimizer_orthogonal"):
        if not kept and config[name] is not None:
            raise ValueError(f"{name} is {config[name]!r}, but {config['model']} has no orthogonal weight")
    completed: Record = {}
    if config["lr_orthogonal"] is None:
        defaults = defaults_of(config["task"], config["model"])
        skew = any(isinstance(p, ScaledCayley | NeumannCayley | Exponential) for p in kept)
        slower = 1.0 if defaults.lr_orthogonal is None or not skew else defaults.lr_orthogonal / defaults.lr
        completed["lr_orthogonal"] = config["lr"] * slower
    if config["optimizer_orthogonal"] is None:
        geodesic = any(isinstance(p, GeodesicUnitary) for p in kept)
        completed["optimizer_orthogonal"] = "sgd" if geodesic else config["optimizer"]
    return completed
