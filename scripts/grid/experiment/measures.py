"""What an experiment measures of a run besides its metrics: of the weights that it has after so many updates.

measured.json in the run's folder has the numbers.  A run pauses, with a checkpoint, where something is measured: one
that is killed meanwhile measures it when it goes on.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from ortho_ref.backend import Array, with_floats_as
from ortho_ref.formats import Form
from ortho_ref.parametrizations import Params
from ortho_ref.training.run_folder import LAST, RunFolder
from ortho_ref.training.runs import Loaded, load
from ortho_ref.training.task import Batch, Task
from ortho_ref.training.trainer import Record, evaluate
from scripts.grid.experiment.file import OF_STEPS, ON_TEST
from scripts.grid.experiment.watched import mean_norm, watched
from tasks import by_name

MEASURED = "measured.json"
#: Of a held-out set, the sequences whose norms are taken; of the training data, the batches that are evaluated,
#: and of how many sequences each is: of as many as the run's, where those are fewer.
SEQUENCES, BATCHES, BATCH = 20, 20, 100
_FORMAT = "ortho_ref measured 1"


class Measure(Form):
    """What was measured of a run, after so many updates, on sequences so many times as long."""

    what: str
    after: Annotated[int, Meta(ge=0, le=10**9)]
    times: Annotated[int, Meta(ge=1, le=100)]
    values: dict[str, float | list[float]]


class _Measured(Form):
    measured: list[Measure]


def read_measured(folder: RunFolder) -> list[Record]:
    """What was measured of a run so far.  ValueError: where the file is not what was written."""
    found = folder.document(MEASURED, _FORMAT, _Measured)
    return [] if found is None else found["measured"]


def missing(measured: Iterable[Record], measures: Iterable[Record], iterations: int) -> list[Record]:
    """What is not measured yet of a run of so many updates, as measured.json calls it."""
    found = [{key: own[key] for key in ("what", "after", "times")} for own in measured]
    wanted = [
        {"what": own["what"], "after": min(own.get("after", iterations), iterations), "times": own.get("times", 1)}
        for own in measures
    ]
    return [own for own in wanted if own not in found]


def check_wanted(measures: Iterable[Record], config: Record, task: Task) -> None:
    """ValueError for a measure that cannot be had of a run."""
    for own in measures:
        what, times = own["what"], own.get("times", 1)
        if times != 1 and (config["data"] is not None or config.get("length") is None):
            why = f"{config['task']} makes no sequences of any length"
            raise ValueError(f"measure {what!r} has times = {times}; allowed: 1, as {why}")
        if what == ON_TEST and not hasattr(task, "on"):
            raise ValueError(f"measure {what!r} is for tasks that have a test part; {config['task']} has none")
        if what == "correlation" and config["task"] != "adding":
            raise ValueError(f"measure {what!r} is for the task adding; the run's is {config['task']}")
        if what in OF_STEPS and config["layers"] != 1:
            raise ValueError(f"measure {what!r} is for networks of one layer; the run's has {config['layers']}")


class Measures:
    """What is to be measured of a run, which the grid has checked, and what was."""

    def __init__(self, folder: RunFolder, wanted: list[Record], task: Task, config: Record) -> None:
        self.folder, self.task, self.config, self.wanted = folder, task, config, wanted

    def _missing(self) -> list[Record]:
        return missing(read_measured(self.folder), self.wanted, self.config["iterations"])

    def next_after(self, iteration: int) -> int | None:
        """The next update after which something is measured; None where that is nothing more."""
        return min((own["after"] for own in self._missing() if own["after"] > iteration), default=None)

    def take_due(self, initial: Loaded | None = None) -> None:
        """Measure what is due at the last checkpoint, or of the initial weights of a run that has none yet."""
        if not self._missing() or (initial is None and not self.folder.has(LAST)):
            return
        iteration = 0 if initial else self.folder.state("last")["iteration"]
        for own in self._missing():
            if own["after"] == iteration:
                run = load(self.folder, "best") if own["what"] == ON_TEST else initial or load(self.folder, "last")
                of = OF[own["what"]]
                if of is training_metric:
                    of = partial(training_metric, batch=min(BATCH, self.config["batch"]))
                values = of(run, self._task(own["times"]))
                whole = [*read_measured(self.folder), own | {"values": values}]
                self.folder.write_document(MEASURED, _FORMAT, {"measured": whole}, _Measured)

    def check_complete(self) -> None:
        """ValueError where something is not measured, and the run is past it."""
        for own in self._missing():
            raise ValueError(
                f"{own['what']} after {own['after']} updates was not measured, and the run is past them: remove "
                f"{self.folder.path}, to begin it again"
            )

    def _task(self, times: int) -> Task:
        """The task, of sequences so many times as long."""
        if times == 1:
            return self.task
        options = {name: self.config[name] for name in by_name.options_of(self.config["task"])}
        return by_name.make(self.config["task"], **options | {"length": times * self.config["length"]})


def steps_of(batch: Batch, sequences: int) -> int:
    """T of the first sequences of a batch, which was filled up to its longest."""
    if batch.mask is None:
        return len(batch.x)
    return int(np.flatnonzero(batch.mask[:, :sequences].any(axis=1))[-1]) + 1


def held_out(task: Task, params: Params) -> tuple[Array, Array, Array | None]:
    """The first sequences of the held-out set: x, y and mask, in the precision of the parameters."""
    batch = with_floats_as(next(iter(task.evaluation())), params["readout.b"].dtype)
    x = batch.x[:, :SEQUENCES]
    y = batch.y[:SEQUENCES] if task.readout == "last" else batch.y[:, :SEQUENCES]
    if batch.mask is None:
        return x, y, None
    T = steps_of(batch, SEQUENCES)
    return x[:T], y[:T], batch.mask[:T, :SEQUENCES]


def gradient_norms(run: Loaded, task: Task) -> Record:
    """||dL/dh_t||, t = 1..T, and the first of them over the last, if that is not 0 [uRNN, figure 4]."""
    network, cell = watched(run.network)
    network.loss_and_gradients(run.params, run.buffers, *held_out(task, run.params))
    norms = cell.gradient_norms
    return {"norm": norms, **({"first_over_last": norms[0] / norms[-1]} if norms[-1] else {})}


def hidden_norms(run: Loaded, task: Task) -> Record:
    """||h_t|| and ||h_t - h_T||, t = 1..T [uRNN, figure 4]."""
    network, cell = watched(run.network)
    network.forward(run.params, run.buffers, held_out(task, run.params)[0])
    last = cell.history[-1]
    return {"norm": [mean_norm(h) for h in cell.history], "distance": [mean_norm(h - last) for h in cell.history]}


def correlation(run: Loaded, task: Task) -> Record:
    """Pearson's correlation of the output of `adding` and the first of its two values [uRNN, 5.4]; 0 of a constant."""
    outputs, first, second = list[Array](), list[Array](), list[Array]()
    for batch in task.evaluation():
        x = batch.x.astype(run.params["readout.b"].dtype)
        outputs.append(run.network.forward(run.params, run.buffers, x)[0][..., 0])
        marks, values = batch.x[..., 0], batch.x[..., 1]
        steps = np.argsort(-marks, axis=0, kind="stable")[:2]
        for own, step in ((first, steps[:1]), (second, steps[1:])):
            own.append(np.take_along_axis(values, step, 0)[0])
    y, a, b = (np.concatenate(own) for own in (outputs, first, second))
    if np.ptp(y) == 0:
        return {"with_first": 0.0, "with_second": 0.0}
    return {"with_first": float(np.corrcoef(y, a)[0, 1]), "with_second": float(np.corrcoef(y, b)[0, 1])}


class EvaluatedOn:
    """A task that is evaluated on other batches."""

    def __init__(self, task: Task, batches: Iterable[Batch]) -> None:
        self._task, self._batches = task, batches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def evaluation(self) -> Iterator[Batch]:
        """These."""
        return iter(self._batches)


def training_metric(run: Loaded, task: Task, batch: int = BATCH) -> Record:
    """Loss and metric on training data, beside those held out: how far the training is learned by heart."""
    batches = itertools.islice(task.batches(np.random.default_rng(0), batch), BATCHES)
    of_training: Any = EvaluatedOn(task, batches)
    on_training, held_out = evaluate(*run, of_training), evaluate(*run, task)
    return {f"training_{name}": value for name, value in on_training.items()} | held_out


def on_test(run: Loaded, task: Any) -> Record:
    """Loss and metric on the test part of the task's data set."""
    return dict(evaluate(*run, task.on("test")))


OF: dict[str, Callable[[Loaded, Task], Record]] = {
    "gradient_norms": gradient_norms,
    "hidden_norms": hidden_norms,
    "correlation": correlation,
    "training_metric": training_metric,
    ON_TEST: on_test,
}
