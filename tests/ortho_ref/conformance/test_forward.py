"""The forward pass alone, in half precision too; and what passes beyond rounding is told."""

import numpy as np
import pytest

from ortho_ref.conformance import check
from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.cases.case import in_precision
from ortho_ref.conformance.cases.case_files import select
from ortho_ref.conformance.compare import compare


def right(case):
    """The forward outputs alone."""
    return {name: a for name, a in reference.outputs(case).items() if name in case.outputs}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_forward_outputs_suffice(dtype):
    """No gradient is asked for; one wrong forward output fails."""

    def doubled(case):
        return right(case) | {"h": right(case)["h"] * 2}

    report = check(right, "cell/lstm", dtype, forward=True)
    assert report.ok
    assert all(not name.startswith("d_") for result in report.results for name in result.outputs)
    assert "the forward pass alone" in report.summary()
    assert not check(doubled, "cell/lstm", dtype, forward=True).ok


def test_half_precision_is_of_forward_passes():
    near = r"dtype is 'float16' \(did you mean 'float64'\?\)"
    with pytest.raises(ValueError, match=near + "; allowed: 'float64', 'float32'; of the forward pass"):
        check(right, "cell/lstm", "float16")
    with pytest.raises(ValueError, match="has a forward pass"):
        check(right, "update/*", forward=True)


def test_bfloat16_is_rounded_to_nearest_even():
    """8 bits: 1 + 2^-8 lies halfway and goes to 1, 1 + 3 2^-8 to 1 + 2^-6."""
    given = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-7), 1 + 2**-8 + 2**-20])
    np.testing.assert_array_equal(in_precision(given, "bfloat16"), [1, 1, 1 + 2**-6, -(1 + 2**-7), 1 + 2**-7])


def test_a_pass_beyond_rounding_is_told():
    """1e-5 off in float32 is within tolerance, and no rounding: exit code 0, and said."""

    def off(case):
        return {name: a * (1 + 3e-5) for name, a in reference.outputs(case).items()}

    report = check(off, "cell/gru_reset_before/tanh", "float32")
    assert report.ok
    assert "passed, at 15 times rounding: " in str(report)
    assert "1 passed further off than rounding explains" in report.summary()
    assert "times rounding" not in str(check(reference.outputs, "cell/gru_reset_before/tanh", "float32"))


def test_an_optimizer_is_judged_by_its_movement():
    """A step 0.1 % too long: 3e-5 of the parameter, which would pass in float32, and 1e-3 of how far it has moved."""
    vector = select("optimizer/rmsprop/tensorflow")[0]
    first, expected = vector.case.inputs["parameter0"], vector.expected["parameter"]
    given = {"parameter": (first + (expected - first) * 1.001).astype(np.float32)}
    found = compare(vector, given, "float32")["parameter"]
    assert np.abs(given["parameter"] - expected).max() / np.abs(expected).max() < 5e-5
    assert not found.passed
    assert "moved" in found.remark
    rounded = {"parameter": expected.astype(np.float32)}
    assert compare(vector, rounded, "float32")["parameter"].passed
