"""The adding task [ncgru:task-add]."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ortho_ref.losses import METRICS, mean_squared_error
from scripts.maintain.timing.peak import traced
from tasks.adding import Adding
from tests.tasks.made import draw


def solve(x):
    """The target (B, 1), read off the input: the sum over steps of marker times value."""
    return np.array([[sum(float(marker) * float(value) for marker, value in x[:, b])] for b in range(x.shape[1])])


@given(T=st.integers(2, 40), B=st.integers(1, 5), training_set=st.none() | st.integers(5, 9), seed=st.integers(0, 99))
def test_sequences_written_out(T, B, training_set, seed):
    """Marker first, value second; one marker below T // 2 and one from there on; the target is the float32 sum
    [ncgru:task-add] [urnn:task-add] [sgornn:10]."""
    x, y = draw(Adding(T, training_set), B, seed)
    assert (x.shape, y.shape, x.dtype, y.dtype) == ((T, B, 2), (B, 1), np.float32, np.float32)
    for b in range(B):
        markers, values = x[:, b, 0].tolist(), x[:, b, 1]
        assert sorted(markers) == [0] * (T - 2) + [1, 1]
        first = markers.index(1)
        second = markers.index(1, first + 1)
        assert first < T // 2 <= second
        assert ((values >= 0) & (values < 1)).all()
        assert y[b, 0] == np.float32(values[first] + values[second])


@pytest.mark.parametrize(("T", "training_set"), [(2, None), (7, 30000), (10, None)])
def test_marked_steps_are_uniform(T, training_set):
    """Every pair of a step of the first half and one of the second alike, both ends of both among them, within 5
    standard deviations; steps of one sequence say nothing of the next one's."""
    B, half = 30000, T // 2
    x, _ = draw(Adding(T, training_set), B)
    steps = np.argwhere(x[:, :, 0].T == 1)[:, 1].reshape(B, 2)
    counts = np.zeros((T, T), int)
    np.add.at(counts, tuple(steps.T), 1)
    pairs = half * (T - half)
    expected = np.zeros((T, T))
    expected[:half, half:] = B / pairs
    assert abs(counts - expected).max() < 5 * math.sqrt(B / pairs)
    assert (counts > 0).sum() == pairs
    if T == 10:
        neighbours = np.bincount(half * steps[1:, 0] + steps[:-1, 0], minlength=half**2)
        assert abs(neighbours - B / half**2).max() < 5 * math.sqrt(B / half**2)


def test_values_are_independent_and_uniform():
    """Twenty equal parts of [0, 1) hit alike, at every step and at the marked ones; no correlation between steps,
    sequences, or values and markers: within 5 standard deviations."""
    T, B = 10, 20000
    x, y = draw(Adding(T, None), B)
    values, markers = x[:, :, 1].astype(float), x[:, :, 0].astype(float)
    for own in (*values, values[markers == 1]):
        times = np.bincount((20 * own).astype(int), minlength=20)
        assert abs(times - len(own) / 20).max() < 5 * math.sqrt(len(own) / 20)
    for one, other in ((values[1:], values[:-1]), (values[:, 1:], values[:, :-1]), (values, markers)):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / math.sqrt(one.size)
    assert y.var() == pytest.approx(1 / 6, rel=0.03)


@pytest.mark.parametrize("T", [2, 5, 50])
def test_a_solver_that_reads_the_input(T):
    """The answer is in the input, in training and held-out data: loss 0 but for the rounding of float32, metric 1; not
    so with the two channels exchanged, or one marker only."""
    task = Adding(T, 500)
    held_out = next(task.evaluation())
    for x, y in (draw(task, 60), (held_out.x[:, :60], held_out.y[:60])):
        answer = solve(x)
        assert abs(answer - y).max() <= 2**-24  # half a unit in the last place of a sum below 2
        assert mean_squared_error(answer, y)[0] < 1e-14
        assert METRICS[task.metric](0.0, answer, y, None) == 1
        first_half = x.copy()
        first_half[T // 2 :, :, 0] = 0
        assert mean_squared_error(solve(first_half), y)[0] > 0.2
        assert METRICS[task.metric](0.0, solve(first_half), y, None) < 0.2
    rolled = np.stack([np.roll(x[:, :, 0], 1, axis=0), x[:, :, 1]], axis=2)
    assert T == 2 or mean_squared_error(solve(rolled), y)[0] > 0.1


def test_baseline():
    """The mean of (v1 + v2 - c)^2 over a grid of n^2 midpoints, less the grid's own 1/(6 n^2), is least at c = 1 and
    there 1/6; so it is over the held-out set [urnn:add-baseline]."""
    n = 12
    grid = [Fraction(2 * i + 1, 2 * n) for i in range(n)]
    means = {
        c: sum((one + other - c) ** 2 for one, other in itertools.product(grid, grid)) / n**2
        for c in (Fraction(9, 10), Fraction(1), Fraction(11, 10))
    }
    assert min(means, key=means.__getitem__) == 1
    assert Adding().baseline == float(means[1] + Fraction(1, 6 * n**2)) == 1 / 6
    y = np.concatenate([batch.y for batch in Adding(20).evaluation()])
    assert mean_squared_error(np.ones_like(y), y)[0] == pytest.approx(1 / 6, rel=0.05)
    assert (abs(y - 1) < 0.04).mean() == pytest.approx(Adding().baseline_metric, rel=0.1)


@settings(max_examples=25)
@given(sizes=st.integers(1, 30).flatmap(lambda N: st.tuples(st.just(N), st.integers(1, N))), seed=st.integers(0, 99))
def test_passes_through_the_training_set(sizes, seed):
    """A pass has N // B batches, no sequence twice in it; all passes draw from the same N sequences, with their
    targets."""
    N, B = sizes
    stream = Adding(4, N).batches(np.random.default_rng(seed), B)
    known = {}
    for _ in range(6):
        epoch = list(itertools.islice(stream, N // B))
        values = [batch.x[:, b].tobytes() for batch in epoch for b in range(B)]
        targets = [float(y) for batch in epoch for y in batch.y[:, 0]]
        assert len(set(values)) == (N // B) * B
        for value, target in zip(values, targets, strict=True):
            assert known.setdefault(value, target) == target
    assert len(known) <= N


def test_orders_of_the_passes():
    """Each pass has an order of its own and drops others, so that all N are seen in time; the set is the generator's,
    and so is the order."""
    N, B = 23, 5
    stream, again, other = (Adding(4, N).batches(np.random.default_rng(seed), B) for seed in (1, 1, 2))
    passes = [[batch.x for batch in itertools.islice(stream, N // B)] for _ in range(12)]
    orders = [tuple(x[:, b].tobytes() for x in own for b in range(B)) for own in passes]
    assert len(set(orders)) == 12
    assert len({frozenset(order) for order in orders}) > 6
    assert len(set().union(*orders)) == N
    for x in itertools.chain(*passes):
        np.testing.assert_array_equal(x, next(again).x)
    apart = {batch.x[:, b].tobytes() for batch in itertools.islice(other, 40) for b in range(B)}
    assert not apart & set().union(*orders)


def test_memory_of_the_training_set():
    """T float32 values and two steps a sequence: x of the whole set, or float64 values, would be twice as much."""
    N, T = 20000, 50
    assert traced(lambda: next(Adding(T, N).batches(np.random.default_rng(0), 10))) < 1.3 * N * (4 * T + 2 * 8)
