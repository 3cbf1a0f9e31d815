"""Sequences in segments (bp:recompute): the same gradients, to the bit, in a fraction of the memory."""

import gc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortho_ref import losses, models
from ortho_ref.backend import to_device, to_host
from ortho_ref.fused import persistent, sequence
from ortho_ref.optimizers import Adam
from ortho_ref.recompute import segments
from ortho_ref.recurrent import Recurrent
from ortho_ref.regularizers import Regularizers
from ortho_ref.runs import TrainingRun
from ortho_ref.task import Padded
from scripts.timing.long import measure_long
from scripts.timing.traced import traced
from tasks.adding import Adding
from tasks.copying import Copying

MODELS = ("nc-gru", "gru-cudnn", "goru", "lstm", "irnn", "scornn", "fastrnn", "sgornn", "full-urnn", "exprnn")
#: How many rows a chunk has on the host, and on a device.
ROWS = ("_CHUNK_ROWS", "_DEVICE_ROWS")
DROPOUT = {"hidden": 0.2, "outputs": 0.3}


def same(ours, theirs):
    """Where two answers of loss_and_gradients differ in a bit: names of gradients, "loss", "last"."""
    (loss, gradients, result), (own_loss, own_gradients, own_result) = to_host((ours, theirs))
    assert gradients.keys() == own_gradients.keys()
    found = [name for name, g in gradients.items() if g.tobytes() != own_gradients[name].tobytes()]
    assert all(g.dtype == own_gradients[name].dtype for name, g in gradients.items())
    found += ["loss"] if loss != own_loss else []
    return found + ["last" for a, b in zip(result.last, own_result.last, strict=True) if not np.array_equal(a, b)]


def targets(rng, loss, shape, q, dtype):
    """Of outputs (*shape, q)."""
    if loss == "cross_entropy":
        return rng.integers(0, q, shape)
    return rng.integers(0, 2, (*shape, q)) if loss == "binary_cross_entropy" else rng.random((*shape, q)).astype(dtype)


def problem(seed, model, T, B, *, readout="every", loss="cross_entropy", dtype=np.float64, layers=1, **options):
    """A network and a batch: tokens where there is an embedding, or with tokens=True."""
    rng = np.random.default_rng(seed)
    q, own = options.pop("q", 3), {"tokens": False, "masked": False, "carried": False} | options
    tokens, masked, carried = (own.pop(name) for name in ("tokens", "masked", "carried"))
    network = models.network(model, 5, [4] * layers, q, readout=readout, loss=loss, **own)
    params, buffers = network.init(rng, dtype=dtype)
    x = rng.integers(0, 5, (T, B)) if tokens or network.embedding else rng.standard_normal((T, B, 5)).astype(dtype)
    shape = (T, B) if readout == "every" else (B,)
    mask = rng.random(shape) < 0.5 if masked else None
    if masked:
        mask[-1] = True
    h0 = network.forward(params, buffers, x[:1]).last if carried else None
    return network, (params, buffers, x, targets(rng, loss, shape, q, dtype), mask, h0)


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    model=st.sampled_from(MODELS),
    T=st.integers(1, 40),
    B=st.integers(1, 5),
    recompute=st.integers(1, 45) | st.just("auto"),
    rows=st.integers(1, 20),
    readout=st.sampled_from(["every", "last"]),
    loss=st.sampled_from(list(losses.LOSSES)),
    dtype=st.sampled_from([np.float32, np.float64]),
    layers=st.integers(1, 2),
    words=st.sampled_from([{}, {"tokens": True}, {"embedding": 4}, {"embedding": 4, "tied": True, "q": 5}]),
    masked=st.booleans(),
    carried=st.booleans(),
    dropout=st.sampled_from([0.0, 0.4]),
    locked=st.booleans(),
)
def test_the_same_bits(
    seed, model, T, B, recompute, rows, readout, loss, dtype, layers, words, masked, carried, dropout, locked
):
    """Loss, gradients and last states of any network, in segments that divide T or not, one step or all of it
    [bp:recompute]."""
    if model == "full-urnn" and "tied" in words:
        words = {"embedding": 4}
    regularizers = (DROPOUT | ({"words": 0.2, "inputs": 0.1} if "embedding" in words else {})) if locked else {}
    options = {"dropout": dropout, "regularizers": regularizers, "masked": masked, "carried": carried} | words
    network, batch = problem(seed, model, T, B, readout=readout, loss=loss, dtype=dtype, layers=layers, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence, "_CHUNK_ROWS", rows)
        whole, again = (
            network.loss_and_gradients(*batch, np.random.default_rng(seed), own) for own in (None, recompute)
        )
    assert same(whole, again) == []
    assert again[2].outputs is again[2].tape is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("readout", ["every", "last"])
def test_the_same_bits_at_the_chunks_size(readout, dtype):
    """BLAS kernels that round a row by how many there are: T B = 3,000 rows, W of the second layer above the size from
    which its products take several chunks at once."""
    rng = np.random.default_rng(0)
    network = models.network("gru-cudnn", 7, [300, 220], 11, readout=readout)
    params, buffers = network.init(rng, dtype=dtype)
    x, y = rng.standard_normal((60, 50, 7)).astype(dtype), rng.integers(0, 11, (60, 50)[readout == "last" :])
    assert [t.stop for t in segments(x, 10, network.layers)] == [20, 60]
    whole = network.loss_and_gradients(params, buffers, x, y)
    again = network.loss_and_gradients(params, buffers, x, y, recompute=10)
    assert same(whole, again) == []


@given(T=st.integers(1, 200), B=st.integers(1, 60), recompute=st.integers(1, 250) | st.just("auto"))
def test_segments(T, B, recompute):
    """They cut time, all as long but the first, and end where chunks do; "auto" is the square root of T."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence, "_CHUNK_ROWS", 60)
        times = segments(np.zeros((T, B, 1)), recompute, models.network("rnn", 1, [2], 1).layers)
        ends = {t.stop for t in sequence.chunks(np.zeros((T, B)))[1]}
    assert [t for own in times for t in range(own.start, own.stop)] == list(range(T))
    assert {own.stop for own in times} <= ends
    steps, chunk = np.ceil(np.sqrt(T)) if recompute == "auto" else recompute, 60 // B
    assert all(own.stop - own.start == min(T, chunk * np.ceil(steps / chunk)) for own in times[1:])


@pytest.mark.parametrize("readout", ["every", "last"])
@pytest.mark.parametrize("masked", [False, True])
def test_a_large_vocabulary(monkeypatch, readout, masked):
    """Outputs in parts of rows, within each chunk."""
    monkeypatch.setattr(losses, "LARGE", 5)
    monkeypatch.setattr(losses, "CHUNK", 15)
    monkeypatch.setattr(sequence, "_CHUNK_ROWS", 9)
    network, batch = problem(0, "lstm", 17, 4, readout=readout, embedding=4, tied=True, q=5, masked=masked)
    assert network.outputs_at_a_time(batch[2]) == 3
    assert same(network.loss_and_gradients(*batch), network.loss_and_gradients(*batch, recompute=4)) == []


@pytest.mark.parametrize("model", ["lstm", "nc-gru"])
def test_step_by_step(model):
    """The engine that adds up single steps."""
    network, batch = problem(1, model, 13, 3, layers=2)
    network = replace(network, layers=tuple(replace(layer, engine="scan") for layer in network.layers))
    assert same(network.loss_and_gradients(*batch), network.loss_and_gradients(*batch, recompute=4)) == []


def test_trained_initial_states(monkeypatch):
    """Their gradient comes from the first segment; it is 0 where a state was given."""
    monkeypatch.setattr(sequence, "_CHUNK_ROWS", 9)
    for carried in (False, True):
        network, batch = problem(2, "goru", 20, 3, carried=carried)
        network = replace(network, layers=tuple(replace(layer, trained_h0=True) for layer in network.layers))
        params = network.init(np.random.default_rng(0), dtype=np.float64)[0]
        params["layer0.h0"] = np.full(4, 0.1)
        whole, again = (network.loss_and_gradients(params, *batch[1:], recompute=recompute) for recompute in (None, 3))
        assert same(whole, again) == []
        assert np.any(again[1]["layer0.h0"]) != carried


@pytest.mark.parametrize("model", ["nc-gru", "lstm", "fastrnn", "full-urnn"])
@pytest.mark.parametrize("readout", ["every", "last"])
def test_on_a_device(monkeypatch, device, model, readout):
    """Loss, gradients and last states to the bit, by every engine of the device; what must fail: another chunk, whose
    sums are rounded elsewhere."""
    for name in ROWS:
        monkeypatch.setattr(sequence, name, 15)
    network, batch = problem(3, model, 17, 3, readout=readout, layers=2, dropout=0.3, masked=readout == "every")
    batch = to_device(batch, device)
    engines = ["fused", "scan"]
    if device == "gpu" and persistent.has_form(network.layers[0].cell):
        engines.append("persistent")
    for engine in engines:
        own = replace(network, layers=tuple(replace(layer, engine=engine) for layer in network.layers))

        def run(recompute=None, own=own):
            return own.loss_and_gradients(*batch, np.random.default_rng(0), recompute)

        whole = run()
        assert [same(whole, run(recompute)) for recompute in (1, 5, 6, "auto")] == [[]] * 4, engine
    with monkeypatch.context() as patch:
        for name in ROWS:
            patch.setattr(sequence, name, 51)
        other = network.loss_and_gradients(*batch, np.random.default_rng(0))
    whole = network.loss_and_gradients(*batch, np.random.default_rng(0))
    assert same(whole, other)
    for name, gradient in to_host(whole[1]).items():
        np.testing.assert_allclose(to_host(other[1][name]), gradient, rtol=1e-11, atol=1e-13)


def test_a_sequence_that_does_not_fit_the_device(monkeypatch, host_device):
    """With less memory than all of its states want: an error of CuPy's as it is, and in segments the same bits."""
    import cupy

    monkeypatch.setattr(sequence, "_DEVICE_ROWS", 40)
    network, batch = problem(11, "nc-gru", 300, 4)
    batch = to_device(batch, "gpu")
    with host_device.guarded():
        whole = to_host(network.loss_and_gradients(*batch))
        free, total = cupy.cuda.runtime.memGetInfo()
        with host_device.memory(total - free + 200_000):
            with pytest.raises(cupy.cuda.memory.OutOfMemoryError):
                network.loss_and_gradients(*batch)
            gc.collect()  # what the error's traceback holds
            again = to_host(network.loss_and_gradients(*batch, recompute="auto"))
    assert same(whole, again) == []


def test_an_update_on_a_device(monkeypatch, device):
    """As the host's, in segments of seven steps."""
    for name in ROWS:
        monkeypatch.setattr(sequence, name, 4)
    updated = []
    for on in ("cpu", device):
        own = TrainingRun(
            models.network("nc-gru", 2, [6], 1, readout="last", loss="mean_squared_error", dropout=0.2),
            Adding(30), Adam(1e-2), 4, iterations=3, device=on, dtype=np.float64, recompute=7,
        )  # fmt: skip
        batches = own.batches()
        for _ in range(3):
            own.settle(own.update(next(batches)))
        updated.append(to_host(own.params))
    for name, value in updated[0].items():
        np.testing.assert_allclose(updated[1][name], value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("readout", ["every", "last"])
def test_memory(monkeypatch, readout):
    """Below a tenth, of loss and gradients and of an evaluation, where T is 30 times a segment."""
    monkeypatch.setattr(sequence, "_CHUNK_ROWS", 128)
    rng = np.random.default_rng(0)
    network = models.network("nc-gru", 5, [24], 2, readout=readout)
    params, buffers = network.init(rng)
    x, y = rng.integers(0, 5, (1500, 8)), rng.integers(0, 2, (1500, 8)[readout == "last" :])

    def update(recompute):
        network.loss_and_gradients(params, buffers, x, y, recompute=recompute)

    def evaluation(recompute):
        for _ in network.forward_in_chunks(params, buffers, x, y, recompute=recompute)[0]:
            pass

    for step in (update, evaluation):
        assert traced(lambda step=step: step("auto")) < 0.1 * traced(lambda step=step: step(None))


@pytest.mark.parametrize("readout", ["every", "last"])
def test_the_programs_figures(monkeypatch, readout):
    """What scripts.training_speed --long measures: less memory than with all of the states."""
    monkeypatch.setattr(sequence, "_CHUNK_ROWS", 8)
    own = measure_long(readout, 100, 4, 8, 1, 0.0)
    assert 0 < own.segments < own.kept
    assert own.slower > 0


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("readout", ["every", "last"])
def test_evaluation(monkeypatch, readout, large):
    """The same outputs, targets and masks, cut alike, and last states, to the bit."""
    monkeypatch.setattr(sequence, "_CHUNK_ROWS", 9)
    if large:
        monkeypatch.setattr(losses, "LARGE", 3)
        monkeypatch.setattr(losses, "CHUNK", 9)
    network, (*batch, mask, h0) = problem(4, "lstm", 23, 4, readout=readout, masked=True, carried=True)
    answers = []
    for recompute in (None, 4):
        chunks, last = network.forward_in_chunks(*batch, mask, h0, recompute)
        answers.append((list(chunks), last))
    (whole, last), (again, own_last) = answers
    assert len(whole) == (31 if readout == "every" else 2) if large else 1
    for parts, own in zip(whole, again, strict=True):
        assert all(a.tobytes() == b.tobytes() and a.shape == b.shape for a, b in zip(parts, own, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(last, own_last, strict=True))


def test_last_states_hold_nothing_else():
    """They are carried to the next update: a view would keep a segment's states alive."""
    network, batch = problem(5, "lstm", 6, 2)
    for h, c in network.loss_and_gradients(*batch, recompute=2)[2].last:
        assert h.base is c.base is None


def test_a_cotangent_that_is_not_carried(monkeypatch):
    """What must fail: a segment whose last state's gradient is left out has other gradients, of the layers alone."""
    monkeypatch.setattr(sequence, "_CHUNK_ROWS", 6)
    right = Recurrent.add_gradients

    def wrong(self, sums, weights, tape, t, dh, dh_T):
        return right(self, sums, weights, tape, t, dh, None)

    network, batch = problem(6, "gru-cudnn", 12, 3)
    whole = network.loss_and_gradients(*batch)
    monkeypatch.setattr(Recurrent, "add_gradients", wrong)
    assert set(same(whole, network.loss_and_gradients(*batch, recompute=4))) == {
        name for name in whole[1] if name.startswith("layer0.")
    }


def test_a_loss_that_is_not_finite():
    """It is said as of the whole pass, before any gradient."""
    network, (params, *rest) = problem(7, "irnn", 40, 2, loss="mean_squared_error")
    params = params | {"layer0.U": 1e30 * np.ones((4, 4))}
    for recompute in (None, 8):
        with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match=r"^loss is (nan|inf)$"):
            network.loss_and_gradients(params, *rest, recompute=recompute)


@pytest.mark.parametrize("recompute", [0, -1, 2.0, True, "sqrt", "4"])
def test_values_that_are_none(recompute):
    """Refused by whatever takes one."""
    network, batch = problem(8, "rnn", 4, 2)
    message = rf"^recompute is {recompute!r}; allowed: an integer >= 1, 'auto', or None$"
    for refused in (
        lambda: network.loss_and_gradients(*batch, recompute=recompute),
        lambda: network.forward_in_chunks(*batch, recompute=recompute),
        lambda: copying(recompute=recompute),
    ):
        with pytest.raises(ValueError, match=message):
            refused()


def test_networks_that_are_not_computed_again():
    """Penalties, which are of all steps at once, and readers; without `recompute` they run."""
    network, batch = problem(9, "lstm", 4, 2)
    for name in ("alpha", "beta"):
        own = replace(network, regularizers=Regularizers(**{name: 0.5}))
        own.loss_and_gradients(*batch)
        with pytest.raises(
            ValueError, match=rf"^recompute is 2, but the network has .*{name} 0.5.*; allowed: None, or"
        ):
            own.loss_and_gradients(*batch, recompute=2)
    reader = models.network("lstm", 5, [3, 3, 3], 5, readout="last", embedding=3, reader="once")
    params, buffers = reader.init(np.random.default_rng(0))
    text = Padded(np.zeros((4, 2), int), np.array([4, 2]))
    reader.check_recompute(None)
    with pytest.raises(ValueError, match=r"^recompute is 'auto', but the network is a reader of two texts; allowed: "):
        reader.loss_and_gradients(params, buffers, (text, text), np.zeros(2, int), recompute="auto")


@pytest.mark.parametrize("change", [{"x": 3}, {"y": 3}, {"mask": 3}, {"h0": []}])
def test_arguments_that_do_not_fit(change):
    """Refused in the words of the whole pass."""
    network, batch = problem(10, "rnn", 6, 2, masked=True, carried=True)
    given = dict(zip(("params", "buffers", "x", "y", "mask", "h0"), batch, strict=True))
    given |= {name: value if value == [] else given[name][:value] for name, value in change.items()}
    if "x" in change:
        given["x"] = given["x"][..., :3]
    said = []
    for recompute in (None, 2):
        with pytest.raises(ValueError, match=r"expected|^y has|^mask has") as error:
            network.loss_and_gradients(**given, recompute=recompute)
        said.append(str(error.value))
    assert said[0] == said[1]


def copying(**options):
    """Six updates on 40 steps in several chunks, with dropout; evaluated at 3 and 6."""
    task = Copying(20)
    network = models.network("nc-gru", task.input.size, [6], task.output_size, dropout=0.2)
    options = {"iterations": 6, "log_every": 1, "evaluate_every": 3, "checkpoint_every": 3} | options
    return TrainingRun(network, task, Adam(1e-2), 3, **options)


def test_a_run_has_the_same_bits(monkeypatch, tmp_path):
    """Weights, losses and evaluations of a run in segments, and of one that was stopped and went on."""
    monkeypatch.setattr(sequence, "_CHUNK_ROWS", 20)
    whole, again, stopped = copying(), copying(recompute=7), copying(recompute=7)
    records = [own.run(tmp_path / name) for own, name in ((whole, "whole"), (again, "again"))]
    stopped.run(tmp_path / "stopped", should_stop=lambda: stopped.iteration == 3)
    went_on = copying(recompute=7)
    records.append(went_on.run(tmp_path / "stopped", resume=True))
    for own, lines in zip((again, went_on), records[1:], strict=True):
        assert all(value.tobytes() == own.params[name].tobytes() for name, value in whole.params.items())
        for a, b in zip(records[0][-len(lines) :], lines, strict=True):
            assert {**a, "steps_per_second": 0} == {**b, "steps_per_second": 0}
