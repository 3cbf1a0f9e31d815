"""What holds for every task: the list's, from made files where it reads some, and that of one's own arrays."""

import itertools
import math
import platform
import sys

import numpy as np
import pytest

from ortho_ref import models
from ortho_ref.backend import library_of
from ortho_ref.subnormals import subnormals_as_zero
from ortho_ref.training.arrays import Arrays
from ortho_ref.training.optimizers import Adam
from ortho_ref.training.runs import TrainingRun
from ortho_ref.training.task import StoryAndQuestion, Tokens, Vectors
from ortho_ref.training.trainer import Trainer
from tasks import by_name
from tasks.adding import Adding
from tasks.copying import LAYOUTS, Copying
from tasks.denoise import FORMS, Denoise
from tasks.parenthesis import Parenthesis
from tasks.shortest_path import ShortestPath
from tests.tasks import made

NAMES = (*by_name.NAMES, "arrays in memory")
FLUSHES = sys.platform == "linux" and platform.machine() == "x86_64"


def task_of(name, folder):
    """A small one."""
    rng = np.random.default_rng(0)
    arrays = {"x": rng.standard_normal((20, 7, 2)), "y": rng.integers(0, 3, 20)}
    if name == "arrays in memory":
        return Arrays(**arrays, held_out=5)
    options = dict(made.OPTIONS.get(name, {"length": 7} if "length" in by_name.options_of(name) else {}))
    if name in made.MAKE:
        made.MAKE[name](folder)
        options["data"] = folder
    if name == "arrays":
        options = {"data": folder / "a.npz"}
        np.savez(options["data"], **arrays)
    if name == "text":
        options["data"] = folder / "a.txt"
        options["data"].write_text("All work and no play. " * 40)
    return by_name.make(name, **options)


@pytest.fixture(params=NAMES)
def task(request, tmp_path):
    """Each of them."""
    return task_of(request.param, tmp_path)


def network_of(task):
    """A small NC-GRU that fits."""
    sizes = {"input_size": task.input.size, "hidden_sizes": [4], "output_size": task.output_size}
    if isinstance(task.input, StoryAndQuestion):
        sizes |= {"reader": task.input.join, "embedding": 5, "hidden_sizes": [4] * 3}
    return models.network("nc-gru", **sizes, readout=task.readout, loss=task.loss, negative_ones=2)


def assert_same(ours, theirs):
    """To the bit: batches, and the pairs of texts in them."""
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(one, tuple):
            assert_same(one, other)
        else:
            np.testing.assert_array_equal(one, other)


def test_batches_are_a_function_of_the_generator(task):
    """Alone: drawn again they are the same, over several passes, and where numbers too small to be normal count as 0,
    as in a run; the held-out set is always the same."""
    first = list(itertools.islice(task.batches(np.random.default_rng(3), 5), 40))
    with subnormals_as_zero():
        assert_same(first, itertools.islice(task.batches(np.random.default_rng(3), 5), 40))
        held_out = list(task.evaluation())
    assert_same(held_out, task.evaluation())


def test_resumed(task, tmp_path):
    """A run that stops goes on with the same batches, to the same bits; subnormal numbers count as 0 all the while."""
    tiny, seen = np.full(1, np.finfo(np.float32).tiny), []

    def run(folder, stop=0, resume=False):
        kept = {"iterations": 4, "log_every": 1, "evaluate_every": 4, "checkpoint_every": 2}
        own = TrainingRun(network_of(task), task, Adam(1e-2), 3, **kept)

        def should_stop():
            seen.append((tiny / 2)[0] == 0)
            return own.iteration == stop

        records = own.run(tmp_path / folder, resume=resume, should_stop=should_stop)
        return [record | {"steps_per_second": 0} for record in records]

    whole = run("whole")
    run("halves", stop=2)
    assert run("halves", resume=True) == whole
    assert math.isfinite(whole[-1]["evaluation_loss"])
    assert set(seen) == {FLUSHES}


@pytest.mark.parametrize("name", NAMES)
def test_devices_and_precisions(tmp_path, device, name):
    """An update and an evaluation, on every device and in both precisions: the host's figures, to rounding."""
    task = task_of(name, tmp_path)

    def figures(device, dtype):
        own = Trainer(network_of(task), task, Adam(1e-2), 3, device=device, dtype=dtype)
        norm = own.update(next(own.batches()))
        parameter = own.params["layer0.W_c"]
        assert (parameter.dtype, library_of(parameter).device) == (dtype, device)
        return {"norm": float(norm)} | own.evaluate()

    expected = figures("cpu", np.float64)
    for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 1e-3)):
        if (device, dtype) != ("cpu", np.float64):
            found = figures(device, dtype)
            assert found.keys() == expected.keys()
            assert found["norm"] == pytest.approx(expected["norm"], rel=tolerance)
            assert found["evaluation_loss"] == pytest.approx(expected["evaluation_loss"], rel=tolerance)


DRAWN = [
    ("adding", {"length": 8}, 20, 500),
    *(("copying", {"length": 6, "layout": layout}, 20, 50) for layout in LAYOUTS),
    *(("denoise", {"length": 6, "form": form}, 10, 100) for form in FORMS),
    *(("parenthesis", {"length": 20, "form": form}, 10, 100) for form in ("paper", "released")),
    ("shortest-path", {"eval_part": "valid"}, 1, 50),
    ("shortest-path", {"eval_part": "test"}, 10, 100),
]


@pytest.mark.parametrize(("name", "options", "chunks", "each"), DRAWN)
def test_drawn_sequences(name, options, chunks, each):
    """Other ones in every batch and of every seed; held out are no two alike, and none that a small seed trains on."""
    task = by_name.make(name, **options)
    columns = lambda batch: {batch.x[:, b].tobytes() for b in range(batch.x.shape[1])}  # noqa: E731
    held_out = [columns(batch) for batch in task.evaluation()]
    assert [len(own) for own in held_out] == [each] * chunks
    held_out = set.union(*held_out)
    assert len(held_out) == chunks * each
    seen = set()
    for seed in range(3):
        for batch in itertools.islice(task.batches(np.random.default_rng(seed), 40), 2):
            assert len(columns(batch) - seen - held_out) == 40
            seen |= columns(batch)


MADE = [
    (Adding(), Vectors(2), 1, "mean_squared_error", "within_0.04", "last"),
    (Copying(), Tokens(10), 9, "cross_entropy", "accuracy", "every"),
    (Denoise(), Tokens(11), 10, "cross_entropy", "accuracy", "every"),
    (Denoise(200, "released"), Vectors(10), 10, "cross_entropy", "accuracy", "every"),
    (Parenthesis(), Tokens(30), 110, "cross_entropy", "accuracy", "every"),
    (Parenthesis(50, "released"), Tokens(7), 18, "mean_squared_error", "accuracy", "every"),
    (ShortestPath(), Tokens(13), 10, "cross_entropy", "sequence_accuracy", "every"),
]


@pytest.mark.parametrize(("task", "read", "width", "loss", "metric", "readout"), MADE, ids=repr)
def test_attributes(task, read, width, loss, metric, readout):
    """What it reads and asks for; every token and every class occur, but for short paths' and long counts'."""
    assert (type(task.input), task.input, task.output_size) == (type(read), read, width)
    assert (task.loss, task.metric, task.readout) == (loss, metric, readout)
    x, y, mask, _ = next(task.batches(np.random.default_rng(0), 50))
    if isinstance(read, Tokens):
        assert set(x.flat) == set(range(read.size))
    if loss == "cross_entropy" and y.ndim == 2:
        assert set((y if mask is None else y[mask]).flat) == set(range(width))


def test_defaults_are_the_papers():
    """The smaller T of the papers, their forms, and 10^5 sequences of adding."""
    assert Adding() == Adding(200, 100_000)
    assert Denoise() == Denoise(200, "paper")


@pytest.mark.parametrize(
    ("task", "symbols", "data"),
    [
        *((Copying(2, layout), 8, lambda x, y: x[:10]) for layout in LAYOUTS),
        *((Denoise(2, form), 9, lambda x, y: y[-10:]) for form in ("paper", "released")),
    ],
)
def test_data_are_independent_and_uniform(task, symbols, data):
    """Each symbol alike at each of the ten places, and every pair of neighbours, in a sequence and across sequences:
    within 5 standard deviations."""
    B = 20000
    drawn = data(*made.draw(task, B)) - 1
    for place in drawn:
        times = np.bincount(place, minlength=symbols)
        assert abs(times - B / symbols).max() < 5 * math.sqrt(B / symbols)
    pairs = symbols**2
    for one, other in ((drawn[:9], drawn[1:]), (drawn[:, 1:], drawn[:, :-1]), (drawn[:1], drawn[9:])):
        times = np.bincount((symbols * one + other).ravel(), minlength=pairs)
        assert abs(times - one.size / pairs).max() < 5 * math.sqrt(one.size / pairs)


@pytest.mark.parametrize("of_size", [lambda N: Adding(5, N), ShortestPath])
def test_bad_training_sets(of_size):
    """A set holds a sequence or more and fills a batch, and just does with as many; the error names both."""
    for size in (0, -1, True, 2.5, "9"):
        with pytest.raises(ValueError, match=rf"^training_set is {size!r}; allowed: an integer >= 1$"):
            of_size(size)
    batches = lambda size: of_size(7).batches(np.random.default_rng(0), size)  # noqa: E731
    assert next(batches(7)).x.shape[1] == 7
    for size in (0, 8, 1000):
        with pytest.raises(ValueError, match=rf"^batch_size is {size}; allowed: 1 to training_set = 7$"):
            next(batches(size))


@pytest.mark.parametrize(
    ("name", "least"), [("adding", 2), *((n, 1) for n in ("copying", "denoise", "parenthesis", "text"))]
)
def test_bad_lengths(tmp_path, name, least):
    """The error names the argument and what is allowed, before a file is looked at."""
    data = {"data": tmp_path / "none.txt"} if name == "text" else {}
    for length in (least - 1, True):
        with pytest.raises(ValueError, match=rf"^length is {length!r}; allowed: an integer >= {least}$"):
            by_name.make(name, length=length, **data)


@pytest.mark.parametrize(
    ("name", "option", "allowed", "near"),
    [
        ("copying", "layout", "'A', 'B', 'C'", {"a": "A"}),
        ("denoise", "form", "'paper', 'released', 'places', 'marker'", {"Paper": "paper"}),
        ("parenthesis", "form", "'paper', 'released'", {"Paper": "paper"}),
    ],
)
def test_bad_choices(name, option, allowed, near):
    """The error names the argument, what is allowed, and the name that differs in case alone."""
    for value in ("code", "", *near):
        meant = rf" \(did you mean {near[value]!r}\?\)" if value in near else ""
        with pytest.raises(ValueError, match=rf"^{option} is {value!r}{meant}; allowed: {allowed}$"):
            by_name.make(name, **{option: value})
