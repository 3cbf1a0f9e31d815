"""The training loop: batch -> loss and gradients -> deltas -> retract, with metrics as JSON lines.

A run is a folder: config.json, and metrics.jsonl with one line per logging interval:
    iteration, loss (mean over the interval), gradient_norm, steps_per_second;
    weights: for each orthogonal weight its defect, Neumann condition, forced resets;
    evaluation_loss and the task's metric, where the held-out set was run.
"""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ortho_ref.backend import NotFiniteError, to_device, to_host
from ortho_ref.losses import LOSSES, METRICS
from ortho_ref.network import Network
from ortho_ref.optimizers import Optimizer
from ortho_ref.parametrizations import Params
from ortho_ref.recurrent import States
from ortho_ref.task import Batch, Task

Record = dict[str, Any]


def new_run_folder(out: Path, config: Record) -> Path:
    """Create the folder `out` with its config.json.  FileExistsError if it holds a run already; OSError names out."""
    for name in ("config.json", "metrics.jsonl"):
        if (out / name).exists():
            raise FileExistsError(f"out is {out}, which holds a run already ({name}); choose another folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    except OSError as error:
        raise type(error)(f"out is {out}: {error.strerror}") from error
    return out


@dataclass
class Trainer:
    """Trains a network on a task.

    seed: of everything drawn: initial weights and data.  device: "cpu" or "gpu".  dtype: of parameters.
    log_every: iterations per line of metrics.  evaluate_every: iterations between runs of the held-out set; the last
    iteration always evaluates.
    """

    network: Network
    task: Task
    optimizer: Optimizer
    iterations: int
    batch_size: int
    seed: int = 0
    log_every: int = 50
    evaluate_every: int = 1000
    device: str = "cpu"
    dtype: Any = np.float32

    def __post_init__(self) -> None:
        for name in ("iterations", "batch_size", "log_every", "evaluate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; allowed: at least 1")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; allowed: at least 0")
        weights_rng, self._data_rng = np.random.default_rng(self.seed).spawn(2)
        params, states = self.network.init(weights_rng, self.dtype)
        self.params: Params = to_device(params, self.device)
        self.states: States = to_device(states, self.device)

    def run(self, out: Path, on_record: Callable[[Record], None] = lambda record: None) -> list[Record]:
        """Train; write metrics to out/metrics.jsonl; call on_record with each line; return the lines.

        Raises FloatingPointError, naming the iteration and the parameter, when a loss or gradient is not finite;
        FileExistsError if out holds metrics already.
        """
        records: list[Record] = []
        batches = self.task.batches(self._data_rng, self.batch_size)
        carried: list[Any] | None = None
        total, since, started = 0.0, 0, time.perf_counter()
        with open(out / "metrics.jsonl", "x") as stream:
            for iteration in range(1, self.iterations + 1):
                batch = self._batch(next(batches))
                h0 = carried if batch.carries_state else None
                try:
                    loss, gradients, result = self.network.loss_and_gradients(
                        self.params, self.states, batch.x, batch.y, batch.mask, h0
                    )
                except NotFiniteError as error:
                    raise _not_finite(iteration, str(error), "parameter", self.params) from error
                carried = result.last
                gradient_norm = math.sqrt(sum(float((g.conj() * g).real.sum()) for g in gradients.values()))
                if not math.isfinite(gradient_norm):
                    raise _not_finite(iteration, f"gradient norm is {gradient_norm}", "gradient of", gradients)
                deltas = {name: self.optimizer.delta(name, self.params[name], g) for name, g in gradients.items()}
                try:
                    self.params, self.states = self.network.retract(self.params, self.states, deltas)
                except NotFiniteError as error:
                    raise _not_finite(iteration, str(error), "delta of", deltas) from error
                total, since = total + float(loss), since + 1
                last = iteration == self.iterations
                if iteration % self.log_every and not last:
                    continue
                seconds = time.perf_counter() - started
                record: Record = {
                    "iteration": iteration,
                    "loss": total / since,
                    "gradient_norm": gradient_norm,
                    "steps_per_second": since / seconds,
                    "weights": self.network.health(self.states),
                }
                if last or iteration // self.evaluate_every > (iteration - since) // self.evaluate_every:
                    record |= self.evaluate()
                    if not math.isfinite(record["evaluation_loss"]):
                        message = f"evaluation loss is {record['evaluation_loss']}"
                        raise _not_finite(iteration, message, "parameter", self.params)
                records.append(record)
                stream.write(json.dumps(record) + "\n")
                stream.flush()
                on_record(record)
                total, since, started = 0.0, 0, time.perf_counter()
        return records

    def evaluate(self) -> Record:
        """{"evaluation_loss": ..., task.metric: ...}: means over the task's held-out set, each entry alike."""
        loss, metric, entries = 0.0, 0.0, 0
        carried: list[Any] | None = None
        for batch in map(self._batch, self.task.evaluation()):
            result = self.network.forward(self.params, self.states, batch.x, carried if batch.carries_state else None)
            carried = result.last
            own = float(LOSSES[self.task.loss](result.outputs, batch.y, batch.mask)[0])
            count = batch.y.size
            if batch.mask is not None:
                count = int(batch.mask.sum()) * (batch.y.size // batch.mask.size)
            loss += own * count
            metric += METRICS[self.task.metric](own, result.outputs, batch.y, batch.mask) * count
            entries += count
        return {"evaluation_loss": loss / entries, self.task.metric: metric / entries}

    def _batch(self, batch: Batch) -> Batch:
        if batch.x.dtype.kind == "f":
            batch = batch._replace(x=batch.x.astype(self.dtype))
        return to_device(batch, self.device)


def _not_finite(iteration: int, what: str, kind: str, arrays: Params) -> FloatingPointError:
    bad = [name for name, array in arrays.items() if not np.isfinite(to_host(array)).all()]
    where = f"not finite: the {kind} {', '.join(bad)}" if bad else f"every {kind.removesuffix(' of')} is finite"
    return FloatingPointError(f"iteration {iteration}: {what}; {where}")
