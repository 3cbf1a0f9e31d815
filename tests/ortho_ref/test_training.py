"""Networks of layers, and the training loop around them [bp:bptt] [bp:heads] [ncgru:alg1]."""

import itertools
import json
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradients.finite_difference import check
from gradients.problem import network_kink_distance
from ortho_ref import models, training
from ortho_ref.backend import to_device, to_host
from ortho_ref.cells import LSTM, Elman
from ortho_ref.losses import cross_entropy
from ortho_ref.network import Network
from ortho_ref.optimizers import Adam, ByName
from ortho_ref.parametrizations import ScaledCayley
from ortho_ref.recurrent import Recurrent
from ortho_ref.task import Batch, Tokens, Vectors
from ortho_ref.training import Trainer, new_run_folder
from tasks.parenthesis import Parenthesis
from tasks.text import Text

MODELS = ["gru", "lstm", "nc-gru"]


def network_of(name, m, n, q, layers=2, readout="every", **options):
    """`layers` copies of a model under a readout."""
    sizes = [m] + [n] * layers
    return Network(tuple(models.build(name, *pair, **options) for pair in pairwise(sizes)), q, readout)


def generic(network, rng):
    """Parameters and states in float64, with no bias left at 0 and A no longer made of blocks."""
    params, states = network.init(rng, np.float64)
    for name, value in params.items():
        noise = 0.5 * rng.standard_normal(value.shape)
        params[name] = value + (noise - noise.T if name.endswith(".A") else noise)
    return params, network.rebuild(params, states)


@dataclass
class Fixed:
    """A task of given batches: over and over for training, once for evaluation."""

    chunks: list[Batch]
    input: Any
    output_size: int
    metric: str = "accuracy"
    readout: str = "every"
    loss: str = "cross_entropy"

    def batches(self, rng, batch_size):
        while True:
            yield from self.chunks

    def evaluation(self):
        return iter(self.chunks)


def small_trainer(task, model="gru", n=6, layers=1, optimizer=None, **options):
    """Seven updates, a line of metrics at 3, 6 and 7, evaluation at 6 and 7."""
    network = network_of(model, task.input.size, n, task.output_size, layers, task.readout)
    options = {"iterations": 7, "batch_size": 4, "log_every": 3, "evaluate_every": 4} | options
    return Trainer(network, task, optimizer or Adam(1e-2), **options)


def without_speed(records):
    """The records without what depends on the machine's speed."""
    return [{key: value for key, value in record.items() if key != "steps_per_second"} for record in records]


# The network


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("readout", ["every", "last"])
@settings(max_examples=2)
@given(seed=st.integers(0, 2**32 - 1), tokens=st.booleans(), masked=st.booleans(), carried=st.booleans())
def test_gradients_against_finite_differences(device, name, readout, seed, tokens, masked, carried):
    """Every free entry of every parameter, through readout, two layers and the Cayley pullback; given states too."""
    rng = np.random.default_rng(seed)
    T, B, m, n = 3, 3, 3, 4
    network = network_of(name, m, n, 6, readout=readout)
    y = rng.integers(0, 3, (T, B, 2) if readout == "every" else (B, 2))
    mask = np.arange(y.size // 2).reshape(y.shape[:-1]) != 1 if masked else None
    distance, h0 = 0.0, None
    while distance < 0.01:  # far enough for a step at which the smallest gradients show
        params, states = generic(network, rng)
        x = rng.integers(0, m, (T, B)) if tokens else rng.standard_normal((T, B, m))
        distance = network_kink_distance(network, params, states, x)
    if carried and distance == float("inf"):
        h0 = network.forward(params, states, x).last
    moved = to_device((params, states, x, y, mask, h0), device)
    loss, ours, _ = network.loss_and_gradients(*moved)

    def f(point):
        return network.loss_and_gradients(point, network.rebuild(point, states), x, y, mask, h0)[0]

    skew = [key for key in params if key.endswith(".A")]
    report = check(f, params, to_host(ours), skew=skew, kink_distance=lambda _: distance)
    assert report.passed, f"\n{report}"
    assert list(ours) == list(params)
    np.testing.assert_allclose(float(loss), f(params), rtol=1e-14)


@pytest.mark.parametrize("name", MODELS)
def test_carried_state(device, name):
    """Two windows, the second from the first's last states, are one long window; forgetting them is not."""
    rng = np.random.default_rng(0)
    network = network_of(name, 4, 5, 3)
    params, states = to_device(generic(network, rng), device)
    x = to_device(rng.standard_normal((7, 3, 4)), device)
    whole, first = network.forward(params, states, x), network.forward(params, states, x[:4])
    second = network.forward(params, states, x[4:], first.last)
    together = np.concatenate([to_host(first.outputs), to_host(second.outputs)])
    np.testing.assert_allclose(together, to_host(whole.outputs), rtol=1e-13, atol=1e-14)
    for ours, theirs in zip(to_host(second.last), to_host(whole.last), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-14)
    forgotten = to_host(network.forward(params, states, x[4:]).outputs)
    assert abs(forgotten - together[4:]).max() > 1e-3


def test_readout_of_the_last_step():
    """ "last" gives (B, q), what "every" gives at step T."""
    every, last = (network_of("lstm", 4, 5, 3, readout=readout) for readout in ("every", "last"))
    params, states = generic(every, np.random.default_rng(0))
    x = np.random.default_rng(1).integers(0, 4, (6, 2))
    np.testing.assert_array_equal(last.forward(params, states, x).outputs, every.forward(params, states, x).outputs[-1])


@pytest.mark.parametrize("name", MODELS)
def test_a_layer_more_leaves_the_other_draws_alone(name):
    """Every layer, and the readout, draws from its own child of the generator; so does every weight of other sizes."""
    (one, _), (three, _) = (network_of(name, 5, 4, 3, layers).init(np.random.default_rng(7)) for layers in (1, 3))
    assert set(one) < set(three)
    for key, value in one.items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, three[key])
    matrix = next(key for key in one if key.startswith("layer0.U"))[len("layer0.") :]
    assert not np.array_equal(three[f"layer1.{matrix}"], three[f"layer2.{matrix}"])


def test_count_and_health():
    """Free real parameters: n (n - 1) / 2 for a skew A; figures under the path of their weight."""
    network = network_of("nc-gru", 3, 4, 2)
    params, states = network.init(np.random.default_rng(0), np.float64)
    gates, dense = 3 * 4 + 2 * 16 + 6, 2 * 4 + 2
    assert network.count(params) == (3 * 3 * 4 + gates) + (3 * 4 * 4 + gates) + dense
    assert set(network.health(states)) == {"layer0.U_c", "layer1.U_c"}
    assert all(figures["defect"] < 1e-14 for figures in network.health(states).values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": ()}, "layers is empty; expected at least one Recurrent"),
        (
            {"layers": (Recurrent(LSTM()),)},
            r"layers\[0\] has no sizes; build it with sizes=\(input_size, hidden_size\)",
        ),
        (
            {"layers": (Recurrent(LSTM(), sizes=(3, 5)), Recurrent(LSTM(), sizes=(4, 5)))},
            r"layers\[1\] takes 4 inputs; the layer before has 5",
        ),
        ({"readout": "first"}, "readout is 'first'; allowed: 'every', 'last'"),
        ({"loss": "hinge"}, "loss is 'hinge'; allowed: 'cross_entropy'"),
    ],
)
def test_networks_that_cannot_be(arguments, message):
    """The error names the argument, the value and what is allowed."""
    with pytest.raises(ValueError, match=f"^{message}$"):
        Network(**{"layers": (Recurrent(LSTM(), sizes=(3, 5)),), "output_size": 2} | arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "torch"}, "engine is 'torch'; allowed: 'fused', 'scan'"),
        ({"parametrizations": {"W": ScaledCayley(1)}}, "parametrizations names 'W'; allowed for Elman: U"),
        ({"initial": {"U_c": np.zeros}}, "initial names 'U_c'; allowed for Elman: W, U, b"),
    ],
)
def test_layers_that_cannot_be(options, message):
    """As above; a parametrization is for recurrent weights only."""
    with pytest.raises(ValueError, match=f"^{message}$"):
        Recurrent(Elman("tanh"), **options)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"dtype": np.float16}, ValueError, "dtype is float16; allowed: float32, float64"),
        ({"hidden_size": None}, ValueError, "hidden_size is missing"),
        ({"input_size": 0}, ValueError, "input_size is 0; allowed: an integer >= 1"),
        ({"hidden_size": 2.0}, ValueError, "hidden_size is 2.0; allowed: an integer >= 1"),
    ],
)
def test_layers_that_cannot_be_drawn(arguments, error, message):
    """Sizes and dtype are checked where weights are drawn."""
    with pytest.raises(error, match=f"^{message}$"):
        Recurrent(LSTM()).init(np.random.default_rng(0), **{"input_size": 3, "hidden_size": 4} | arguments)
    with pytest.raises(ValueError, match=r"^hidden_size is 4; this layer was built for 5$"):
        Recurrent(LSTM(), sizes=(3, 5)).init(np.random.default_rng(0), 3, 4)


# The training loop


def fresh(folder):
    """A new folder in it: a run never writes over another's metrics."""
    return Path(tempfile.mkdtemp(dir=folder))


def test_metrics_file(tmp_path):
    """The lines of metrics.jsonl are the records returned and shown: strict JSON, written every log_every and at the
    end; loss is the mean over the interval; evaluation where evaluate_every was passed, and at the end."""
    shown = []
    records = small_trainer(Parenthesis(5), "nc-gru", layers=2).run(tmp_path, shown.append)
    strict = {"parse_constant": lambda name: pytest.fail(f"{name} is not JSON")}
    lines = [json.loads(line, **strict) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == records == shown
    assert [line["iteration"] for line in lines] == [3, 6, 7]
    assert (
        ["evaluation_loss" in line for line in lines] == ["accuracy" in line for line in lines] == [False, True, True]
    )
    for line in lines:
        assert set(line["weights"]) == {"layer0.U_c", "layer1.U_c"}
        assert line["steps_per_second"] > 0
        assert line["gradient_norm"] > 0
    one_by_one = small_trainer(Parenthesis(5), "nc-gru", layers=2, log_every=1).run(fresh(tmp_path))
    means = [np.mean([line["loss"] for line in one_by_one[a:b]]) for a, b in ((0, 3), (3, 6), (6, 7))]
    np.testing.assert_allclose([line["loss"] for line in lines], means, rtol=1e-12)


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


def test_vectors_and_dtypes(tmp_path):
    """Inputs in float64 are cast to the parameters' dtype, whatever it is, and everything stays in it."""
    rng = np.random.default_rng(0)
    chunk = Batch(rng.standard_normal((3, 2, 4)), rng.integers(0, 3, 2))
    for dtype in (np.float32, np.float64):
        own = small_trainer(Fixed([chunk], Vectors(4), 3, readout="last"), "nc-gru", dtype=dtype)
        own.run(fresh(tmp_path))
        assert {value.dtype for value in own.params.values()} == {np.dtype(dtype)}
    assert chunk.x.dtype == np.float64


def test_a_folder_that_holds_a_run(tmp_path):
    """Refused, and left as it is; a new folder gets its config.json."""
    out = new_run_folder(tmp_path / "a" / "b", {"seed": 1})
    assert json.loads((out / "config.json").read_text()) == {"seed": 1}
    (out / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(FileExistsError, match=r"holds a run already \(config\.json\); choose another folder$"):
        new_run_folder(out, {"seed": 2})
    assert json.loads((out / "config.json").read_text()) == {"seed": 1}
    with pytest.raises(FileExistsError):
        small_trainer(Parenthesis(5)).run(out)
    assert (out / "metrics.jsonl").read_text() == "{}\n"


class Poisoned(Adam):
    """Adam whose delta of one parameter is NaN at one update of it."""

    def __init__(self, victim, update):
        super().__init__()
        self.victim, self.left = victim, update

    def delta(self, name, parameter, gradient):
        delta = super().delta(name, parameter, gradient)
        self.left -= name == self.victim
        return delta * float("nan") if name == self.victim and self.left == 0 else delta


def test_a_loss_that_is_not_finite(tmp_path, device):
    """Stops the run, naming the iteration and the parameters; the lines written before stay."""
    task = Fixed([Batch(np.zeros((3, 2), int), np.zeros((3, 2), int))], Tokens(2), 2)
    own = small_trainer(task, optimizer=Poisoned("readout.b", 4), device=device)
    with pytest.raises(FloatingPointError, match=r"^iteration 5: loss is nan; not finite: the parameter readout\.b$"):
        own.run(tmp_path)
    assert [json.loads(line)["iteration"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [3]


def test_an_update_of_A_that_is_not_finite(tmp_path):
    """Refused before it reaches U (ncgru:alg1): A could not come back from it."""
    own = small_trainer(Parenthesis(5), "nc-gru", optimizer=Poisoned("layer0.U_c.A", 4))
    message = r"^iteration 4: U_c: delta of A has an entry .*; not finite: the delta of layer0\.U_c\.A$"
    with pytest.raises(FloatingPointError, match=message):
        own.run(tmp_path)


def test_an_evaluation_that_is_not_finite(tmp_path):
    """The last update is seen by the evaluation alone: its loss stops the run too, before a line that is not JSON."""
    task = Fixed([Batch(np.zeros((3, 2), int), np.zeros((3, 2), int))], Tokens(2), 2)
    with pytest.raises(FloatingPointError, match="iteration 7"):
        small_trainer(task, optimizer=Poisoned("readout.b", 7)).run(tmp_path)


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
    params, states = to_host(own.params), to_host(own.states)
    losses, right = [], []
    for x, y, mask, _ in chunks:
        outputs = own.network.forward(params, states, x).outputs.reshape(*y.shape, q)
        of_class = np.take_along_axis(outputs, y[..., None], -1)[..., 0]
        counts = np.ones(y.shape[:2], bool) if mask is None else mask
        losses.extend((np.log(np.exp(outputs).sum(-1)) - of_class)[counts].ravel())
        right.extend((outputs.argmax(-1) == y)[counts].ravel())
    record = own.evaluate()
    np.testing.assert_allclose(record["evaluation_loss"], np.mean(losses), rtol=1e-12)
    np.testing.assert_allclose(record["accuracy"], np.mean(right), rtol=1e-12)


class Recording(Network):
    """A network that remembers the states its training steps began and ended with."""

    def loss_and_gradients(self, params, states, x, y, mask=None, h0=None):
        result = super().loss_and_gradients(params, states, x, y, mask, h0)
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


@pytest.mark.parametrize("name", ["iterations", "batch_size", "log_every", "evaluate_every"])
def test_numbers_below_one(name):
    """The error names the argument, the value and what is allowed."""
    with pytest.raises(ValueError, match=f"^{name} is 0; allowed: at least 1$"):
        small_trainer(Parenthesis(5), **{name: 0})


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


def test_loss_is_of_the_outputs_under_mask_and_carried_state():
    """loss_and_gradients is forward from h0, then the masked loss: differences would not see it leave one out."""
    rng = np.random.default_rng(0)
    network = network_of("lstm", 3, 4, 5)
    params, states = generic(network, rng)
    x, y, mask = rng.standard_normal((3, 2, 3)), rng.integers(0, 5, (3, 2)), np.array([[1, 0], [0, 1], [1, 1]], bool)
    h0 = network.forward(params, states, x).last
    loss, _, result = network.loss_and_gradients(params, states, x, y, mask, h0)
    outputs = network.forward(params, states, x, h0).outputs
    np.testing.assert_array_equal(result.outputs, outputs)
    assert loss == cross_entropy(outputs, y, mask)[0]


def test_a_layers_draw_does_not_depend_on_the_layer_before():
    """Every layer draws from its own child of the run's generator."""
    one, other = (
        Network((models.build(name, 3, 4), models.build("gru", 4, 4)), 2).init(np.random.default_rng(0))[0]
        for name in ("rnn", "lstm")
    )
    second = [name for name in one if name.startswith("layer1.")]
    assert all(np.array_equal(one[name], other[name]) for name in second)
    assert not np.array_equal(one["layer1.W_r"], one["layer1.W_u"])


def test_one_record_by_hand(tmp_path):
    """The masked training loss and the 2-norm of all gradients together."""
    rng = np.random.default_rng(0)
    batch = Batch(rng.standard_normal((3, 2, 4)), rng.integers(0, 3, (3, 2)), np.array([[1, 0], [0, 1], [0, 1]], bool))
    own = small_trainer(Fixed([batch], Vectors(4), 3), iterations=1, dtype=np.float64)
    loss, gradients, _ = own.network.loss_and_gradients(own.params, own.states, *batch[:3])
    (record,) = own.run(tmp_path)
    assert record["loss"] == float(loss)
    norm = np.linalg.norm(np.concatenate([g.ravel() for g in gradients.values()]))
    np.testing.assert_allclose(record["gradient_norm"], norm, rtol=1e-12)


def test_speed_and_lines_as_they_come(tmp_path, monkeypatch):
    """Updates per second of each interval, the evaluation not counted; a line is in the file when it is shown."""
    clock = itertools.count(0.0, 2.0)
    monkeypatch.setattr(training.time, "perf_counter", lambda: next(clock))
    lines = []
    metrics = tmp_path / "metrics.jsonl"
    records = small_trainer(Parenthesis(5)).run(tmp_path, lambda r: lines.append(len(metrics.read_text().splitlines())))
    assert [record["steps_per_second"] for record in records] == [1.5, 1.5, 0.5]
    assert lines == [1, 2, 3]


def test_a_gradient_that_is_not_finite(tmp_path, monkeypatch):
    """A finite loss with an infinite gradient stops the run before the update, and names the parameter."""
    own = small_trainer(Parenthesis(5))
    right = Network.backward

    def poisoned(*arguments):
        gradients = right(*arguments)
        return gradients | {"readout.b": gradients["readout.b"] * np.inf}

    monkeypatch.setattr(Network, "backward", poisoned)
    message = r"^iteration 1: gradient norm is (inf|nan); not finite: the gradient of readout\.b$"
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match=message):
        own.run(tmp_path)
