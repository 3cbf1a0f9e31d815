"""Averages of parameters, when they begin, and what is evaluated and loaded then [bp:lm-average]; windows of random
lengths."""

import itertools

import numpy as np
import pytest

from ortho_ref import models
from ortho_ref.backend import to_host
from ortho_ref.training import checkpoint
from ortho_ref.training.averaging import Averaging
from ortho_ref.training.optimizers import SGD, Adam, ByName
from ortho_ref.training.runs import TrainingRun, load
from ortho_ref.training.task import Batch, Tokens
from ortho_ref.training.trainer import evaluate
from tasks.text import Text
from tasks.windows import random_length
from tests.ortho_ref.training.reading import read_metrics
from tests.ortho_ref.training.test_trainer import Fixed, assert_same, end_of, network_for


@pytest.mark.parametrize("patience", [1, 2, 5])
def test_the_trigger(patience):
    """[bp:lm-average/trigger], by the whole list: above the best of all before but the last n; then for ever."""
    losses = np.random.default_rng(patience).normal(np.linspace(2, 1, 30), 0.2)
    own, expected, before = Averaging(patience), False, []
    for loss in losses:
        expected = expected or (len(before) > patience and loss > min(before[:-patience]))
        before.append(loss)
        own.note(loss)
        assert own.on == expected
    assert own.on
    steady = Averaging(patience)
    for loss in np.linspace(2, 1, 30):
        steady.note(loss)
    assert not steady.on


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_mean(dtype):
    """[bp:lm-average/mean]: of what was taken in after the trigger; a mean of skew matrices is skew to the bit."""
    rng, own = np.random.default_rng(0), Averaging(1)
    draws = [rng.standard_normal((5, 5)).astype(dtype) for _ in range(9)]
    taken = [{"A": draw - draw.T, "alpha": np.asarray(draw[0, 0])} for draw in draws]
    own.add(taken[0])
    assert own.params is None
    own.on = True
    for params in taken[2:]:
        own.add(params)
    for name, mean in own.params.items():
        assert (mean.dtype, mean.shape) == (np.dtype(dtype), taken[0][name].shape)
        np.testing.assert_allclose(mean, np.mean([p[name] for p in taken[2:]], axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(own.params["A"], -own.params["A"].T)
    taken[2]["A"][:] = 0  # the first is a copy
    assert own.params["A"].any()


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A text of 1,500 characters."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(np.random.default_rng(0).choice(list("abcdefgh"), 1500)))
    return path


OWN = {"words": 0.1, "inputs": 0.1, "hidden": 0.2, "outputs": 0.2, "alpha": 1.0, "beta": 1.0}
SCHEDULE = {"iterations": 8, "batch_size": 4, "log_every": 1, "evaluate_every": 1}


def averaged(text, model="nc-gru", tied=True, regularizers=OWN, **options):
    """A language model with all there is: random windows, rates by window, groups, regularizers, averaging."""
    task = Text(text, 20, "random")
    form = network_for(task, model, (6, 5), embedding=5, tied=tied, regularizers=regularizers)

    def rate(k):
        return 2e-2 if k < 2 else -2e-2  # from the third update on it climbs

    optimizer = ByName({"*.A": Adam(rate), "embedding.*": Adam(1e-3), "*": SGD(rate, momentum=0.5)})
    options = SCHEDULE | {"average_after": 1, "rate_per_window": 20, "clip_norm": 0.5} | options
    return TrainingRun(models.network(**form), task, optimizer, **options)


def complex_states(text, **options):
    """The same of a model with complex states, which are read on as twice as many numbers."""
    return averaged(text, "urnn", False, {"words": 0.1, "hidden": 0.2, "beta": 1.0}, **options)


@pytest.mark.parametrize("make", [averaged, complex_states])
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, text, device, make):
    """Stopped before the trigger, at it and after it: means, windows, rates, draws as of the run that did not."""
    whole = make(text, device=device)
    expected = end_of(whole, tmp_path / "whole", whole.run(tmp_path / "whole"))
    begun = 9 - expected["last"]["average"]["count"]  # the first update that is in the mean
    assert 1 < begun < 8
    for k in {1, begun - 1, begun, 7} if device == "cpu" else {begun}:
        first, second = make(text, device=device), make(text, device=device)
        first.run(tmp_path / f"{k}", should_stop=lambda own=first, k=k: own.iteration == k)
        records = second.run(tmp_path / f"{k}", resume=True)
        assert_same(end_of(second, tmp_path / f"{k}", records), expected)


def test_what_is_evaluated_and_loaded(tmp_path, text):
    """From the trigger on the mean, with every U built from its own A: orthogonal, which a mean of Us is not; `load`
    gives what the run evaluated."""
    own = averaged(text, dtype=np.float64)
    own.run(tmp_path, {"network": network_for(own.task, "nc-gru", (6, 5), embedding=5, tied=True, regularizers=OWN)})
    params, buffers = own.evaluated()
    assert params is own.averaging.params
    for i in range(2):
        U = buffers[f"layer{i}.U_c"]["U"]
        np.testing.assert_allclose(U.T @ U, np.eye(len(U)), atol=1e-14)
        assert not np.array_equal(U, own.buffers[f"layer{i}.U_c"]["U"])
    loaded = load(tmp_path, "last")
    assert_same(loaded.params, params)
    record = read_metrics(tmp_path)[-1]
    again = evaluate(loaded.network, loaded.params, loaded.buffers, own.task)
    assert again == {name: record[name] for name in again}
    state = checkpoint.load(tmp_path / "last.safetensors")
    assert not np.array_equal(state["params"]["embedding.E"], params["embedding.E"])


@pytest.mark.parametrize("which", ["last", "best"])
def test_a_mean_of_other_parameters(tmp_path, text, which):
    """Of another shape, or none at all where the run has one: refused by whoever reads it; so is another option."""
    own = averaged(text)
    form = network_for(own.task, "nc-gru", (6, 5), embedding=5, tied=True, regularizers=OWN)
    own.run(tmp_path, {"network": form}, should_stop=lambda: own.iteration == 5)
    path = tmp_path / f"{which}.safetensors"
    whole = checkpoint.load(path)
    name = next(iter(whole["params"]))
    other = {**whole["params"], name: whole["params"][name][:1]}
    checkpoint.save(path, whole | {"average": whole["average"] | {"params": other}})

    def resumed(**options):
        return averaged(text, **options).run(tmp_path, {"network": form}, resume=True)

    for read in (resumed, lambda: load(tmp_path, which)):
        with pytest.raises(ValueError, match=rf"{path}: {name} is float32 \(1, .*the network's is"):
            read()
    if which == "last":
        with pytest.raises(ValueError, match=r"^average_after is None; .*last\.safetensors has 1$"):
            resumed(average_after=None)
    checkpoint.save(path, {key: value for key, value in whole.items() if key != "average"})
    with pytest.raises(ValueError, match=rf"{path} has no average; average_after says otherwise"):
        resumed()


def test_a_mean_that_the_run_has_not(tmp_path, text):
    """In a checkpoint of a run without."""
    own = averaged(text, average_after=None)
    own.run(tmp_path, should_stop=lambda: own.iteration == 5)
    path = tmp_path / "last.safetensors"
    mean = {"on": False, "count": 0, "recent": [], "best": None, "params": {}}
    checkpoint.save(path, checkpoint.load(path) | {"average": mean})
    with pytest.raises(ValueError, match=rf"{path} has an average; average_after says otherwise"):
        averaged(text, average_after=None).run(tmp_path, resume=True)


def test_unitary_matrices_have_no_mean(text):
    """The full-capacity uRNN's parameter is the matrix itself."""
    with pytest.raises(
        ValueError, match=r"^average_after is for means of parameters, but layer0\.U is kept by Geodesic"
    ):
        averaged(text, "full-urnn", False, {})


def test_rates_by_window_by_hand(tmp_path, device):
    """A window of 3 of 6 steps: half the rate; one of 6: the rate."""
    rng = np.random.default_rng(0)
    for T, factor in ((3, 0.5), (6, 1.0)):
        batch = Batch(rng.integers(0, 5, (T, 2)), rng.integers(0, 4, (T, 2)))
        task = Fixed([batch], Tokens(5), 4)
        own = TrainingRun(
            models.network(**network_for(task)), task, SGD(0.5), 2, iterations=1, rate_per_window=6, device=device
        )
        before, buffers = to_host((own.params, own.buffers))
        gradients = own.network.loss_and_gradients(before, buffers, *batch[:2])[1]
        own.run(tmp_path / f"{T}")
        for name, value in to_host(own.params).items():
            np.testing.assert_allclose(value, before[name] - 0.5 * factor * gradients[name], rtol=1e-5, atol=1e-7)
            assert value.dtype == np.float32


# Random windows


def test_lengths():
    """About T nineteen times out of twenty, else about T / 2; 5 at least; the same from the same generator."""
    rng = np.random.default_rng(0)
    lengths = np.array([random_length(rng, 70) for _ in range(4000)])
    halved = lengths < 52
    assert 0.03 < halved.mean() < 0.07
    assert abs(lengths[~halved].mean() - 69.5) < 0.5
    assert abs(lengths[halved].mean() - 34.5) < 2
    assert abs(lengths[~halved].std() - 5) < 0.5
    assert {random_length(rng, 1) for _ in range(100)} >= {5}
    assert min(random_length(rng, 1) for _ in range(100)) == 5


def test_random_windows_cover_the_text(text):
    """One after the other, shifted by one, without a gap, to the last token of every column."""
    task = Text(text, 20, "random")
    stream = task.batches(np.random.default_rng(3), 4)
    first = next(stream)
    batches = [first, *itertools.takewhile(lambda batch: batch.carries_state, stream)]
    x, y = (np.concatenate([getattr(batch, name) for batch in batches]) for name in "xy")
    rows = len(task.training) // 4
    table = task.training[: 4 * rows].reshape(4, rows).T
    np.testing.assert_array_equal(x, table[:-1])
    np.testing.assert_array_equal(y, table[1:])
    assert len({len(batch.x) for batch in batches}) > 3
    with pytest.raises(ValueError, match=r"^windows is 'some'; allowed: 'fixed', 'random'$"):
        Text(text, 20, "some")
