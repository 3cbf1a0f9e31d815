"""The parenthesis task [ncgru:task-paren]."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ortho_ref.losses import accuracy, cross_entropy
from tasks.parenthesis import CAP, NOISE, TYPES, Parenthesis, open_counts


def slow_counts(tokens):
    """One sequence at a time: token i < 10 opens type i, 10 + i closes it, the rest is noise; 0 <= count <= 10."""
    counts = np.zeros((*tokens.shape, 10), int)
    for b in range(tokens.shape[1]):
        open_now = [0] * 10
        for t, token in enumerate(tokens[:, b]):
            if token < 10:
                open_now[token] = min(open_now[token] + 1, 10)
            elif token < 20:
                open_now[token - 10] = max(open_now[token - 10] - 1, 0)
            counts[t, b] = open_now
    return counts


@settings(max_examples=60)
@given(
    arrays(np.int64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=st.integers(0, 29))
    | arrays(np.int64, st.tuples(st.integers(20, 60), st.just(1)), elements=st.sampled_from([3, 3, 3, 13, 20]))
)
def test_counts_against_a_slow_counter(tokens):
    """ncgru:task-paren, every type, step and sequence."""
    np.testing.assert_array_equal(open_counts(tokens), slow_counts(tokens))


def test_cap_and_floor():
    """An eleventh open changes nothing, nor does a close with none open; other types are not touched."""
    tokens = np.array([19] * 2 + [9] * 12 + [19] * 11 + [9])[:, None]
    counts = open_counts(tokens)[:, 0]
    assert counts[:, 9].tolist() == [0, 0, *range(1, 11), 10, 10, *range(9, -1, -1), 0, 1]
    assert not counts[:, :9].any()


@pytest.mark.parametrize("length", [1, 2, 7])
def test_baseline_against_every_path(length):
    """The entropy of the count's distribution, mean over steps: by enumerating all 3^T ups, downs and stays."""
    entropies = []
    for T in range(1, length + 1):
        probability = [0.0] * 11
        for path in itertools.product((1, -1, 0), repeat=T):
            count = 0
            for change in path:
                count = min(max(count + change, 0), 10)
            probability[count] += math.prod(28 / 30 if change == 0 else 1 / 30 for change in path)
        assert math.isclose(sum(probability), 1, rel_tol=1e-12)
        entropies.append(-sum(p * math.log(p) for p in probability if p))
    assert math.isclose(Parenthesis(length).baseline, sum(entropies) / length, rel_tol=1e-11)


def test_baseline_of_long_sequences():
    """Against a chain in integers (exact, up to the cap and beyond), and against the entropy of drawn counts."""
    length, ways, entropies = 300, [1] + [0] * 10, []
    for t in range(1, length + 1):
        moved = [28 * w for w in ways]
        for count, w in enumerate(ways):
            moved[min(count + 1, 10)] += w
            moved[max(count - 1, 0)] += w
        ways = moved
        entropies.append(-sum(w / 30**t * math.log(w / 30**t) for w in ways if w))
    task = Parenthesis(length)
    assert math.isclose(task.baseline, sum(entropies) / length, rel_tol=1e-12)
    counts = next(task.batches(np.random.default_rng(0), 1000)).y.reshape(length, -1)
    share = np.stack([(counts == k).mean(axis=1) for k in range(11)])
    share = share[share > 0], np.nonzero(share)
    assert math.isclose(-(share[0] * np.log(share[0])).sum() / length, task.baseline, rel_tol=1e-2)
    assert set(share[1][0]) == set(range(11))  # the cap is reached


def test_batches():
    """x (T, B) holds every token and nothing else, y (T, B, 10) is computed from it; fresh each time, by the seed."""
    task = Parenthesis(25)
    stream, again = (task.batches(np.random.default_rng(5), 40) for _ in range(2))
    first, second = next(stream), next(stream)
    assert (first.x.shape, first.y.shape, first.mask, first.carries_state) == ((25, 40), (25, 40, 10), None, False)
    assert first.x.dtype.kind == first.y.dtype.kind == "i"
    assert set(first.x.flat) == set(range(30)) == set(range(task.input.size))
    assert set(first.y.flat) <= set(range(11))
    np.testing.assert_array_equal(first.y, slow_counts(first.x))
    np.testing.assert_array_equal(first.x, next(again).x)
    assert not np.array_equal(first.x, second.x)
    assert (TYPES, NOISE, CAP, task.output_size) == (10, 10, 10, 110)


def test_evaluation_set():
    """The same 1,000 sequences on every call, whatever was trained on; tokens uniform within 5 standard deviations."""
    task = Parenthesis(20)
    first = list(task.evaluation())
    assert [batch.x.shape for batch in first] == [(20, 100)] * 10
    next(task.batches(np.random.default_rng(0), 3))
    second = list(Parenthesis(20).evaluation())
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.x, other.x)
        np.testing.assert_array_equal(one.y, other.y)
    assert sum(batch.x.shape[1] for batch in first) == 1000
    tokens = np.concatenate([batch.x for batch in first], axis=1)
    np.testing.assert_array_equal(np.concatenate([batch.y for batch in first], axis=1), slow_counts(tokens))
    times = np.bincount(tokens.ravel(), minlength=30)
    assert abs(times - 20000 / 30).max() < 5 * math.sqrt(20000 / 30)


def test_a_solver_that_reads_the_input():
    """The answer is in the input: logits +-1e4 at the recomputed counts give loss 0 and accuracy 1; at others not."""
    x, y, _, _ = next(Parenthesis(30).batches(np.random.default_rng(2), 8))
    right = 1e4 * (2 * np.eye(11, dtype=np.float32)[slow_counts(x)].reshape(30, 8, 110) - 1)
    assert (cross_entropy(right, y)[0], accuracy(0.0, right, y)) == (0, 1)
    by_count_first = right.reshape(30, 8, 10, 11).swapaxes(2, 3).reshape(30, 8, 110)
    assert cross_entropy(by_count_first, y)[0] > 1


def test_bad_length():
    """The error names the argument and what is allowed."""
    with pytest.raises(ValueError, match=r"^length is 0; allowed: at least 1$"):
        Parenthesis(0)
