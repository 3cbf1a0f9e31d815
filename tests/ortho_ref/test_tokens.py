"""Sums of rows by their tokens [bp:bptt/tokens] [bp:lm-embedding/gradient], the same on every run."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gradients.checks import cells
from gradients.problem import random_problem
from ortho_ref import fused
from ortho_ref.backend import to_device, to_host
from ortho_ref.fused import tokens
from ortho_ref.language.embedding import Embedding


def gradients(problem):
    """By name, on the host."""
    return to_host(problem.gradients(fused))


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.sampled_from([1, 3, tokens.FEW, tokens.FEW + 1, 1000]),
    N=st.integers(1, 40),
    kind=st.sampled_from(["uint8", "int32", "int64"]),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_sums(device, seed, m, N, kind, dtype):
    """Against an addition for each row, in their order; most words are not there, and bytes hold no word 256
    [bp:bptt/tokens] [bp:lm-embedding/gradient]."""
    rng = np.random.default_rng(seed)
    words, rows = rng.integers(0, min(m, 256), N).astype(kind), rng.standard_normal((2, N, 3)).astype(dtype)
    expected = np.zeros((2, m, 3), dtype)
    for g in range(2):
        np.add.at(expected[g], words, rows[g])
    ours = [to_host(own) for own in tokens.sums(*to_device((words, rows), device), m)]
    assert {own.dtype for own in ours} == {np.dtype(dtype)}
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5 if dtype == "float32" else 1e-14)
    if m > tokens.FEW or device == "cpu":
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("few", [0, tokens.FEW])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_same_bits_whatever_the_order_of_sparse_sums(monkeypatch, host_device, few, dtype):
    """NVIDIA lets a product with a sparse transpose add in another order on each run: dW, db and dE do not know it."""
    monkeypatch.setattr(tokens, "FEW", few)
    rng = np.random.default_rng(0)
    words, de = to_device((rng.integers(0, 7, (40, 5)), rng.standard_normal((40, 5, 4)).astype(dtype)), "gpu")
    p = random_problem(cells()["LSTM"], rng, T=40, B=5, m=7, tokens=True).on("gpu")
    with host_device.shuffled_sums():
        first, second = ({"E": to_host(Embedding(7, 4).backward(words, de)["E"])} | gradients(p) for _ in range(2))
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value, err_msg=name)


@pytest.mark.parametrize("m", [5, tokens.FEW + 1])
def test_nobody_waits_for_tokens(host_device, m):
    """Of few words and of many, W and E: no copy, no wait, and no more launches for more tokens."""
    rng, counts = np.random.default_rng(0), []
    for N in (10, 1000):
        words, rows = to_device((rng.integers(0, m, (N, 1)), rng.standard_normal((N, 1, 4))), "gpu")
        for _ in range(2):
            with host_device.counted() as count:
                Embedding(m, 4).backward(words, rows)
        assert count.waits == count.to_host == count.to_device == 0
        counts.append(count.kernels + count.products)
    assert counts[0] == counts[1] <= 8
