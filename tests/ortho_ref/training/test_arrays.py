"""A task of one's own arrays, and the page that shows it."""

import itertools
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ortho_ref import models
from ortho_ref.losses import LOSSES, METRICS
from ortho_ref.training.arrays import Arrays
from ortho_ref.training.optimizers import Adam
from ortho_ref.training.trainer import Trainer

ROOT = Path(__file__).parents[3]
RNG = np.random.default_rng(0)
NUMBERS, TOKENS = RNG.standard_normal((20, 6, 3)), RNG.integers(0, 5, (20, 6))
LABELS = np.arange(20) % 4


def with_nan(a, *where):
    """A copy with NaN there."""
    a = a.copy()
    a[where] = np.nan
    return a


FROM_SECOND = np.tile(np.arange(6) > 0, (20, 1))
OTHERS = {"x": np.ones((4, 9, 3)), "y": LABELS[:4]}
BINARY = {"loss": "binary_cross_entropy"}
SHAPES = "expected (N, T, m) of floating-point numbers or (N, T) of integers"
KINDS = {
    "a class": (NUMBERS, LABELS, {}, ("cross_entropy", "last", 3, 4)),
    "a vector": (NUMBERS, RNG.standard_normal((20, 2)), {}, ("mean_squared_error", "last", 3, 2)),
    "classes": (NUMBERS, TOKENS, {}, ("cross_entropy", "every", 3, 5)),
    "vectors": (NUMBERS, NUMBERS[:, :, :2] * 2, {}, ("mean_squared_error", "every", 3, 2)),
    "of tokens": (TOKENS, LABELS, {"vocabulary": 9, "classes": 7}, ("cross_entropy", "last", 9, 7)),
    "yes or no": (TOKENS, LABELS % 2, BINARY, ("binary_cross_entropy", "last", 5, 1)),
    "as many as steps": (NUMBERS, LABELS[:, None].repeat(6, 1), {"readout": "every"}, ("cross_entropy", "every", 3, 4)),
    "masked": (NUMBERS, TOKENS, {"mask": np.arange(6) < 1 + LABELS[:, None]}, ("cross_entropy", "every", 3, 5)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_given_is_what_is_learned(kind):
    """Every sequence with its y, steps first; a pass has each of those trained on once, the evaluation each held out in
    order; a network of its sizes is trained on it."""
    x, y, options, expected = KINDS[kind]
    task = Arrays(x, y, held_out=6, **options)
    assert (task.loss, task.readout, task.input.size, task.output_size) == expected
    every, mask = expected[1] == "every", options.get("mask")
    (held_out,) = task.evaluation()
    for i in range(6):
        np.testing.assert_array_equal(held_out.x[:, i], x[14 + i])
        np.testing.assert_array_equal(held_out.y[:, i] if every else held_out.y[i], y[14 + i])
        if mask is not None:
            np.testing.assert_array_equal(held_out.mask[:, i], mask[14 + i])
    assert (held_out.mask is None) == (mask is None)
    seen = Counter()
    known = {x[i].tobytes(): i for i in range(14)}
    for batch in itertools.islice(task.batches(np.random.default_rng(1), 7), 2):
        for b in range(7):
            i = known[np.ascontiguousarray(batch.x[:, b]).tobytes()]
            seen[i] += 1
            np.testing.assert_array_equal(batch.y[:, b] if every else batch.y[b], y[i])
    assert seen == Counter(range(14))
    network = models.network("gru", hidden_sizes=[3], **task.sizes_of_network)
    trainer = Trainer(network, task, Adam(1e-2), 5)
    batches = trainer.batches()
    for _ in range(3):
        trainer.update(next(batches))
    assert math.isfinite(trainer.evaluate()["evaluation_loss"])


@pytest.mark.parametrize("kind", KINDS)
def test_baseline_is_that_of_a_constant(kind):
    """The loss of the constant that the trained sequences give, entry by entry in plain Python."""
    x, y, options, (loss, _, _, width) = KINDS[kind]
    task = Arrays(x, y, held_out=6, **options)
    there = options.get("mask", np.ones(y.shape[: 2 if task.readout == "every" else 1], bool))
    trained, held_out = y[:14][there[:14]], y[14:][there[14:]]
    if loss == "mean_squared_error":
        mean = trained.reshape(-1, width).mean(axis=0)
        expected = float(np.mean((held_out.reshape(-1, width) - mean) ** 2))
    else:
        counts, K = Counter(trained.ravel().tolist()), max(width, 2)
        each = [-math.log((counts[k] + 1) / (trained.size + K)) for k in held_out.ravel().tolist()]
        expected = sum(each) / len(each)
    assert math.isclose(task.baseline, expected, rel_tol=1e-10)


def test_a_solver():
    """Right logits have loss 0 and metric 1, for each loss of classes."""
    for kind in ("a class", "yes or no"):
        x, y, options, _ = KINDS[kind]
        task = Arrays(x, y, held_out=6, **options)
        (batch,) = task.evaluation()
        right = 900.0 * (2 * batch.y[:, None] - 1) if kind == "yes or no" else 900 * np.eye(4)[batch.y]
        assert LOSSES[task.loss](right, batch.y, None)[0] == 0
        assert METRICS[task.metric](0.0, right, batch.y, None) == 1


def test_others_are_held_out():
    """Arrays of their own, of another length, in their order; or sequences that are named."""
    task = Arrays(NUMBERS, LABELS, held_out=OTHERS)
    assert task.sizes == (20, 4)
    (batch,) = task.evaluation()
    np.testing.assert_array_equal(batch.x, OTHERS["x"].swapaxes(0, 1))
    np.testing.assert_array_equal(batch.y, OTHERS["y"])
    task = Arrays(NUMBERS, LABELS, held_out=np.array([7, 2]))
    np.testing.assert_array_equal(next(iter(task.evaluation())).x, NUMBERS[[2, 7]].swapaxes(0, 1))
    np.testing.assert_array_equal(task.batch(np.arange(18)).x, np.delete(NUMBERS, [2, 7], 0).swapaxes(0, 1))


def test_the_last_step_of_shorter_sequences_is_the_last():
    """By lengths or by their mask: a batch has them filled up in front, with 0."""
    lengths = 1 + np.arange(20) % 6
    for how in ({"lengths": lengths}, {"mask": np.arange(6) < lengths[:, None]}):
        batch = Arrays(NUMBERS, LABELS, held_out=6, **how).batch(np.arange(14))
        assert batch.mask is None
        for b, own in enumerate(lengths[:14]):
            np.testing.assert_array_equal(batch.x[6 - own :, b], NUMBERS[b, :own])
            assert not batch.x[: 6 - own, b].any()


def test_scaled():
    """By what counts of the sequences trained on: mean 0, deviation 1, 0 where nothing counts; y in its units again."""
    x, y = 1e3 + 7 * NUMBERS, 5 * NUMBERS[:, :, :2] - 30
    mask = np.arange(6) < 3 + np.arange(20)[:, None] % 4
    task = Arrays(np.where(mask[:, :, None], x, np.nan), y, held_out=6, mask=mask, scale=True)
    trained, held_out = task.batch(np.arange(14)), task.batch(np.arange(6), held_out=True)
    for own, raw in ((trained.x, x), (trained.y, y)):
        assert own.dtype == np.float32
        np.testing.assert_allclose(own[trained.mask].mean(axis=0), 0, atol=1e-6)
        np.testing.assert_allclose(own[trained.mask].std(axis=0), 1, rtol=1e-6)
        assert not own[~trained.mask].any()
        mean, deviation = raw[:14][mask[:14]].mean(axis=0), raw[:14][mask[:14]].std(axis=0)
        theirs = ((raw[14:] - mean) / deviation).swapaxes(0, 1)[held_out.mask]
        np.testing.assert_allclose(
            (held_out.x if raw is x else held_out.y)[held_out.mask], theirs, rtol=1e-5, atol=1e-5
        )
    np.testing.assert_allclose(
        task.in_units(held_out.y)[held_out.mask], y[14:].swapaxes(0, 1)[held_out.mask], rtol=1e-5
    )
    assert task.baseline == pytest.approx(float((held_out.y[held_out.mask] ** 2).mean()), rel=1e-5)
    for value in (2.0, 0.1, 1 / 3, 9.81, 1e6 + 0.1):  # of which a mean is rounded
        other = {"x": np.full((6, 6, 3), value - 0.01), "y": LABELS[:6]}
        constant = Arrays(np.full((20, 6, 3), value), LABELS, held_out=other, scale=True)
        assert not constant.batch(np.arange(14)).x.any()
        np.testing.assert_allclose(constant.batch(np.arange(6), held_out=True).x, -0.01, rtol=1e-6)


def test_memory_mapped_arrays(tmp_path):
    """They stay so, also a part of one; one that may be written to keeps what was written."""
    np.save(tmp_path / "x.npy", NUMBERS)
    x = np.load(tmp_path / "x.npy", mmap_mode="r")[5:]
    task, plain = Arrays(x, LABELS[5:], held_out=6), Arrays(NUMBERS[5:], LABELS[5:], held_out=6)
    assert task.parts[0].x is x
    assert task.data == plain.data
    np.testing.assert_array_equal(task.batch(np.arange(9)).x, plain.batch(np.arange(9)).x)
    x = np.load(tmp_path / "x.npy", mmap_mode="c")
    x[:] = 3
    task = Arrays(x, LABELS, held_out=6)
    assert (task.batch(np.arange(14)).x == 3).all()


def test_a_mask_of_lists():
    """It is the mask of these entries."""
    mask = np.arange(6) < 1 + np.arange(20)[:, None] % 6
    ours, theirs = (Arrays(NUMBERS, TOKENS, held_out=6, mask=own) for own in (mask.tolist(), mask))
    assert ours.baseline == theirs.baseline
    for a, b in zip(next(iter(ours.evaluation())), next(iter(theirs.evaluation())), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_is_said_is_taken():
    """One-hot rows as numbers, and classes from 1 beside a class 0 that is not there."""
    task = Arrays(NUMBERS, np.eye(4)[LABELS], held_out=6, loss="mean_squared_error")
    assert (task.loss, task.output_size) == ("mean_squared_error", 4)
    assert Arrays(NUMBERS, LABELS + 1, held_out=6, classes=5).output_size == 5


@pytest.mark.parametrize("scale", [False, True])
def test_steps_whose_target_does_not_count_are_read(scale):
    """A mask may leave out what is asked later: x is read there, standardised with the others, 0 where it is NaN."""
    mask = np.tile(np.arange(6) == 4, (20, 1))
    x = with_nan(9 + 2 * NUMBERS, np.arange(20), 2)
    batch = Arrays(x, TOKENS, held_out=6, mask=mask, scale=scale).batch(np.arange(14))
    np.testing.assert_array_equal(batch.mask, mask[:14].T)
    read = [0, 1, 3, 4]
    own = x[:14, read]
    theirs = (own - own.mean(axis=(0, 1))) / own.std(axis=(0, 1)) if scale else own
    np.testing.assert_allclose(batch.x[read], theirs.swapaxes(0, 1), rtol=1e-4, atol=1e-6)
    assert not batch.x[2].any()


def test_what_the_mask_leaves_out_need_not_be_finite():
    """It is 0: losses and gradients are finite, and those of sequences with 0 there."""
    mask = np.arange(6) < 3 + np.arange(20)[:, None] % 4
    x, y = (np.where(mask[:, :, None], a, np.nan) for a in (NUMBERS, NUMBERS[:, :, :2]))
    zeros = (np.where(mask[:, :, None], a, 0) for a in (NUMBERS, NUMBERS[:, :, :2]))
    ours, theirs = Arrays(x, y, held_out=6, mask=mask), Arrays(*zeros, held_out=6, mask=mask)
    for a, b in zip(ours.batch(np.arange(14)), theirs.batch(np.arange(14)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert math.isfinite(ours.baseline)
    assert ours.data == theirs.data


@pytest.mark.parametrize(
    ("x", "y", "options", "kind", "message"),
    [
        (NUMBERS.tolist(), LABELS, {}, TypeError, "x is a list; expected a NumPy array"),
        (NUMBERS > 0, LABELS, {}, TypeError, "x is an array of bool; expected a NumPy array of integers or of"),
        (NUMBERS[:, 0], LABELS, {}, ValueError, f"x has shape (20, 3) of float64; {SHAPES}"),
        (TOKENS[:, :, None], LABELS, {}, ValueError, f"x has shape (20, 6, 1) of int64; {SHAPES}"),
        (NUMBERS[:0], LABELS[:0], {}, ValueError, "x has shape (0, 6, 3); expected entries"),
        (with_nan(NUMBERS, 3, 1), LABELS, {}, ValueError, "x has an entry that is not finite, x[3, 1, 0]"),
        (
            with_nan(NUMBERS, 3, 1),
            TOKENS,
            {"mask": TOKENS >= 0},
            ValueError,
            "x has an entry that is not finite, x[3, 1",
        ),
        (NUMBERS, with_nan(NUMBERS, 2), {}, ValueError, "y has an entry that is not finite, y[2, 0, 0]"),
        (NUMBERS, np.eye(4)[LABELS], {}, ValueError, "y is one-hot; give the classes, y.argmax(axis=-1), or loss="),
        (NUMBERS, np.eye(5)[TOKENS], {}, ValueError, "y is one-hot; give the classes"),
        (NUMBERS, LABELS + 1, {}, ValueError, "y holds classes 1 to 4, none below; give y - 1, or classes=5 wh"),
        (NUMBERS, LABELS[1:], {}, ValueError, "y has 19 sequences; x has 20"),
        (NUMBERS, LABELS, {"held_out": 20}, ValueError, "held_out is 20; allowed: at most 19"),
        (NUMBERS, LABELS, {"held_out": 0}, ValueError, "held_out is 0; allowed: an integer >= 1"),
        (NUMBERS, LABELS, {"loss": "hinge"}, ValueError, "loss is 'hinge'; allowed: 'cross_entropy', 'binary_cross"),
        (NUMBERS, LABELS, {"loss": "mean_squared_error"}, TypeError, "y is int64; expected numbers for mean_squared"),
        (NUMBERS, LABELS / 2, {"loss": "cross_entropy"}, ValueError, "y has shape (20,); expected (N, q) for readout"),
        (NUMBERS, NUMBERS[:, 0], {"loss": "cross_entropy"}, TypeError, "y is float64; expected integer classes"),
        (NUMBERS, LABELS, {"readout": "every"}, ValueError, "y has shape (20,); expected (N, T) for readout 'every'"),
        (NUMBERS, LABELS, {"readout": "first"}, ValueError, "readout is 'first'; allowed: 'every', 'last'"),
        (NUMBERS, LABELS, {"classes": 3}, ValueError, "y holds class 3; allowed: 0 to 2"),
        (NUMBERS, -LABELS, {}, ValueError, "y holds class -3; allowed: 0 and above"),
        (NUMBERS, 0 * LABELS, {}, ValueError, "y holds class 0 alone; allowed: two classes or more; or say"),
        (NUMBERS, LABELS - 1, {}, ValueError, "y holds class -1; allowed: 0 to 2"),
        (NUMBERS, LABELS % 2, BINARY | {"classes": 5}, ValueError, "classes is 5, but loss is 'binary_cross_entropy'"),
        (NUMBERS, NUMBERS[:, 0], {"classes": 5}, ValueError, "classes is 5, but loss is 'mean_squared_error'; allowed"),
        (np.ma.masked_array(NUMBERS, NUMBERS > 1), LABELS, {}, TypeError, "x: an array is a MaskedArray, whose mask"),
        (NUMBERS, np.ma.masked_array(LABELS, LABELS > 1), {}, TypeError, "y: an array is a MaskedArray, whose mask"),
        (NUMBERS, TOKENS, {"mask": np.ma.masked_array(TOKENS >= 0)}, TypeError, "mask: an array is a MaskedArray"),
        (NUMBERS, LABELS, {"vocabulary": 3}, ValueError, "vocabulary is 3, but x is of float64, not of tokens"),
        (TOKENS, LABELS, {"vocabulary": 4}, ValueError, "x holds token 4; allowed: 0 to 3"),
        (
            NUMBERS,
            LABELS,
            {"mask": FROM_SECOND},
            ValueError,
            "mask has holes; allowed for readout 'last': sequences that",
        ),
        (
            NUMBERS,
            LABELS,
            {"lengths": LABELS},
            ValueError,
            "lengths is int64 (20,); allowed: integers (20,), 1 to T = 6",
        ),
        (NUMBERS, np.array(1), {}, ValueError, "y has shape (); expected entries"),
        (NUMBERS, LABELS, {"lengths": np.full(20, "4")}, ValueError, "lengths is <U1 (20,); allowed"),
        (NUMBERS, LABELS, {"lengths": LABELS + 1, "mask": TOKENS >= 0}, ValueError, "lengths is int64 (20,) beside a"),
        (NUMBERS, LABELS, {"mask": TOKENS[:, :3] >= 0}, ValueError, "mask is bool (20, 3); expected bool (20, 6)"),
        (NUMBERS, LABELS, {"lengths": [6] * 20}, ValueError, "lengths is a list; allowed: integers (20,)"),
        (NUMBERS, LABELS, {"held_out": np.array([3, 3])}, ValueError, "held_out is int64 (2,); allowed: integers from"),
        (
            NUMBERS,
            LABELS,
            {"held_out": np.array([None, 1])},
            ValueError,
            "held_out is object (2,); allowed: integers from",
        ),
        (NUMBERS, LABELS, {"lengths": np.ma.masked_array(LABELS + 1)}, TypeError, "lengths: an array is a MaskedArray"),
        (NUMBERS, LABELS, {"held_out": np.array([20])}, ValueError, "held_out is int64 (1,); allowed: integers from"),
        (NUMBERS, LABELS, {"held_out": np.arange(20)}, ValueError, "held_out is int64 (20,); allowed: integers from"),
        (NUMBERS, LABELS, {"held_out": {"x": NUMBERS}}, ValueError, "held_out has x; y is missing"),
        (NUMBERS, LABELS, {"held_out": OTHERS | {"z": 1}}, ValueError, "a key of held_out is 'z'; allowed: 'x', 'y'"),
        (
            NUMBERS,
            LABELS,
            {"held_out": OTHERS | {"y": LABELS}},
            ValueError,
            "held_out's y has 20 sequences; held_out's",
        ),
        (NUMBERS, LABELS, {"held_out": OTHERS | {"x": [1]}}, TypeError, "held_out's x is a list; expected a NumPy"),
        (
            NUMBERS,
            LABELS,
            {"held_out": OTHERS | {"x": TOKENS[:4]}},
            ValueError,
            "held_out's x is int64 (4, 6); expected",
        ),
        (
            NUMBERS,
            LABELS,
            {"held_out": OTHERS | {"x": OTHERS["x"] * np.inf}},
            ValueError,
            "held_out's x has an entry that i",
        ),
        (NUMBERS, LABELS, {"held_out": OTHERS, "classes": 3}, ValueError, "y holds class 3; allowed: 0 to 2"),
        (NUMBERS, TOKENS, {"mask": TOKENS}, ValueError, "mask is int64 (20, 6); expected bool (20, 6)"),
        (NUMBERS, TOKENS, {"mask": [[True]] * 19 + [[]]}, ValueError, "mask has rows of several lengths; expected b"),
        (NUMBERS, TOKENS, {"mask": TOKENS < 0}, ValueError, "mask leaves no step of sequence 0"),
    ],
)
def test_what_does_not_fit(x, y, options, kind, message):
    """The error names the argument, what was given and what is allowed."""
    with pytest.raises(kind, match=f"^{re.escape(message)}"):
        Arrays(x, y, **{"held_out": 5, **options})


@pytest.mark.slow
def test_the_page(tmp_path, monkeypatch, capsys):
    """docs/own-data.md as it stands: it learns, and what is loaded predicts."""
    page = (ROOT / "docs/own-data.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "own-data.md", "exec"), {})
    first, second = capsys.readouterr().out.splitlines()
    loss, accuracy, baseline = (float(word) for word in re.findall(r"\d+\.\d+", first))
    assert loss < baseline / 2
    assert accuracy > 0.9
    predicted, right = re.findall(r"\[(.*?)\]", second)
    assert predicted == right
