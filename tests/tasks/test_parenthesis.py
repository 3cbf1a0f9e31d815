"""The parenthesis task [ncgru:task-paren] in its two forms."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from ortho_ref.losses import LOSSES, accuracy
from tasks.parenthesis import Parenthesis, open_counts

# types, noise symbols, cap; the default form first
SIZES = {"paper": (10, 10, 10), "released": (3, 1, 5)}
FORMS = list(SIZES)


def slow_counts(tokens, form="paper"):
    """One sequence at a time.  Token i below t opens type i, t + i closes it, the rest is noise; 0 <= count <= cap."""
    types, _, cap = SIZES[form]
    counts = np.zeros((*tokens.shape, types), int)
    for b in range(tokens.shape[1]):
        open_now = [0] * types
        for t, token in enumerate(tokens[:, b]):
            if token < types:
                open_now[token] = min(open_now[token] + 1, cap)
            elif token < 2 * types:
                open_now[token - types] = max(open_now[token - types] - 1, 0)
            counts[t, b] = open_now
    return counts


def tokens_of(form):
    """Tokens of a form: any, or runs long enough to reach the cap."""
    types, noise, _ = SIZES[form]
    runs = st.sampled_from([types - 1] * 3 + [2 * types - 1, 2 * types])
    return arrays(
        np.int64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=st.integers(0, 2 * types + noise - 1)
    ) | arrays(np.int64, st.tuples(st.integers(20, 60), st.just(1)), elements=runs)


@settings(max_examples=60)
@given(st.sampled_from(FORMS).flatmap(lambda form: st.tuples(st.just(form), tokens_of(form))))
def test_counts_against_a_slow_counter(case):
    """ncgru:task-paren, every type, step and sequence."""
    form, tokens = case
    types, _, cap = SIZES[form]
    np.testing.assert_array_equal(open_counts(tokens, types, cap), slow_counts(tokens, form))


def test_cap_and_floor():
    """An eleventh open changes nothing, nor does a close with none open; other types are not touched."""
    tokens = np.array([19] * 2 + [9] * 12 + [19] * 11 + [9])[:, None]
    counts = open_counts(tokens, 10, 10)[:, 0]
    assert counts[:, 9].tolist() == [0, 0, *range(1, 11), 10, 10, *range(9, -1, -1), 0, 1]
    assert not counts[:, :9].any()


@pytest.mark.parametrize("length", [1, 2, 7])
def test_baseline_against_every_path(length):
    """The entropy of the count's distribution, and the released form's mean of p (1 - p), mean over steps: by
    enumerating all 3^T ups, downs and stays."""
    for form, V, cap in (("paper", 30, 10), ("released", 7, 5)):
        losses = []
        for T in range(1, length + 1):
            probability = [0.0] * (cap + 1)
            for path in itertools.product((1, -1, 0), repeat=T):
                count = 0
                for change in path:
                    count = min(max(count + change, 0), cap)
                probability[count] += math.prod((V - 2) / V if change == 0 else 1 / V for change in path)
            assert math.isclose(sum(probability), 1, rel_tol=1e-12)
            if form == "paper":
                losses.append(-sum(p * math.log(p) for p in probability if p))
            else:
                losses.append(sum(p * (1 - p) for p in probability) / 6)
        assert math.isclose(Parenthesis(length, form).baseline, sum(losses) / length, rel_tol=1e-11)


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
    assert (counts == 0).mean() == pytest.approx(task.baseline_metric, rel=0.02)  # 0 is the most frequent of each step


@pytest.mark.parametrize(("length", "pooled"), [(100, 0.1356), (200, 0.1380)])
def test_released_baseline_of_long_sequences(length, pooled):
    """The squared error of the classes' shares at each step is the baseline; no constant does better; one constant for
    all steps costs more, `pooled`."""
    task = Parenthesis(length, "released")
    y = next(task.batches(np.random.default_rng(0), 4000)).y
    share = np.stack([(y == k).mean(axis=(1, 2)) for k in range(6)], axis=1)

    def error_of(constant):
        outputs = np.broadcast_to(constant[:, None, None], (length, 4000, 3, 6)).reshape(length, 4000, 18)
        return LOSSES[task.loss](outputs, y, None)[0]

    assert error_of(share) == pytest.approx(task.baseline, rel=2e-3)
    assert error_of(np.broadcast_to(share.mean(axis=0), share.shape)) == pytest.approx(pooled, rel=2e-3)
    assert error_of(np.full_like(share, 1 / 6)) > task.baseline


@pytest.mark.parametrize("form", FORMS)
def test_batches(form):
    """x (T, B) holds every token and no other, y (T, B, types) is computed from it; fresh each time, by the seed."""
    types, noise, cap = SIZES[form]
    task = Parenthesis(25, form)
    stream, again = (task.batches(np.random.default_rng(5), 40) for _ in range(2))
    first, second = next(stream), next(stream)
    assert (first.x.shape, first.y.shape, first.mask, first.carries_state) == ((25, 40), (25, 40, types), None, False)
    assert first.x.dtype.kind == first.y.dtype.kind == "i"
    assert set(first.x.flat) == set(range(2 * types + noise)) == set(range(task.input.size))
    assert set(first.y.flat) <= set(range(cap + 1))
    np.testing.assert_array_equal(first.y, slow_counts(first.x, form))
    np.testing.assert_array_equal(first.x, next(again).x)
    assert not np.array_equal(first.x, second.x)
    assert task.output_size == types * (cap + 1)


@pytest.mark.parametrize("form", FORMS)
def test_tokens_are_the_generators_next_integers(form):
    """A batch is one draw of T B integers below the vocabulary: data of a seed stay what they were."""
    rng, vocabulary = np.random.default_rng(7), {"paper": 30, "released": 7}[form]
    stream = Parenthesis(9, form).batches(np.random.default_rng(7), 4)
    for batch in itertools.islice(stream, 3):
        np.testing.assert_array_equal(batch.x, rng.integers(0, vocabulary, (9, 4)))


@pytest.mark.parametrize("form", FORMS)
def test_a_solver_that_reads_the_input(form):
    """The answer is in the input: logits +-1e4, or one-hot vectors, at the recomputed counts give loss 0 and accuracy
    1; with opens and closes exchanged, or types and counts, they do not."""
    types, _, cap = SIZES[form]
    task = Parenthesis(60, form)
    for x, y in (next(task.batches(np.random.default_rng(2), 50))[:2], next(task.evaluation())[:2]):
        shape = (*x.shape, types * (cap + 1))

        def outputs(tokens, shape=shape):
            one_hot = np.eye(cap + 1, dtype=np.float32)[slow_counts(tokens, form)].reshape(shape)
            return one_hot if form == "released" else 1e4 * (2 * one_hot - 1)

        right = outputs(x)
        assert (LOSSES[task.loss](right, y, None)[0], accuracy(0.0, right, y)) == (0, 1)
        exchanged = np.where(x < 2 * types, (x + types) % (2 * types), x)
        by_count_first = right.reshape(*x.shape, types, cap + 1).swapaxes(2, 3).reshape(shape)
        assert min(LOSSES[task.loss](own, y, None)[0] for own in (outputs(exchanged), by_count_first)) > 0.1
