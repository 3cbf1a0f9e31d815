"""The copying task [ncgru:task-copy] [urnn:task-copy] in its three layouts."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ortho_ref.losses import cross_entropy
from tasks.copying import LAYOUTS, Copying
from tests.tasks.made import draw


@given(T=st.integers(1, 40), B=st.integers(1, 4), layout=st.sampled_from(LAYOUTS), seed=st.integers(0, 99))
def test_sequences_written_out(T, B, layout, seed):
    """E-all-02: ten data symbols, blanks, one marker, blanks, T + 20 in all; the target step by step [ncgru:task-copy]
    [urnn:task-copy] [goru:task-copy]."""
    x, y = draw(Copying(T, layout), B, seed)
    assert x.shape == y.shape == (T + 20, B)
    assert x.dtype == y.dtype == np.intp
    for own_x, own_y in zip(x.T.tolist(), y.T.tolist(), strict=True):
        data = own_x[:10]
        assert set(data) <= set(range(1, 9))
        if layout == "A":
            assert own_x == data + [0] * (T - 1) + [9] + [0] * 10
            assert own_y == [0] * (T + 10) + data
        elif layout == "B":
            assert own_x == data + [0] * T + [9] + [0] * 9
            assert own_y == [0] * (T + 10) + data
        else:
            marker = own_x.index(9)
            assert 10 <= marker <= T + 9
            assert own_x == data + [0] * (marker - 10) + [9] + [0] * (T + 19 - marker)
            assert own_y == [0] * (marker + 1) + data + [0] * (T + 9 - marker)


def test_markers_of_layout_c():
    """Uniform over 10..T+9, both ends among them, within 5 standard deviations; each sequence has its own."""
    T, B = 12, 24000
    x, _ = draw(Copying(T, "C"), B)
    steps = (x == 9).argmax(axis=0)
    times = np.bincount(steps, minlength=T + 20)
    assert np.flatnonzero(times).tolist() == list(range(10, T + 10))
    assert abs(times[10 : T + 10] - B / T).max() < 5 * math.sqrt(B / T)
    pairs = np.bincount(T * (steps[1:] - 10) + steps[:-1] - 10, minlength=T * T)
    assert abs(pairs - B / T**2).max() < 5 * math.sqrt(B / T**2)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("T", [1, 100])
def test_baseline(layout, T):
    """ncgru:copy-baseline: the cross-entropy of even odds on 1..8 during the recall, and of certainty outside it
    [urnn:copy-baseline]."""
    task = Copying(T, layout)
    _, y = draw(task, 30)
    even = np.where(np.arange(9) > 0, 0.0, -1e4)
    outputs = np.where((y > 0)[:, :, None], even, -even)
    assert math.isclose(cross_entropy(outputs, y)[0], task.baseline, rel_tol=1e-12)
    assert task.baseline_metric == pytest.approx(((y == 0).sum() + (y > 0).sum() / 8) / y.size, rel=1e-12)
