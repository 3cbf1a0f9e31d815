"""Embedding, tied readout, AWD-LSTM's regularizers, and the readout in chunks [bp:lm-embedding] [bp:lm-dropout]
[bp:lm-penalty] [bp:lm-chunks]."""

from dataclasses import replace

import numpy as np
import pytest

from gradients.checks import LANGUAGE_MODELS, TOLERANCE_DIFFERENCES, check_language_model
from gradients.problem import largest_error, perturbed
from ortho_ref import losses, models
from ortho_ref.backend import to_device, to_host
from ortho_ref.finite_differences import compare_gradients
from ortho_ref.language.embedding import Embedding
from ortho_ref.language.regularizers import Regularizers
from ortho_ref.losses import cross_entropy
from ortho_ref.network import Network
from ortho_ref.training.task import Batch, Tokens
from ortho_ref.training.trainer import evaluate
from scripts.maintain.timing.readout import measure_readout
from tests.ortho_ref.training.test_trainer import Fixed
from tests.precision import single

ALL = {"words": 0.2, "inputs": 0.3, "hidden": 0.4, "outputs": 0.3, "weights": 0.4, "alpha": 2.0, "beta": 1.0}


def language_model(model="gru", sizes=(6, 5, 4), dtype=np.float64, T=5, **options):
    """A network of 7 words and an embedding of 4, its parameters and buffers, and x and y (T, 3)."""
    rng = np.random.default_rng(0)
    network = models.network(model, 7, sizes, 7, embedding=4, **options)
    params, buffers = network.init(rng, dtype=np.float64)
    params = perturbed(params, rng, 0.5)
    buffers = network.rebuild(params, buffers)
    if dtype == np.float32:
        params, buffers = single((params, buffers))
    return network, params, buffers, rng.integers(0, 7, (T, 3)), rng.integers(0, 7, (T, 3))


@pytest.mark.parametrize("row", LANGUAGE_MODELS, ids=lambda row: row[0])
def test_gradients_against_finite_differences(device, row):
    """Every entry of every parameter, of loss and penalty, all regularizers at once [bp:lm-embedding] [bp:lm-dropout]
    [bp:lm-penalty] [bp:lm-chunks]."""
    name, sizes, options = row
    result = check_language_model(name, sizes, np.random.default_rng(7), device, **options)
    assert result.differences < TOLERANCE_DIFFERENCES, result


@pytest.mark.parametrize("name", [*ALL, None])
def test_each_regularizer_by_itself(name):
    """Each of them alone, and none: the gradient is that of what the forward pass computes with the same draws
    [bp:lm-dropout] [bp:lm-penalty]."""
    own = {name: ALL[name]} if name else {}
    network, params, buffers, x, y = language_model("lstm", (3, 2), T=3, regularizers=own)

    def f(point):
        outputs, _, tape = network.forward(point, buffers, x, rng=np.random.default_rng(3))
        k = tape.features if tape.scales[-1] is None else tape.scales[-1] * tape.features
        extra = 2.0 * (k**2).mean() if name == "alpha" else 0.0
        extra += ((tape.features[1:] - tape.features[:-1]) ** 2).mean() if name == "beta" else 0.0
        return cross_entropy(outputs, y)[0] + extra

    loss, gradients, result = network.loss_and_gradients(params, buffers, x, y, rng=np.random.default_rng(3))
    report = compare_gradients(f, params, gradients, kink_distance=lambda _: float("inf"))
    assert report.passed, f"\n{report}"
    np.testing.assert_allclose(loss + result.tape.penalty, f(params), rtol=1e-13)
    assert (result.tape.penalty != 0) == (name in ("alpha", "beta"))
    plain = replace(network, regularizers=Regularizers())
    without = plain.loss_and_gradients(params, buffers, x, y, rng=np.random.default_rng(3))
    assert (loss == without[0]) == (name in ("alpha", "beta", None))
    assert (largest_error(gradients, without[1])[0] > 1e-3) == (name is not None)


@pytest.mark.parametrize("tied", [False, True])
def test_by_hand(device, tied):
    """Rows of E, whole words dropped, each layer's inputs and outputs times a scale that no step changes, U times its
    own, and the readout, which is E as it is where it is tied; all drawn in that order."""
    network, params, buffers, x, _ = language_model("lstm", (6, 4), tied=tied, regularizers=ALL)
    given = to_device((params, buffers, x), device)
    outputs, last, tape = to_host(network.forward(*given, rng=np.random.default_rng(9)))
    rng = np.random.default_rng(9)

    def scale(rate, shape):
        return (rng.random(shape, np.float32) >= rate) / (1 - rate)

    words = scale(0.2, (7, 1))
    assert 0 < (words == 0).sum() < 7
    read = scale(0.3, (1, 3, 4)) * (words * params["embedding.E"])[x]
    for i, (layer, rate) in enumerate(zip(network.layers, (0.4, 0.3), strict=True)):
        own = {key.removeprefix(f"layer{i}."): value for key, value in params.items() if key.startswith(f"layer{i}.")}
        for name in layer.cell.recurrent_weights:
            own[name] = scale(0.4, own[name].shape) * own[name]
        h, c = layer.forward(own, {}, read)[0]
        np.testing.assert_allclose(last[i][0], h[-1], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(last[i][1], c[-1], rtol=1e-12, atol=1e-14)
        read = scale(rate, (1, 3, layer.output_size)) * h[1:]
    W = params["embedding.E"] if tied else params["readout.W"]
    np.testing.assert_allclose(outputs, read @ W.T + params["readout.b"], rtol=1e-12, atol=1e-13)
    assert ("readout.W" in params) != tied
    assert tape.penalty is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", ["gru", "urnn"])
def test_every_device_and_dtype(device, model, dtype):
    """Loss and gradients of one seed are the host's in float64; everything stays in its dtype."""
    own = ALL if model == "gru" else {key: value for key, value in ALL.items() if key != "weights"}
    network, *point = language_model(model, (6, 4), regularizers=own)
    loss, gradients, _ = network.loss_and_gradients(*point, rng=np.random.default_rng(5))
    there = to_device(language_model(model, (6, 4), dtype, regularizers=own)[1:], device)
    own_loss, own_gradients, result = to_host(network.loss_and_gradients(*there, rng=np.random.default_rng(5)))
    tolerance = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(own_loss, loss, rtol=tolerance)
    assert largest_error(own_gradients, gradients)[0] < tolerance
    assert {np.asarray(value).real.dtype for value in (own_loss, *own_gradients.values())} == {np.dtype(dtype)}
    assert result.tape.words.dtype == result.tape.inputs.dtype == dtype


def test_without_a_generator_nothing_is_dropped():
    """The same as with no dropout at all, and the penalty is still there."""
    network, params, buffers, x, y = language_model(regularizers=ALL)
    plain = replace(network, regularizers=Regularizers())
    np.testing.assert_array_equal(
        network.forward(params, buffers, x).outputs, plain.forward(params, buffers, x).outputs
    )
    loss, _, result = network.loss_and_gradients(params, buffers, x, y)
    assert loss == plain.loss_and_gradients(params, buffers, x, y)[0]
    h = result.tape.features
    by_hand = 2.0 * np.mean(h**2) + np.mean(np.diff(h, axis=0) ** 2)
    np.testing.assert_allclose(result.tape.penalty, by_hand, rtol=1e-14)


def test_one_step_has_no_temporal_penalty():
    """There is no difference of two states in a window of one step."""
    network, params, buffers, x, y = language_model(T=1, regularizers={"beta": 1.0})
    loss, gradients, result = network.loss_and_gradients(params, buffers, x, y)
    without = replace(network, regularizers=Regularizers()).loss_and_gradients(params, buffers, x, y)
    assert result.tape.penalty == 0.0
    assert loss == without[0]
    assert all(np.array_equal(gradients[name], value) for name, value in without[1].items())


def test_the_readout_of_the_last_step_alone():
    """The penalties are of every step all the same."""
    network, params, buffers, x, y = language_model("lstm", (4,), readout="last", regularizers={"alpha": 1, "beta": 1})
    _, gradients, _ = network.loss_and_gradients(params, buffers, x, y[0])

    def f(point):
        outputs, _, tape = network.forward(point, buffers, x)
        h = tape.features
        return cross_entropy(outputs, y[0])[0] + (h**2).mean() + (np.diff(h, axis=0) ** 2).mean()

    report = compare_gradients(f, params, gradients, kink_distance=lambda _: float("inf"))
    assert report.passed, f"\n{report}"


# In chunks


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("readout", ["every", "last"])
def test_chunks_of_a_network(device, monkeypatch, tied, readout):
    """Loss and gradients are those of all outputs at once, which are not kept; so is the evaluation [bp:lm-chunks]."""
    network, *point = language_model("gru", (6, 4), tied=tied, readout=readout, regularizers=ALL)
    mask = np.arange(15).reshape(5, 3) % 4 != 1
    point[3], mask = (point[3], mask) if readout == "every" else (point[3][0], mask[0])
    given = to_device((*point, mask), device)
    loss, gradients, whole = to_host(network.loss_and_gradients(*given, rng=np.random.default_rng(1)))
    task = Fixed([Batch(*point[2:], mask)], Tokens(7), 7, "perplexity", readout)
    figures = evaluate(network, *to_device(point[:2], device), task)
    monkeypatch.setattr(losses, "LARGE", 7)
    monkeypatch.setattr(losses, "CHUNK", 2 * 7)
    ours, own, result = to_host(network.loss_and_gradients(*given, rng=np.random.default_rng(1)))
    assert whole.outputs is not None
    assert result.outputs is None
    np.testing.assert_allclose(ours, loss, rtol=1e-13)
    assert largest_error(own, gradients)[0] < 1e-12
    in_chunks = evaluate(network, *to_device(point[:2], device), task)
    for name, value in figures.items():
        np.testing.assert_allclose(in_chunks[name], value, rtol=1e-12)
    np.testing.assert_allclose(figures["perplexity"], np.exp(figures["evaluation_loss"]), rtol=1e-14)


def test_accuracy_in_chunks(monkeypatch):
    """A metric of the outputs is the mean over all entries too, where a chunk has none that counts as well."""
    network, params, buffers, x, y = language_model("gru", (6, 4))
    mask = np.ones((5, 3), bool)
    mask[1] = False
    task = Fixed([Batch(x, y, mask), Batch(x[:2], y[:2])], Tokens(7), 7)
    whole = evaluate(network, params, buffers, task)
    monkeypatch.setattr(losses, "LARGE", 7)
    monkeypatch.setattr(losses, "CHUNK", 3 * 7)
    in_chunks = evaluate(network, params, buffers, task)
    for name, value in whole.items():
        np.testing.assert_allclose(in_chunks[name], value, rtol=1e-12)


def test_sequences_in_chunks(device, monkeypatch):
    """A metric of sequences is the same where the steps of one lie in several chunks."""
    network, params, buffers, x, _ = language_model("gru", (6, 4))
    y = network.forward(params, buffers, x).outputs.argmax(axis=-1)
    for step, sequence in ((2, 1), (0, 2)):  # two are wrong, the second where the mask leaves it out
        y[step, sequence] = (y[step, sequence] + 1) % 7
    mask = np.arange(5)[:, None] > 0 * np.arange(3)
    given = to_device((params, buffers), device)
    for own, share in ((None, 1 / 3), (mask, 2 / 3)):
        task = Fixed([Batch(x, y, own)], Tokens(7), 7, "sequence_accuracy")
        with monkeypatch.context() as patch:
            for _ in range(2):
                found = evaluate(network, *given, task)["sequence_accuracy"]
                assert found == pytest.approx(share, rel=1e-12)
                patch.setattr(losses, "LARGE", 7)
                patch.setattr(losses, "CHUNK", 4 * 7)


def test_what_the_readout_takes(monkeypatch):
    """Both ways are measured, in chunks with less memory, and the rule is as it was."""
    monkeypatch.setattr(losses, "LARGE", 500)
    monkeypatch.setattr(losses, "CHUNK", 1000)
    own = measure_readout(1000, 2, 40, 10, 1, 0.0)
    assert own.chunks_memory < own.whole_memory / 4
    assert min(own.whole, own.chunks) > 0
    assert losses.LARGE == 500


# What there is, and what cannot be


def test_draws_leave_the_others_alone():
    """An embedding, and tying, change no other parameter's first value; nor does a layer more the embedding's."""
    rng = np.random.default_rng
    (plain, _), (tied, _) = (
        models.network("gru", 7, (6, 4), 7, embedding=4, tied=tied).init(rng(0)) for tied in (False, True)
    )
    assert set(plain) - set(tied) == {"readout.W"}
    (more, _) = models.network("gru", 7, (6, 6, 4), 7, embedding=4).init(rng(0))
    for name in tied:
        np.testing.assert_array_equal(tied[name], plain[name])
    np.testing.assert_array_equal(more["embedding.E"], plain["embedding.E"])
    vectors, _ = models.network("gru", 4, (6, 4), 7).init(rng(0))
    for name, value in vectors.items():
        np.testing.assert_array_equal(plain[name], value)
    assert 0.09 < abs(plain["embedding.E"]).max() < 0.1


@pytest.mark.parametrize("tied", [False, True])
def test_counts_and_words(tied):
    """A tied weight counts once; what a network says of itself."""
    network = models.network("gru", 7, (6, 4), 7, embedding=4, tied=tied, regularizers={"words": 0.1, "alpha": 2})
    params, _ = network.init(np.random.default_rng(0))
    assert network.count(params) == network.free_parameters == sum(value.size for value in params.values())
    text = (
        f"embedding 7 -> 4, gru 4 -> 6, gru 6 -> 4, 7 outputs at every step, cross_entropy, {'tied, ' if tied else ''}"
    )
    assert repr(network) == f"Network({text}regularizers words 0.1, alpha 2, {network.free_parameters:,} parameters)"


def test_a_penalty_keeps_the_precision():
    """NumPy's float64 is one of Python's floats, and yet would make float64 of what it is multiplied with."""
    given, own = Regularizers(alpha=np.float64(2.0), beta=np.float64(1.0)), Regularizers(alpha=2.0, beta=1.0)
    k = np.random.default_rng(0).standard_normal((4, 2, 3)).astype(np.float32)
    for one, other in zip(given.penalty_gradients(k, k), own.penalty_gradients(k, k), strict=True):
        assert one.dtype == np.float32
        np.testing.assert_array_equal(one, other)
    assert given.penalty(k, k) == own.penalty(k, k)


def test_an_option_for_each_layer():
    """A list has a value for every layer: the paper's -1 counts."""
    network = models.network("nc-gru", 7, (5, 8, 5), 7, embedding=5, tied=True, negative_ones=[1, 3, 2])
    assert [layer.parametrizations["U_c"].negative_ones for layer in network.layers] == [1, 3, 2]
    with pytest.raises(ValueError, match=r"^negative_ones has 2 values; expected one for each of 3 layers$"):
        models.network("nc-gru", 7, (5, 8, 5), 7, negative_ones=[1, 2])


def test_weights_of_an_orthogonal_matrix_are_not_dropped():
    """The message says which, and why; of the free ones entries may be."""
    with pytest.raises(
        ValueError, match=r"^layers\[0\]: dropout of weights is 0\.5, but U_c is kept by .*; allowed for"
    ):
        models.network("nc-gru", 3, [4], 2, regularizers={"weights": 0.5})
    own = models.network("nc-gru", 3, [4], 2, regularizers={"weights": 0.5, "weights_of": ["U_r", "U_u"]})
    assert own.regularizers.dropped_weights(own.layers[0]) == ("U_r", "U_u")
    dropped = own.forward(*own.init(np.random.default_rng(0)), np.zeros((2, 1), int), rng=np.random.default_rng(0))
    assert dropped.tape.weights[0].keys() == {"U_r", "U_u"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"regularizers": {"words": 0.1}}, "dropout of words is 0.1, but there is no embedding; allowed: 0, or an "),
        ({"regularizers": {"inputs": 1.0}}, "dropout of inputs is 1.0; allowed: 0 <= rate < 1"),
        ({"regularizers": {"beta": -1.0}}, "beta is -1.0; allowed: a finite number >= 0"),
        ({"regularizers": {"alpha": float("nan")}}, "alpha is nan; allowed: a finite number >= 0"),
        (
            {"regularizers": {"weights": 0.1, "weights_of": ["V"]}},
            r"layers\[0\]: weights_of names 'V'; GRUResetBefore ",
        ),
        ({"regularizers": {"weights_of": ["U_r"]}}, "weights_of is U_r, but no weights are dropped"),
        ({"tied": True}, r"tied needs an embedding with E \(3, 4\), as the readout's W; has none"),
        (
            {"tied": True, "embedding": 5},
            r"tied needs an embedding with E \(3, 4\), as the readout's W; has E \(3, 5\)",
        ),
        ({"embedding": 0}, "size of the embedding is 0; allowed: an integer >= 1"),
    ],
)
def test_what_cannot_be(arguments, message):
    """The error names the argument, the value and what is allowed."""
    with pytest.raises(ValueError, match=f"^{message}"):
        models.network("gru", 3, [4], 3, **arguments)


def test_an_embedding_takes_tokens_and_fits():
    """Vectors are refused where tokens are read, tokens where vectors are dropped of, and tokens out of range."""
    network, params, buffers, *_ = language_model()
    with pytest.raises(TypeError, match=r"expected integer tokens \(T, B\): the network has an embedding$"):
        network.forward(params, buffers, np.zeros((2, 1, 7)))
    with pytest.raises(ValueError, match=r"^x holds token 7; allowed: 0 to 6$"):
        network.forward(params, buffers, np.full((2, 1), 7))
    plain = models.network("gru", 3, [4], 2, regularizers={"inputs": 0.5})
    arguments = plain.init(np.random.default_rng(0))
    with pytest.raises(TypeError, match=r"^x holds tokens, and dropout of inputs is of vectors; allowed: "):
        plain.forward(*arguments, np.zeros((2, 1), int), rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"^the embedding gives 5 numbers; layers\[0\] takes 4$"):
        Network((models.build("gru", 4, 4),), 2, embedding=Embedding(7, 5))
