"""The training loop [ncgru:alg1], what it writes, and that a run that stops goes on to the same bits."""

import itertools
import json
import math
import platform
import re
import shutil
import statistics
import sys
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortho_ref import models
from ortho_ref.backend import NotOrthogonalError, to_host
from ortho_ref.files import DamagedFile
from ortho_ref.fused import tokens
from ortho_ref.network import Network
from ortho_ref.training import checkpoint, forms, run_folder, runs, trainer as training
from ortho_ref.training.optimizers import SGD, Adam, ByName, RMSprop
from ortho_ref.training.run_folder import RunFolder
from ortho_ref.training.runs import TrainingRun, load, summarize
from ortho_ref.training.schedules import LinearToZero, Step
from ortho_ref.training.task import Batch, Tokens, Vectors
from tasks.adding import Adding
from tasks.parenthesis import Parenthesis
from tasks.text import Text
from tests.ortho_ref.training.reading import contents, read_config, read_metrics, read_summary
from tests.ortho_ref.training.test_checkpoint import assert_same


@dataclass
class Fixed:
    """A task of given batches: over and over for training, once for evaluation."""

    chunks: list[Batch]
    input: Any
    output_size: int
    metric: str = "accuracy"
    readout: str = "every"
    loss: str = "cross_entropy"
    baseline: float = 0.0

    def batches(self, rng, batch_size):
        while True:
            yield from self.chunks

    def evaluation(self):
        return iter(self.chunks)


class Wrapped:
    """Another task; to be changed in one thing."""

    def __init__(self, task):
        self.task = task

    def __getattr__(self, name):
        return getattr(self.task, name)


class FirstChunk(Wrapped):
    """The task with one chunk of its held-out set."""

    def evaluation(self):
        return itertools.islice(self.task.evaluation(), 1)


class Crash(Exception):
    """What ends a run in the middle of an update."""


class Crashing(Wrapped):
    """The task, with a Crash in place of the batch after so many."""

    def __init__(self, task, after):
        super().__init__(task)
        self.after = after

    def batches(self, rng, batch_size) -> Iterator[Batch]:
        yield from itertools.islice(self.task.batches(rng, batch_size), self.after)
        raise Crash


class Changing(Adam):
    """Adam whose deltas, with their names, go through a function."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def delta(self, name, parameter, gradient):
        return self.change(name, super().delta(name, parameter, gradient))


def poisoned(victim, update, value=math.nan):
    """Adam whose delta of one parameter is `value` at one update of it."""
    updates = itertools.count(1)
    return Changing(lambda name, delta: delta * value if name == victim and next(updates) == update else delta)


SCHEDULE = {"iterations": 7, "batch_size": 4, "log_every": 3, "evaluate_every": 4}


def network_for(task, model="gru", sizes=(6,), **options):
    """The arguments of `models.network` for a task."""
    form = {"input_size": task.input.size, "hidden_sizes": list(sizes), "output_size": task.output_size}
    return {"name": model, **form, "readout": task.readout, "loss": task.loss, **options}


def small_trainer(task, model="gru", n=6, layers=1, optimizer=None, **options):
    """Seven updates, a line of metrics at 3, 4, 6 and 7, evaluation at 4 and 7."""
    network = models.network(**network_for(task, model, [n] * layers))
    return TrainingRun(network, task, optimizer or Adam(1e-2), **SCHEDULE | options)


def without_speed(records):
    """The records without what depends on the machine's speed."""
    return [{key: value for key, value in record.items() if key != "steps_per_second"} for record in records]


def fresh(folder):
    """A new folder in it: a run never writes over another's metrics."""
    return Path(tempfile.mkdtemp(dir=folder))


def tree(path):
    """A checkpoint without its lines of metrics, in which wall times stand."""
    return {key: value for key, value in checkpoint.load(path).items() if key != "metrics"}


# The lines it writes


def test_metrics_file(tmp_path):
    """The lines of metrics.jsonl are the records returned and shown: strict JSON, written every log_every updates, with
    every evaluation and at the end; loss is the mean since the line before; evaluation exactly every evaluate_every
    updates and at the end."""
    shown = []
    records = small_trainer(Parenthesis(5), "nc-gru", layers=2).run(tmp_path, on_record=shown.append)
    strict = {"parse_constant": lambda name: pytest.fail(f"{name} is not JSON")}
    lines = [json.loads(line, **strict) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    seals = [line.pop("sha256") for line in lines]
    assert len({*seals}) == len(seals)
    assert lines == records == shown == read_metrics(tmp_path)
    assert [line["iteration"] for line in lines] == [3, 4, 6, 7]
    evaluated = [False, True, False, True]
    assert ["evaluation_loss" in line for line in lines] == ["accuracy" in line for line in lines] == evaluated
    for line in lines:
        assert set(line["weights"]) == {"layer0.U_c", "layer1.U_c"}
        assert line["steps_per_second"] > 0
        assert line["gradient_norm"] > 0
    one_by_one = small_trainer(Parenthesis(5), "nc-gru", layers=2, log_every=1).run(fresh(tmp_path))
    means = [np.mean([line["loss"] for line in one_by_one[a:b]]) for a, b in ((0, 3), (3, 4), (4, 6), (6, 7))]
    np.testing.assert_allclose([line["loss"] for line in lines], means, rtol=1e-12)
    assert [line["gradient_norm"] for line in lines] == [one_by_one[i]["gradient_norm"] for i in (2, 3, 5, 6)]


def test_one_record_by_hand(tmp_path):
    """The masked training loss and the 2-norm of all gradients together."""
    rng = np.random.default_rng(0)
    batch = Batch(rng.standard_normal((3, 2, 4)), rng.integers(0, 3, (3, 2)), np.array([[1, 0], [0, 1], [0, 1]], bool))
    own = small_trainer(Fixed([batch], Vectors(4), 3), iterations=1, dtype=np.float64)
    loss, gradients, _ = own.network.loss_and_gradients(own.params, own.buffers, *batch[:3])
    (record,) = own.run(tmp_path)
    assert record["loss"] == float(loss)
    norm = np.linalg.norm(np.concatenate([g.ravel() for g in gradients.values()]))
    np.testing.assert_allclose(record["gradient_norm"], norm, rtol=1e-12)


def test_speed_and_lines_as_they_come(tmp_path, monkeypatch):
    """Updates per second between lines, the evaluation not counted; a line is in the file when it is shown."""
    clock = itertools.count(0.0, 2.0)
    monkeypatch.setattr(runs.time, "perf_counter", lambda: next(clock))
    lines = []
    metrics = tmp_path / "metrics.jsonl"
    records = small_trainer(Parenthesis(5)).run(
        tmp_path, on_record=lambda r: lines.append(len(metrics.read_text().splitlines()))
    )
    assert [record["steps_per_second"] for record in records] == [1.5, 0.5, 1.0, 0.5]
    assert lines == [1, 2, 3, 4]


def test_learning_rates_of_the_last_update(tmp_path):
    """A line tells the rates its last update was done with, by the optimizer's patterns."""
    optimizer = ByName({"*.A": Adam(Step(0.4, 3, 0.5)), "*": SGD(LinearToZero(0.7, 7))})
    records = small_trainer(Parenthesis(5), "nc-gru", optimizer=optimizer).run(tmp_path)
    assert [record["learning_rates"]["*.A"] for record in records] == [0.4, 0.2, 0.2, 0.1]
    linear = [0.5, 0.4, 0.2, 0.1]  # 0.7 (1 - k / 7) at k = 2, 3, 5, 6
    np.testing.assert_allclose([record["learning_rates"]["*"] for record in records], linear, rtol=1e-14)


# What it computes


def test_the_seed_is_everything(tmp_path, device):
    """The same seed gives the same lines to the bit, another seed others; every device starts from the same bits."""
    first, second, other = (
        without_speed(small_trainer(Parenthesis(5), "nc-gru", seed=seed, device=device).run(fresh(tmp_path)))
        for seed in (3, 3, 4)
    )
    assert first == second
    assert all(a["loss"] != b["loss"] for a, b in zip(first, other, strict=True))
    here, there = small_trainer(Parenthesis(5), seed=3), small_trainer(Parenthesis(5), seed=3, device=device)
    for name, value in here.params.items():
        np.testing.assert_array_equal(value, to_host(there.params[name]))
    on_host = small_trainer(Parenthesis(5), "nc-gru", seed=3).run(fresh(tmp_path))
    for a, b in zip(first, on_host, strict=True):
        np.testing.assert_allclose(a["loss"], b["loss"], rtol=1e-4)


@pytest.mark.parametrize("holds", [True, False])
def test_whether_a_tape_is_held_between_updates(monkeypatch, holds):
    """Its arrays are there until the next update's, or not; the numbers are the same."""
    own, other = small_trainer(Parenthesis(5), holds_tape=holds), small_trainer(Parenthesis(5))
    batches = list(itertools.islice(own.batches(), 2))
    tapes = []
    compute = Network.compute

    def noted(*arguments, **options):
        loss, gradients, result = compute(*arguments, **options)
        tapes.append(weakref.ref(result.tape.layers[0].engine.gates))
        return loss, gradients, result

    monkeypatch.setattr(Network, "compute", noted)
    own.update(batches[0])
    assert (tapes[0]() is not None) == holds
    own.update(batches[1])
    assert tapes[0]() is None
    for batch in batches:
        other.update(batch)
    assert_same(own.params, other.params)


def test_weights_data_and_dropout_draw_apart(tmp_path):
    """Dropout leaves the data and the initial weights as they are, and its draws are another at each update."""
    task = Parenthesis(5)
    plain, dropped = (
        TrainingRun(models.network(**network_for(task, dropout=rate)), task, SGD(0.0), **SCHEDULE | {"log_every": 1})
        for rate in (0.0, 0.5)
    )
    assert_same(plain.params, dropped.params)
    losses = [[record["loss"] for record in own.run(fresh(tmp_path))] for own in (plain, dropped)]
    assert plain.state()["generators"]["data"] == dropped.state()["generators"]["data"]
    assert all(a != b for a, b in zip(*losses, strict=True))
    repeated = Fixed([next(task.batches(np.random.default_rng(0), 4))], task.input, task.output_size)
    dropped.iteration, dropped.task = 0, repeated
    assert len({record["loss"] for record in dropped.run(fresh(tmp_path))}) == 7


def test_vectors_and_dtypes(tmp_path):
    """Inputs in float64 are cast to the parameters' dtype, whatever it is, and everything stays in it."""
    rng = np.random.default_rng(0)
    chunk = Batch(rng.standard_normal((3, 2, 4)), rng.integers(0, 3, 2))
    for dtype in (np.float32, np.float64):
        own = small_trainer(Fixed([chunk], Vectors(4), 3, readout="last"), "nc-gru", dtype=dtype)
        own.run(fresh(tmp_path))
        assert {value.dtype for value in own.params.values()} == {np.dtype(dtype)}
    assert chunk.x.dtype == np.float64


@pytest.mark.parametrize("kind", ["clip_value", "clip_norm"])
@pytest.mark.parametrize("limit", [0.01, 1e6], ids=["clipped", "left alone"])
def test_clipping_by_hand(tmp_path, device, kind, limit):
    """The update is rate times the clipped gradient; gradient_norm is the one before clipping."""
    task = Parenthesis(5)
    batch = next(task.batches(np.random.default_rng(0).spawn(3)[1], 4))
    own = small_trainer(task, optimizer=SGD(0.5), iterations=1, dtype=np.float64, device=device, **{kind: limit})
    before = to_host(own.params)
    _, gradients, _ = own.network.loss_and_gradients(before, to_host(own.buffers), batch.x, batch.y)
    norm = np.linalg.norm(np.concatenate([g.ravel() for g in gradients.values()]))
    largest = max(abs(g).max() for g in gradients.values())
    assert (limit < norm, limit < largest) == ((True, True) if limit == 0.01 else (False, False))
    (record,) = own.run(tmp_path)
    np.testing.assert_allclose(record["gradient_norm"], norm, rtol=1e-12)
    for name, gradient in gradients.items():
        clipped = np.clip(gradient, -limit, limit) if kind == "clip_value" else gradient * min(1, limit / norm)
        np.testing.assert_allclose(to_host(own.params[name]), before[name] - 0.5 * clipped, rtol=1e-12, atol=1e-15)


class Recording(Network):
    """A network that remembers the states its training steps began and ended with."""

    def compute(self, params, buffers, x, y, mask=None, h0=None, rng=None):
        result = super().compute(params, buffers, x, y, mask, h0, rng)
        self.steps.append((h0, result[2].last))
        return result


def test_training_carries_the_state(tmp_path):
    """Window to window within a pass over a text, afresh at its start; the evaluation is the same in windows of any
    length."""
    (tmp_path / "a.txt").write_text("abcdefgh" * 100)
    task = Text(tmp_path / "a.txt", 30)
    own = small_trainer(task, "lstm")
    own.network = Recording(own.network.layers, own.network.output_size)
    object.__setattr__(own.network, "steps", [])
    own.run(tmp_path)
    starts, ends = zip(*own.network.steps, strict=True)  # 720 characters in 4 columns: 5 windows of 30 a pass
    assert [h0 is None for h0 in starts] == [i % 5 == 0 for i in range(7)]
    assert all(h0 is ends[i - 1] for i, h0 in enumerate(starts) if i % 5)
    (tmp_path / "b.txt").write_text("abcdefgh" * 1000)
    evaluations = []
    for length in (3, 1000):
        own.task = Text(tmp_path / "b.txt", length)
        evaluations.append(own.evaluate())
    np.testing.assert_allclose(evaluations[0]["evaluation_loss"], evaluations[1]["evaluation_loss"], rtol=1e-6)
    bits = evaluations[0]["evaluation_loss"] / np.log(2)
    np.testing.assert_allclose(evaluations[0]["bits_per_character"], bits, rtol=1e-12)


@pytest.mark.parametrize("groups", [None, 2])
@pytest.mark.parametrize("masked", [(), (0, 2), (0, 1, 2)], ids=["no mask", "some masked", "all masked"])
def test_evaluation_is_the_mean_over_entries(device, groups, masked):
    """Chunks of unequal size, some with masks: every entry that counts weighs the same, in the loss and the metric."""
    rng, q = np.random.default_rng(0), 3
    chunks = []
    for i, (T, B) in enumerate([(2, 5), (6, 1), (1, 2)]):
        y = rng.integers(0, q, (T, B) if groups is None else (T, B, groups))
        mask = rng.random((T, B)) < 0.5 if i in masked else None
        if mask is not None:
            mask[0, 0] = True
        chunks.append(Batch(rng.standard_normal((T, B, 2)), y, mask))
    own = small_trainer(Fixed(chunks, Vectors(2), q * (groups or 1)), dtype=np.float64, device=device)
    params, buffers = to_host(own.params), to_host(own.buffers)
    losses, right = [], []
    for x, y, mask, _ in chunks:
        outputs = own.network.forward(params, buffers, x).outputs.reshape(*y.shape, q)
        of_class = np.take_along_axis(outputs, y[..., None], -1)[..., 0]
        counts = np.ones(y.shape[:2], bool) if mask is None else mask
        losses.extend((np.log(np.exp(outputs).sum(-1)) - of_class)[counts].ravel())
        right.extend((outputs.argmax(-1) == y)[counts].ravel())
    record = own.evaluate()
    np.testing.assert_allclose(record["evaluation_loss"], np.mean(losses), rtol=1e-12)
    np.testing.assert_allclose(record["accuracy"], np.mean(right), rtol=1e-12)


def test_evaluation_of_what_counts_nowhere():
    """A batch of which nothing counts weighs nothing; a batch that carries a state, the first one, begins as any."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 3, 2)), rng.integers(0, 3, (2, 3))
    whole = Batch(x, y, None, carries_state=True)
    nothing = Batch(x, y, np.zeros((2, 3), bool))
    first, *others = (
        small_trainer(Fixed(chunks, Vectors(2), 3), dtype=np.float64).evaluate()
        for chunks in ([whole], [whole, nothing], [nothing, Batch(x, y)])
    )
    assert others == [first, first]
    with pytest.raises(ValueError, match="mask leaves no entry to count in the held-out set"):
        small_trainer(Fixed([nothing, nothing], Vectors(2), 3), dtype=np.float64).evaluate()


def test_each_sequence_weighs_the_same():
    """A metric of sequences is a mean over these, whatever their length and number in a batch."""
    rng = np.random.default_rng(1)
    chunks = [
        Batch(
            rng.standard_normal((T, B, 2)),
            rng.integers(0, 2, (T, B)),
            np.arange(T)[:, None] >= T - 2 + 0 * np.arange(B),
        )
        for T, B in ((4, 7), (2, 3), (9, 1))
    ]
    own = small_trainer(Fixed(chunks, Vectors(2), 2, metric="sequence_accuracy"), dtype=np.float64)
    right = []
    for x, y, mask, _ in chunks:
        found = own.network.forward(own.params, own.buffers, x).outputs.argmax(-1) == y
        right.extend((found | ~mask).all(axis=0))
    assert own.evaluate()["sequence_accuracy"] == pytest.approx(np.mean(right), rel=1e-12)
    assert 0 < np.mean(right) < 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ({name: 0}, f"{name} is 0; allowed: an integer >= 1")
            for name in ("iterations", "batch_size", "log_every", "evaluate_every", "checkpoint_every")
        ),
        *(({name: 0}, f"{name} is 0; allowed: an integer >= 1") for name in ("average_after", "rate_per_window")),
        ({"seed": -1}, "seed is -1; allowed: an integer >= 0"),
        *(
            ({name: value}, f"{name} is {value}; allowed: a finite number above 0, or None")
            for name in ("clip_value", "clip_norm")
            for value in (0, -1.0, math.nan, math.inf, True)
        ),
        ({"clip_norm": "1"}, "clip_norm is '1'; allowed: a finite number above 0, or None"),
        (
            {"optimizer": ByName({"*.A": SGD(0.1), "layer0.*": SGD(0.1)})},
            r"optimizer: no pattern fits the parameter 'readout.W': \*.A, layer0.\*",
        ),
        ({"clip_value": 1.0, "clip_norm": 2.0}, "clip_value is 1.0 and clip_norm is 2.0; allowed: one of them"),
        ({"device": "tpu"}, "device is 'tpu'; allowed: 'cpu', 'gpu'.*"),
    ],
)
def test_impossible_values(options, message):
    """The error names the argument, the value and what is allowed."""
    with pytest.raises(ValueError, match=f"^{message}$"):
        small_trainer(Parenthesis(5), **options)


@pytest.mark.slow
def test_nc_gru_learns_parenthesis(tmp_path):
    """ncgru:task-paren, small: the loss falls below the baseline of constants, U_c stays orthogonal to 5e-3
    (E-ncgru-12), and A skew to the bit."""
    task = Parenthesis(20)
    optimizer = ByName({"*.A": Adam(1e-3), "*": Adam(1e-2)})
    options = {"iterations": 400, "batch_size": 16, "log_every": 25, "evaluate_every": 400}
    own = small_trainer(task, "nc-gru", 24, optimizer=optimizer, **options)
    records = own.run(tmp_path)
    assert records[0]["loss"] > task.baseline
    assert records[-1]["evaluation_loss"] < 0.8 * task.baseline
    assert records[-1]["accuracy"] > 0.5
    assert max(record["weights"]["layer0.U_c"]["defect"] for record in records) < 5e-3
    A = own.params["layer0.U_c.A"]
    np.testing.assert_array_equal(A, -A.T)


# A run that stops


CONFIG = {"what": "a test", "n": 6}


def run_of(model, optimizer, task=None, sizes=(6,), network=None, **form):
    """Text, further options -> a run of seven updates of this form."""

    def make(text, **options):
        own = task(text) if task else Parenthesis(5)
        built = models.network(**network_for(own, model, sizes, **network or {}))
        return TrainingRun(built, own, optimizer(), **SCHEDULE | form | options)

    return make


def windows(text):
    """A task that carries the state along a text."""
    return Text(text, 30)


KINDS = {
    # two layers, two orthogonal weights each, dropout, resets, two Adams, a schedule, gradients clipped
    "nc_gru": run_of(
        "nc-gru",
        lambda: ByName({"*.A": Adam(Step(1e-2, 2, 0.5)), "*": Adam(1e-2, weight_decay=0.01)}),
        sizes=(6, 5),
        network={"orthogonal": "rc", "dropout": 0.3, "reset_every": 3},
        clip_norm=0.5,
    ),
    # the state carried, momentum, a rate that falls to 0
    "lstm": run_of("lstm", lambda: SGD(LinearToZero(0.1, 7), momentum=0.9), windows),
    # passes through ten sequences, two batches a pass; the last step read, squared error, float64
    "adding": run_of(
        "nc-gru",
        lambda: RMSprop(1e-2, initial=1e-3, epsilon=0),
        lambda text: FirstChunk(Adding(5, training_set=10)),
        network={"exact": True},
        dtype=np.float64,
    ),
    # the best weights are not the last ones: after the first evaluation it climbs
    "rising": run_of("gru", lambda: Adam(lambda k: 1e-2 if k < 4 else -1e-2), seed=1),
    # the exact scaled Cayley transform, large enough for BLAS to round by the memory order of (I + A)^{-1}
    "scornn": run_of(
        "scornn",
        lambda: RMSprop(1e-2, decay=0.9, initial=1.0, epsilon=1e-10, epsilon_inside=True),
        lambda text: Parenthesis(5, "released"),
        (40,),
    ),
    # free weights, plain descent, entries clipped
    "irnn": run_of("irnn", lambda: SGD(0.1), clip_value=0.02),
    # complex states carried, over a complex layer that reads real features; trained h0, permutation
    "urnn": run_of("urnn", lambda: Adam(1e-2), windows, (6, 4), {"dropout": 0.3}, clip_norm=0.5),
    # permutations that are drawn once and kept, and scalars without an axis
    "sgornn": run_of("sgornn", lambda: RMSprop(1e-2), sizes=(6, 4), clip_value=0.02),
}
nc_gru, lstm, rising = KINDS["nc_gru"], KINDS["lstm"], KINDS["rising"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A text of 800 characters: five windows of 30 a pass in four columns."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(np.random.default_rng(0).choice(list("abcdefgh"), 800)))
    return path


def end_of(trainer, out, records):
    """All that a finished run leaves, wall times aside."""
    summary = read_summary(out)
    del summary["steps_per_second"]
    return {
        "records": without_speed(records),
        "metrics": without_speed(read_metrics(out)),
        "params": {name: np.ascontiguousarray(value) for name, value in to_host(trainer.params).items()},
        "last": tree(out / "last.safetensors"),
        "best": tree(out / "best.safetensors"),
        "summary": summary,
    }


@pytest.fixture(scope="module")
def uninterrupted(text, tmp_path_factory):
    """Kind, device -> `end_of` a run that did not stop."""
    ends = {}

    def end(kind, device):
        if (kind, device) not in ends:
            own, out = KINDS[kind](text, device=device), tmp_path_factory.mktemp(kind)
            ends[kind, device] = end_of(own, out, own.run(out, CONFIG))
        return ends[kind, device]

    return end


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, text, uninterrupted, device, kind):
    """Stopped after any update, a new trainer goes on, or the same: weights, states, moments, generators, carried
    state, metrics, best and last checkpoint as of the run that did not stop; only the new lines are shown."""
    for k in range(1, 8):
        out, shown, first = tmp_path / f"{k}", [], KINDS[kind](text, device=device)
        before = first.run(out, CONFIG, should_stop=lambda own=first, k=k: own.iteration == k)
        assert first.iteration == k
        assert (out / "summary.json").exists() == (k == 7)
        assert [record["iteration"] for record in before] == [i for i in (3, 4, 6, 7) if i <= k]
        second = first if k == 5 else KINDS[kind](text, device=device)
        records = second.run(out, CONFIG, resume=True, on_record=shown.append)
        assert records == [*before, *shown]
        assert second.iteration == 7
        assert_same(end_of(second, out, records), uninterrupted(kind, device))


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_to_the_same_bits_whatever_the_order_of_sparse_sums(monkeypatch, tmp_path, text, host_device, kind):
    """With the order in which a device may add different on each run, tokens as of a very large vocabulary."""
    monkeypatch.setattr(tokens, "FEW", 0)
    ends = []
    with host_device.shuffled_sums():
        for k in (7, 3):
            own, out = KINDS[kind](text, device="gpu"), tmp_path / f"{k}"
            records = own.run(out, CONFIG, should_stop=lambda own=own, k=k: own.iteration == k)
            if k < 7:
                own = KINDS[kind](text, device="gpu")
                records = own.run(out, CONFIG, resume=True)
            ends.append(end_of(own, out, records))
    assert_same(*ends)


@pytest.mark.parametrize("kind", KINDS)
def test_stopping_after_every_update(tmp_path, text, uninterrupted, device, kind):
    """Seven trainers of one update each do what one trainer of seven does."""
    for k in range(1, 8):
        own = KINDS[kind](text, device=device)
        records = own.run(tmp_path, CONFIG, resume=k > 1, should_stop=lambda: True)
        assert own.iteration == k
    assert_same(end_of(own, tmp_path, records), uninterrupted(kind, device))


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_breaks_off_goes_on_from_its_checkpoint(tmp_path, text, uninterrupted, kind):
    """What metrics.jsonl has beyond the checkpoint, half a line too, is cut; the best is saved again when it comes."""
    for k in range(7):
        out, options = tmp_path / f"{k}", {"checkpoint_every": 3}
        first = KINDS[kind](text, **options)
        first.task = Crashing(first.task, k)
        with pytest.raises(Crash):
            first.run(out, CONFIG)
        with open(out / "metrics.jsonl", "ab") as stream:
            stream.write(b'{"iteration": 99, "loss": 1.0}\n{"iteration": 100, "lo')
        assert checkpoint.load(out / "last.safetensors")["iteration"] == k // 3 * 3
        second = KINDS[kind](text, **options)
        records = second.run(out, CONFIG, resume=True)
        assert_same(end_of(second, out, records), uninterrupted(kind, "cpu"))


def test_the_kinds_have_what_they_are_there_for(text, uninterrupted):
    """The tests above would see each part of the state left out: it is there, and it is used."""
    ends = {kind: uninterrupted(kind, "cpu") for kind in KINDS}
    assert ends["rising"]["best"]["iteration"] == 4
    assert ends["rising"]["records"][1]["evaluation_loss"] < ends["rising"]["records"][3]["evaluation_loss"]
    assert ends["nc_gru"]["last"]["buffers"]["layer0.U_c"]["step"] == 7
    assert ends["lstm"]["last"]["carried"][0][0].shape == (4, 6)
    generators = ends["nc_gru"]["last"]["generators"]
    spawned = [rng.bit_generator.state for rng in np.random.default_rng(0).spawn(3)]
    assert generators["data"] != spawned[1]
    assert generators["dropout"] != spawned[2]


def test_a_run_that_died_before_its_first_checkpoint(tmp_path, text, uninterrupted):
    """With config.json alone, and with a metrics.jsonl that is still empty, it begins at the beginning."""
    for name in ("config", "empty"):
        out = tmp_path / name
        nc_gru(text).run(out, CONFIG, should_stop=lambda: True)
        for path in [*out.iterdir()]:
            if path.name != "config.json":
                path.unlink()
        if name == "empty":
            (out / "metrics.jsonl").touch()
        own = nc_gru(text)
        assert_same(end_of(own, out, own.run(out, CONFIG, resume=True)), uninterrupted("nc_gru", "cpu"))


@pytest.mark.parametrize(
    ("kept", "whole"),
    [
        (["metrics.jsonl"], ""),
        (["best.safetensors"], "; whole: which='best'"),
        (["best.safetensors", "metrics.jsonl"], "; whole: which='best'"),
        (["best.safetensors", "metrics.jsonl", "previous.safetensors"], "; whole: which='previous' and which='best'"),
    ],
)
def test_a_run_that_lost_its_last_checkpoint(tmp_path, text, kept, whole):
    """Beginning again would write over what there is: refused, and left as it is."""
    nc_gru(text).run(tmp_path, CONFIG)
    for path in [*tmp_path.iterdir()]:
        if path.name not in ("config.json", *kept):
            path.unlink()
    before = contents(tmp_path)
    with pytest.raises(DamagedFile, match=rf"last\.safetensors is gone{whole}$"):
        nc_gru(text).run(tmp_path, CONFIG, resume=True)
    assert {name: data for name, data in contents(tmp_path).items() if name != "lock"} == before


@pytest.mark.parametrize("name", run_folder.RUN_FILES)
def test_a_file_of_a_run_without_its_config(tmp_path, text, name):
    """A folder with anything of a run in it is not a new one: an old best checkpoint would pass for the new run's."""
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(FileExistsError, match=rf"which holds a run already \({name}\)"):
        lstm(text).run(tmp_path, CONFIG)
    assert contents(tmp_path) == {name: b""}


@pytest.mark.parametrize("remove", ["folder", "lock", "lock before the summary"])
def test_a_folder_that_is_taken_away(tmp_path, monkeypatch, remove):
    """A run whose folder or lock is removed under it stops before it writes over what another run has put there."""
    own, out, right = small_trainer(Parenthesis(5), iterations=20, checkpoint_every=2), tmp_path / "run", runs.summarize

    def take_away(*arguments):
        if remove == "folder":
            shutil.rmtree(out)
            small_trainer(Parenthesis(5), seed=1, iterations=4).run(out)
        else:
            (out / "lock").unlink()
        taken.append(contents(out))
        return right(*arguments) if remove == "lock before the summary" else None

    taken, options = [], {"on_record": take_away}
    if remove == "lock before the summary":
        monkeypatch.setattr(runs, "summarize", take_away)
        options = {}
    with pytest.raises(OSError, match="which was removed or taken over while this process used it"):
        own.run(out, **options)
    assert contents(out) == taken[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "cross_entropy"}, "loss is 'cross_entropy'; the task's is 'mean_squared_error'"),
        ({"readout": "last"}, "readout is 'last'; the task's is 'every'"),
        ({"input_size": 8}, "input size is 8; the task's is 7"),
        ({"output_size": 17}, "output size is 17; the task's is 18"),
    ],
)
def test_a_network_for_another_task(changes, message):
    """The loss trained and the loss evaluated must be one; so must the sizes and the readout."""
    task = Parenthesis(5, "released")
    network = models.network(**network_for(task) | changes)
    with pytest.raises(ValueError, match=f"^the network's {message}$"):
        TrainingRun(network, task, Adam(), 1, iterations=1)


OF_ANOTHER = "layer0\\.U_c is float32 \\(6, 6\\); the network's is "


@pytest.mark.parametrize(
    ("options", "config", "message"),
    [
        ({}, CONFIG | {"n": 7}, r"^n is 7; the run in .* has 6"),
        ({}, {"what": "a test"}, r"^n is None; the run in .* has 6"),
        ({}, CONFIG | {"new": 1}, r"^new is 1; the run in .* has None"),
        *(
            ({name: value}, CONFIG, rf"^{name} is {value}; .*last\.safetensors has .*")
            for name, value in (
                ("iterations", 8),
                ("batch_size", 5),
                ("log_every", 2),
                ("evaluate_every", 5),
                ("clip_norm", 1.0),
                ("seed", 1),
            )
        ),
        ({"n": 7}, CONFIG, rf"last\.safetensors: {OF_ANOTHER}float32 \(7, 7\)"),
        ({"model": "lstm"}, CONFIG, rf"last\.safetensors: {OF_ANOTHER}missing"),
        ({"layers": 2}, CONFIG, r"last\.safetensors: layer1\.U_c is missing; the network's is float32 \(6, 6\)"),
        ({"dtype": np.float64}, CONFIG, rf"last\.safetensors: {OF_ANOTHER}float64 \(6, 6\)"),
        ({"task": Parenthesis(6)}, CONFIG, "the task's data are not the run's: 1 batches took other draws"),
    ],
)
def test_a_trainer_that_is_not_the_runs(tmp_path, options, config, message):
    """Does not resume it, and leaves the folder as it is; the error names what differs, with both values."""
    small_trainer(Parenthesis(5)).run(tmp_path, CONFIG, should_stop=lambda: True)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=f"{message}$"):
        small_trainer(**{"task": Parenthesis(5)} | options).run(tmp_path, config, resume=True)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("log_every", [1, 100])
def test_a_U_that_is_not_finite(tmp_path, log_every):
    """A finite A beside a U that is not: the weight is named, with the update, by whichever looks first."""
    own = small_trainer(Parenthesis(5), "scornn", log_every=log_every, evaluate_every=100, iterations=50)

    def break_U():
        own.buffers["layer0.U"]["U"][:] = np.nan
        return False

    with (
        np.errstate(all="ignore"),
        pytest.raises(FloatingPointError, match=r"^iteration \d: .*parameter layer0\.U\.U$"),
    ):
        own.run(tmp_path, should_stop=break_U)


def test_an_A_that_overflows(tmp_path):
    """Finite deltas whose sum is not: refused before it reaches U, and named."""
    huge = Changing(lambda name, delta: np.sign(delta) * np.float32(3e38) if name.endswith(".A") else delta)
    own = small_trainer(Parenthesis(5), "scornn", optimizer=huge, iterations=50)
    with (
        np.errstate(all="ignore"),
        pytest.raises(FloatingPointError, match=r"^iteration \d: layer0\.U: A has an entry.*; every delta is finite$"),
    ):
        own.run(tmp_path)


def test_an_A_that_no_orthogonal_U_can_be_built_from(tmp_path, monkeypatch):
    """The parametrization's error, with the update."""

    def refused(self, params, buffers, deltas):
        raise NotOrthogonalError("layer0.U: A is too large")

    own = small_trainer(Parenthesis(5), "scornn")
    monkeypatch.setattr(Network, "move", refused)
    with pytest.raises(NotOrthogonalError, match=r"^iteration 1: layer0\.U: A is too large$"):
        own.run(tmp_path)


def test_health_of_what_is_not_finite(monkeypatch):
    """No singular values: the error is that of the numbers, with the update after which they are not finite."""
    own = small_trainer(Parenthesis(5), "scornn")

    def no_singular_values(buffers):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(Network, "health", lambda self, buffers: no_singular_values(buffers))
    own.params["readout.b"][0] = np.nan
    with pytest.raises(FloatingPointError, match=r"^iteration 0: after it, SVD .*; .*parameter readout\.b"):
        own.health()


def test_moments_that_overflow(tmp_path):
    """A gradient whose square is infinite stops its entry for ever: no checkpoint is written over the good one."""
    own = small_trainer(Parenthesis(5), checkpoint_every=2)
    right = own.network.compute

    class Steep(Network):
        def compute(self, *arguments):
            loss, gradients, result = right(*arguments)
            steep = {name: gradients[name] * np.float32(1e25) for name in ("readout.W", "readout.b")}
            return loss, gradients | steep, result

    own.network = Steep(own.network.layers, own.network.output_size)
    named = "optimizer/buffers/readout.W/v, optimizer/buffers/readout.b/v"
    message = f"^iteration 2: the update is not finite; not finite: the parameter {re.escape(named)}$"
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match=message):
        own.run(tmp_path)


def test_moments_in_a_list(tmp_path):
    """An optimizer of a user's keeps them as it likes: no checkpoint has one that is not finite."""
    own = small_trainer(Parenthesis(5))
    state = own.optimizer.state
    own.optimizer.state = lambda: state() | {"last": [np.float64(1.0) * np.ones(2), np.full(2, np.inf)]}
    with pytest.raises(FloatingPointError, match=r"not finite: the parameter optimizer/last/1$"):
        own.run(tmp_path)


def test_checkpoints_every_so_many_updates(tmp_path, text, monkeypatch):
    """last: at the start, at multiples of checkpoint_every and at the end; best: where an evaluation is the best."""
    saved = []
    right = checkpoint.save
    monkeypatch.setattr(
        checkpoint,
        "save",
        lambda path, state, *rest: (saved.append((path.name, state["iteration"])), right(path, state, *rest)),
    )
    rising(text, checkpoint_every=3).run(tmp_path)
    last = [("last.safetensors", k) for k in (0, 3, 6, 7)]
    assert saved == [*last[:2], ("best.safetensors", 4), *last[2:]]


# Folders that hold a run, or none, or another


def test_a_folder_that_holds_a_run(tmp_path):
    """Refused, and left as it is; a new folder gets its config.json, with its parents."""
    out = tmp_path / "a" / "b"
    small_trainer(Parenthesis(5)).run(out, {"seed": 1, "pair": (1, 2)})
    assert read_config(out) == {"seed": 1, "pair": [1, 2]}
    before = contents(out)
    for config in ({"seed": 1, "pair": [1, 2]}, {"seed": 2}, None):
        message = r"holds a run already \(config\.json\); choose another folder, or resume it$"
        with pytest.raises(FileExistsError, match=message):
            small_trainer(Parenthesis(5)).run(out, config)
    assert contents(out) == before


def test_no_run_to_resume(tmp_path):
    """FileNotFoundError, and nothing is made: no folder, an empty one, a file in its place."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("none", "empty", "file"):
        with pytest.raises(FileNotFoundError, match=f"{name} holds no run: there is no config.json in it$"):
            small_trainer(Parenthesis(5)).run(tmp_path / name, resume=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]
    assert not [*(tmp_path / "empty").iterdir()]


def test_a_folder_that_cannot_be(tmp_path, monkeypatch):
    """The error names `out` and what the system says."""
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match=f"^out is {tmp_path}/file/run: Not a directory$"):
        small_trainer(Parenthesis(5)).run(tmp_path / "file" / "run")
    with pytest.raises(NotADirectoryError, match=f"^out is {tmp_path}/file: Not a directory$"):
        small_trainer(Parenthesis(5)).run(tmp_path / "file")

    def refused(self, **options):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(PermissionError, match=f"^out is {tmp_path}/run: Permission denied$"):
        small_trainer(Parenthesis(5)).run(tmp_path / "run")


def test_a_folder_belongs_to_one_trainer(tmp_path, text, uninterrupted):
    """While a run is on, another in its folder is refused, to resume it too; afterwards, and after an error, the folder
    is free."""

    def intrude(record):
        for resume in (True, False):
            with pytest.raises((BlockingIOError, FileExistsError)) as caught:
                nc_gru(text).run(tmp_path, CONFIG, resume=resume)
            assert not resume or caught.type is BlockingIOError
            assert not resume or str(caught.value).startswith(f"out is {tmp_path}, which process ")

    own = nc_gru(text)
    own.task = Crashing(own.task, 5)
    with pytest.raises(Crash):
        own.run(tmp_path, CONFIG, on_record=intrude)
    own = nc_gru(text)
    assert_same(end_of(own, tmp_path, own.run(tmp_path, CONFIG, resume=True)), uninterrupted("nc_gru", "cpu"))


# What is not finite


OFTEN = {"log_every": 1, "checkpoint_every": 2, "evaluate_every": 100}


def stays_good(out, own, iteration, message, good):
    """The run stops at this iteration with this message, last.safetensors stays that of iteration `good`, the lines
    before stay and are JSON, and there is no summary, nor a best checkpoint."""
    last, seen = out / "last.safetensors", {}

    def on_record(record):
        seen[record["iteration"]] = last.read_bytes()

    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match=f"^iteration {iteration}: {message}$"):
        own.run(out, on_record=on_record)
    assert last.read_bytes() == seen[good + 1]  # a line is shown before the checkpoint of its update
    assert checkpoint.load(last)["iteration"] == good
    strict = {"parse_constant": lambda name: pytest.fail(f"{name} is not JSON")}
    lines = [json.loads(line, **strict) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [*seen]
    assert not {"summary.json", "best.safetensors"} & {path.name for path in out.iterdir()}


@pytest.mark.parametrize(
    ("model", "victim", "update", "value", "options", "message"),
    [
        # no later loss sees them: they are found when the checkpoint is written, which is not
        *(
            ("gru", "readout.b", 4, value, {}, r"the update is not finite; not finite: the parameter readout\.b")
            for value in (math.inf, math.nan)
        ),
        # the last update is seen by the evaluation alone
        (
            *("gru", "readout.b", 7, math.nan, {"checkpoint_every": 5}),
            r"evaluation loss is nan; not finite: the parameter readout\.b",
        ),
        (
            *("irnn", "layer0.W", 4, math.nan, {"layers": 2, "evaluate_every": 4}),
            r"evaluation loss is nan; not finite: the parameter layer0\.W",
        ),
        # A could not come back from it
        (
            *("nc-gru", "layer0.U_c.A", 4, math.nan, {}),
            r"layer0\.U_c: delta of A has an entry .*; not finite: the delta of layer0\.U_c\.A",
        ),
    ],
)
def test_an_update_that_is_not_finite(tmp_path, model, victim, update, value, options, message):
    """Refused before it reaches U, at the evaluation or at the checkpoint, with the update and the parameter."""
    own = small_trainer(Parenthesis(5), model, optimizer=poisoned(victim, update, value), **OFTEN | options)
    stays_good(tmp_path, own, update, message, 5 if "checkpoint_every" in options else 2)


def test_a_loss_that_is_not_finite(tmp_path, device):
    """Stops the run, naming the iteration and the parameters; the lines written before stay."""
    own = small_trainer(Parenthesis(5), optimizer=poisoned("readout.b", 3), device=device, **OFTEN)
    stays_good(tmp_path, own, 4, r"loss is nan; not finite: the parameter readout\.b", 2)
    healthy = small_trainer(Parenthesis(5), optimizer=Adam(), device=device, **OFTEN)
    reference = small_trainer(Parenthesis(5), optimizer=Adam(), device=device, **OFTEN)
    ends = [own.run(out, resume=out == tmp_path) for own, out in ((healthy, tmp_path), (reference, fresh(tmp_path)))]
    assert without_speed(ends[0]) == without_speed(ends[1])
    assert_same(to_host(healthy.params), to_host(reference.params))


def test_a_loss_that_is_not_finite_with_finite_parameters(tmp_path):
    """A task's own NaN is told apart from a parameter's."""
    task = Fixed([Batch(np.zeros((3, 2, 4)), np.full((3, 2, 3), np.nan))], Vectors(4), 3, loss="mean_squared_error")
    with pytest.raises(FloatingPointError, match=r"^iteration 1: loss is nan; every parameter is finite$"):
        small_trainer(task).run(tmp_path)


def test_a_weight_that_no_output_shows(tmp_path):
    """An evaluation does not see a column of W whose token it does not have; best.safetensors is not written either."""
    task = Fixed([Batch(np.zeros((3, 2), int), np.zeros((3, 2), int))], Tokens(3), 2)
    column = np.array([0, 0, math.inf], np.float32)
    bad = Changing(lambda name, delta: delta + column if name == "layer0.W_r" else delta)
    with pytest.raises(FloatingPointError, match=r"^iteration 1: the update is not finite; .*layer0\.W_r$"):
        small_trainer(task, optimizer=bad, evaluate_every=1).run(tmp_path)
    assert not (tmp_path / "best.safetensors").exists()
    assert checkpoint.load(tmp_path / "last.safetensors")["iteration"] == 0


def test_a_gradient_that_is_not_finite(tmp_path, monkeypatch):
    """A finite loss with an infinite gradient stops the run before the update, and names the parameter."""
    own = small_trainer(Parenthesis(5), **OFTEN)
    right = Network._gradients

    def poisoned(*arguments):
        gradients = right(*arguments)
        return gradients | {"readout.b": gradients["readout.b"] * (np.inf if own.iteration == 4 else 1)}

    monkeypatch.setattr(Network, "_gradients", poisoned)
    stays_good(tmp_path, own, 4, r"gradient norm is (inf|nan); not finite: the gradient of readout\.b", 2)


# The weights of a run


def test_load_gives_the_best_weights(tmp_path, device):
    """best.safetensors is of the smallest evaluation loss; `load` gives its network and weights, the outputs to the
    bit, on the host; which="last" those of the last update."""
    task, params = Parenthesis(5), {}
    arguments = network_for(task, "nc-gru", (6, 5), orthogonal="rc", dropout=0.3)
    optimizer = Adam(lambda k: 1e-2 if k < 4 else -1e-2)
    own = TrainingRun(models.network(**arguments), task, optimizer, device=device, **SCHEDULE)

    def on_record(record):
        params[record["iteration"]] = to_host(own.params), to_host(own.buffers)

    records = own.run(tmp_path, {"network": arguments}, on_record=on_record)
    assert records[1]["evaluation_loss"] < records[3]["evaluation_loss"]
    x = next(iter(task.evaluation())).x
    for which, iteration in ((None, 4), ("best", 4), ("last", 7)):
        loaded = load(tmp_path, which)
        assert (loaded.network.dropout, len(loaded.network.layers)) == (0.3, 2)
        assert isinstance(loaded.params["readout.b"], np.ndarray)
        for name, value in params[iteration][0].items():
            np.testing.assert_array_equal(loaded.params[name], value)
        outputs = own.network.forward(*params[iteration], x).outputs
        np.testing.assert_array_equal(loaded.network.forward(loaded.params, loaded.buffers, x).outputs, outputs)
    record = training.evaluate(*load(f"{tmp_path}"), task)
    if device == "cpu":
        assert record == {key: records[1][key] for key in ("evaluation_loss", "accuracy")}


def test_load_before_the_first_evaluation(tmp_path):
    """Takes the last checkpoint; the best is not there."""
    task = Parenthesis(5)
    own = small_trainer(task)
    own.run(tmp_path, {"network": network_for(task)}, should_stop=lambda: True)
    np.testing.assert_array_equal(load(tmp_path).params["readout.W"], own.params["readout.W"])
    with pytest.raises(FileNotFoundError, match=r" has no best\.safetensors$"):
        load(tmp_path, "best")


def test_what_cannot_be_loaded(tmp_path):
    """Each error names the file or the argument."""
    task, out = Parenthesis(5), tmp_path / "run"
    small_trainer(task).run(out, {"network": network_for(task)}, should_stop=lambda: True)
    config, last = out / "config.json", out / "last.safetensors"
    with pytest.raises(ValueError, match=r"^which is 'first'; allowed: 'last', 'previous', 'best'$"):
        load(out, "first")
    with pytest.raises(FileNotFoundError, match=r"none holds no run: there is no config\.json in it$"):
        load(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match=r"holds no run: there is no config\.json in it$"):
        read_metrics(tmp_path)

    def changed(**arguments):
        """Another config, sealed, and the checkpoint of it."""
        with RunFolder(out, "a") as folder:
            sha256 = folder.write_document("config.json", run_folder.CONFIG_FORMAT, arguments, forms.Config)
        own = {"config_sha256": sha256, "metrics": np.zeros(0, np.uint8)}
        checkpoint.save(last, checkpoint.load(last) | own)

    changed()
    with pytest.raises(ValueError, match=r"config\.json names no network; it needs the arguments of models\.network"):
        load(out)
    changed(network=network_for(task))
    load(out)
    last.unlink()
    with pytest.raises(FileNotFoundError, match=r"run has no last\.safetensors$"):
        load(out)
    config.write_text("[]\n")
    with pytest.raises(
        DamagedFile, match=r"config\.json is damaged: it holds a list; expected an object; put back what was "
    ):
        load(out)
    config.unlink()
    config.mkdir()
    with pytest.raises(OSError, match=r"config\.json cannot be read: it is a folder, not a file$"):
        load(out)


def test_read_metrics_while_a_line_is_written(tmp_path):
    """A line without its end is left out."""
    own = small_trainer(Parenthesis(5))
    records = own.run(tmp_path, should_stop=lambda: own.iteration == 5)
    with open(tmp_path / "metrics.jsonl", "a") as stream:
        stream.write('{"iteration": 6')
    assert read_metrics(tmp_path) == records


# The summary


def made_record(i, loss, metric, name="accuracy", **figures):
    """A line of metrics with an evaluation, where there is a loss."""
    record = {"iteration": i, "loss": 1.0, "steps_per_second": float(i), "weights": figures}
    return record if loss is None else record | {"evaluation_loss": loss, name: metric}


def test_summary_by_hand():
    """Minimum and where, final value, median of the last 20 evaluations, not of all; the worst figures of any line; the
    last line's forced resets, of all weights together."""
    losses = [9.0, 8.0, 0.5, *(2.0 + 0.1 * i for i in range(20))]
    records = [
        made_record(
            10 * (i + 1),
            loss,
            i / 100,
            a={"defect": 0.1 if i == 3 else 0.01, "condition": 0.2, "forced_resets": i},
            b={"defect": 0.02, "condition": 0.3 if i == 5 else 0.1, "forced_resets": 1},
            c={"defect": 0.01},
        )
        for i, loss in enumerate(losses)
    ]
    records.insert(0, made_record(5, None, None, a={"defect": 0.7}))
    task = Fixed([], Tokens(2), 2, baseline=1.25)
    summary = summarize(records, task, 123)
    assert summary["iterations"] == 230
    assert summary["parameters"] == 123
    assert summary["baseline"] == 1.25
    assert summary["evaluations"] == 23
    median = statistics.median(losses[3:])
    assert summary["evaluation_loss"] == {"minimum": 0.5, "at": 30, "final": losses[-1], "median_of_last_20": median}
    assert summary["accuracy"] == {"maximum": 0.22, "at": 230, "final": 0.22, "median_of_last_20": 0.125}
    assert summary["worst_defect"] == 0.7
    assert summary["worst_condition"] == 0.3
    assert summary["forced_resets"] == 23
    assert summary["steps_per_second"] == statistics.median([5.0, *range(10, 240, 10)])


def test_summary_of_bits_and_of_free_weights():
    """Bits per character are best where smallest; a model without orthogonal weights has no figures of them."""
    task = Fixed([], Tokens(2), 2, metric="bits_per_character")
    summary = summarize([made_record(i, 1.0 / i, 5.0 - i, task.metric, U={}) for i in (1, 2, 3)], task, 1)
    assert summary["bits_per_character"] == {"minimum": 2.0, "at": 3, "final": 2.0, "median_of_last_20": 3.0}
    assert not {"worst_defect", "worst_condition", "forced_resets"} & summary.keys()
    summary = summarize([made_record(1, 1.0, 5.0, task.metric, U={"defect": 0.5})], task, 1)
    assert summary["worst_defect"] == 0.5
    assert "forced_resets" not in summary


def test_summary_file(tmp_path, text):
    """Is the summary of the run's lines, and there when the run is finished only."""
    own = nc_gru(text)
    own.run(tmp_path, CONFIG, should_stop=lambda: own.iteration == 6)
    assert not (tmp_path / "summary.json").exists()
    records = own.run(tmp_path, CONFIG, resume=True)
    expected = summarize(records, own.task, own.network.count(own.params))
    assert read_summary(tmp_path) == expected


def test_a_trainer_that_has_run(tmp_path):
    """A second folder would get the end of the first run only: refused before the folder is made."""
    own = small_trainer(Parenthesis(5))
    own.run(tmp_path / "a")
    with pytest.raises(
        ValueError, match=r"^this trainer has done 7 updates; go on with resume=True, or make a new one$"
    ):
        own.run(tmp_path / "b")
    assert not (tmp_path / "b").exists()
    own.run(tmp_path / "a", resume=True)


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="only x86-64 Linux is slow with subnormal numbers"
)
def test_subnormal_numbers_count_as_zero(tmp_path, monkeypatch):
    """In updates, in runs to their summary, in evaluations: copying over T = 1000 takes six times as long with them;
    what the process does besides is as it was."""
    halves, right = [], runs.summarize

    def halve():
        halves.append(float((np.full(9, np.finfo(np.float32).tiny) * np.float32(0.5))[-1]))

    class Halving(Network):
        def features(self, *arguments):
            halve()
            return super().features(*arguments)

    monkeypatch.setattr(runs, "summarize", lambda *arguments: halve() or right(*arguments))
    own = small_trainer(Parenthesis(5), iterations=1)
    own.network = Halving(own.network.layers, own.network.output_size)
    own.run(tmp_path)
    own.evaluate()
    training.evaluate(own.network, own.params, own.buffers, own.task)
    own.update(next(own.task.batches(np.random.default_rng(0), 2)))
    assert set(halves) == {0.0}
    own.network.forward(own.params, own.buffers, np.zeros((2, 1), int))
    assert halves[-1] > 0
