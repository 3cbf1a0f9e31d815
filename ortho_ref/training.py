"""The training loop: batch -> loss and gradients -> clip -> deltas -> retract; and the run it leaves in a folder.

A run's folder
    config.json          what the caller says the run is; "network" are the arguments of `models.network`
    metrics.jsonl        a line per logging interval: iteration, loss (mean over the interval), gradient_norm (before
                         clipping), learning_rates, steps_per_second; on the held-out set, evaluation_loss and the
                         metric; weights: for each orthogonal weight defect, Neumann condition, forced resets, as they
                         were before the update: the U that its loss is of.  (After it, intervals of `reset_every`
                         would show nothing but exact inverses.)
    last.safetensors     the whole state, every `checkpoint_every` updates and at the end
    best.safetensors     the same at the smallest evaluation_loss so far
    summary.json         when the run is finished: `summarize`
    lock                 held by the process that writes here

A run that stops, by a signal, an error or the loss of power, is resumed from last.safetensors: metrics.jsonl is cut to
what the checkpoint records, and every later bit of weights and metrics is what it would have been (steps_per_second
aside).  Data are drawn by the task from the run's seed, so that a resumed run draws the batches behind it again,
without training on them; the generator must then be where the checkpoint left it.

On a device an update copies its batch there (and what dropout draws), and one thing back: the norms that all Neumann
series have to know, in one copy.  Losses, gradient norms and the outcome of every check stay there until they are read
together, before a line of metrics and before a checkpoint.  An error then
names the iterations it is about; from the first that failed on, parameters stay as they are.  What CuPy itself waits
for stays: the error codes of lu_factor and lu_solve, in exact inverses (`ScaledCayley`, `GeodesicUnitary`: every
update; `NeumannCayley`: its resets), and of expm (`Exponential`).
"""

import contextlib
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ortho_ref import checkpoint, models
from ortho_ref.backend import NotFiniteError, is_array, library_of, to_device, to_host, xp_of
from ortho_ref.checks import Checks, check, number
from ortho_ref.losses import LOSSES, METRICS
from ortho_ref.network import Network
from ortho_ref.optimizers import Optimizer, clip_by_global_norm, clip_by_value, global_norm
from ortho_ref.parametrizations import Params
from ortho_ref.recurrent import NamedBuffers
from ortho_ref.subnormals import subnormals_as_zero
from ortho_ref.task import Batch, Task, check_integer

Record = dict[str, Any]
CONFIG, METRICS_FILE, SUMMARY = "config.json", "metrics.jsonl", "summary.json"
LAST, BEST = "last.safetensors", "best.safetensors"
#: In the order in which they are written.
RUN_FILES = (CONFIG, METRICS_FILE, LAST, BEST, SUMMARY)
#: What a checkpoint holds.
STATE = (
    *("settings", "iteration", "params", "buffers", "optimizer", "carried"),
    *("generators", "interval", "best", "metrics_size"),
)


@dataclass
class Trainer:
    """Trains a network on a task.

    seed: of everything drawn: initial weights, data, dropout.  device: "cpu" or "gpu".  dtype: of parameters.
    log_every: updates per line of metrics.  evaluate_every: updates between runs of the held-out set.
    checkpoint_every: updates between checkpoints.  The last update is followed by all three.
    clip_value: every entry of the gradients is clipped to +- this.  clip_norm: the gradients are scaled so that their
    global norm is at most this.  One of the two, or neither.

    iteration: updates done.
    """

    network: Network
    task: Task
    optimizer: Optimizer
    iterations: int
    batch_size: int
    seed: int = 0
    log_every: int = 50
    evaluate_every: int = 1000
    checkpoint_every: int = 1000
    clip_value: float | None = None
    clip_norm: float | None = None
    device: str = "cpu"
    dtype: Any = np.float32

    def __post_init__(self) -> None:
        for name in ("iterations", "batch_size", "log_every", "evaluate_every", "checkpoint_every"):
            check_integer(name, getattr(self, name))
        check_integer("seed", self.seed, least=0)
        for name in ("clip_value", "clip_norm"):
            limit = getattr(self, name)
            if limit is not None and not 0 < limit < math.inf:
                raise ValueError(f"{name} is {limit}; allowed: a finite number above 0, or None")
        if self.clip_value is not None and self.clip_norm is not None:
            raise ValueError(f"clip_value is {self.clip_value} and clip_norm is {self.clip_norm}; allowed: one of them")
        network, task = self.network, self.task
        for what, own, its in (
            ("loss", network.loss, task.loss),
            ("readout", network.readout, task.readout),
            ("output size", network.output_size, task.output_size),
            ("input size", (network.layers[0].sizes or (None,))[0], task.input.size),
        ):
            if own != its:
                raise ValueError(f"the network's {what} is {own!r}; the task's is {its!r}")
        weights_rng, _, self._dropout_rng = self._generators()
        params, buffers = self.network.init(weights_rng, self.dtype)
        self.params: Params = to_device(params, self.device)
        self.buffers: NamedBuffers = to_device(buffers, self.device)
        self.iteration = 0
        self._carried: list[Any] | None = None
        self._total: Any = 0.0
        self._since = 0
        self._checks, self._settled = Checks(), 0
        self._best: float | None = None

    def _generators(self) -> list[np.random.Generator]:
        """Of weights, data, dropout."""
        return np.random.default_rng(self.seed).spawn(3)

    @subnormals_as_zero()
    def run(
        self,
        out: Path,
        config: Record | None = None,
        *,
        resume: bool = False,
        on_record: Callable[[Record], None] = lambda record: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> list[Record]:
        """Train in the folder `out`; return the lines of metrics.jsonl.

        config: JSON for config.json.  resume: go on from the folder's last checkpoint.  on_record gets each line as it
        is written.  should_stop is asked after each update: True saves and returns, with `iteration` < `iterations`.

        FileExistsError if out holds a run and resume is False, FileNotFoundError if it holds none and resume is True,
        BlockingIOError if another process is at it, ValueError if the run there is another one than this, or if this
        trainer has run and resume is False.
        FloatingPointError, naming the iteration and the parameter, when a loss, gradient or parameter is not finite;
        the last checkpoint stays as it was.
        """
        if self.iteration and not resume:
            raise ValueError(
                f"this trainer has done {self.iteration} updates; go on with resume=True, or make a new one"
            )
        config, out = json.loads(json.dumps(config or {})), Path(out)
        with _run_folder(out, config, resume) as self._check_held:
            size, data_state = 0, None
            if (out / LAST).exists():
                size, data_state = self._restore(out / LAST)
            elif resume and (self.iteration or (out / BEST).exists() or _size(out / METRICS_FILE)):
                raise ValueError(f"{out} has lost its {LAST}, which a run goes on from")
            batches = self._batches(data_state)
            with _metrics_file(out / METRICS_FILE, size) as (stream, records):
                if data_state is None:
                    self._save(out / LAST, stream)
                self._train(out, batches, stream, records, on_record, should_stop)
            if self.iteration == self.iterations:
                summary = summarize(records, self.task, self.network.count(self.params))
                self._check_held()
                checkpoint.write(out / SUMMARY, _json(summary, 2))
            return records

    def _train(
        self,
        out: Path,
        batches: Iterator[Batch],
        stream: BinaryIO,
        records: list[Record],
        on_record: Callable[[Record], None],
        should_stop: Callable[[], bool],
    ) -> None:
        timed, started = 0, time.perf_counter()
        while self.iteration < self.iterations:
            k = self.iteration + 1
            last = k == self.iterations
            evaluates = last or k % self.evaluate_every == 0
            logs = evaluates or k % self.log_every == 0
            health = self._health() if logs else {}
            gradient_norm = self.update(next(batches))
            timed += 1
            stop = should_stop()
            if logs:
                gradient_norm = self.settle(gradient_norm)
                record: Record = {
                    "iteration": self.iteration,
                    "loss": self._total / self._since,
                    "gradient_norm": gradient_norm,
                    "learning_rates": self.optimizer.rates(self.iteration - 1),
                    "steps_per_second": timed / (time.perf_counter() - started),
                    "weights": health,
                }
                self._total, self._since = 0.0, 0
                if evaluates:
                    try:
                        record |= self.evaluate()
                    except NotFiniteError as error:
                        raise self._not_finite(f"in the evaluation, {error}") from error
                    if not math.isfinite(record["evaluation_loss"]):
                        raise self._not_finite(f"evaluation loss is {record['evaluation_loss']}")
                self._check_held()
                records.append(record)
                stream.write(_json(record))
                stream.flush()
                if evaluates and (self._best is None or record["evaluation_loss"] < self._best):
                    self._best = record["evaluation_loss"]
                    self._save(out / BEST, stream)
                on_record(record)
            if last or stop or self.iteration % self.checkpoint_every == 0:
                self._save(out / LAST, stream)
            if stop:
                return
            if not self._since:
                timed, started = 0, time.perf_counter()

    @subnormals_as_zero()
    def update(self, batch: Batch) -> Any:
        """One update on a batch; the norm of its gradients before clipping.  FloatingPointError as `run`.

        On a device the norm is a 0-d array, and `settle` raises the errors of values.
        """
        self.iteration += 1
        with self._checks.deferred(self.iteration):
            return self._update(_moved(batch, self.params))

    def _update(self, batch: Batch) -> Any:
        h0 = self._carried if batch.carries_state else None
        try:
            loss, gradients, result = self.network.loss_and_gradients(
                self.params, self.buffers, batch.x, batch.y, batch.mask, h0, self._dropout_rng
            )
        except NotFiniteError as error:
            raise self._not_finite(str(error)) from error
        self._carried = result.last
        self._kept = result  # until the next is there: memory handed back to the system costs more than the mathematics
        norm = global_norm(gradients)
        try:
            finite = xp_of(norm).isfinite(norm)
            check(finite, NotFiniteError("gradient norm is not finite"), lambda: f"gradient norm is {norm}")
        except NotFiniteError as error:
            raise self._not_finite(str(error), gradients, "gradient of") from error
        if self.clip_value is not None:
            gradients = clip_by_value(gradients, self.clip_value)
        if self.clip_norm is not None:
            gradients, _ = clip_by_global_norm(gradients, self.clip_norm)
        deltas = {name: self.optimizer.delta(name, self.params[name], g) for name, g in gradients.items()}
        if (good := self._checks.good) is not None:  # what has failed is still to be seen in the parameters
            deltas = {name: xp_of(good).where(good, delta, 0) for name, delta in deltas.items()}
        try:
            self.params, self.buffers = self.network.retract(self.params, self.buffers, deltas)
        except NotFiniteError as error:
            raise self._not_finite(str(error), deltas, "delta of") from error
        self._total, self._since = self._total + number(loss), self._since + 1
        return norm

    def settle(self, gradient_norm: Any = 0.0) -> float:
        """Read, in one copy, what updates on a device have left there since the last call, and this norm; return it.

        The first error of `update` that was due is raised, naming the iterations.  On the host nothing is left.
        """
        first, self._settled = self._settled + 1, self.iteration
        (self._total, norm), failure = self._checks.settle(self._total, gradient_norm)
        if failure is None:
            return norm
        where = f"between iterations {first} and {self.iteration}, in {failure.turn}"
        if first == self.iteration:
            where = f"iteration {first}"
        if isinstance(failure.error, NotFiniteError):
            raise self._not_finite(str(failure.error), where=where) from failure.error
        raise type(failure.error)(f"{where}: {failure.error}")

    def _health(self) -> dict[str, dict[str, float]]:
        self.settle()
        try:
            return self.network.health(self.buffers)
        except np.linalg.LinAlgError as error:
            raise self._not_finite(f"after it, {error}") from error

    def evaluate(self) -> Record:
        """`evaluate` with the weights as they are."""
        return evaluate(self.network, self.params, self.buffers, self.task)

    def _batches(self, state: dict[str, Any] | None) -> Iterator[Batch]:
        """The task's batches from number `iteration` on; state: where the generator must be then, if that is known."""
        self._data_rng = self._generators()[1]
        batches = self.task.batches(self._data_rng, self.batch_size)
        for _ in range(self.iteration):
            next(batches)
        if state not in (None, self._data_rng.bit_generator.state):
            raise ValueError(f"the task's data are not the run's: {self.iteration} batches took other draws")
        return batches

    def _save(self, path: Path, stream: BinaryIO) -> None:
        """Write the whole state to `path`, after the metrics.  FloatingPointError if a part of it is not finite."""
        self.settle()
        self._check_held()
        state = {  # as in STATE
            "settings": self._settings(),
            "iteration": self.iteration,
            "params": self.params,
            "buffers": self.buffers,
            "optimizer": self.optimizer.state(),
            "carried": self._carried,
            "generators": {
                "data": self._data_rng.bit_generator.state,
                "dropout": self._dropout_rng.bit_generator.state,
            },
            "interval": {"total": self._total, "since": self._since},
            "best": self._best,
            "metrics_size": stream.tell(),
        }
        arrays = self._arrays() | _arrays_in(state["optimizer"], "optimizer")
        if not all(np.isfinite(to_host(array)).all() for array in arrays.values()):
            raise self._not_finite("the update is not finite", arrays)
        os.fsync(stream.fileno())
        checkpoint.save(path, state)

    def _settings(self) -> Record:
        """What a resumed trainer must have alike, for its weights and metrics to be the run's."""
        names = ("iterations", "batch_size", "seed", "log_every", "evaluate_every", "clip_value", "clip_norm")
        return {name: getattr(self, name) for name in names}

    def _arrays(self) -> Params:
        """Parameters, and the U built from them."""
        return self.params | {f"{name}.U": own["U"] for name, own in self.buffers.items()}

    def _restore(self, path: Path) -> tuple[int, dict[str, Any]]:
        """Take up a checkpoint; the size of metrics.jsonl and the state of the data's generator it records."""
        state = _load_state(path)
        for name, value in self._settings().items():
            if state["settings"].get(name) != value:
                raise ValueError(f"{name} is {value!r}; {path} has {state['settings'].get(name)!r}")
        _check_same(path, self.params, state["params"])
        moved = to_device({name: state[name] for name in ("params", "buffers", "carried", "optimizer")}, self.device)
        self.params, self.buffers, self._carried = moved["params"], moved["buffers"], moved["carried"]
        self.optimizer.load(moved["optimizer"])
        self.iteration, self._best = state["iteration"], state["best"]
        self._total, self._since = state["interval"]["total"], state["interval"]["since"]
        self._checks, self._settled = Checks(), self.iteration
        self._dropout_rng.bit_generator.state = state["generators"]["dropout"]
        return state["metrics_size"], state["generators"]["data"]

    def _not_finite(
        self, what: str, arrays: Params | None = None, kind: str = "parameter", where: str | None = None
    ) -> FloatingPointError:
        arrays = self._arrays() if arrays is None else arrays
        bad = [name for name, array in arrays.items() if not np.isfinite(to_host(array)).all()]
        found = f"not finite: the {kind} {', '.join(bad)}" if bad else f"every {kind.removesuffix(' of')} is finite"
        return FloatingPointError(f"{where or f'iteration {self.iteration}'}: {what}; {found}")


@subnormals_as_zero()
def evaluate(network: Network, params: Params, buffers: NamedBuffers, task: Task) -> Record:
    """{"evaluation_loss": ..., task.metric: ...}: means over the task's held-out set, each entry alike."""
    loss, metric, entries = 0.0, 0.0, 0
    carried: list[Any] | None = None
    for batch in task.evaluation():
        x, y, mask, carries_state = _moved(batch, params)
        result = network.forward(params, buffers, x, carried if carries_state else None)
        carried = result.last
        own = float(LOSSES[task.loss](result.outputs, y, mask)[0])
        count = y.size if mask is None else int(mask.sum()) * (y.size // mask.size)
        loss += own * count
        metric += METRICS[task.metric](own, result.outputs, y, mask) * count
        entries += count
    return {"evaluation_loss": loss / entries, task.metric: metric / entries}


def _moved(batch: Batch, params: Params) -> Batch:
    """A batch in the precision and on the device of the parameters."""
    own = next(iter(params.values()))
    if batch.x.dtype.kind == "f":
        batch = batch._replace(x=batch.x.astype(own.real.dtype, copy=False))
    moved: Batch = to_device(batch, library_of(own).device)
    return moved


class Loaded(NamedTuple):
    """A network with its parameters and buffers, on the host: network.forward(params, buffers, x)."""

    network: Network
    params: Params
    buffers: NamedBuffers


def load(run: Path | str, which: str | None = None) -> Loaded:
    """The network of a run's folder with the weights of its "best" or "last" checkpoint.

    which: None takes the best, or the last where nothing was evaluated yet.  OSError, naming the file, if there is
    none; ValueError for a run whose config.json names no network, and for a file that is not a checkpoint.
    """
    run = Path(run)
    if which not in (None, "best", "last"):
        raise ValueError(f"which is {which!r}; allowed: 'best', 'last', None")
    config = read_config(run)
    if "network" not in config:
        raise ValueError(f"{run / CONFIG} names no network; it needs the arguments of models.network under 'network'")
    path = run / (LAST if which == "last" or (which is None and not (run / BEST).exists()) else BEST)
    network, state = models.network(**config["network"]), _load_state(path)
    _check_same(path, network.init(np.random.default_rng(0), _dtype(state["params"]))[0], state["params"])
    return Loaded(network, state["params"], state["buffers"])


def read_config(run: Path) -> Record:
    """config.json of a run's folder.  FileNotFoundError if there is none, ValueError if it is not JSON."""
    try:
        data = (run / CONFIG).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{run} holds no run: there is no {CONFIG} in it") from None
    except OSError as error:
        raise type(error)(f"{run / CONFIG}: {error.strerror}") from error
    try:
        config: Record = json.loads(data)
    except ValueError as error:
        raise ValueError(f"{run / CONFIG} is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{run / CONFIG} holds a {type(config).__name__}; expected a JSON object")
    return config


def read_metrics(run: Path) -> list[Record]:
    """The lines of metrics.jsonl, without one that is being written.  FileNotFoundError if there is none."""
    try:
        data = (run / METRICS_FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{run} holds no run: there is no {METRICS_FILE} in it") from None
    return _lines(run / METRICS_FILE, data[: data.rfind(b"\n") + 1])


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
        task.metric: over(task.metric, min if task.metric == "bits_per_character" else max),
        "steps_per_second": statistics.median(record["steps_per_second"] for record in records),
    }
    for key, name in (("defect", "worst_defect"), ("condition", "worst_condition")):
        values = [figures[key] for figures in health if key in figures]
        if values:
            summary[name] = max(values)
    resets = [figures.get("forced_resets") for figures in records[-1]["weights"].values()]
    if any(count is not None for count in resets):
        summary["forced_resets"] = sum(count for count in resets if count is not None)
    return summary


@contextlib.contextmanager
def _run_folder(out: Path, config: Record, resume: bool) -> Iterator[Callable[[], None]]:
    """Hold the folder `out`, with its config.json written or, to resume, compared; yields the lock's check."""

    def check() -> None:
        found = [name for name in RUN_FILES if (out / name).exists()]
        if found and not resume:
            raise FileExistsError(
                f"out is {out}, which holds a run already ({found[0]}); choose another folder, or resume it"
            )
        if resume:
            present = read_config(out)
            for key in sorted(present.keys() | config.keys()):
                if present.get(key) != config.get(key):
                    raise ValueError(f"{key} is {config.get(key)!r}; the run in {out} has {present.get(key)!r}")

    with contextlib.ExitStack() as stack:
        try:
            check()  # before anything is made
            out.mkdir(parents=True, exist_ok=True)
            checkpoint.sync_folder(out.parent)
            held = stack.enter_context(checkpoint.locked(out))
        except OSError as error:
            if error.errno is None:  # says all already
                raise
            raise type(error)(f"out is {out}: {error.strerror}") from error
        check()  # another process may have begun in between
        if not resume:
            checkpoint.write(out / CONFIG, _json(config, 2))
        yield held


@contextlib.contextmanager
def _metrics_file(path: Path, size: int) -> Iterator[tuple[BinaryIO, list[Record]]]:
    """metrics.jsonl, cut to its first `size` bytes, to be written on; and the lines in these."""
    if _size(path) < size:
        raise ValueError(f"{path} is shorter than the {size} bytes that the checkpoint records")
    with open(path, "r+b" if path.exists() else "w+b") as stream:
        records = _lines(path, stream.read(size))
        stream.truncate(size)
        yield stream, records


def _size(path: Path) -> int:
    """Of a file, in bytes; 0 for none."""
    return path.stat().st_size if path.exists() else 0


def _lines(path: Path, data: bytes) -> list[Record]:
    """The JSON of each line; ValueError, naming the file and the line, for one that is none."""
    records = []
    for i, line in enumerate(data.splitlines(), 1):
        try:
            records.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path}: line {i} is not JSON: {error}") from None
        if not isinstance(records[-1], dict):
            raise ValueError(f"{path}: line {i} holds a {type(records[-1]).__name__}; expected a JSON object")
    return records


def _arrays_in(tree: Any, path: str) -> Params:
    """The arrays of floating-point numbers in nested dicts, by their path."""
    if isinstance(tree, dict):
        found: Params = {}
        for name, value in tree.items():
            found |= _arrays_in(value, f"{path}/{name}")
        return found
    return {path: tree} if is_array(tree) and tree.dtype.kind in "fc" else {}


def _load_state(path: Path) -> Record:
    """A checkpoint of a trainer; ValueError if it is another tree."""
    state = checkpoint.load(path)
    if missing := sorted(set(STATE) - state.keys()):
        raise ValueError(f"{path} is not a trainer's checkpoint: it has no {', '.join(missing)}")
    return state


def _check_same(path: Path, ours: Params, theirs: Params) -> None:
    """ValueError unless a checkpoint's parameters have the network's names, shapes and dtypes."""

    def form(params: Params) -> dict[str, str]:
        return {name: f"{value.dtype} {value.shape}" for name, value in params.items()}

    for name in sorted(ours.keys() | theirs.keys()):
        if form(ours).get(name) != form(theirs).get(name):
            raise ValueError(
                f"{path}: {name} is {form(theirs).get(name, 'missing')}; the network's is "
                f"{form(ours).get(name, 'missing')}"
            )


def _dtype(params: Params) -> np.dtype:
    """The real precision of parameters."""
    return np.dtype(next((value.real.dtype for value in params.values()), np.float32))


def _json(value: Record, indent: int | None = None) -> bytes:
    return (json.dumps(value, indent=indent) + "\n").encode()
