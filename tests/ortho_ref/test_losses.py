"""Losses and metrics [bp:heads/loss] [bp:heads/gradient] [bp:heads/mse] [bp:heads/mse_gradient] [bp:heads/bce]
[bp:heads/bce_gradient].
"""

import itertools
import math
import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ortho_ref.backend import to_device, to_host
from ortho_ref.finite_differences import compare_gradients
from ortho_ref.losses import (
    LOSSES,
    accuracy,
    binary_accuracy,
    binary_cross_entropy,
    bits_per_character,
    cross_entropy,
    cross_entropy_of_readout,
    mean_squared_error,
    perplexity,
    root_mean_squared_error,
    rows_at_a_time,
    sequence_accuracy,
    within,
)
from scripts.maintain.timing.peak import traced

#: Those whose targets may be integer classes of any number.
OF_CLASSES = ("cross_entropy", "mean_squared_error")

SMOOTH = {"kink_distance": lambda point: float("inf")}

# By pytest: what hypothesis draws, always the same, need not bring groups and a mask together.
every_kind = pytest.mark.parametrize(("groups", "masked"), list(itertools.product([None, 1, 3], [False, True])))
cases = {
    "seed": st.integers(0, 2**32 - 1),
    "leading": st.sampled_from([(3, 2), (4,), (1,), (1, 1), (2, 4)]),
    "K": st.sampled_from([3, 1, 2, 5]),
}


def draw(seed, leading, K, groups, masked):
    """Logits, classes, and a mask with at least one entry that counts, or None."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, leading if groups is None else (*leading, groups))
    mask = rng.integers(0, 2, leading).astype(bool) if masked else None
    if masked:
        mask.flat[rng.integers(mask.size)] = True
    return 2 * rng.standard_normal((*leading, (groups or 1) * K)), y, mask


def squared_error_case(classes, seed, leading, K, groups, masked):
    """The same for the squared error: integer classes or numbers, and the numbers that both stand for."""
    outputs, y, mask = draw(seed, leading, K + classes, groups, masked)
    if classes:
        K += 1
        return outputs, y, mask, np.eye(K)[y].reshape(outputs.shape)
    numbers = np.random.default_rng(seed + 1).standard_normal(outputs.shape)
    return outputs, numbers, mask, numbers


def unchanged(function, *arrays):
    """What function returns; none of its arrays is modified."""
    before = to_host([None if array is None else array.copy() for array in arrays])
    result = function(*arrays)
    for old, new in zip(before, to_host(list(arrays)), strict=True):
        np.testing.assert_array_equal(old, new)
    return result


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


def assert_differences(loss, outputs, y, mask, gradient):
    """The gradient against differences of the loss, 0 where the mask does not count."""
    report = compare_gradients(
        lambda point: loss(point["outputs"], y, mask)[0],
        {"outputs": outputs},
        {"outputs": gradient},
        may_vanish=["outputs"],  # one class, or a target that no counted entry misses
        **SMOOTH,
    )
    assert report.passed, f"\n{report}"
    assert mask is None or not gradient[~mask].any()


@every_kind
@settings(max_examples=8)
@given(**cases)
def test_cross_entropy(device, groups, masked, **case):
    """[bp:heads/loss] is the mean of log sum exp over the entries that count, in float64; inputs unmodified;
    [bp:heads/gradient] of every logit by differences, of those that do not count exactly 0."""
    outputs, y, mask = draw(groups=groups, masked=masked, **case)
    loss, gradient = unchanged(cross_entropy, *to_device((outputs, y, mask), device))
    assert math.isclose(float(loss), np.mean(plain_losses(outputs, y, mask)), rel_tol=1e-12, abs_tol=1e-14)
    assert (loss.shape, gradient.shape, gradient.dtype) == ((), outputs.shape, np.float64)
    gradient = to_host(gradient)
    assert_differences(cross_entropy, outputs, y, mask, gradient)
    assert (case["K"] == 1) == (not gradient.any())


@pytest.mark.parametrize("classes", [False, True])
@every_kind
@settings(max_examples=5)
@given(**cases)
def test_squared_error(device, classes, groups, masked, **case):
    """[bp:heads/mse] over every number of the entries that count, one by one; classes stand for one-hot vectors;
    [bp:heads/mse_gradient] of every number by differences, of those that do not count exactly 0."""
    outputs, y, mask, numbers = squared_error_case(classes, groups=groups, masked=masked, **case)
    loss, gradient = unchanged(mean_squared_error, *to_device((outputs, y, mask), device))
    counts = [True] * outputs[..., 0].size if mask is None else mask.ravel().tolist()
    rows = zip(
        outputs.reshape(len(counts), -1).tolist(), numbers.reshape(len(counts), -1).tolist(), counts, strict=True
    )
    squares = [(a - b) ** 2 for row, target, own in rows if own for a, b in zip(row, target, strict=True)]
    assert math.isclose(float(loss), sum(squares) / len(squares), rel_tol=1e-12)
    assert (loss.shape, gradient.shape, gradient.dtype) == ((), outputs.shape, np.float64)
    assert_differences(mean_squared_error, outputs, y, mask, to_host(gradient))


@every_kind
@settings(max_examples=8)
@given(**cases)
def test_squared_error_of_classes_is_that_of_one_hot_vectors(device, groups, masked, **case):
    """To the bit, with groups and masks, and for every integer dtype."""
    outputs, y, mask, one_hot = squared_error_case(True, groups=groups, masked=masked, **case)
    outputs, y, mask, one_hot = to_device((outputs, y, mask, one_hot), device)
    expected = to_host(mean_squared_error(outputs, one_hot, mask))
    for dtype in (np.int64, np.int32, np.uint8):
        loss, gradient = to_host(mean_squared_error(outputs, y.astype(dtype), mask))
        assert float(loss) == float(expected[0])
        np.testing.assert_array_equal(gradient, expected[1])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("target", [np.int64, np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_that_of_the_outputs(device, dtype, target, masked):
    """Whatever the dtype of y, loss and gradient keep that of the outputs."""
    outputs = np.random.default_rng(0).standard_normal((4, 3, 2)).astype(dtype)
    y = np.zeros((4, 3) if target is np.int64 else outputs.shape, target)
    mask = np.arange(12).reshape(4, 3) > 5 if masked else None
    for loss in map(LOSSES.get, OF_CLASSES) if target is np.int64 else [mean_squared_error]:
        assert [array.dtype for array in loss(*to_device((outputs, y, mask), device))] == [dtype, dtype]


@pytest.mark.parametrize("loss", OF_CLASSES)
@pytest.mark.parametrize("groups", [None, 2])
def test_any_order_in_memory_and_an_all_true_mask(device, loss, groups):
    """Transposed and sliced outputs are the same outputs; a mask that leaves out nothing is none."""
    rng = np.random.default_rng(0)
    outputs, y = rng.standard_normal((4, 3, 6)), rng.integers(0, 3, (4, 3) if groups is None else (4, 3, groups))
    wide = np.zeros((3, 4, 12))
    wide[..., ::2] = outputs.swapaxes(0, 1)
    outputs, y, wide, mask = to_device((outputs, y, wide, np.ones((4, 3), bool)), device)
    expected = to_host(LOSSES[loss](outputs, y))
    for given_outputs, given_mask in ((wide[..., ::2].swapaxes(0, 1), None), (outputs, mask)):
        value, gradient = to_host(LOSSES[loss](given_outputs, y, given_mask))
        np.testing.assert_allclose(value, expected[0], rtol=1e-14)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-14, atol=1e-17)


@pytest.mark.parametrize("K", [3, 127, 128, 300])
def test_columns_in_memory(device, K):
    """[bp:heads/gradient] of outputs (W h)^T, whose classes lie one after the other: that of the same in rows."""
    rng = np.random.default_rng(K)
    for groups in (1, 2):
        columns, y = rng.standard_normal((groups * K, 5)), rng.integers(0, K, (5, groups))
        rows, columns, y = to_device((np.ascontiguousarray(columns.T), columns, y), device)
        for own, expected in zip(to_host(cross_entropy(columns.T, y)), to_host(cross_entropy(rows, y)), strict=True):
            np.testing.assert_allclose(own, expected, rtol=1e-14, atol=1e-17)


CLASSES, NUMBERS = np.zeros((4, 3), int), np.zeros((4, 3, 6))
OF_GROUPS = "expected (4, 3) or (4, 3) + (groups,)"
OF_NUMBERS = "expected (4, 3, 6) with entries, or integer classes"
#: Losses, y, mask, and what is said; no broadcasting: (T, B, 1) against (T, B) would be a loss of all pairs.
REFUSED = [
    *(
        (OF_CLASSES, np.zeros(shape, int), None, f"y has shape {shape}; {OF_GROUPS}")
        for shape in ((3, 4), (4,), (4, 3, 4), (4, 3, 0), (4, 3, 2, 3))
    ),
    *(
        (["mean_squared_error"], np.zeros(shape), None, f"y has shape {shape}; {OF_NUMBERS}")
        for shape in ((4, 3), (3, 4, 6), (4, 3, 1), (1, 3, 6), (6,), (4, 3, 6, 1))
    ),
    (["binary_cross_entropy"], np.zeros((3, 4), int), None, "y has shape (3, 4); expected (4, 3, 6) with entries"),
    (OF_CLASSES, CLASSES - 1, None, "y holds class -1; allowed: 0 to 5"),
    (OF_CLASSES, CLASSES + 6, None, "y holds class 6; allowed: 0 to 5"),
    (OF_CLASSES, np.full((4, 3, 2), 3), None, "y holds class 3; allowed: 0 to 2"),
    (["binary_cross_entropy"], NUMBERS.astype(int) + 2, None, "y holds class 2; allowed: 0 to 1"),
    (["cross_entropy"], NUMBERS[..., 0], None, "y is float64; expected integer classes"),
    (["binary_cross_entropy"], NUMBERS, None, "y is float64; expected integers, 0 or 1"),
    *(
        (losses, y, np.ones(shape, bool), f"mask has shape {shape}; expected (4, 3)")
        for losses, y in ((OF_CLASSES, CLASSES), (["mean_squared_error"], NUMBERS))
        for shape in ((3, 4), (4,), (2, 3), (5, 3), (0,), (4, 3, 6))
    ),
    (["binary_cross_entropy"], NUMBERS.astype(int), np.ones((3, 4), bool), "mask has shape (3, 4); expected (4, 3)"),
    (OF_CLASSES, CLASSES, np.zeros((4, 3), bool), "mask leaves no entry to count"),
    (["binary_cross_entropy"], NUMBERS.astype(int), np.zeros((4, 3), bool), "mask leaves no entry to count"),
    (OF_CLASSES, CLASSES, np.ones((4, 3), int), "mask is int64; expected bool"),
    (["mean_squared_error"], NUMBERS + 0j, None, "y is complex128; expected real numbers, or integer classes"),
    (
        ["mean_squared_error"],
        np.zeros((4, 3, 6), int),
        None,
        "y is int64, a class for each output, of which there would",
    ),
]


@pytest.mark.parametrize(("losses", "y", "mask", "message"), REFUSED)
def test_what_losses_refuse(device, losses, y, mask, message):
    """Shapes, classes that would read another logit, a mask of integers or one that leaves nothing."""
    for loss in losses:
        with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}"):
            LOSSES[loss](*to_device((NUMBERS, y, mask), device))
    with pytest.raises(ValueError, match=r"^y has shape \(0, 3, 4\); expected \(0, 3, 4\) with entries"):
        mean_squared_error(np.zeros((0, 3, 4)), np.zeros((0, 3, 4)))


# one wrong and one right: the loss, and its gradient
HUGE = {
    "cross_entropy": ([[1e4, -1e4, -1e4], [1e4, -1e4, -1e4]], [0, 2], 1e4, [[0, 0, 0], [0.5, 0, -0.5]]),
    "binary_cross_entropy": ([[1e4], [-1e4], [1e4], [-1e4]], [1, 0, 0, 1], 5e3, [[0], [0], [0.25], [-0.25]]),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", HUGE)
def test_huge_logits(device, name, dtype):
    """Logits of +-1e4 give finite losses, gradients of 0 or +-1 over the entries, and no warning; dtypes are kept."""
    outputs, y, expected, d_outputs = HUGE[name]
    loss, gradient = to_host(LOSSES[name](*to_device((np.array(outputs, dtype), np.array(y)), device)))
    assert (float(loss), loss.dtype, gradient.dtype) == (expected, dtype, dtype)
    np.testing.assert_array_equal(gradient, d_outputs)


def test_accuracy_and_bits(device):
    """Accuracy is the share of largest logits, by group, of the entries that count; bits are nats over ln 2, so that
    uniform over K is log2 K."""
    outputs = np.array([[[0.0, 1, 5, 2], [3, 1, 0, 2]]])
    y = np.array([[[1, 0], [1, 1]]])
    assert accuracy(0.0, *to_device((outputs, y), device)) == 0.75
    assert accuracy(0.0, *to_device((outputs, np.array([[2, 3]])), device)) == 0.5
    for mask, share in (([[True, False]], 1.0), ([[False, True]], 0.5)):
        assert accuracy(0.0, *to_device((outputs, y, np.array(mask)), device)) == share
    uniform = to_device((np.zeros((3, 2, 8)), np.zeros((3, 2), int)), device)
    assert math.isclose(bits_per_character(float(cross_entropy(*uniform)[0]), *uniform), 3, rel_tol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_within(device, dtype):
    """Strictly less than 0.04 on either side; only what counts under the mask, all numbers of an entry."""
    edge = dtype(0.04)
    inside = np.nextafter(edge, dtype(0))
    outputs = np.array([[[0, inside], [-inside, 2]], [[edge, -edge], [np.nan, 3]]], dtype)
    y = np.zeros_like(outputs)
    y[0, 1, 1] = y[1, 1, 1] = 2
    assert within(0.0, *to_device((outputs, y), device)) == 4 / 8
    for mask, share in (([[1, 0], [0, 0]], 1.0), ([[0, 0], [1, 1]], 0.0), ([[1, 0], [1, 0]], 0.5)):
        assert within(0.0, *to_device((outputs, y, np.array(mask, bool)), device)) == share


@pytest.mark.parametrize(("groups", "masked"), list(itertools.product([None, 1, 3], [False, True])))
def test_binary_cross_entropy(device, groups, masked):
    """[bp:heads/bce] entry by entry in plain Python, [bp:heads/bce_gradient] against differences; and both are those of
    the cross-entropy of the logits (0, o)."""
    rng = np.random.default_rng(5)
    outputs = 3 * rng.standard_normal((4, 3, groups or 1))
    y = rng.integers(0, 2, (4, 3) if groups is None else outputs.shape)
    mask = rng.integers(0, 2, (4, 3)).astype(bool) if masked else None
    loss, gradient = to_host(unchanged(binary_cross_entropy, *to_device((outputs, y, mask), device)))
    counts = np.ones((4, 3), bool) if mask is None else mask
    each = [
        -math.log(1 / (1 + math.exp(-o))) if yes else -math.log(1 - 1 / (1 + math.exp(-o)))
        for own, target, counted in zip(outputs.reshape(12, -1), y.reshape(12, -1), counts.ravel(), strict=True)
        for o, yes in zip(own, target, strict=True)
        if counted
    ]
    assert math.isclose(float(loss), sum(each) / len(each), rel_tol=1e-12)
    pairs = np.stack([np.zeros_like(outputs), outputs], axis=-1).reshape(4, 3, -1)
    theirs, d_pairs = cross_entropy(pairs, y.reshape(outputs.shape), mask)
    assert math.isclose(float(loss), float(theirs), rel_tol=1e-13)
    np.testing.assert_allclose(gradient, d_pairs.reshape(*outputs.shape, 2)[..., 1], rtol=1e-11, atol=1e-16)
    assert_differences(binary_cross_entropy, outputs, y, mask, gradient)


def test_binary_accuracy_perplexity_and_root(device):
    """The sign of the logit, where it counts; perplexity of a uniform guess among K is K, and never infinite."""
    outputs, y = np.array([[[2.0], [-1]], [[0], [3]]]), np.array([[1, 0], [1, 0]])
    assert binary_accuracy(0.0, *to_device((outputs, y), device)) == 0.5
    assert binary_accuracy(0.0, *to_device((outputs, y, np.array([[1, 1], [1, 0]], bool)), device)) == 2 / 3
    assert math.isclose(perplexity(math.log(8), outputs, y), 8, rel_tol=1e-14)
    assert math.isfinite(perplexity(1e6, outputs, y))
    assert root_mean_squared_error(9.0, None, None) == 3


def test_sequence_accuracy(device):
    """A sequence is right where all of it that counts is; one with nothing to count is."""
    outputs = np.zeros((3, 4, 2))
    outputs[..., 1] = [[1, 1, -1, 1], [1, -1, -1, 1], [1, 1, -1, -1]]
    y = np.ones((3, 4), int)
    assert sequence_accuracy(0.0, *to_device((outputs, y), device)) == 1 / 4
    mask = np.array([[1, 1, 0, 1], [1, 1, 0, 1], [1, 1, 0, 0]], bool)
    assert sequence_accuracy(0.0, *to_device((outputs, y, mask), device)) == 3 / 4
    for wrong in ((outputs[:, 0], y[:, 0]), (outputs, y[..., None]), (outputs[:2], y)):
        with pytest.raises(ValueError, match=r"^y has shape .*; expected \(T, B\), outputs \(T, B, K\)$"):
            sequence_accuracy(0.0, *wrong)


# The readout and the loss in chunks of rows


@pytest.mark.parametrize("step", [1, 4, 7, 12, 100])
@every_kind
def test_chunks_are_the_whole(device, groups, masked, step):
    """[bp:lm-chunks/o] [bp:lm-chunks/do] [bp:lm-chunks/dh] [bp:lm-chunks/sums]: loss and gradients by h, W and b are
    those of the outputs all at once, for any number of rows at a time, the last chunk short."""
    rng = np.random.default_rng([step, groups or 0, masked])
    outputs, y, mask = draw(step, (4, 3), 5, groups, masked)
    h, W, b = rng.standard_normal((4, 3, 6)), rng.standard_normal((outputs.shape[-1], 6)), rng.standard_normal(1)
    b = np.resize(b, len(W))
    loss, do = cross_entropy(h @ W.T + b, y, mask)
    rows, drows = h.reshape(12, 6), do.reshape(12, -1)
    ours = unchanged(partial(cross_entropy_of_readout, step=step), *to_device((h, W, b, y, mask), device))
    assert [part.shape for part in ours] == [(), h.shape, W.shape, b.shape]
    for own, whole in zip(to_host(ours), (loss, do @ W, drows.T @ rows, drows.sum(axis=0)), strict=True):
        np.testing.assert_allclose(own, whole, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_chunks_keep_the_dtype(device, dtype):
    """float32 in, float32 out."""
    rng = np.random.default_rng(0)
    h, W, b = (rng.standard_normal(shape).astype(dtype) for shape in ((3, 2, 4), (5, 4), (5,)))
    y = rng.integers(0, 5, (3, 2))
    given_ = to_device((h, W, b, y), device)
    assert {part.dtype for part in cross_entropy_of_readout(*given_, None, 2)} == {np.dtype(dtype)}


def test_memory_does_not_grow_with_the_rows():
    """Of 4,000 rows and 3,000 classes, 100 rows at a time: less than a tenth of all the outputs."""
    rng = np.random.default_rng(0)
    h, W, b = rng.standard_normal((4000, 4)), rng.standard_normal((3000, 4)), np.zeros(3000)
    y = rng.integers(0, 3000, 4000)
    assert traced(lambda: cross_entropy_of_readout(h, W, b, y, None, 100)) < 0.1 * 8 * 4000 * 3000


def test_what_is_in_chunks():
    """Large vocabularies alone, as many rows as make 2^22 numbers; one at least."""
    assert rows_at_a_time(10**6, 2047) == 10**6
    assert rows_at_a_time(10**6, 2048) == 2048
    assert rows_at_a_time(100, 2048) == 100
    assert rows_at_a_time(1400, 10_000) == 419
    assert rows_at_a_time(10, 10**7) == 1


@pytest.mark.parametrize("K", [2, 127, 128, 300])
def test_few_classes_and_many(K):
    """Classes lie along one axis or the other; an entry alone has the gradient that it has among others, and outputs
    stay as they are, also where a copy of them would be a view."""
    rng = np.random.default_rng(K)
    for groups in (1, 3):
        outputs = 3 * rng.standard_normal((9, 1, groups * K))
        y, before = rng.integers(0, K, (9, 1, groups)), outputs.copy()
        _, whole = cross_entropy(outputs, y)
        for t in range(9):
            _, alone = cross_entropy(outputs[t : t + 1], y[t : t + 1])
            np.testing.assert_allclose(alone / 9, whole[t : t + 1], rtol=1e-13, atol=1e-17)
        np.testing.assert_array_equal(outputs, before)
