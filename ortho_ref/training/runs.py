"""Runs: a trainer with a cadence, and the folder it leaves (`run_folder` tells its files).

A run that stops, by a signal, an error or the loss of power, is resumed from last.safetensors: metrics.jsonl becomes
what the checkpoint has of it, and every later bit of weights and metrics is what it would have been (steps_per_second
aside).  So it is from previous.safetensors and best.safetensors, where the last one was damaged.  Data are drawn by the
task from the run's seed, so that a resumed run draws the batches behind it again, without training on them; the
generator must then be where the checkpoint left it.
"""

import contextlib
import copy
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ortho_ref import formats, models
from ortho_ref.backend import complex_dtype, is_array, to_device, to_host
from ortho_ref.boundary import kind_of
from ortho_ref.files import GONE, DamagedFile
from ortho_ref.losses import OF_THE_LOSS
from ortho_ref.network import Network
from ortho_ref.parametrizations import Params
from ortho_ref.printing import brief
from ortho_ref.recurrent import NamedBuffers, Recurrent
from ortho_ref.subnormals import subnormals_as_zero
from ortho_ref.training.forms import MOST
from ortho_ref.training.optimizers import as_real
from ortho_ref.training.run_folder import BEST, CHECKPOINTS, CONFIG, LAST, SUMMARY, RunFolder
from ortho_ref.training.task import Batch, Task, check_choice, check_integer
from ortho_ref.training.trainer import Record, Trainer, plain
from ortho_ref.trees import by_path, prefixed

#: Seconds that a log's interval takes at least.
_TICK = 1e-9


@dataclass
class TrainingRun(Trainer):
    """A trainer that goes through so many updates, and notes them in a folder.

    Parameters
    ----------
    iterations : int
        Updates.
    log_every : int
        Updates per line of metrics.
    evaluate_every : int
        Updates between runs of the held-out set.
    checkpoint_every : int
        Updates between checkpoints.  The last update is followed by all three.

    See Also
    --------
    ortho_ref.training.trainer.Trainer : the other parameters, and the attributes.
    """

    iterations: int = field(kw_only=True)
    log_every: int = field(default=50, kw_only=True)
    evaluate_every: int = field(default=1000, kw_only=True)
    checkpoint_every: int = field(default=1000, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("iterations", "log_every", "evaluate_every", "checkpoint_every"):
            check_integer(name, getattr(self, name), most=MOST)
        super().__post_init__()
        self._best: float | None = None

    @subnormals_as_zero()
    def run(
        self,
        out: Path | str | RunFolder,
        config: Record | None = None,
        *,
        resume: bool = False,
        which: str | None = None,
        lengthen: bool = False,
        on_record: Callable[[Record], None] = lambda record: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> list[Record]:
        """Train in the folder `out`.

        Parameters
        ----------
        out : Path, str or RunFolder
            The folder; it is made.  One that is held already stays so.
        config : dict, optional
            JSON for config.json; "data" are the task's own unless given, so that a run goes on with its data alone.
        resume : bool
            Go on from a checkpoint of the folder.
        which : str, optional
            From "last", "previous" or "best"; the last unless given.  What came after it is trained again.
        lengthen : bool
            Whether the run may have fewer `iterations` than this: it goes on to these, finished or not.  Weights and
            metrics are those of a run that was begun with them, but for a schedule that depends on the length, which
            is the caller's to refuse, and the line of metrics at the earlier end, with its evaluation: the loss of the
            next line is the mean since then.
        on_record : callable
            Gets each line of metrics.jsonl as it is written.
        should_stop : callable
            Asked after each update: True saves and returns, with `iteration` < `iterations`.

        Returns
        -------
        list of dict
            The lines of metrics.jsonl.

        Raises
        ------
        FileExistsError
            If out holds a run and resume is False.
        FileNotFoundError
            If it holds none and resume is True.
        BlockingIOError
            If another process is at it.
        TypeError
            If config holds what JSON cannot.
        ValueError
            If the run there is another one than this, if config's network is not the trainer's, or if this one has
            run and resume is False; `DamagedFile`, naming the file and what is whole, if something there is not what
            was written.
        FloatingPointError
            Naming the iteration and the parameter, when a loss, gradient or parameter is not finite; the last
            checkpoint stays as it was.
        """
        if self.iteration and not resume:
            raise ValueError(
                f"this trainer has done {self.iteration} updates; go on with resume=True, or make a new one"
            )
        if which is not None:
            check_choice("which", which, CHECKPOINTS)
            if not resume:
                raise ValueError(f"which is {which!r}, but resume is False")
        if lengthen and not resume:
            raise ValueError("lengthen is True, but resume is False")
        config = _as_json(config or {})
        if (data := getattr(self.task, "data", None)) is not None:
            config = {"data": data._asdict()} | config
        _check_network(self.network, config)
        with _held(out, "a" if resume else "w") as folder:
            if resume:
                _check_config(folder, config)
            state = self._go_on(folder, which, lengthen) if resume else None
            batches = self.batches(state and state["generators"]["data"])
            if resume:
                folder.go_on(which, state)
            else:
                folder.begin(config)
            if state is None:
                self._save(folder, "last")
            else:
                self._leave_earlier_end(folder, state)
            self._train(folder, batches, on_record, should_stop)
            if self.iteration == self.iterations:
                folder.write_summary(summarize(folder.records, self.task, self.network.count(self.params)))
            return folder.records

    def _leave_earlier_end(self, folder: RunFolder, state: Record) -> None:
        """Remove what a run that goes on had at an earlier end."""
        if state["settings"]["iterations"] < self.iterations:
            self._save(folder, "last")  # it knows of the new end before the summary of the old one goes
            if self._best is None:  # there may be one of the old end, where the longer run has no evaluation
                folder.remove(BEST)
        if self.iteration < self.iterations:  # by then, even where what lengthened the run was killed before
            folder.remove(SUMMARY)

    def _train(
        self,
        folder: RunFolder,
        batches: Iterator[Batch],
        on_record: Callable[[Record], None],
        should_stop: Callable[[], bool],
    ) -> None:
        timed, started = 0, time.perf_counter()
        while self.iteration < self.iterations:
            k = self.iteration + 1
            last = k == self.iterations
            evaluates = last or k % self.evaluate_every == 0
            logs = evaluates or k % self.log_every == 0
            health = self.health() if logs else {}
            gradient_norm = self.update(next(batches))
            timed += 1
            stop = should_stop()
            if logs:
                record: Record = {
                    "iteration": self.iteration,
                    "loss": self.take_loss(),
                    "gradient_norm": gradient_norm,
                    "learning_rates": self.optimizer.rates(self.iteration - 1),
                    # a clock may stand still
                    "steps_per_second": timed / max(time.perf_counter() - started, _TICK),
                    "weights": health,
                }
                if evaluates:
                    record |= self.evaluate()
                folder.add(record)
                if self.averaging is not None and k % self.evaluate_every == 0:  # a longer run has no other
                    self.averaging.note(record["evaluation_loss"])
                if evaluates and (self._best is None or record["evaluation_loss"] < self._best):
                    self._best = record["evaluation_loss"]
                    self._save(folder, "best")
                on_record(record)
            if last or stop or self.iteration % self.checkpoint_every == 0:
                self._save(folder, "last")
            if stop:
                return
            if logs:
                timed, started = 0, time.perf_counter()

    @property
    def settings(self) -> Record:
        """What a resumed run must have alike, for its weights and metrics to be the run's."""
        own = ("iterations", "log_every", "evaluate_every")
        return super().settings | {name: plain(getattr(self, name)) for name in own}

    def _save(self, folder: RunFolder, name: str) -> None:
        """Write the whole state.  FloatingPointError if a part of it is not finite."""
        folder.write_state(name, self.state() | {"best": self._best})

    def _go_on(self, folder: RunFolder, which: str | None, lengthen: bool) -> Record | None:
        """The checkpoint, of this trainer, that is taken up; None where the run died before its first one."""
        state = folder.state_to_go_on(which)
        if state is None:
            if self.iteration:
                raise DamagedFile(folder.path / LAST, GONE)
            return None
        path = folder.path / CHECKPOINTS[which or "last"]
        self._check_settings(path, state, lengthen)
        self._check_arrays(path, state)
        with _of_this_trainer(path):
            self.load(state)
        self._best = state["best"]
        if state["best"] is not None:
            best = folder.state("best")
            self._check_best(folder.path / BEST, best)
            if best["iteration"] > state["iteration"]:  # it has overwritten that of then, and may not come again
                self._best = None
        return state

    def _check_settings(self, path: Path, state: Record, lengthen: bool) -> None:
        """ValueError where a checkpoint is of a run with other settings; one that was lengthened had fewer updates."""
        for name, value in self.settings.items():
            theirs = state["settings"].get(name)
            longer = name == "iterations" and lengthen and isinstance(theirs, int) and theirs < value
            if theirs != value and not longer:
                raise ValueError(f"{name} is {value!r}; {path} has {theirs!r}")
        if (its := state.get("engine", "fused")) != self.engine:
            raise ValueError(f"engine is {self.engine!r}; {path} is of {its!r}")

    def begin_with(self, run: "Path | str | Loaded", which: str | None = None) -> None:
        """Begin with the weights of another run, in place of the initial ones; what counts updates begins at 0.

        run: its folder, or what was loaded from it; which: the checkpoint.  Errors as of `load`; ValueError if this has
        done updates already, or the weights there have other names, shapes or dtypes, or another number of -1s in a D.
        """
        if self.iteration:
            raise ValueError(f"this trainer has done {self.iteration} updates; make a new one")
        path = Path("the weights" if isinstance(run, Loaded) else run)
        _, params, buffers = run if isinstance(run, Loaded) else load(run, which)
        _check_same(path, _forms(self.params, self.buffers), _forms(params, buffers))
        _check_signs(path, self.buffers, buffers)
        for i, layer in enumerate(self.network.layers):
            own = prefixed(f"layer{i}.", layer.constrained)
            buffers = buffers | {name: kept.begun(buffers[name]) for name, kept in own.items()}
        self.params, self.buffers = to_device((params, buffers), self.device)

    def _check_best(self, path: Path, state: Record) -> None:
        """ValueError unless the best checkpoint could be gone on from, too."""
        self._check_settings(path, state, lengthen=True)
        self._check_arrays(path, state)
        with _of_this_trainer(path):
            copy.deepcopy(self.optimizer).load(state["optimizer"])

    def _check_arrays(self, path: Path, state: Record) -> None:
        """ValueError unless the arrays of a checkpoint are as this trainer's, and finite."""
        _check_same(path, _forms(self.params, self.buffers), _forms(state["params"], state["buffers"]))
        if ("average" in state) != (self.averaging is not None):
            raise ValueError(f"{path} has {'an' if 'average' in state else 'no'} average; average_after says otherwise")
        _check_average(path, state)
        _check_carried(path, self.network, state["carried"], _dtype(state["params"]))
        _check_moments(path, state["optimizer"], state["params"])
        _check_finite(path, state)


@contextlib.contextmanager
def _of_this_trainer(path: Path) -> Iterator[None]:
    """ValueError, naming the checkpoint, where what it holds cannot be taken up."""
    try:
        yield
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"{path}: {error}") from error


class Loaded(NamedTuple):
    """A network with its parameters and buffers, on the host: network.forward(params, buffers, x)."""

    network: Network
    params: Params
    buffers: NamedBuffers

    def __repr__(self) -> str:
        return brief(self)


def load(run: Path | str | RunFolder, which: str | None = None) -> Loaded:
    """The network of a run's folder with the weights of one of its checkpoints.

    which: "best", "last" or "previous"; the best unless given, or the last where nothing was evaluated yet.
    FileNotFoundError if there is none; ValueError for a run whose config.json names no network, or is of another
    format; `DamagedFile`, naming the file and what is whole, if one of the files is not what was written.
    """
    return loaded(run, which)[0]


def loaded(run: Path | str | RunFolder, which: str | None = None) -> tuple[Loaded, str]:
    """As `load`, and the SHA-256 of the checkpoint that was read."""
    if which is not None:
        check_choice("which", which, CHECKPOINTS)
    with contextlib.nullcontext(run) if isinstance(run, RunFolder) else RunFolder(run) as folder:
        network = network_of(folder)
        which = which or folder.best_or_last()
        state, path = folder.state(which), folder.path / CHECKPOINTS[which]
    params, buffers = state["params"], state["buffers"]
    _check_sizes(path, network, params, buffers)
    _check_finite(path, {"params": params, "buffers": buffers})
    _check_same(path, _forms(*network.init(np.random.default_rng(0), dtype=_dtype(params))), _forms(params, buffers))
    _check_average(path, state)
    if mean := state.get("average", {}).get("params"):  # what was evaluated
        _check_finite(path, {"average": mean})
        params, buffers = mean, network.rebuild(mean, buffers)
    return Loaded(network, params, buffers), state["sha256"]


def check_run(folder: RunFolder, which: str | None = None) -> None:
    """Check a run's config and checkpoint before memory is asked for what they describe; errors as of `load`."""
    if "network" in folder.config and (state := folder.state_to_go_on(which)) is not None:
        path = folder.path / CHECKPOINTS[which or "last"]
        _check_sizes(path, network_of(folder), state["params"], state["buffers"])


def network_of(folder: RunFolder) -> Network:
    """The network that a run's config names.  ValueError, naming the file, for arguments that it cannot have."""
    path = folder.path / CONFIG
    if "network" not in folder.config:
        raise ValueError(f"{path} names no network; it needs the arguments of models.network under 'network'")
    return _made(folder.config["network"], f"{path}: network")


def _made(arguments: Record, of: str) -> Network:
    """The network of these arguments.  ValueError, saying whose they are, where it cannot have them."""
    try:
        return models.network(**arguments)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{of}: {error}") from error


def summarize(records: list[Record], task: Task, parameters: int) -> Record:
    """What is left to say of a finished run.

    evaluation_loss: its minimum and where, the final one, and the median of the last 20 evaluations: a minimum alone
    hides spikes.  metric: the same way.  worst_defect, worst_condition: over the logged lines.
    """
    evaluations = [record for record in records if "evaluation_loss" in record]
    health = [figures for record in records for figures in record["weights"].values()]

    def over(key: str, best: Callable[..., Record]) -> Record:
        at = best(evaluations, key=lambda record: record[key])
        median = statistics.median(record[key] for record in evaluations[-20:])
        name = "minimum" if best is min else "maximum"
        return {name: at[key], "at": at["iteration"], "final": evaluations[-1][key], "median_of_last_20": median}

    summary = {
        "iterations": records[-1]["iteration"],
        "parameters": parameters,
        "baseline": task.baseline,
        "evaluations": len(evaluations),
        "evaluation_loss": over("evaluation_loss", min),
        task.metric: over(task.metric, min if task.metric in OF_THE_LOSS else max),
        "steps_per_second": statistics.median(record["steps_per_second"] for record in records),
    }
    for key, name in (("defect", "worst_defect"), ("condition", "worst_condition")):
        values = [figures[key] for figures in health if key in figures]
        if values:
            summary[name] = max(values)
    last = records[-1]["weights"].values()
    if resets := [figures["forced_resets"] for figures in last if "forced_resets" in figures]:
        summary["forced_resets"] = sum(resets)
    return summary


def _as_json(config: Record) -> Record:
    """A config as config.json gives it back; an error names the entry that JSON cannot hold."""
    if not isinstance(config, dict):
        raise TypeError(f"config is {kind_of(config)}; allowed: a dict, as {{'network': options}}")
    found: Record = {}
    for key, value in config.items():
        try:
            found |= json.loads(formats.to_json({key: value}))
        except (TypeError, ValueError) as error:
            what = "the arguments of models.network" if key == "network" else "numbers, words, lists and dicts of them"
            raise type(error)(f"config[{key!r}] is {kind_of(value)}, and {error}; allowed: {what}") from None
    return found


def _check_network(network: Network, config: Record) -> None:
    """ValueError where `load` would build another network than the trainer's: the weights may fit it all the same."""
    if "network" in config:
        told = _made(config["network"], "config['network']")
        parts: list[tuple[Any, Any]] = [*zip(told.layers, network.layers, strict=False), (told, network)]
        for one, other in parts:
            if _gives(one) != _gives(other):
                raise ValueError(f"config['network'] makes {one}; the trainer has {other}")


def _gives(part: Network | Recurrent) -> list[Any]:
    """What decides what a network or a layer gives: all of it but first values and engines."""
    if isinstance(part, Recurrent):
        return [type(part.cell), vars(part.cell), part.parametrizations, part.trained_h0, part.sizes]
    others = (getattr(part, own.name) for own in fields(part) if own.name != "layers")
    return [type(part), [_gives(layer) for layer in part.layers], *others]


@contextlib.contextmanager
def _held(out: Path | str | RunFolder, mode: str) -> Iterator[RunFolder]:
    """The folder, held until the end; one that is held already stays so."""
    if not isinstance(out, RunFolder):
        with RunFolder(out, mode) as folder:
            yield folder
    elif out.mode == "r":
        raise ValueError(f"out is {out.path}, opened to be read; open it with mode 'w', or 'a' to resume")
    else:
        yield out


def _check_config(folder: RunFolder, config: Record) -> None:
    """ValueError where the run that is there is another than this."""
    present = folder.config
    for key in sorted(present.keys() | config.keys()):
        ours, theirs, where = config.get(key), present.get(key), key
        while isinstance(ours, dict) and isinstance(theirs, dict) and ours != theirs:
            inner = next(name for name in sorted(ours.keys() | theirs.keys()) if ours.get(name) != theirs.get(name))
            ours, theirs, where = ours.get(inner), theirs.get(inner), f"{where}: {inner}"
        if ours != theirs:
            raise ValueError(f"{where} is {ours!r}; the run in {folder.path} has {theirs!r}")


def _check_sizes(path: Path, network: Network, params: Params, buffers: NamedBuffers) -> None:
    """ValueError unless a checkpoint's weights have the sizes of the network's, which is not made for it."""
    shapes: dict[str, tuple[int, ...]] = {}
    there: dict[str, Any] = {**params}
    for i, layer in enumerate(network.layers):
        assert layer.sizes is not None
        shapes |= prefixed(f"layer{i}.", layer.cell.shapes(*layer.sizes))
        there |= {f"layer{i}.{name}": buffers.get(f"layer{i}.{name}", {}).get("U") for name in layer.constrained}
    for name, shape in (shapes | network.shapes_around()).items():
        own = there.get(name)
        found = own.shape if own is not None and is_array(own) else "missing"
        if found != shape:
            raise ValueError(f"{path}: {name} is {found}; the network's is {shape}")


def _check_same(path: Path, ours: dict[str, str], theirs: dict[str, str]) -> None:
    """ValueError unless a checkpoint has the network's names, shapes and dtypes."""
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            raise ValueError(
                f"{path}: {name} is {theirs.get(name, 'missing')}; the network's is {ours.get(name, 'missing')}"
            )


def _check_signs(path: Path, ours: NamedBuffers, theirs: NamedBuffers) -> None:
    """ValueError unless every D there, which is an option and not trained, is the network's."""
    for name in (name for name in ours if "D" in ours[name]):
        own, its = (int((to_host(buffers[name]["D"]) < 0).sum()) for buffers in (ours, theirs))
        if own != its:
            raise ValueError(f"{path}: negative_ones of {name} is {its}; the network's is {own}")


def _check_average(path: Path, state: Record) -> None:
    """ValueError unless the mean of a checkpoint, if it has one, is of its parameters."""
    if mean := state.get("average", {}).get("params"):
        _check_same(path, _forms(state["params"], {}), _forms(mean, {}))


def _check_carried(path: Path, network: Network, carried: Any, dtype: np.dtype) -> None:
    """ValueError unless the states that the next window goes on from, if there are any, are the layers'."""
    if carried is None:
        return
    if len(carried) != len(network.layers):
        raise ValueError(f"{path}: carried is of {len(carried)} layers; the network has {len(network.layers)}")
    for i, (layer, own) in enumerate(zip(network.layers, carried, strict=True)):
        assert layer.sizes is not None
        names, parts = layer.cell.states, own if isinstance(own, tuple) else (own,)
        expected = f"{complex_dtype(dtype) if layer.cell.complex else dtype} (B, {layer.sizes[1]})"
        found = [
            f"{part.dtype} (B, {part.shape[1]})" if is_array(part) and part.ndim == 2 else _form(part) for part in parts
        ]
        if found != [expected] * len(names) or len({len(part) for part in parts}) > 1:
            raise ValueError(
                f"{path}: carried/{i} is {', '.join(found)}; expected {', '.join([expected] * len(names))}"
            )


def _forms(params: Params, buffers: NamedBuffers) -> dict[str, str]:
    """Name -> dtype and shape, or the type of what is no array."""
    whole = params | {f"{name}/{buffer}": value for name, own in buffers.items() for buffer, value in own.items()}
    return {name: _form(value) for name, value in whole.items()}


def _form(value: Any) -> str:
    return f"{value.dtype} {value.shape}" if is_array(value) else type(value).__name__


def _check_moments(path: Path, tree: Any, params: Params) -> None:
    """ValueError unless what an optimizer keeps by parameters' names is of these, in their shapes and precision."""
    if not isinstance(tree, dict):
        return
    # of `ByName`, whose patterns may be parameters' whole names
    optimizers = {name for name, own in tree.items() if isinstance(own, dict) and _has_dicts(own)}
    names = tree.keys() - optimizers
    if not names.isdisjoint(params) and (others := sorted(names - params.keys())):
        raise ValueError(f"{path}: the optimizer knows {', '.join(others)}, which the network has not")
    for name, value in tree.items():
        if name in optimizers or name not in params or not isinstance(value, dict):
            _check_moments(path, value, params)
            continue
        expected = _form(as_real(params[name]))
        for key, own in value.items():
            if _form(own) != expected:
                raise ValueError(f"{path}: the optimizer's {key} of {name} is {_form(own)}; expected {expected}")


def _has_dicts(tree: Record) -> bool:
    return any(isinstance(own, dict) for own in tree.values())


def _check_finite(path: Path, tree: Record) -> None:
    """ValueError for an array with an entry that is not finite: none is saved."""
    for where, value in by_path(tree).items():
        if is_array(value) and value.dtype.kind in "fc" and not np.isfinite(value).all():
            raise ValueError(f"{path}: {where} has an entry that is not finite")


def _dtype(params: Params) -> np.dtype:
    """The real precision of parameters."""
    return np.dtype(next((value.real.dtype for value in params.values()), np.float32))
