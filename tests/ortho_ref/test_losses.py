"""Losses, metrics and the dense readout [bp:heads/loss] [bp:heads/gradient] [bp:heads/affine]."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradients.finite_difference import check
from ortho_ref.backend import to_device, to_host
from ortho_ref.layers import Dense
from ortho_ref.losses import LOSSES, METRICS, accuracy, bits_per_character, cross_entropy

SMOOTH = {"kink_distance": lambda point: float("inf")}

cases = {
    "seed": st.integers(0, 2**32 - 1),
    "leading": st.lists(st.integers(1, 4), min_size=1, max_size=2).map(tuple),
    "groups": st.none() | st.integers(1, 3),
    "K": st.integers(1, 5),
    "masked": st.booleans(),
}


def draw(seed, leading, groups, K, masked):
    """Logits, classes, and a mask with at least one entry that counts, or None."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, leading if groups is None else (*leading, groups))
    mask = rng.integers(0, 2, leading).astype(bool) if masked else None
    if masked:
        mask.flat[rng.integers(mask.size)] = True
    return 2 * rng.standard_normal((*leading, (groups or 1) * K)), y, mask


def plain_losses(outputs, y, mask):
    """log sum_k exp(o_k) - o_y of every entry that counts, one by one."""
    leading = outputs.shape[:-1]
    groups = y.reshape(*leading, -1)
    K = outputs.shape[-1] // groups.shape[-1]
    losses = []
    for *place, g in np.ndindex(groups.shape):
        if mask is None or mask[tuple(place)]:
            o = outputs[tuple(place)][g * K : (g + 1) * K]
            losses.append(math.log(sum(map(math.exp, o))) - o[groups[(*place, g)]])
    return losses


@settings(max_examples=40)
@given(**cases)
def test_value_is_the_mean_of_log_sum_exp(device, **case):
    """[bp:heads/loss] over the entries that count, in float64; inputs unmodified, dtype and device kept."""
    outputs, y, mask = draw(**case)
    before = outputs.copy()
    given_outputs, given_y, given_mask = to_device((outputs, y, mask), device)
    loss, gradient = cross_entropy(given_outputs, given_y, given_mask)
    assert math.isclose(float(loss), np.mean(plain_losses(outputs, y, mask)), rel_tol=1e-12, abs_tol=1e-14)
    assert (loss.shape, gradient.shape, gradient.dtype) == ((), outputs.shape, np.float64)
    np.testing.assert_array_equal(to_host(given_outputs), before)


@settings(max_examples=25)
@given(**cases)
def test_gradient_against_finite_differences(device, **case):
    """[bp:heads/gradient] every logit, with groups and masks; entries that do not count get exactly 0."""
    outputs, y, mask = draw(**case)
    gradient = to_host(cross_entropy(*to_device((outputs, y, mask), device))[1])
    report = check(
        lambda point: cross_entropy(point["outputs"], y, mask)[0],
        {"outputs": outputs},
        {"outputs": gradient},
        may_vanish=["outputs"],  # one class, or a target that no counted entry misses
        **SMOOTH,
    )
    assert report.passed, f"\n{report}"
    if mask is not None:
        assert not gradient[~mask].any()
    assert (case["K"] == 1) == (not gradient.any())


def test_one_group_is_no_group():
    """y (T, B, 1) and y (T, B) are the same loss; groups are read in order, K neighbours each."""
    rng = np.random.default_rng(0)
    outputs, y = rng.standard_normal((4, 3, 6)), rng.integers(0, 3, (4, 3, 2))
    with_axis, without = cross_entropy(outputs, 2 * y[..., :1]), cross_entropy(outputs, 2 * y[..., 0])
    assert with_axis[0] == without[0]
    np.testing.assert_array_equal(with_axis[1], without[1])
    halves = [cross_entropy(outputs[..., 3 * g : 3 * g + 3], y[..., g]) for g in (0, 1)]
    loss, gradient = cross_entropy(outputs, y)
    assert math.isclose(loss, (halves[0][0] + halves[1][0]) / 2, rel_tol=1e-14)
    np.testing.assert_allclose(gradient, np.concatenate([half[1] for half in halves], -1) / 2, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_logits(device, dtype):
    """log sum exp is shifted by the maximum: logits +-1e4 give loss 0 or 2e4, gradient 0 or +-1, and no warning."""
    outputs = np.tile(np.array([1e4, -1e4, -1e4], dtype), (2, 1))
    loss, gradient = cross_entropy(*to_device((outputs, np.array([0, 2])), device))
    assert (float(loss), loss.dtype, gradient.dtype) == (1e4, dtype, dtype)
    np.testing.assert_array_equal(to_host(gradient), np.array([[0, 0, 0], [0.5, 0, -0.5]]))


@pytest.mark.parametrize(
    ("outputs", "y"),
    [((4, 3, 6), (3, 4)), ((4, 3, 6), (4,)), ((4, 3, 6), (4, 3, 4)), ((4, 3, 6), (4, 3, 0)), ((4, 3, 6), (4, 3, 2, 3))],
    ids=["transposed", "too few axes", "no whole classes", "no groups", "two axes of groups"],
)
def test_y_that_does_not_fit(outputs, y):
    """The error names both shapes y may have."""
    with pytest.raises(ValueError, match=r"^y has shape .*; expected \(4, 3\) or \(4, 3\) \+ \(groups,\)$"):
        cross_entropy(np.zeros(outputs), np.zeros(y, int))


@pytest.mark.parametrize(("value", "message"), [(-1, "y holds class -1; allowed: 0 to 5"), (6, "y holds class 6;")])
def test_classes_that_do_not_exist(device, value, message):
    """A negative class would read another logit, a class of K another entry's, on some devices."""
    with pytest.raises(ValueError, match=message):
        cross_entropy(*to_device((np.zeros((4, 3, 6)), np.full((4, 3), value)), device))


@pytest.mark.parametrize("shape", [(3, 4), (4,), (2, 3), (5, 3), (0,)])
def test_mask_that_does_not_fit(shape):
    """ValueError if the sizes do not fit: a transposed mask would count the wrong entries without a word."""
    with pytest.raises(ValueError, match=r"^mask has shape .*; expected \(4, 3\)$"):
        cross_entropy(np.zeros((4, 3, 6)), np.zeros((4, 3), int), np.ones(shape, bool))


def test_empty_mask(device):
    """A mean over nothing is refused."""
    with pytest.raises(ValueError, match="mask leaves no entry to count"):
        cross_entropy(*to_device((np.zeros((2, 3, 4)), np.zeros((2, 3), int), np.zeros((2, 3), bool)), device))


def test_metrics(device):
    """Accuracy is the share of largest logits, by group; bits are nats over ln 2, so that uniform over K is log2 K."""
    outputs = np.array([[[0.0, 1, 5, 2], [3, 1, 0, 2]]])
    y = np.array([[[1, 0], [1, 1]]])
    assert accuracy(0.0, *to_device((outputs, y), device)) == 0.75
    assert accuracy(0.0, *to_device((outputs, np.array([[2, 3]])), device)) == 0.5
    uniform = to_device((np.zeros((3, 2, 8)), np.zeros((3, 2), int)), device)
    assert math.isclose(bits_per_character(float(cross_entropy(*uniform)[0]), *uniform), 3, rel_tol=1e-15)
    assert {"cross_entropy": cross_entropy} == LOSSES
    assert {"accuracy": accuracy, "bits_per_character": bits_per_character} == METRICS


@settings(max_examples=15)
@given(seed=cases["seed"], leading=cases["leading"], n=st.integers(1, 4), q=st.integers(1, 4))
def test_dense(device, seed, leading, n, q):
    """[bp:heads/affine]: o = W h + b for every leading index, and dW, db, dh against finite differences."""
    rng, dense = np.random.default_rng(seed), Dense(n, q)
    point = {"W": rng.standard_normal((q, n)), "b": rng.standard_normal(q), "h": rng.standard_normal((*leading, n))}
    do = rng.standard_normal((*leading, q))
    weights, h, given_do = to_device(({"W": point["W"], "b": point["b"]}, point["h"], do), device)
    expected = np.einsum("qn,...n->...q", point["W"], point["h"]) + point["b"]
    np.testing.assert_allclose(to_host(dense.forward(weights, h)), expected, rtol=1e-12, atol=1e-14)
    dh, dweights = to_host(dense.backward(weights, h, given_do))
    report = check(lambda p: (do * dense.forward(p, p["h"])).sum(), point, {**dweights, "h": dh}, **SMOOTH)
    assert report.passed, f"\n{report}"


def test_dense_start_and_dtype(device):
    """W Glorot uniform, b = 0; float32 in, float32 out."""
    dense = Dense(5, 3)
    weights = dense.init(np.random.default_rng(0), np.float32)
    assert (weights["W"].shape, weights["b"].tolist()) == ((3, 5), [0, 0, 0])
    assert 0.5 * math.sqrt(6 / 8) < abs(weights["W"]).max() <= math.sqrt(6 / 8)
    weights, h, do = to_device((weights, np.ones((2, 5), np.float32), np.ones((2, 3), np.float32)), device)
    dh, dweights = dense.backward(weights, h, do)
    arrays = (dense.forward(weights, h), dh, *dweights.values())
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
