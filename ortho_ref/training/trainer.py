"""Training: batch -> loss and gradients -> clip -> deltas -> retract; and the whole state between two updates.

A batch is checked on the host.  On a device an update then copies it there (and what dropout draws), and waits for the
loss and the gradients' norm, in one copy, and once for each U that Algorithm 1 keeps (`neumann`).  What the exact
methods and CuPy itself wait for comes on top: LU's error codes, whether U stayed orthogonal, the norm of A in the
derivative of its exponential.

`runs` drives a trainer through a folder that can be resumed.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortho_ref.backend import (
    NotFiniteError,
    NotOrthogonalError,
    is_array,
    library_of,
    to_device,
    to_host,
    with_floats_as,
    xp_of,
)
from ortho_ref.boundary import check_has, check_number, read
from ortho_ref.losses import COMPUTED, METRICS, OF_SEQUENCES, OF_THE_LOSS, share_of_sequences
from ortho_ref.network import Network
from ortho_ref.parametrizations import Params
from ortho_ref.recurrent import NamedBuffers
from ortho_ref.subnormals import subnormals_as_zero
from ortho_ref.training.averaging import Averaging, check_averages
from ortho_ref.training.optimizers import ByName, Optimizer, clip_by_global_norm, clip_by_value, squared_norm
from ortho_ref.training.task import Batch, Task, check_integer
from ortho_ref.trees import by_path

Record = dict[str, Any]


@dataclass
class Trainer:
    """Trains a network on a task, update by update.

    Parameters
    ----------
    network : Network
        Its loss, readout and sizes are the task's.
    task : Task
        What the batches are of.
    optimizer : Optimizer
        From gradients to what is subtracted.
    batch_size : int
        Sequences in a batch.
    seed : int
        Of everything drawn: initial weights, data, dropout.
    clip_value : float, optional
        Every entry of the gradients is clipped to +- this.
    clip_norm : float, optional
        The gradients are scaled so that their global norm is at most this.  One of the two, or neither.
    average_after : int, optional
        Evaluations n of `averaging`; the mean is what is evaluated then.  None: no averaging.
    rate_per_window : int, optional
        Learning rates are for windows of so many steps, and proportional to a batch's own number of them.
    device : str
        "cpu" or "gpu".
    dtype : dtype
        Of the parameters: float32 or float64.
    holds_tape : bool
        Whether an update's arrays stay until the next one's are there. It costs a second tape, and saves what an
        allocator takes that gives freed memory back to the system: more than the mathematics. The same bits.

    Attributes
    ----------
    params : dict of Array
        The parameters, on the device.
    buffers : dict of dict
        What is no parameter, by weight.
    iteration : int
        Updates done.
    averaging : Averaging or None
        The mean of the parameters, once there is one.

    Raises
    ------
    ValueError
        Where the network does not fit the task, or an option is out of range.
    """

    network: Network
    task: Task
    optimizer: Optimizer
    batch_size: int
    seed: int = 0
    clip_value: float | None = None
    clip_norm: float | None = None
    average_after: int | None = None
    rate_per_window: int | None = None
    device: str = "cpu"
    dtype: Any = np.float32
    holds_tape: bool = True

    def __post_init__(self) -> None:
        check_integer("batch_size", self.batch_size)
        check_integer("seed", self.seed, least=0)
        for name in ("clip_value", "clip_norm"):
            limit = getattr(self, name)
            if limit is not None:
                check_number(name, limit, lambda value: value > 0, "a finite number above 0, or None")
        if self.clip_value is not None and self.clip_norm is not None:
            raise ValueError(f"clip_value is {self.clip_value} and clip_norm is {self.clip_norm}; allowed: one of them")
        for name in ("average_after", "rate_per_window"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name))
        _check_fits(self.network, self.task)
        check_has("optimizer", self.optimizer, "delta", "an optimizer, as Adam(1e-3)")
        if self.rate_per_window is not None and self.network.readout != "every":
            raise ValueError(
                f"rate_per_window is {self.rate_per_window}, but the network is read at the last step; allowed: None"
            )
        if self.average_after is not None:
            check_averages(self.network)
        weights_rng, self._data_rng, self._dropout_rng = self._generators()
        params, buffers = self.network.init(weights_rng, dtype=self.dtype)
        if isinstance(self.optimizer, ByName):
            self.optimizer.check_fits(params)
        self.params: Params = to_device(params, self.device)
        self.buffers: NamedBuffers = to_device(buffers, self.device)
        self.iteration = 0
        self.averaging = None if self.average_after is None else Averaging(self.average_after)
        self._carried: list[Any] | None = None
        self._total: Any = 0.0
        self._since = 0
        self._held: Any = None

    def _generators(self) -> list[np.random.Generator]:
        """Of weights, data, dropout."""
        return np.random.default_rng(self.seed).spawn(3)

    def batches(self, state: dict[str, Any] | None = None) -> Iterator[Batch]:
        """The task's batches from number `iteration` on, without end.

        Those before are drawn again: any task works, whose data are a function of the generator alone.  state: where
        the generator must be then, if that is known; ValueError where it is elsewhere: the task's data are others.
        """
        self._data_rng = self._generators()[1]
        batches = self.task.batches(self._data_rng, self.batch_size)
        for _ in range(self.iteration):
            next(batches)
        if state not in (None, self._data_rng.bit_generator.state):
            raise ValueError(f"the task's data are not the run's: {self.iteration} batches took other draws")
        return batches

    def update(self, batch: Batch) -> float:
        """One update on a batch; the norm of its gradients before clipping.

        FloatingPointError, naming the iteration and the parameter, when a loss, gradient or parameter is not finite;
        ValueError or TypeError where the batch is not what the network takes.
        """
        self.iteration += 1
        with subnormals_as_zero():
            batch = self._taken(batch)
            h0 = self._carried if batch.carries_state else None
            loss, gradients, result = self.network.compute(
                self.params, self.buffers, batch.x, batch.y, batch.mask, h0, self._dropout_rng
            )
            loss, square = read(loss, squared_norm(gradients))
            if not math.isfinite(loss):
                raise self._not_finite(f"loss is {loss}")
            if not math.isfinite(square):
                raise self._not_finite(f"gradient norm is {math.sqrt(square)}", gradients, "gradient of")
            norm = math.sqrt(square)
            self._carried, self._held = result.last, result if self.holds_tape else None
            if self.clip_value is not None:
                gradients = clip_by_value(gradients, self.clip_value)
            if self.clip_norm is not None:
                gradients, _ = clip_by_global_norm(gradients, self.clip_norm, norm)
            deltas = {name: self.optimizer.delta(name, self.params[name], g) for name, g in gradients.items()}
            if self.rate_per_window is not None and len(batch.x) != self.rate_per_window:
                factor = len(batch.x) / self.rate_per_window
                deltas = {name: delta * delta.dtype.type(factor) for name, delta in deltas.items()}
            try:
                self.params, self.buffers = self.network.move(self.params, self.buffers, deltas)
            except NotFiniteError as error:
                raise self._not_finite(str(error), deltas, "delta of") from error
            except NotOrthogonalError as error:
                raise NotOrthogonalError(f"iteration {self.iteration}: {error}") from error
            if self.averaging is not None:
                self.averaging.add(self.params)
            self._total, self._since = self._total + loss, self._since + 1
            return norm

    def _taken(self, batch: Batch) -> Batch:
        """A batch, checked, in the precision and on the device of the parameters."""
        try:
            return _moved(batch, self.network, self.params)
        except NotFiniteError as error:
            raise self._not_finite(str(error)) from error

    def take_loss(self) -> float:
        """The mean loss of the updates since the last call; a new interval begins."""
        mean, self._total, self._since = self._total / self._since, 0.0, 0
        return float(mean)

    def health(self) -> dict[str, dict[str, float]]:
        """Path of a weight -> the figures its parametrization watches, of the weights as they are.

        FloatingPointError where a matrix has no singular values: it is not finite.
        """
        try:
            return self.network.health(self.buffers)
        except np.linalg.LinAlgError as error:
            raise self._not_finite(f"after it, {error}") from error

    def evaluated(self) -> tuple[Params, NamedBuffers]:
        """The parameters and buffers that are evaluated: the mean's, every U built from it, once there is one."""
        if self.averaging is None or self.averaging.params is None:
            return self.params, self.buffers
        return self.averaging.params, self.network.rebuild(self.averaging.params, self.buffers)

    def evaluate(self) -> Record:
        """`evaluate` with the weights as they are, or their mean; FloatingPointError when the loss is not finite."""
        try:
            record = evaluate(self.network, *self.evaluated(), self.task)
        except NotFiniteError as error:
            raise self._not_finite(f"in the evaluation, {error}") from error
        if not math.isfinite(record["evaluation_loss"]):
            raise self._not_finite(f"evaluation loss is {record['evaluation_loss']}")
        return record

    @property
    def settings(self) -> Record:
        """What a trainer that goes on must have alike, for its weights to be the same."""
        own = ("batch_size", "seed", "clip_value", "clip_norm", "average_after", "rate_per_window")
        return {name: plain(getattr(self, name)) for name in own}

    @property
    def engine(self) -> str:
        """What runs the layers: another's bits are others."""
        return ", ".join(sorted({layer.engine for layer in self.network.layers}))

    def state(self) -> Record:
        """Everything the next update depends on, beside network and task, as a tree for `checkpoint.save`.

        FloatingPointError if a part of it is not finite.
        """
        state = {
            "settings": self.settings,
            "engine": self.engine,
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
        }
        if self.averaging is not None:
            state["average"] = self.averaging.state()
        kept = by_path({"optimizer": state["optimizer"]})
        arrays = self._arrays() | {path: a for path, a in kept.items() if is_array(a) and a.dtype.kind in "fc"}
        if not all(np.isfinite(to_host(array)).all() for array in arrays.values()):
            raise self._not_finite("the update is not finite", arrays)
        return state

    def load(self, state: Record) -> None:
        """Take up such a state, of a trainer with the same settings; `batches` goes on from there."""
        parts = ("params", "buffers", "carried", "optimizer", *(["average"] if self.averaging is not None else []))
        moved = to_device({name: state[name] for name in parts}, self.device)
        self.params, self.buffers, self._carried = moved["params"], moved["buffers"], moved["carried"]
        self.optimizer.load(moved["optimizer"])
        if self.averaging is not None:
            self.averaging.load(moved["average"])
        self.iteration = state["iteration"]
        self._total, self._since = state["interval"]["total"], state["interval"]["since"]
        self._dropout_rng.bit_generator.state = state["generators"]["dropout"]

    def _arrays(self) -> Params:
        """Parameters, and the U built from them."""
        return self.params | {f"{name}.U": own["U"] for name, own in self.buffers.items()}

    def _not_finite(self, what: str, arrays: Params | None = None, kind: str = "parameter") -> FloatingPointError:
        arrays = self._arrays() if arrays is None else arrays
        bad = [name for name, array in arrays.items() if not np.isfinite(to_host(array)).all()]
        found = f"not finite: the {kind} {', '.join(bad)}" if bad else f"every {kind.removesuffix(' of')} is finite"
        return FloatingPointError(f"iteration {self.iteration}: {what}; {found}")


@subnormals_as_zero()
def evaluate(network: Network, params: Params, buffers: NamedBuffers, task: Task) -> Record:
    """The loss and the metric on the task's held-out set; params, buffers: as of `Network.init`, on any device.

    Means over the set, each entry alike, of a metric that counts sequences each of these; a metric that is a function
    of the loss, as perplexity, is that of the mean loss.  ValueError: nothing in the set counts, or the metric counts
    sequences and y is not (T, B).
    """
    of_sequences = task.metric in OF_SEQUENCES
    loss, metric, entries, judged = 0.0, 0.0, 0, 0
    carried: list[Any] | None = None
    network.check_params(params, buffers)
    for batch in task.evaluation():
        x, y, mask, carries_state = _moved(batch, network, params, training=False)
        carried, tape = network.features(params, buffers, x, carried if carries_state else None, None)
        classes: list[Any] = []
        before = entries
        for outputs, own_y, own_mask in network.outputs_in_chunks(params, tape, y, mask):
            if of_sequences:  # the steps of one lie in several chunks
                classes.append(outputs.argmax(axis=-1))
            count = own_y.size if own_mask is None else int(own_mask.sum()) * (own_y.size // own_mask.size)
            if count == 0:
                continue
            own = float(COMPUTED[task.loss](outputs, own_y, own_mask)[0])
            loss += own * count
            if not of_sequences and task.metric not in OF_THE_LOSS:
                metric += METRICS[task.metric](own, outputs, own_y, own_mask) * count
                judged += count
            entries += count
        if of_sequences and entries > before:
            said = classes[0] if len(classes) == 1 else xp_of(y).concatenate(classes).reshape(y.shape[:2])
            metric += share_of_sequences(said, y, mask) * y.shape[1]
            judged += y.shape[1]
    if entries == 0:
        raise ValueError("mask leaves no entry to count in the held-out set")
    mean = loss / entries
    of_all = METRICS[task.metric](mean, *[None] * 3) if task.metric in OF_THE_LOSS else metric / judged
    return {"evaluation_loss": mean, task.metric: of_all}


def plain(value: Any) -> Any:
    """A setting as a checkpoint holds it: NumPy's numbers would come back as arrays."""
    return value.item() if isinstance(value, np.generic | np.ndarray) else value


def _moved(batch: Batch, network: Network, params: Params, training: bool = True) -> Batch:
    """A batch, checked on the host, in the precision and on the device of the parameters."""
    own = next(iter(params.values()))
    batch = batch._replace(x=with_floats_as(batch.x, own.real.dtype))
    # a batch of an evaluation may be one of which nothing counts
    mask = batch.mask if training or batch.mask is None or batch.mask.any() else None
    network.check_batch(batch.x, batch.y, mask, np.empty(0, own.real.dtype))
    moved: Batch = to_device(batch, library_of(own).device)
    return moved


def _check_fits(network: Network, task: Task) -> None:
    """An error unless the two are a network and a task, and the network has the task's loss, readout and sizes."""
    check_has("network", network, "loss_and_gradients", "a network, as models.network('gru', 10, [56], 9)")
    check_has("task", task, "batches", "a task, as tasks.adding.Adding(100)")
    for what, own, its in (
        ("loss", network.loss, task.loss),
        ("readout", network.readout, task.readout),
        ("output size", network.output_size, task.output_size),
        ("input size", network.input_size, task.input.size),
    ):
        if own != its:
            raise ValueError(f"the network's {what} is {own!r}; the task's is {its!r}")
