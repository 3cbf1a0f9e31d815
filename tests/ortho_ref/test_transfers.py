"""What training copies between host and device: batches there; back, once per logging interval, what is to be told,
and once per update the norms that Neumann series have to know.

Counted on the stand-in, and by the real CuPy on the host device.  What CuPy waits for in its own functions is counted
by name, apart.
"""

import contextlib
import json
import math
import re
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gradients.checks import cells
from gradients.problem import random_problem
from ortho_ref import backend, checkpoint, fused, models, scan
from ortho_ref.backend import NotFiniteError, library_of, to_device, to_host
from ortho_ref.checks import Checks, check, check_finite, check_indices, number, prefixed
from ortho_ref.fused import persistent
from ortho_ref.fused.persistent import launch
from ortho_ref.network import Network
from ortho_ref.optimizers import SGD, Adam, clip_by_global_norm, global_norm
from ortho_ref.parametrizations import (
    Exponential,
    GeodesicUnitary,
    Householder,
    NeumannCayley,
    ScaledCayley,
    StructuredUnitary,
)
from ortho_ref.parametrizations.cayley import inverse
from ortho_ref.run_folder import read_metrics
from ortho_ref.runs import TrainingRun
from ortho_ref.task import JOINS, Batch, Padded, StoryAndQuestion, Tokens, Vectors
from tests.device import standin
from tests.ortho_ref.test_training import Crash, Crashing, Fixed, Poisoned, assert_same

LU = {"lu_factor", "lu_solve"}
#: Models whose every update has an exact inverse or an exponential.
WAITING = {"scornn": LU, "full-urnn": LU, "exprnn": {"expm"} | LU}
#: How often CuPy waits there, in each layer (docs/gpu.md).
WAITS = {"scornn": 3, "full-urnn": 3, "exprnn": 6}


def norms_read(model, layers):
    """How many copies of norms come to the host in an update: of all Neumann series in one, of each A twice."""
    return {"nc-gru": 1, "exprnn": 2 * layers}.get(model, 0)


@contextlib.contextmanager
def counted():
    """Copies within: down (to the host, without those of CuPy's functions that wait), up, and by_name, these."""
    count = SimpleNamespace()
    down, up, waits = standin.transfers, standin.uploads, standin.waits.copy()
    yield count
    count.by_name = standin.waits - waits
    count.down, count.up = standin.transfers - down - count.by_name.total(), standin.uploads - up


def tokens(rng, masked=False, T=6):
    """A batch of tokens below 5 and classes below 4, B = 3."""
    mask = rng.random((T, 3)) < 0.6 if masked else None
    return Batch(rng.integers(0, 5, (T, 3)), rng.integers(0, 4, (T, 3)), mask, carries_state=True)


def vectors(rng, masked=False, T=6):
    """A batch of vectors (T, 3, 5) and numbers (T, 3, 4)."""
    return tokens(rng, masked, T)._replace(x=rng.standard_normal((T, 3, 5)), y=rng.standard_normal((T, 3, 4)))


def task_of(batches):
    """A task of given batches."""
    number_of = {"i": (Tokens(5), "cross_entropy"), "f": (Vectors(5), "mean_squared_error")}
    own, loss = number_of[batches[0].x.dtype.kind]
    return Fixed(batches, own, 4, loss=loss, metric="accuracy" if loss == "cross_entropy" else "within_0.04")


def trainer_for(
    batches, model="gru", device="stand-in", optimizer=None, n=8, layers=1, dropout=0.0, engine=None, **options
):
    """A trainer on given batches, over and over."""
    task = task_of(batches)
    kinds = {key: options.pop(key) for key in ("reset_every", "order", "parametrize", "orthogonal") if key in options}
    network = models.network(model, 5, [n] * layers, 4, loss=task.loss, dropout=dropout, **kinds)
    if engine is not None:
        network = replace(network, layers=tuple(replace(layer, engine=engine) for layer in network.layers))
    form = {"iterations": 12, "batch_size": 3, "log_every": 5, "evaluate_every": 100, "dtype": np.float64}
    return TrainingRun(network, task, optimizer or Adam(1e-2), device=device, **form | options)


# What an update copies


@pytest.mark.parametrize("make", [tokens, vectors])
@pytest.mark.parametrize("model", models.names())
def test_an_update_copies_its_batch_and_nothing_back(model, make):
    """Of every model, two layers: x and y go there once, masks too; back come the norms of Neumann series, in one copy,
    and of each exponential's A, twice; CuPy waits in exact inverses and exponentials."""
    rng = np.random.default_rng(0)
    for masked in (False, True):
        batch = make(rng, masked)
        own = trainer_for([batch], model, layers=2)
        for _ in range(3):
            with counted() as copies:
                own.update(batch)
            assert (copies.down, copies.up) == (norms_read(model, 2), 2 + masked)
            assert copies.by_name.keys() == WAITING.get(model, set())
        own.settle()


@pytest.fixture
def inside(monkeypatch, host_device):
    """Names of CuPy's functions of linear algebra that wait, call by call, and what was asked of the device in each."""
    linalg, counts, names = library_of(to_device(np.zeros(1), "gpu")).linalg, [], {"expm"} | LU

    def counting(name, function):
        def call(*args, **kwargs):
            if within:  # one of them calls another
                return function(*args, **kwargs)
            within.append(name)
            try:
                with host_device.counted() as count:
                    return function(*args, **kwargs)
            finally:
                counts.append((within.pop(), count))

        return call

    within = []
    for name in names:
        monkeypatch.setattr(linalg, name, counting(name, getattr(linalg, name)))
    return counts


def assert_waits_for_norms_alone(count, inside, model):
    """What was asked of the device in an update of two layers, without what CuPy's own functions waited for."""
    for name, theirs in inside:
        assert theirs.waits == {"lu_factor": 2, "lu_solve": 1, "expm": 2}[name]
        for kind in ("waits", "to_host", "to_device"):
            setattr(count, kind, getattr(count, kind) - getattr(theirs, kind))
    assert count.waits == count.to_host == norms_read(model, 2)
    assert count.to_device == 3
    assert {name for name, _ in inside} == WAITING.get(model, set())
    assert sum(theirs.waits for _, theirs in inside) == 2 * WAITS.get(model, 0)


@pytest.mark.parametrize("make", [tokens, vectors])
@pytest.mark.parametrize("model", models.names())
def test_an_update_waits_in_cupy_as_on_the_stand_in(host_device, inside, model, make):
    """The real CuPy: the same copies as above, a wait for each that comes back, and no other."""
    batch = make(np.random.default_rng(0), True)
    own = trainer_for([batch], model, "gpu", layers=2)
    for _ in range(3):
        inside.clear()
        with host_device.counted() as count:
            own.update(batch)
        assert_waits_for_norms_alone(count, inside, model)
    own.settle()


#: Models whose cell has persistent kernels.
PERSISTENT = [name for name in models.names() if persistent.has_form(models.build(name, 4, 4).cell)]


@pytest.fixture
def recurrences(monkeypatch, host_device):
    """(cell, way) of every persistent kernel that is launched."""
    launched, compiled = [], launch.kernel

    class Kernel:
        def __init__(self, xp, device, cell, way, dtype):
            self.own, self.name = compiled(xp, device, cell, way, dtype), (cell, way)

        def __getattr__(self, name):
            return getattr(self.own, name)

        def __call__(self, *args, **kwargs):
            launched.append(self.name)
            return self.own(*args, **kwargs)

    monkeypatch.setattr(launch, "kernel", Kernel)
    return launched


@pytest.mark.parametrize("make", [tokens, vectors])
@pytest.mark.parametrize("model", PERSISTENT)
def test_an_update_by_persistent_kernels(host_device, inside, recurrences, model, make):
    """Of two layers: a launch forward and one back for each, whatever T is, and not one launch more of anything for
    twice the steps; it waits for the norms of Neumann series alone, as with any engine."""
    asked = []
    for T in (6, 12):
        batch = make(np.random.default_rng(0), True, T)
        own = trainer_for([batch], model, "gpu", layers=2, engine="persistent")
        own.update(batch)  # compiled, moments made
        inside.clear()
        recurrences.clear()
        with host_device.counted() as count:
            own.update(batch)
        assert_waits_for_norms_alone(count, inside, model)
        (cell,) = {cell for cell, _ in recurrences}
        assert recurrences == [(cell, "forward")] * 2 + [(cell, "backward")] * 2
        asked.append((count.kernels, count.products, count.libraries))
        own.settle()
    assert asked[0] == asked[1]


def test_an_exact_inverse_waits_three_times(host_device):
    """For the codes of factorization and solution; CuPy's own looks for what is not finite, in A and in I, are off.
    What is not finite is found by name."""
    A, buffers = ScaledCayley(2).init(np.random.default_rng(0), 6, dtype=np.float64)
    A, buffers = to_device((A["A"], buffers), "gpu")
    for _ in range(2):
        with host_device.counted() as count:
            inverse(A)
    assert count.waits == count.to_host == 3
    A[0, 1], A[1, 0] = np.nan, np.nan
    assert not np.isfinite(to_host(inverse(A))).all()
    with pytest.raises(NotFiniteError, match=r"^A has an entry that is not finite$"):
        ScaledCayley(2).rebuild({"A": A}, buffers)


@pytest.mark.parametrize(("scale", "waits"), [(1, 8), (1e-3, 9)])
def test_an_exponential_waits_for_two_norms_and_for_cupy(host_device, scale, waits):
    """Value and derivative: a norm each, and expm, or LU where it is not squared, and LU; docs/gpu.md."""
    p = Exponential()
    params, buffers = p.init(np.random.default_rng(0), 6, dtype=np.float64)
    given = to_device(({"A": scale * params["A"]}, buffers, np.ones((6, 6))), "gpu")
    checks = Checks()
    with checks.deferred(1), host_device.counted() as count:
        p.pullback(given[0], p.rebuild(*given[:2]), given[2])
    assert count.waits == count.to_host == waits
    assert checks.settle()[1] is None


def stories(rng):
    """A batch of stories and questions of words below 5, and classes below 5, B = 3."""
    story = Padded(rng.integers(0, 5, (6, 3)), np.array([6, 1, 4]))
    return Batch((story, Padded(rng.integers(0, 5, (2, 3)), np.array([2, 1, 2]))), rng.integers(0, 5, 3))


def trainer_of_stories(batch, model="gru", join="once", device="stand-in"):
    """A trainer of a reader on one batch, over and over."""
    network = models.network(model, 5, [8] * 3, 5, embedding=4, readout="last", reader=join)
    task = Fixed([batch], StoryAndQuestion(5, join), 5, readout="last")
    form = {"iterations": 12, "log_every": 5, "evaluate_every": 100, "dtype": np.float64}
    return TrainingRun(network, task, Adam(1e-2), 3, device=device, **form)


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("model", models.names())
def test_an_update_of_a_reader_copies_its_texts_and_nothing_back(model, join):
    """[bp:reader] Both texts, their lengths and y go there once; the update is the host's."""
    batch = stories(np.random.default_rng(0))
    there, here = (trainer_of_stories(batch, model, join, device) for device in ("stand-in", "cpu"))
    for _ in range(3):
        with counted() as copies:
            there.update(batch)
        here.update(batch)
        assert (copies.down, copies.up) == (norms_read(model, 3), 5)
        assert copies.by_name.keys() == WAITING.get(model, set())
    there.settle()
    for name, value in to_host(there.params).items():
        np.testing.assert_allclose(value, here.params[name], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(there.evaluate()["evaluation_loss"], here.evaluate()["evaluation_loss"], rtol=1e-9)


def test_a_length_out_of_range_is_told_when_it_settles():
    """On a device not before; nothing is read beyond the arrays, and the parameters stay."""
    batch = stories(np.random.default_rng(0))
    own = trainer_of_stories(batch)
    before = to_host(own.params)
    long = batch.x[0]._replace(lengths=np.array([6, 1, 7]))
    own.update(batch._replace(x=(long, batch.x[1])))
    with pytest.raises(
        ValueError, match=r"^iteration 1: lengths of the story less 1 holds a step out of range; allowed: "
    ):
        own.settle()
    assert all(np.array_equal(value, before[name]) for name, value in to_host(own.params).items())


@pytest.mark.parametrize("options", [{"clip_value": 1e-3}, {"clip_norm": 1e-3}, {"clip_norm": 1e3}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clipping_copies_nothing(options, dtype):
    """By value and by norm, where it scales and where it does not; the update is the host's."""
    batch = tokens(np.random.default_rng(1))
    there = trainer_for([batch], "nc-gru", optimizer=SGD(0.1), dtype=dtype, **options)
    here = trainer_for([batch], "nc-gru", "cpu", SGD(0.1), dtype=dtype, **options)
    for _ in range(3):
        with counted() as copies:
            norm = there.update(batch)
        assert (copies.down, copies.up) == (1, 2)
        assert float(norm) == pytest.approx(here.update(batch), rel=1e-5)
    for name, value in to_host(there.params).items():
        assert value.dtype == dtype
        np.testing.assert_allclose(value, here.params[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("optimizer", [Adam(1e-2), SGD(1e-2, momentum=0.9, weight_decay=0.1)])
def test_dropout_is_drawn_on_the_host(optimizer):
    """One array for each layer."""
    batch = tokens(np.random.default_rng(1))
    own = trainer_for([batch], layers=2, dropout=0.5, optimizer=optimizer)
    with counted() as copies:
        own.update(batch)
    assert (copies.down, copies.up) == (0, 2 + 2)


def test_narrow_tokens(device):
    """Bytes are all in range of a vocabulary of more than 256; in one of 255 the last is told, or moved."""
    x, checks = to_device(np.array([[200, 7], [0, 255]], np.uint8), device), Checks()
    with checks.deferred(1):
        for stop in (300, 256):
            np.testing.assert_array_equal(to_host(check_indices("x", "token", x, stop)), to_host(x))
    assert checks.settle()[1] is None
    with checks.deferred(2):
        if device == "cpu":
            with pytest.raises(ValueError, match=r"^x holds token 255; allowed: 0 to 254$"):
                check_indices("x", "token", x, 255)
        else:
            assert to_host(check_indices("x", "token", x, 255)).tolist() == [[200, 7], [0, 254]]
            assert str(checks.settle()[1].error) == "x holds a token out of range; allowed: 0 to 254"


def test_a_periodic_reset_waits_for_its_inverse_alone():
    """Every third update of this NC-GRU: one factorisation, one solution."""
    batch = tokens(np.random.default_rng(2))
    own = trainer_for([batch], "nc-gru", reset_every=3)
    for k in range(1, 7):
        with counted() as copies:
            own.update(batch)
        assert copies.down == 1
        assert copies.by_name == Counter({} if k % 3 else dict.fromkeys(LU, 1))


@pytest.mark.parametrize("engine", [scan, fused])
@pytest.mark.parametrize("name", cells())
@pytest.mark.parametrize("as_tokens", [False, True])
def test_sequences_copy_nothing(name, engine, as_tokens):
    """Forward and backward of every cell, inside the loop over time and around it."""
    problem = random_problem(cells()[name], np.random.default_rng(0), T=7, tokens=as_tokens).on("stand-in")
    for h0 in (problem.h0, None):
        with counted() as copies:
            _, tape = engine.forward(problem.cell, problem.weights, problem.x, h0)
            engine.backward(problem.cell, problem.weights, tape, problem.dh, problem.dh_T)
        assert (copies.down, copies.up, copies.by_name.total()) == (0, 0, 0)


# What a logging interval copies


def test_an_interval_is_read_in_one_copy():
    """Loss, norm and all checks of any number of updates in one; nothing where nothing was left."""
    batch = tokens(np.random.default_rng(3))
    own = trainer_for([batch], "nc-gru", layers=2, reset_every=None, dtype=np.float32)
    for length in (1, 4):
        for _ in range(length):
            norm = own.update(batch)
        assert norm.dtype == np.float64
        with counted() as copies:
            norm = own.settle(norm)
        assert (copies.down, type(norm), type(own.take_loss())) == (1, float, float)
        with counted() as copies:
            own.settle()
        assert (copies.down, copies.up) == (0, 0)


@pytest.mark.parametrize("model", ["nc-gru", "goru", "lstm"])
def test_copies_do_not_depend_on_the_interval_s_length(tmp_path, model):
    """A run of one interval copies as much back from 40 updates as from four, but for the norms of the series."""
    batch, downs = vectors(np.random.default_rng(4)), {}
    for length in (4, 40):
        own = trainer_for([batch], model, iterations=length, log_every=length, checkpoint_every=length)
        with counted() as copies:
            own.run(tmp_path / str(length))
        downs[length] = copies.down
    norms = {4: 4, 40: 40} if model == "nc-gru" else {4: 0, 40: 0}
    assert (
        downs[4] - norms[4] == downs[40] - norms[40]
    )  # with health, an evaluation and two checkpoints, array by array


# That it is the same training


@pytest.mark.parametrize("make", [tokens, vectors])
@pytest.mark.parametrize("model", ["nc-gru", "goru", "urnn", "sgornn", "ornn"])
def test_host_and_device_agree(tmp_path, model, make):
    """50 updates, clipped, in which nothing is forced: every line of metrics and every parameter to 1e-10."""
    rng, ends = np.random.default_rng(5), {}
    batches = [make(rng, masked) for masked in (False, True, False)]
    for device in ("cpu", "stand-in"):
        own = trainer_for(
            batches, model, device, iterations=50, evaluate_every=20, clip_norm=0.05, optimizer=Adam(1e-3)
        )
        ends[device] = (own.run(tmp_path / device), to_host(own.params), own)
    lines = zip(*(records for records, _, _ in ends.values()), strict=True)
    for here, there in lines:
        assert here["iteration"] == there["iteration"]
        for key in ("loss", "gradient_norm", *(["evaluation_loss"] if "evaluation_loss" in here else [])):
            assert there[key] == pytest.approx(here[key], rel=1e-10)
        for name, figures in here["weights"].items():
            assert there["weights"][name] == pytest.approx(figures, rel=1e-8, abs=1e-10)
    for name, value in ends["cpu"][1].items():
        np.testing.assert_allclose(ends["stand-in"][1][name], value, rtol=1e-10, atol=1e-10)
    assert all(own.keys() == ends["cpu"][2].buffers[name].keys() for name, own in ends["stand-in"][2].buffers.items())


# Errors of values


def poisoned_batch(field, entry):
    """Eight batches of tokens; one entry, or the whole mask, of the seventh is wrong."""
    rng = np.random.default_rng(6)
    batches = [tokens(rng, masked=True) for _ in range(12)]
    getattr(batches[6], field)[...] = np.where(np.arange(18).reshape(6, 3) == 7, entry, getattr(batches[6], field))
    if field == "mask":
        batches[6].mask[...] = entry
    return batches


@pytest.mark.parametrize(
    ("field", "entry", "told", "on_host"),
    [
        ("x", -1, "x holds a token out of range; allowed: 0 to 4", "x holds token -1; allowed: 0 to 4"),
        ("y", -2, "y holds a class out of range; allowed: 0 to 3", "y holds class -2; allowed: 0 to 3"),
        ("mask", False, "mask leaves no entry to count", "mask leaves no entry to count"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_wrong_batch_is_told_at_the_end_of_its_interval(tmp_path, field, entry, told, on_host):
    """A batch that is wrong once, in update 7 of 6 to 9: the error is the host's, and the good checkpoint stays."""
    batches = poisoned_batch(field, entry)
    own = trainer_for(batches, checkpoint_every=5)
    with pytest.raises(ValueError, match=f"^between iterations 6 and 9, in 7: {told}$"):
        own.run(tmp_path / "device")
    assert checkpoint.load(tmp_path / "device" / "last.safetensors")["iteration"] == 5
    assert [line["iteration"] for line in read_metrics(tmp_path / "device")] == [5]
    with pytest.raises(ValueError, match=f"^{on_host}$"):
        trainer_for(batches, device="cpu").run(tmp_path / "host")


BETWEEN = "between iterations 6 and 9, in"


@pytest.mark.parametrize(
    ("model", "victim", "told", "bad"),
    [
        ("gru", "readout.b", f"{BETWEEN} 8: loss is not finite", "parameter readout.b"),
        (
            "nc-gru",  # whose norm is read in each update
            "layer0.U_c.A",
            r"iteration 7: layer0.U_c: \|\|A_tilde delta\|\| is nan in update 7 of A",
            "delta of layer0.U_c.A",
        ),
        ("urnn", "layer0.U.w_1", f"{BETWEEN} 7: layer0.U: w_1 has an entry that", "parameter layer0.U.w_1, layer0.U.U"),
        ("goru", "layer0.U_h.theta", f"{BETWEEN} 7: layer0.U_h: theta has an entry that", "parameter layer0.U_h.theta"),
    ],
)
def test_a_NaN_is_told_at_the_end_of_its_interval_or_at_once(tmp_path, model, victim, told, bad):
    """The iteration and the parameter are the host's; the last checkpoint stays, and nothing is written after it."""
    batch = tokens(np.random.default_rng(7))
    own = trainer_for([batch], model, optimizer=Poisoned(victim, 7), checkpoint_every=5)
    message = f"^{told}.*; not finite: the {bad}"
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match=message):
        own.run(tmp_path / "device")
    last = tmp_path / "device" / "last.safetensors"
    state = checkpoint.load(last)
    assert (state["iteration"], own.iteration) == (5, 9 if told.startswith(BETWEEN) else 7)
    assert all(np.isfinite(value).all() for value in state["params"].values())
    assert len(read_metrics(tmp_path / "device")) == 1
    host = trainer_for([batch], model, "cpu", Poisoned(victim, 7))
    with (
        np.errstate(all="ignore"),
        pytest.raises(FloatingPointError, match=f"^iteration {re.search('[78]', told)[0]}: "),
    ):
        host.run(tmp_path / "host")


@pytest.mark.parametrize(("update", "where"), [(4, "iteration 5"), (8, "between iterations 6 and 9, in 9")])
def test_the_interval_that_is_named(tmp_path, update, where):
    """What the update of a line finds is told as of it alone; what one before found, before health looks."""
    own = trainer_for([tokens(np.random.default_rng(7))], optimizer=Poisoned("readout.b", update))
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match=f"^{where}: loss is not finite"):
        own.run(tmp_path)


@pytest.mark.parametrize("stops", [False, True])
def test_no_checkpoint_between_lines_without_a_look(tmp_path, stops):
    """Checkpoints that no line is written with, by number or because the run is stopped, are of what was looked at."""
    own = trainer_for(poisoned_batch("x", -1), log_every=10, checkpoint_every=100 if stops else 8)
    with pytest.raises(ValueError, match=r"^between iterations 1 and 8, in 7: x holds a token out of range"):
        own.run(tmp_path, should_stop=lambda: stops and own.iteration == 8)
    assert checkpoint.load(tmp_path / "last.safetensors")["iteration"] == 0


def test_parameters_stay_from_the_failure_on():
    """So that the error names those that were not finite then."""
    batch = tokens(np.random.default_rng(7))
    own = trainer_for([batch], "nc-gru", optimizer=Poisoned("readout.b", 2))
    with np.errstate(all="ignore"):
        for k in range(1, 6):
            own.update(batch)
            if k == 2:
                at_2 = to_host(own.params)
    assert_same(to_host(own.params), at_2)
    assert not np.isfinite(at_2["readout.b"]).any()


def test_a_wrong_batch_moves_no_parameter():
    """Its own update does not, nor do the good ones after it."""
    batches = poisoned_batch("y", -1)
    own = trainer_for(batches, "nc-gru")
    for batch in batches[:6]:
        own.update(batch)
    before = to_host(own.params)
    for batch in batches[6:9]:
        own.update(batch)
        assert_same(to_host(own.params), before)


def test_a_gradient_that_is_not_finite(tmp_path, monkeypatch):
    """Under a finite loss: told as such, and no parameter has taken it in."""
    right = Network.backward

    def poisoned(*arguments):
        gradients = right(*arguments)
        return gradients | {"readout.b": gradients["readout.b"] * (math.inf if own.iteration == 3 else 1)}

    monkeypatch.setattr(Network, "backward", poisoned)
    own = trainer_for([tokens(np.random.default_rng(7))])
    message = r"^between iterations 1 and 4, in 3: gradient norm is not finite; every parameter is finite$"
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match=message):
        own.run(tmp_path)


def test_what_a_broken_off_interval_left_is_forgotten(tmp_path):
    """A trainer that goes on from its checkpoint does not tell of what it had seen beyond it."""
    own = trainer_for(poisoned_batch("x", -1), checkpoint_every=5)
    wrong, own.task = own.task, Crashing(own.task, 8)
    with pytest.raises(Crash):
        own.run(tmp_path)
    wrong.chunks[6].x.clip(0, out=wrong.chunks[6].x)
    own.task = wrong
    assert [line["iteration"] for line in own.run(tmp_path, resume=True)] == [5, 10, 12]


class NotSkew(Adam):
    """A delta of A that is not skew, at every update."""

    def delta(self, name, parameter, gradient):
        return abs(super().delta(name, parameter, gradient))


def test_a_delta_that_is_not_skew(tmp_path, device):
    """On the host at once; on a device at the end."""
    own = trainer_for([tokens(np.random.default_rng(7))], "nc-gru", device, NotSkew())
    host, there = (
        "delta of A is not skew: max ",
        "between iterations 1 and 4, in 1: layer0.U_c: delta of A is not skew$",
    )
    with pytest.raises(ValueError, match=f"^{host if device == 'cpu' else there}"):
        own.run(tmp_path)


@pytest.mark.parametrize(
    ("p", "name", "delta", "told"),
    [
        (Householder(2), "V", lambda V: np.triu(V + 1, 1), "V has an entry above"),
        (Householder(2), "V", lambda V: V - 1e-155 * V, "V has a column whose square is 0, subnormal or infinite"),
        (
            StructuredUnitary(),
            "v_1",
            lambda v: v - 1e-160 * v,
            "the square of v_1 is out of range; allowed: at least 2",
        ),
        (StructuredUnitary(), "v_2", lambda v: v * np.nan, "v_2 has an entry that is not finite"),
        (ScaledCayley(1), "A", lambda A: A + 0.1, "A is not skew$"),
        (Exponential(), "A", lambda A: A + 0.1, "A is not skew$"),
        (GeodesicUnitary(), "X", lambda X: X / np.eye(6)[0], "delta of X has an entry"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
def test_parameters_that_no_U_can_be_built_from(p, name, delta, told):
    """What a retraction refuses on the host it notes on a device."""
    params, buffers = p.init(np.random.default_rng(10), 6, dtype=np.float64)
    deltas = {key: np.zeros_like(value) for key, value in params.items()} | {name: delta(params[name])}
    checks = Checks()
    with checks.deferred(4), counted() as copies, contextlib.suppress(ValueError, np.linalg.LinAlgError):
        p.retract(
            *to_device((params, buffers, deltas), "stand-in")
        )  # CuPy's LU goes on with NaN, the stand-in's raises
    assert copies.down == isinstance(p, Exponential)  # the norm of A, which chooses a degree
    failure = checks.settle()[1]
    assert failure.turn == 4
    assert re.match(told, str(failure.error))
    with pytest.raises(type(failure.error)), np.errstate(all="ignore"):
        p.retract(params, buffers, deltas)


# Resets of the Neumann series that are forced


class Leaping(SGD):
    """SGD whose delta of A is of Frobenius norm 3 at one update."""

    def __init__(self, update):
        super().__init__(1e-3)
        self.left = update

    def delta(self, name, parameter, gradient):
        delta = super().delta(name, parameter, gradient)
        if not name.endswith(".A"):
            return delta
        self.left -= 1
        xp = backend.xp_of(delta)
        return delta * (3 / xp.linalg.norm(delta)) if self.left == 0 else delta

    def state(self):
        return super().state() | {"left": self.left}

    def load(self, state):
        self.left = state["left"]
        super().load({key: value for key, value in state.items() if key != "left"})


def leaping(device, **options):
    """NC-GRU whose third update leaps; lines at 5, 10, 12."""
    batch = tokens(np.random.default_rng(8))
    return trainer_for([batch], "nc-gru", device, Leaping(3), reset_every=None, **options)


def exactness(own):
    """How far the carried inverse is from the exact one."""
    buffers = to_host(own.buffers["layer0.U_c"])
    exact = np.linalg.inv(np.eye(8) + to_host(own.params["layer0.U_c.A"]))
    return abs(buffers["A_tilde"] - exact).max()


def test_a_forced_reset_comes_with_its_update(tmp_path, device):
    """On every device in the third update, whatever is logged when; the inverse is exact again at once."""
    for log_every in (1, 5, 12):
        seen, own = [], leaping(device, log_every=log_every)

        def look(own=own, seen=seen):
            seen.append((own.buffers["layer0.U_c"]["forced_resets"], exactness(own) < 1e-6))
            return False

        own.run(tmp_path / str(log_every), should_stop=look)
        assert seen == [(0, True)] * 2 + [(1, True)] * 10


def test_runs_do_not_depend_on_the_interval(tmp_path, device):
    """Lines of 1, 5 and 12 updates: the same weights, buffers and moments to the bit, with a reset that was forced."""
    ends = []
    for log_every in (1, 5, 12):
        own = leaping(device, log_every=log_every)
        own.run(tmp_path / str(log_every))
        ends.append(to_host((own.params, own.buffers, own.optimizer.state())))
    assert ends[0][1]["layer0.U_c"]["forced_resets"] == 1
    for end in ends[1:]:
        assert_same(end, ends[0])


@pytest.mark.parametrize("layers", [1, 3])
def test_all_norms_of_an_update_are_read_in_one_copy(layers):
    """Of three weights in each layer one copy for all; of a reset that one of them forces, the largest singular value
    of its own P besides."""
    batch = tokens(np.random.default_rng(8))
    own = trainer_for([batch], "nc-gru", layers=layers, orthogonal="ruc", optimizer=Leaping(3 * layers * 2 + 1))
    for k in range(1, 4):
        with counted() as copies:
            own.update(batch)
        assert copies.down == 1 + (k == 3)
        assert copies.by_name == Counter(dict.fromkeys(LU, 1) if k == 3 else {})


def test_a_forced_reset_by_hand(device):
    """A large P between small ones; it is counted once, and outside of `deferred` and within alike."""
    rng, p = np.random.default_rng(9), NeumannCayley(0, reset_every=None)
    params, buffers = to_device(p.init(rng, 4, dtype=np.float64), device)
    step = np.triu(rng.standard_normal((4, 4)), 1)
    step = to_device({"A": (step - step.T) / np.linalg.norm(step)}, device)["A"]
    for sizes, forced in (((0.1, 0.1), 0), ((0.1, 3.0, 0.1), 1)):
        for turn in (None, 1):
            now, own = params, buffers
            with contextlib.nullcontext() if turn is None else Checks().deferred(turn):
                for size in sizes:
                    now, own = p.retract(now, own, {"A": size * step})
            assert own["forced_resets"] == forced
            assert own.keys() == buffers.keys()


def test_the_2_norm_decides(device):
    """||P||_F above 1 and ||P||_2 below: the series, no reset."""
    p = NeumannCayley(0, reset_every=None)
    params, buffers = to_device(p.init(np.random.default_rng(9), 8, dtype=np.float64), device)
    A_tilde = to_host(buffers["A_tilde"])
    delta = np.zeros((8, 8))
    for i in range(0, 8, 2):
        delta[i, i + 1], delta[i + 1, i] = 0.9, -0.9
    P = A_tilde @ delta
    assert np.linalg.norm(P) > 1 > np.linalg.norm(P, 2)
    _, after = p.retract(params, buffers, to_device({"A": delta}, device))
    assert after["forced_resets"] == 0


class Impatient(NeumannCayley):
    """A variant that overrides `retract` alone."""

    def retract(self, params, buffers, delta):
        params, buffers = super().retract(params, buffers, delta)
        return params, {**buffers, "seen": True}


def test_an_update_of_one_s_own_is_the_one_that_layers_make(device):
    """Who overrides `retract` need not know of `begin_retract`."""
    layer = replace(models.build("nc-gru", 3, 4), parametrizations={"U_c": Impatient(2)})
    params, buffers = to_device(layer.init(np.random.default_rng(0), dtype=np.float64), device)
    deltas = {name: 0 * value for name, value in params.items()}
    assert layer.retract(params, buffers, deltas)[1]["U_c"]["seen"]


# The checks themselves


def test_checks_by_hand(device):
    """The first turn that failed, and there the first check; the same error of several turns counts as of its first."""
    checks = Checks()
    holds, fails = (to_device(np.asarray(value), device) for value in (True, False))
    if device == "cpu":
        with checks.deferred(1), pytest.raises(ValueError, match=r"^seen: 2$"):
            check(fails, ValueError("seen"), lambda: f"seen: {1 + 1}")
        return
    for turn, (a, b, c) in enumerate([(holds, holds, holds), (holds, fails, fails), (fails, fails, holds)], 7):
        with checks.deferred(turn):
            check(a, TypeError("a"), pytest.fail)
            with prefixed("layer0."), prefixed("U: "):
                check(b, ValueError("b"))
            check(c, KeyError("c"))
    (three, two), failure = checks.settle(3.0, to_device(np.asarray(2.0), device))
    assert (three, two, failure.turn, type(failure.error), str(failure.error)) == (3, 2, 8, ValueError, "layer0.U: b")
    assert checks.settle(1.5) == ([1.5], None)
    with checks.deferred(9):
        check(holds, ValueError("b"))
        with pytest.raises(ValueError, match=r"^at once$"):
            check(False, ValueError("at once"))
    assert checks.settle() == ([], None)
    with pytest.raises(ValueError, match=r"^after$"):
        check(fails, ValueError("after"))


def test_numbers_and_names(device):
    """Numbers stay on a device in float64; NotFiniteErrors, and no others, get their place before them at once."""
    value = to_device(np.asarray(0.1, np.float32), device)
    assert number(value) == float(np.float32(0.1))
    with Checks().deferred(1):
        kept = number(value)
        assert isinstance(kept, float) == (device == "cpu")
        assert np.asarray(to_host(kept)).dtype == np.float64
    with pytest.raises(NotFiniteError, match=r"^layer0\.x has an entry that is not finite$"), prefixed("layer0."):
        check_finite("x", to_device(np.array([1, np.nan]), device))
    with pytest.raises(ValueError, match=r"^other$"), prefixed("layer0."):
        check(False, ValueError("other"))


@pytest.mark.parametrize("size", [0.5, 2.0, 0.0, math.inf, math.nan])
def test_global_norms_that_stay(device, size):
    """Scaled above the limit alone; what is not finite is not scaled either."""
    gradients = to_device({"a": np.array([size, 0], np.float32), "b": np.zeros((), np.float32)}, device)
    with np.errstate(all="ignore"):
        want, norm = clip_by_global_norm(gradients, 1.0)
        with Checks().deferred(1):
            clipped, kept = clip_by_global_norm(gradients, 1.0)
            assert backend.is_array(kept) == backend.is_array(global_norm(gradients)) == (device != "cpu")
    np.testing.assert_array_equal(float(kept), norm)
    assert {name: value.dtype for name, value in clipped.items()} == dict.fromkeys("ab", np.float32)
    assert_same(to_host(clipped), to_host(want))


def test_lines_of_a_device_are_json(tmp_path):
    """Numbers, not arrays."""
    trainer_for([tokens(np.random.default_rng(3))], "nc-gru").run(tmp_path)
    for line in (tmp_path / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        assert {type(record[key]) for key in ("loss", "gradient_norm")} == {float}
