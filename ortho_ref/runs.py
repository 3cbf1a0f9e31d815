"""Runs: a trainer with a cadence, and the folder it leaves.

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
"""

import contextlib
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ortho_ref import checkpoint, files, models
from ortho_ref.network import Network
from ortho_ref.parametrizations import Params
from ortho_ref.recurrent import NamedBuffers
from ortho_ref.subnormals import subnormals_as_zero
from ortho_ref.task import Batch, Task, check_integer
from ortho_ref.training import Record, Trainer

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
    ortho_ref.training.Trainer : the other parameters, and the attributes.
    """

    iterations: int = field(kw_only=True)
    log_every: int = field(default=50, kw_only=True)
    evaluate_every: int = field(default=1000, kw_only=True)
    checkpoint_every: int = field(default=1000, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("iterations", "log_every", "evaluate_every", "checkpoint_every"):
            check_integer(name, getattr(self, name))
        super().__post_init__()
        self._best: float | None = None
        self._still_held: Callable[[], None] = lambda: None

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
        """Train in the folder `out`.

        Parameters
        ----------
        out : Path
            The folder; it is made.
        config : dict, optional
            JSON for config.json.
        resume : bool
            Go on from the folder's last checkpoint.
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
        ValueError
            If the run there is another one than this, or if this one has run and resume is False.
        FloatingPointError
            Naming the iteration and the parameter, when a loss, gradient or parameter is not finite; the last
            checkpoint stays as it was.
        """
        if self.iteration and not resume:
            raise ValueError(
                f"this trainer has done {self.iteration} updates; go on with resume=True, or make a new one"
            )
        config, out = json.loads(json.dumps(config or {})), Path(out)
        with _run_folder(out, config, resume) as self._still_held:
            size, data_state = 0, None
            if (out / LAST).exists():
                size, data_state = self._restore(out / LAST)
            elif resume and (self.iteration or (out / BEST).exists() or _size(out / METRICS_FILE)):
                raise ValueError(f"{out} has lost its {LAST}, which a run goes on from")
            batches = self.batches(data_state)
            with _metrics_file(out / METRICS_FILE, size) as (stream, records):
                if data_state is None:
                    self._save(out / LAST, stream)
                self._train(out, batches, stream, records, on_record, should_stop)
            if self.iteration == self.iterations:
                summary = summarize(records, self.task, self.network.count(self.params))
                self._still_held()
                files.write(out / SUMMARY, _json(summary, 2))
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
            health = self.health() if logs else {}
            gradient_norm = self.update(next(batches))
            timed += 1
            stop = should_stop()
            if logs:
                gradient_norm = self.settle(gradient_norm)
                record: Record = {
                    "iteration": self.iteration,
                    "loss": self.take_loss(),
                    "gradient_norm": gradient_norm,
                    "learning_rates": self.optimizer.rates(self.iteration - 1),
                    "steps_per_second": timed / (time.perf_counter() - started),
                    "weights": health,
                }
                if evaluates:
                    record |= self.evaluate()
                self._still_held()
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
            if logs:
                timed, started = 0, time.perf_counter()

    @property
    def settings(self) -> Record:
        """What a resumed run must have alike, for its weights and metrics to be the run's."""
        return super().settings | {name: getattr(self, name) for name in ("iterations", "log_every", "evaluate_every")}

    def _save(self, path: Path, stream: BinaryIO) -> None:
        """Write the whole state to `path`, after the metrics.  FloatingPointError if a part of it is not finite."""
        self.settle()
        self._still_held()
        state = self.state() | {"best": self._best, "metrics_size": stream.tell()}
        os.fsync(stream.fileno())
        checkpoint.save(path, state)

    def _restore(self, path: Path) -> tuple[int, dict[str, Any]]:
        """Take up a checkpoint; the size of metrics.jsonl and the state of the data's generator it records."""
        state = _load_state(path)
        for name, value in self.settings.items():
            if state["settings"].get(name) != value:
                raise ValueError(f"{name} is {value!r}; {path} has {state['settings'].get(name)!r}")
        _check_same(path, self.params, state["params"])
        self.load(state)
        self._best = state["best"]
        return state["metrics_size"], state["generators"]["data"]


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

    def compare() -> None:
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
            compare()  # before anything is made
            out.mkdir(parents=True, exist_ok=True)
            files.sync_folder(out.parent)
            held = stack.enter_context(files.locked(out))
        except OSError as error:
            if error.errno is None:  # says all already
                raise
            raise type(error)(f"out is {out}: {error.strerror}") from error
        compare()  # another process may have begun in between
        if not resume:
            files.write(out / CONFIG, _json(config, 2))
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
