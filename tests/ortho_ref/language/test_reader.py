"""A story, a question, and a third layer on both [bp:reader] [goru:task-babi]."""

import re
from dataclasses import replace

import numpy as np
import pytest

from gradients.checks import READERS, TOLERANCE_DIFFERENCES, check_reader
from gradients.problem import largest_error, perturbed
from ortho_ref import models
from ortho_ref.backend import to_device, to_host
from ortho_ref.cells.cell import parts_of
from ortho_ref.converters import to_torch
from ortho_ref.language.embedding import Embedding
from ortho_ref.layers import real_features
from ortho_ref.losses import cross_entropy
from ortho_ref.network import Network
from ortho_ref.training.optimizers import Adam
from ortho_ref.training.task import JOINS, Batch, Padded, StoryAndQuestion
from ortho_ref.training.trainer import Trainer, evaluate
from tests.ortho_ref.training.test_trainer import Fixed
from tests.precision import single

#: Of each text in a batch, its words.
STORIES, QUESTIONS = (6, 1, 4), (2, 3, 1)


def texts(rng, lengths, longer=0):
    """Padded tokens below 7."""
    return Padded(rng.integers(0, 7, (max(lengths) + longer, len(lengths))), np.array(lengths))


def reader(model="gru", join="steps", dtype=np.float64, **options):
    """A reader of 7 words, its parameters and buffers, texts and answers, three of each."""
    rng = np.random.default_rng(0)
    own = models.network(model, 7, (4, 2, 4), 7, embedding=3, readout="last", reader=join, **options)
    params, buffers = own.init(rng, dtype=np.float64)
    params = perturbed(params, rng, 0.5)
    buffers = own.rebuild(params, buffers)
    if dtype == np.float32:
        params, buffers = single((params, buffers))
    return own, params, buffers, (texts(rng, STORIES), texts(rng, QUESTIONS)), rng.integers(0, 7, 3)


def alone(x, b):
    """The texts of row b by themselves, without what is behind their ends."""
    return tuple(Padded(own.tokens[: own.lengths[b], b : b + 1], own.lengths[b : b + 1]) for own in x)


@pytest.mark.parametrize("row", READERS, ids=lambda row: f"{row[0]}-{row[2]['reader']}")
def test_gradients_against_finite_differences(row):
    """[bp:reader] Along random directions of every parameter, texts of different lengths, with dropout."""
    name, sizes, options = row
    result = check_reader(name, sizes, np.random.default_rng(7), **options)
    assert result.differences < TOLERANCE_DIFFERENCES, result


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("model", ["gru", "lstm", "goru", "urnn"])
def test_by_hand(model, join):
    """Layer by layer, each row by itself: the last words' states side by side, once or beside each word; the words of
    both texts are of one embedding."""
    own, params, buffers, x, _ = reader(model, join)
    outputs, last, _ = own.forward(params, buffers, x)
    assert outputs.shape == (3, 7)

    def run(i, vectors):
        given = {key.removeprefix(f"layer{i}."): value for key, value in params.items() if key.startswith(f"layer{i}.")}
        kept = {key.removeprefix(f"layer{i}."): value for key, value in buffers.items() if key.startswith(f"layer{i}.")}
        parts = parts_of(own.layers[i].cell, own.layers[i].forward(given, kept, vectors)[0])
        for ours, part in zip(parts_of(own.layers[i].cell, last[i]), parts, strict=True):
            np.testing.assert_allclose(ours[b], part[-1, 0], rtol=1e-12, atol=1e-14)
        return real_features(parts[0][1:])

    for b in range(3):
        s, q = (run(i, params["embedding.E"][text.tokens]) for i, text in enumerate(alone(x, b)))
        if join == "once":
            v = np.concatenate([s[-1], q[-1]], axis=-1)[None]
        else:
            v = np.stack([np.concatenate([s_t, q[-1]], axis=-1) for s_t in s])
        expected = params["readout.W"] @ run(2, v)[-1, 0] + params["readout.b"]
        np.testing.assert_allclose(outputs[b], expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("join", JOINS)
def test_a_batch_is_its_rows(join):
    """Loss and gradients are the means of those of each row by itself, which is not padded."""
    own, params, buffers, x, y = reader("lstm", join)
    loss, gradients, _ = own.loss_and_gradients(params, buffers, x, y)
    rows = [own.loss_and_gradients(params, buffers, alone(x, b), y[b : b + 1]) for b in range(3)]
    np.testing.assert_allclose(loss, np.mean([row[0] for row in rows]), rtol=1e-13)
    means = {name: sum(row[1][name] for row in rows) / 3 for name in gradients}
    assert largest_error(gradients, means)[0] < 1e-12
    assert list(gradients) == list(params)


def test_nothing_reads_what_is_behind_a_text():
    """Other tokens there, and more of them: the same outputs and gradients; within the text they are others."""
    own, params, buffers, x, y = reader("nc-gru")
    longer = []
    for text in x:
        tokens = np.concatenate([text.tokens, text.tokens[:2]])
        behind = np.arange(len(tokens))[:, None] >= text.lengths
        longer.append(Padded(np.where(behind, (tokens + 3) % 7, tokens), text.lengths))
    ours, theirs = (own.loss_and_gradients(params, buffers, given, y) for given in (x, tuple(longer)))
    np.testing.assert_allclose(ours[2].outputs, theirs[2].outputs, rtol=1e-13)
    assert largest_error(ours[1], theirs[1])[0] < 1e-12
    shorter = (x[0]._replace(lengths=x[0].lengths - [1, 0, 0]), x[1])
    assert abs(own.forward(params, buffers, shorter).outputs - ours[2].outputs)[0].max() > 1e-3


@pytest.mark.parametrize("model", ["gru", "goru", "nc-gru", "lstm"])
def test_once_leaves_the_third_layers_recurrence_alone(model):
    """[goru:task-babi] From the zero state a single step multiplies U by nothing: no gradient; over the story it has
    one, and so has it from another state."""
    for join, h0 in (("once", False), ("once", True), ("steps", False)):
        own, params, buffers, x, y = reader(model, join)
        state = tuple(np.full((3, 4), 0.3) for _ in own.layers[2].cell.states)
        zero = [tuple(np.zeros((3, n)) for _ in state) for n in (4, 2)]
        given = [part if len(state) > 1 else part[0] for part in [*zero, state]] if h0 else None
        gradients = own.loss_and_gradients(params, buffers, x, y, h0=given)[1]
        weights = [f"layer2.{name}" for name in own.layers[2].cell.recurrent_weights]
        of_u = [value for name, value in gradients.items() if any(name.startswith(weight) for weight in weights)]
        assert of_u
        assert any(value.any() for value in of_u) == (join == "steps" or h0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("join", JOINS)
def test_every_device_and_dtype(device, join, dtype):
    """Loss and gradients with one seed's dropout are the host's in float64; everything stays in its dtype."""
    options = {"dropout": 0.3, "regularizers": {"words": 0.2, "weights": 0.3}}
    own, *point = reader("gru", join, **options)
    loss, gradients, _ = own.loss_and_gradients(*point, rng=np.random.default_rng(5))
    there = to_device(reader("gru", join, dtype, **options)[1:], device)
    own_loss, own_gradients, result = to_host(own.loss_and_gradients(*there, rng=np.random.default_rng(5)))
    tolerance = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(own_loss, loss, rtol=tolerance)
    assert largest_error(own_gradients, gradients)[0] < tolerance
    kinds = {np.asarray(value).dtype for value in (own_loss, result.outputs, *own_gradients.values())}
    assert kinds == {np.dtype(dtype)}


def test_a_trainer_does_not_know_the_difference():
    """Trained on pairs, in its own precision, to every answer; evaluated; its health names all three layers."""
    own, _, _, x, y = reader("nc-gru", "once")
    task = Fixed([Batch(x, y)], StoryAndQuestion(7), 7, loss="cross_entropy", metric="accuracy", readout="last")
    trainer = Trainer(own, task, Adam(2e-2), 3)
    for _ in range(80):
        trainer.update(Batch(x, y))
    assert trainer.evaluate()["accuracy"] == 1
    assert trainer.take_loss() < 1.5
    assert set(trainer.health()) == {"layer0.U_c", "layer1.U_c", "layer2.U_c"}
    figures = evaluate(own, *trainer.evaluated(), task)
    outputs = own.forward(trainer.params, trainer.buffers, x).outputs
    np.testing.assert_allclose(figures["evaluation_loss"], cross_entropy(outputs, y)[0], rtol=1e-6)
    with pytest.raises(ValueError, match=r"^rate_per_window is 5, but the network is read at the last step; allowed: "):
        Trainer(own, task, Adam(), 3, rate_per_window=5)


def test_what_it_says_of_itself():
    """Its layers by their parts; its parameters, counted from the sizes and from the arrays."""
    own, params, *_ = reader("gru", "steps", dropout=0.1)
    count = 7 * 3 + 3 * (4 * 3 + 4 * 4 + 4) + 3 * (2 * 3 + 2 * 2 + 2) + 3 * (4 * 6 + 4 * 4 + 4) + 7 * 4 + 7
    assert repr(own) == (
        "Reader(embedding 7 -> 3, story gru 3 -> 4, question gru 3 -> 2, both (steps) gru 6 -> 4, 7 outputs at the "
        f"last step, cross_entropy, dropout 0.1, {count} parameters)"
    )
    assert own.count(params) == own.free_parameters == count
    assert own.input_size == 7
    assert own != replace(own, join="once")


def wrong(x, which, **changes):
    return tuple(own._replace(**changes) if i == which else own for i, own in enumerate(x))


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda x: x[0].tokens, TypeError, "x is an ndarray; expected a pair of Padded, the story and the question"),
        (lambda x: x[:1], TypeError, "x is a tuple; expected a pair of Padded"),
        (lambda x: (x[0].tokens, x[1].tokens), TypeError, "x is a tuple; expected a pair of Padded"),
        (lambda x: wrong(x, 0, tokens=x[0].tokens + 7), ValueError, "x holds token 1"),
        (lambda x: wrong(x, 1, tokens=np.zeros((3, 3, 7))), TypeError, "tokens of the question are float64; expected"),
        (lambda x: wrong(x, 0, lengths=x[0].lengths[:2]), ValueError, "lengths of the story are int64 (2,); expected"),
        (
            lambda x: wrong(x, 0, lengths=[1, 1, 1]),
            ValueError,
            "lengths of the story are a list; expected integers (3,)",
        ),
        (
            lambda x: wrong(x, 1, lengths=np.array([1, 0, 1])),
            ValueError,
            "lengths of the question hold 0; allowed: 1 to 3",
        ),
        (lambda x: wrong(x, 1, lengths=np.array([1, 4, 1])), ValueError, "question hold 4; allowed: 1 to 3"),
        (lambda x: (alone(x, 0)[0], x[1]), ValueError, "the story's batch is 1, the question's 3"),
    ],
)
def test_texts_that_are_none(change, kind, message):
    """One line that names which text, and what was expected."""
    own, params, buffers, x, _ = reader()
    with pytest.raises(kind, match=re.escape(message)):
        own.forward(params, buffers, change(x))


def test_states_that_do_not_fit():
    own, params, buffers, x, _ = reader()
    with pytest.raises(ValueError, match=r"^h0 holds 1 states; expected one for each of the 3 layers$"):
        own.forward(params, buffers, x, [np.zeros((3, 4))])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reader": "twice"}, "join is 'twice'; allowed: 'once', 'steps'"),
        ({"readout": "every"}, "readout of a reader is 'every'; allowed: 'last'"),
        ({"embedding": None}, "a reader needs an embedding; there is none"),
        (
            {"regularizers": {"alpha": 1.0, "inputs": 0.1}},
            "regularizers has inputs, alpha; allowed for a reader: words, ",
        ),
        ({"hidden_sizes": (4,)}, "hidden_sizes has 1 values; a reader has 3: of story, question and both"),
    ],
)
def test_readers_that_cannot_be(options, message):
    arguments = {"hidden_sizes": (4, 2, 4), "embedding": 3, "readout": "last", "reader": "once"} | options
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        models.network("gru", 7, output_size=7, **arguments)


def test_layers_that_do_not_fit():
    """The encoders read one embedding, the third what both give; none of it is a stack, here or for PyTorch."""
    own, params, *_ = reader("gru-cudnn")
    layers = own.layers
    for changed, message in (
        (layers[:2], "a reader has 2 layers; allowed: 3, of story, question and both"),
        ((layers[0], models.build("gru", 5, 2), layers[2]), "layers[1] takes 5 inputs, layers[0] 3; allowed: the same"),
        ((layers[1], layers[1], layers[2]), "layers[2] takes 6 inputs; the two before give 4 together"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            replace(own, layers=changed)
    with pytest.raises(ValueError, match=r"layers\[1\] takes 3 inputs; the layer before gives 4"):
        Network(layers, 7, embedding=Embedding(7, 3))
    with pytest.raises(ValueError, match=r"^network is a Reader, whose layers are no stack"):
        to_torch(own, params)
