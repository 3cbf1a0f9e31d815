"""What an implementation returns: arrays of its own classes, tensors of other libraries, and what is none."""

import numpy as np
import pytest

from ortho_ref.conformance import check
from ortho_ref.conformance.cases.case import Case, Precision
from ortho_ref.conformance.running.outputs import NoArray, outputs_of, view
from tests.ortho_ref.conformance.adapters import right

ID = "activation/tanh/large"


class Tensor:
    """As PyTorch's: it gives no array while it requires a gradient, or lies on a device."""

    def __init__(self, array, requires_grad=True, device="cuda"):
        self.array, self.requires_grad, self.device = array, requires_grad, device

    def detach(self):
        return type(self)(self.array, False, self.device)

    def cpu(self):
        return type(self)(self.array, self.requires_grad, "cpu")

    def __array__(self, dtype=None, copy=None):
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.device != "cpu":
            raise TypeError("can't convert cuda:0 device type tensor to numpy.")
        return self.array


class Converting:
    """As JAX's and TensorFlow's."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


class OnDevice(Converting):
    """As CuPy's: never converted without being asked to."""

    __cuda_array_interface__ = {}  # noqa: RUF012

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self):
        return self.array


class ByDlpack:
    """What has no other way."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("dress", [Tensor, OnDevice, Converting, ByDlpack])
@pytest.mark.parametrize("factor", [1.0, 1.01])
def test_tensors_are_taken(dress, factor):
    """By what they are: right ones pass, wrong ones do not."""
    report = check(lambda case: {name: dress(factor * array) for name, array in right(case).items()}, ID)
    assert report.ok == (factor == 1.0)
    assert set(report.results[0].outputs) == {"y", "d_a", "d_b"}
    assert all(comparison.error < 1 for comparison in report.results[0].outputs.values())


class Stubborn:
    """Which does not convert."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("not on this\nmachine")


class Objects:
    """Which converts to no numbers."""

    def __array__(self, dtype=None, copy=None):
        return np.array([None])


def test_what_cannot_be_taken_is_refused_by_name():
    """Of its type, with the reason; the other outputs are compared."""
    (result,) = check(lambda case: right(case) | {"d_a": Stubborn(), "d_b": Objects()}, ID).results
    here = "tests.ortho_ref.conformance.test_outputs"
    assert result.status == "failed"
    assert result.outputs["y"].passed
    assert result.diagnosis == ""
    says = "raised RuntimeError: not on this"  # its first line
    assert result.outputs["d_a"].remark == f"is a {here}.Stubborn, which gives no NumPy array: {says}"
    assert result.outputs["d_b"].remark == f"is a {here}.Objects, which gives no NumPy array"


@pytest.mark.parametrize(
    "value", [[1.0], [[1.0], [1.0, 2.0]], (1.0,), "x", None, True, memoryview(b"x"), np.ma.masked_array([1.0])]
)
def test_what_is_no_array(value):
    assert view(value) == NoArray(f"is a {type(value).__name__}; expected a NumPy array")


@pytest.mark.parametrize("dtype", [object, "U3", "M8[s]", [("a", float)]])
def test_what_is_no_array_of_numbers(dtype):
    array = np.zeros(2, dtype)
    assert outputs_of({"y": array}, {"y": (2,)})["y"] == NoArray(f"is {array.dtype}; expected real numbers")


def test_copies_are_taken():
    """What the implementation does with its arrays later changes nothing; one without end is not copied."""
    array = np.arange(4.0)
    found = outputs_of({"y": array}, {"y": (4,)})
    array[:] = 0
    np.testing.assert_array_equal(found["y"], np.arange(4.0))
    found = outputs_of({"y": np.broadcast_to(0.0, (10**6, 10**6))}, {"y": (4,)})
    assert found["y"] == NoArray("has shape (1000000, 1000000); expected (4,)")


def _raising(*arguments):
    raise RuntimeError("no")


class Raising(str):
    """A key whose methods raise."""

    __slots__ = ()
    __hash__ = str.__hash__
    __eq__ = __str__ = __format__ = _raising


class Unsayable:
    """A key that cannot even be said."""

    def __str__(self):
        raise RuntimeError("no")


def test_keys_that_raise():
    """A str is taken as what it says; of others the case fails."""
    (result,) = check(lambda case: {Raising(name): array for name, array in right(case).items()}, ID).results
    assert result.status == "passed"
    (result,) = check(lambda case: right(case) | {Unsayable(): 1}, ID).results
    assert result.status == "failed"
    assert result.message.startswith("raised RuntimeError: no (test_outputs.py:")


@pytest.mark.parametrize("name", ["float64", "float32"])
def test_the_dtype_compares_with_numpy_s(name):
    """From both sides, with the name, the dtype and its scalar type; with nothing else. It is a text for JSON."""
    dtype, other = Case("x", "cell", {}, {}, dtype=name).dtype, "float32" if name == "float64" else "float64"
    for same in (name, np.dtype(name), np.dtype(name).type, Precision(name)):
        assert dtype == same
        assert same == dtype
    for different in (other, np.dtype(other), np.dtype(other).type, None, int, object(), np.floating, np.dtype("i8")):
        assert dtype != different
    assert {name: 1}[dtype] == 1
    assert np.zeros(1, dtype).dtype == name
    assert isinstance(dtype, str)
