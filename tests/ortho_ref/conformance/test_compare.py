"""How close is close: scales, tolerances, what cannot be compared, kinks."""

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from hypothesis.extra import numpy as hnp

from ortho_ref.conformance.cases.case import DTYPES, KINDS
from ortho_ref.conformance.cases.case_files import select
from ortho_ref.conformance.compare import Comparison, Matcher, compare, scales, tolerance
from ortho_ref.conformance.entries import wrong_entries
from tests.ortho_ref.conformance.adapters import vector_of

TOLERANCES = dict.fromkeys(KINDS, (1e-9, 5e-5)) | {"update": (1e-8, 5e-4)}
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, max_side=4)
ARRAYS = hnp.arrays(np.float64, SHAPES, elements=st.floats(-100, 100))


def one(given_, expected, kind="cell", dtype="float64", **options):
    """The comparison of a single output."""
    return compare(vector_of({"h": np.asarray(expected)}, kind, **options), {"h": given_}, dtype)["h"]


@pytest.mark.parametrize("kind", KINDS)
def test_tolerances(kind):
    """By kind and precision; and a comparison is held to its own."""
    for dtype, limit in zip(DTYPES, TOLERANCES[kind], strict=True):
        assert tolerance(kind, dtype) == limit
        expected = np.array([2.0, -1.0])
        near, far = (one(expected + np.array([0, 2 * limit * by]), expected, kind, dtype) for by in (0.9, 1.1))
        assert (near.passed, far.passed) == (True, False)
        assert near.tolerance == far.tolerance == limit


@given(ARRAYS, st.floats(-1, 1), st.data())
def test_the_error_is_relative_to_the_largest_entry(expected, off, data):
    """Whichever entry is off."""
    size = np.abs(expected).max()
    assume(size > 1e-3)
    given_ = expected.copy()
    at = data.draw(st.integers(0, expected.size - 1))
    given_.reshape(-1)[at] += off
    found = one(given_, expected)
    assert found.error == pytest.approx(abs(off) / size, abs=1e-12)
    assert found.passed == (found.error <= 1e-9)
    assert one(expected, expected).error == 0


@pytest.mark.parametrize(
    ("expected", "found", "given_", "error"),
    [
        ({"a": [1e6, 0.0], "b": [1e-3, 1e-4]}, {"a": 1e6, "b": 1e-3}, {"a": [1e6, 0], "b": [0, 0]}, 1),
        ({"a": [0, 0, 0], "b": [-8.0, 2.0], "c": 4.0}, {"a": 8, "b": 8, "c": 4}, {"a": [0, 8e-3, 0]}, 1e-3),
        ({"a": [0, 0, 0], "b": np.zeros((0, 2))}, {"a": 1, "b": 1}, {"a": [0.5, 0, 0], "b": np.zeros((0, 2))}, 0.5),
    ],
    ids=["small beside large", "zero", "all zero or empty"],
)
def test_scales(expected, found, given_, error):
    """Its own; one that is zero is on the largest; 0 does not pass for a small one."""
    expected = {name: np.array(array, float) for name, array in expected.items()}
    assert scales(expected) == found
    given_ = {name: np.array(array, float) for name, array in given_.items()} | {"other": "text"}
    compared = compare(vector_of(expected), given_, "float64")
    assert compared.keys() == given_.keys() - {"other"}
    assert max(comparison.error for comparison in compared.values()) == pytest.approx(error)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_not_finite_fails(value, dtype):
    given_ = np.array([1.0, value, 2.0], dtype)
    found = one(given_, [1.0, 5.0, 2.0])
    assert (found.error, found.passed, found.remark) == (np.inf, False, "is not finite")


@given(SHAPES, SHAPES)
def test_another_shape_fails(theirs, ours):
    """Even one that broadcasts to the right values."""
    assume(theirs != ours)
    found = one(np.ones(theirs), np.ones(ours))
    assert (found.error, found.passed) == (np.inf, False)
    assert found.remark.startswith(f"has shape {theirs}; expected {ours}")


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("h", (6, 4, 5), ": h[0] is the first state, h0"),
        ("h", (4, 7, 5), ": its first two axes are exchanged"),
        ("h", (8, 4, 5), ""),
        ("d_x", (6, 4, 5), ""),
    ],
)
def test_what_is_amiss_with_a_shape(name, shape, says):
    """The first state left out, the batch before time."""
    found = compare(vector_of({name: np.ones((7, 4, 5))}), {name: np.ones(shape)}, "float64")[name]
    assert found.remark == f"has shape {shape}; expected (7, 4, 5){says}"


@pytest.mark.parametrize("dtype", [complex, np.complex64])
def test_a_complex_array_fails(dtype):
    """With advice."""
    found = one(np.zeros(2, dtype), [0.0, 0.0])
    said = f"is {np.dtype(dtype)}; expected real numbers; a complex array is a last axis of 2"
    assert (found.error, found.passed, found.remark) == (np.inf, False, said)


FLOATS = [np.float32, np.float64, np.longdouble]


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, np.uint64, np.bool_, np.float16, *FLOATS])
def test_every_type_of_real_numbers(dtype):
    """Where integers are expected any passes; where floats are, those of 4 bytes or more, and others are refused by
    their type, right or not, finite or not.  Also for unsigned ones a difference below 0 is one."""
    expected = np.array([0, 1, 1])
    for right in (expected, *([expected.astype(float)] if dtype in FLOATS else [])):
        assert one(np.array([0, 1, 1], dtype), right).error == 0
        assert one(np.array([1, 0, 1], dtype), right).error == 1
        assert one(np.array([0, 0, 1], dtype), right).error == 1
    if dtype not in FLOATS:
        arrays = [np.array([0, 1, 1], dtype), np.array([0, 0, 1], dtype), np.ones(2, dtype)]
        for given_ in [*arrays, *([np.array([0, np.nan, 1], dtype)] if dtype is np.float16 else [])]:
            for precision in DTYPES:
                found = one(given_, expected.astype(float), dtype=precision)
                assert (found.error, found.passed) == (np.inf, False)
                assert found.remark == f"is {np.dtype(dtype)}; expected float64 or float32"


def test_huge_numbers_are_no_warning():
    """Beyond double: not finite; a difference that overflows: not passed.  Scalars are outputs without axes."""
    assert one(np.array([np.finfo(np.longdouble).max]), [1.0]).error == np.inf
    assert one(np.array([1.7e308]), [-1.7e308]).error == np.inf
    assert one(np.array([1e308]), [1e-3]).error == np.inf
    assert [one(a, 2.0).passed for a in (np.float64(2.0), np.float64(2.1), np.array([2.0]))] == [True, False, False]
    assert not Comparison(np.nan, 1e-9).passed
    assert Comparison(1e-9, 1e-9).passed


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("theirs", [np.float64, np.float32])
def test_a_remark_on_float32_for_float64(dtype, theirs):
    """Only where float32 was given for inputs in float64, and does not do."""
    expected = np.array([1 / 3, 0.1])
    found = one(expected.astype(theirs), expected, dtype=dtype)
    single = theirs is np.float32 and dtype == "float64"
    assert found.passed == (not single)
    assert (found.remark == "is float32 for inputs in float64") == single
    assert one(np.array([0.5, 0.25], np.float32), [0.5, 0.25]).remark == ""
    assert one(np.array([0.5, 0.5], np.float32), [0.5, 0.25], dtype="float32").remark == ""


KINKS = select("activation/*kinks")
LIMITED = [(vector, name) for vector in KINKS for name in vector.low]


def ids(pair):
    return f"{pair[0].id}:{pair[1]}"


@given(st.sampled_from(LIMITED), st.data())
def test_on_a_kink_any_one_sided_derivative_passes(pair, data):
    """Any number between the two limits, entry by entry, with a remark where it is not the reference's."""
    vector, name = pair
    low, high = vector.low[name], vector.high[name]
    share = data.draw(hnp.arrays(np.float64, low.shape, elements=st.sampled_from([0, 0.5, 1]) | st.floats(0, 1)))
    given_ = low + share * (high - low)
    for dtype in DTYPES:
        found = compare(vector, {name: given_}, dtype)[name]
        assert found.passed
        size = scales(vector.expected)[name]
        differs = np.abs(given_ - vector.expected[name]).max() / size > tolerance("activation", dtype)
        assert found.remark == ("differs from the reference at a kink: acceptable" if differs else "")


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("pair", LIMITED, ids=ids)
def test_beyond_a_kink_s_limits_nothing_passes(pair, side):
    """One entry outside fails, wherever it is, alone is told as wrong, and by how far is the error or above it; NaN
    fails; one limit is no allowance for the other side."""
    vector, name = pair
    edge, size = vector.high[name] if side > 0 else vector.low[name], scales(vector.expected)[name]
    for at in range(edge.size):
        given_ = edge.copy()
        given_.reshape(-1)[at] += side * 1e-3 * size
        found = compare(vector, {name: given_}, "float32")[name]
        assert not found.passed
        assert found.error >= 1e-3 * (1 - 1e-9)
        assert found.remark == ""
        (wrong,) = wrong_entries(vector, {name: given_}, {name: found}).values()
        index = tuple(map(int, np.unravel_index(at, edge.shape)))
        assert (wrong.count, wrong.first.index, wrong.worst.index) == (1, index, index)
        given_.reshape(-1)[at] = np.nan
        assert not compare(vector, {name: given_}, "float32")[name].passed
        given_.reshape(-1)[at] = side * 1e6
        assert not compare(vector, {name: given_}, "float32")[name].passed


def test_limits():
    """Both hold the reference, and some differ; one alone allows nothing; the distance to one is the error."""
    for vector, name in LIMITED:
        assert (vector.low[name] <= vector.expected[name] + 1e-12).all()
        assert (vector.expected[name] <= vector.high[name] + 1e-12).all()
    for vector in KINKS:
        assert any((vector.low[name] < vector.high[name]).any() for name in vector.low), vector.id
    low, high = {"h": np.zeros(1)}, {"h": np.full(1, 3.0)}
    assert not one(np.array([0.5]), [1.0], low=low).passed
    assert not one(np.array([1.5]), [1.0], high=high).passed
    assert one(np.array([0.5]), [1.0], low=low, high=high).passed
    found = one(np.array([3.0 + 1e-10]), [1.0], low=low, high=high)
    assert found.passed
    assert found.error == pytest.approx(1e-10, rel=1e-3)


TWO = {"h": np.full(2, 2.0), "d_x": np.full(2, 3.0)}


@pytest.mark.parametrize(
    ("given_", "other", "dtype", "fits"),
    [
        ({"h": [2.0, 2.0]}, TWO, "float64", True),
        (TWO, TWO, "float64", True),
        ({}, TWO, "float64", False),
        ({"else": [1.0, 1.0]}, TWO, "float64", False),
        (TWO | {"d_x": [3.1, 3.1]}, TWO, "float64", False),
        (TWO, {"h": TWO["h"]}, "float64", False),
        ({"h": [1e-3 + 1e-8] * 2}, {"h": np.full(2, 1e-3)}, "float64", False),
        ({"h": [2.00002] * 2}, TWO, "float32", True),
        ({"h": [2 + 1e-6] * 2}, TWO, "float64", True),
        ({"h": [2 + 1e-5] * 2}, TWO, "float64", False),
        ({"h": [1 + 1e-5] * 2}, {"h": np.full(2, 1 + 1.0005e-5)}, "float64", True),
        ({"h": [1 + 1e-5] * 2}, {"h": np.full(2, 1 + 1.3e-5)}, "float64", False),
    ],
)
def test_matches(given_, other, dtype, fits):
    """What was given, and at least one; 1e-6 away at most, and a thousandth of how far it is from the answer."""
    vector = vector_of({"h": np.ones(2), "d_x": np.full(2, 5.0)})
    given_ = {name: np.array(array) for name, array in given_.items()}
    assert Matcher(given_, vector, dtype).matches(other) == fits
