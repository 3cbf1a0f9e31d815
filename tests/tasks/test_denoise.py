"""The denoise task [ncgru:task-denoise] in its forms."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ortho_ref.losses import cross_entropy
from tasks.denoise import Denoise
from tests.tasks.made import draw

FORMS = ["paper", "released", "places", "marker"]
#: Of the released form's two differences: places drawn with replacement; one-hot vectors, the marker being zeros.
AGAIN, VECTORS = ("released", "places"), ("released", "marker")


def tokens_of(x):
    """Tokens (T, B); of the released vectors: the place of the one, 10 for the zero vector."""
    if x.ndim == 2:
        return x
    assert set(x.flat) <= {0, 1}
    assert set(x.sum(axis=2).flat) <= {0, 1}
    return np.where(x.any(axis=2), x.argmax(axis=2), 10)


@given(T=st.integers(1, 40), B=st.integers(1, 4), form=st.sampled_from(FORMS), seed=st.integers(0, 99))
def test_sequences_written_out(T, B, form, seed):
    """E-all-03: T + 9 steps of noise and data, one marker at step T + 9, ten of noise; the target: T + 10 zeros, then
    ten symbols, of which the input shows all (paper), or a part in their order with the last among them
    [ncgru:task-denoise] [goru:task-denoise]."""
    x, y = draw(Denoise(T, form), B, seed)
    assert x.shape == ((T + 20, B, 10) if form in VECTORS else (T + 20, B))
    assert (x.dtype, y.dtype, y.shape) == (np.float32 if form in VECTORS else np.intp, np.intp, (T + 20, B))
    for own_x, own_y in zip(tokens_of(x).T.tolist(), y.T.tolist(), strict=True):
        field, marker, rest = own_x[: T + 9], own_x[T + 9], own_x[T + 10 :]
        assert (marker, rest) == (10, [0] * 10)
        assert set(field) <= set(range(10))
        answer = own_y[T + 10 :]
        assert own_y[: T + 10] == [0] * (T + 10)
        assert set(answer) <= set(range(1, 10))
        shown = [symbol for symbol in field if symbol]
        if form not in AGAIN:
            assert shown == answer
        else:
            left = iter(answer)
            assert all(symbol in left for symbol in shown)  # in order
            assert shown[-1] == answer[-1]  # nothing overwrites the last


def test_released_collisions_keep_the_later_symbol():
    """With ten slots almost every sequence has collisions: the first symbol is often lost, the last never."""
    x, y = draw(Denoise(1, "released"), 4000)
    tokens, lost_first = tokens_of(x), 0
    for own_x, own_y in zip(tokens.T.tolist(), y.T.tolist(), strict=True):
        shown = [symbol for symbol in own_x if 0 < symbol < 10]
        assert shown[-1] == own_y[-1]
        lost_first += shown[0] != own_y[11]
    # the first is lost if the smallest of ten draws is not alone, and another symbol then stands for it (8 in 9)
    alone = sum(10 * (9 - k) ** 9 for k in range(10)) / 10**10
    expected = (1 - alone) * 8 / 9
    assert lost_first / 4000 == pytest.approx(expected, abs=5 * math.sqrt(0.25 / 4000))


def test_places_of_the_paper_form():
    """Ten of the T + 9 slots, every set of ten alike: all 66 at T = 3, within 5 standard deviations."""
    B = 33000
    x, _ = draw(Denoise(3), B)
    noise = [tuple(np.flatnonzero(own == 0)) for own in x[:12].T]
    counts = dict.fromkeys(itertools.combinations(range(12), 2), 0)
    for pair in noise:
        counts[pair] += 1
    assert max(abs(n - B / 66) for n in counts.values()) < 5 * math.sqrt(B / 66)


@pytest.mark.parametrize("form", FORMS)
def test_every_slot_alike(form):
    """Steps 0..T+8 hold data equally often: 10 of n slots, or 1 - (1 - 1/n)^10 of the time (with replacement)."""
    T, B = 30, 20000
    tokens = tokens_of(draw(Denoise(T, form), B)[0])[: T + 9]
    n = T + 9
    share = 1 - (1 - 1 / n) ** 10 if form in AGAIN else 10 / n
    times = (tokens > 0).sum(axis=1)
    assert abs(times - B * share).max() < 5 * math.sqrt(B * share)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("T", [1, 100])
def test_baseline(form, T):
    """The cross-entropy of even odds on 1..9 at the last ten steps, and of certainty before them."""
    task = Denoise(T, form)
    _, y = draw(task, 30)
    even = np.where(np.arange(10) > 0, 0.0, -1e4)
    outputs = np.where(np.arange(T + 20)[:, None, None] >= T + 10, even, -even) * np.ones((1, 30, 1))
    assert math.isclose(cross_entropy(outputs, y)[0], task.baseline, rel_tol=1e-12)
    assert task.baseline_metric == pytest.approx(((y == 0).sum() + (y > 0).sum() / 9) / y.size, rel=1e-12)
