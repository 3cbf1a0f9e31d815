"""Losses against PyTorch's in float64: values and gradients below 1e-12."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed: `make crosscheck` installs it")

from gradients.problem import relative_error  # noqa: E402
from ortho_ref.losses import cross_entropy, mean_squared_error  # noqa: E402
from scripts.maintain.oracle import autograd as oracle  # noqa: E402

functional = torch.nn.functional

EVERY_KIND = pytest.mark.parametrize(("groups", "masked"), list(itertools.product([None, 1, 4], [False, True])))
CASES = {
    "seed": st.integers(0, 2**32 - 1),
    "leading": st.sampled_from([(5, 3), (4,), (1, 1)]),
    "K": st.sampled_from([4, 2, 7]),
}


def drawn(seed, leading, groups, K, masked):
    """Outputs, classes, and a mask that leaves at least one entry, or None."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, leading if groups is None else (*leading, groups))
    mask = rng.random(leading) < 0.6 if masked else None
    if masked:
        mask.flat[rng.integers(mask.size)] = True
    return 3 * rng.standard_normal((*leading, (groups or 1) * K)), y, mask


def counted(tensor, mask):
    """The entries that count, which PyTorch then takes the mean over."""
    return tensor if mask is None else tensor[torch.tensor(mask)]


def compare(ours, loss, outputs):
    """Value and gradient of ours against the PyTorch function of leaf["o"]."""
    value, gradient = ours
    theirs = float(loss({"o": torch.tensor(outputs)}))
    assert abs(float(value) - theirs) < 1e-12 * max(1.0, theirs)
    assert relative_error(gradient, oracle.gradients(loss, {"o": outputs})["o"]) < 1e-12


@EVERY_KIND
@settings(max_examples=8)
@given(**CASES)
def test_cross_entropy(seed, leading, groups, K, masked):
    """torch.nn.functional.cross_entropy, its mean over entries and groups."""
    outputs, y, mask = drawn(seed, leading, groups, K, masked)

    def loss(leaf):
        rows = counted(leaf["o"].reshape(*leading, groups or 1, K), mask)
        target = counted(torch.tensor(y.reshape(*leading, groups or 1)), mask)
        return functional.cross_entropy(rows.reshape(-1, K), target.reshape(-1))

    compare(cross_entropy(outputs, y, mask), loss, outputs)


@EVERY_KIND
@settings(max_examples=8)
@given(**CASES)
def test_squared_error_of_numbers(seed, leading, groups, K, masked):
    """torch.nn.functional.mse_loss, its mean over every number of the entries that count."""
    outputs, _, mask = drawn(seed, leading, groups, K, masked)
    y = np.random.default_rng(seed + 1).standard_normal(outputs.shape)

    def loss(leaf):
        return functional.mse_loss(counted(leaf["o"], mask), counted(torch.tensor(y), mask))

    compare(mean_squared_error(outputs, y, mask), loss, outputs)


@EVERY_KIND
@settings(max_examples=8)
@given(**CASES)
def test_squared_error_of_classes(seed, leading, groups, K, masked):
    """The same with torch.nn.functional.one_hot."""
    outputs, y, mask = drawn(seed, leading, groups, K, masked)

    def loss(leaf):
        one_hot = functional.one_hot(torch.tensor(y), K).reshape(outputs.shape).to(torch.float64)
        return functional.mse_loss(counted(leaf["o"], mask), counted(one_hot, mask))

    compare(mean_squared_error(outputs, y, mask), loss, outputs)
