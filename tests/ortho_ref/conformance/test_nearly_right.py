"""float32 is claimed where something is rounded to it; that it is nowhere else, near_misses.py has as well."""

from dataclasses import replace

import numpy as np
import pytest

from ortho_ref.conformance import check
from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.cases.case import in_precision
from tests.ortho_ref.conformance.adapters import BY_ID, right

CLAIM = "something is computed in float32"


def said(run, id):
    """What a case is told."""
    return next(result for result in check(run, id).results if result.id == id).diagnosis


@pytest.mark.parametrize(
    "id", ["cell/elman/tanh", "optimizer/adam", "parametrization/exponential", "update/scaled_cayley"]
)
def test_what_is_computed_in_float32_is_said_to_be(id):
    """From inputs in float32; rounded at the end; and where the numbers that come out are double precision again."""

    def inputs(case):
        return replace(case, inputs={name: in_precision(a, "float32") for name, a in case.inputs.items()})

    def widened(case):
        found = reference.outputs(inputs(case))
        return {name: a.astype(np.float64) * (1 + 1e-12) for name, a in found.items()}

    def rounded(case):
        return {name: a.astype(np.float32).astype(np.float64) for name, a in reference.outputs(case).items()}

    for run in (lambda case: reference.outputs(inputs(case)), rounded, widened):
        assert CLAIM in said(run, id)


def test_who_gives_stored_outputs_is_not_asked():
    """The same outputs whatever the inputs are: nothing can be learnt, nothing is claimed."""
    text = said(lambda case: {name: a * (1 + 1e-8) for name, a in right(case).items()}, "cell/lstm")
    assert CLAIM not in text
    assert "asked again" not in text
    assert "off by 1.0e-08" in text


def test_what_is_still_on_its_way_is_not_said_to_be_float32():
    """A map by one step of Newton and Schulz: how far it is off is told where that is little."""

    def run(case):
        found = reference.outputs(case)
        U = found["U"] * (1 + 1e-3)
        return found | {"U": 1.5 * U - 0.5 * U @ U.T @ U}

    text = said(run, "parametrization/scaled_cayley")
    assert CLAIM not in text
    assert "off by " in text


def test_a_number_has_no_factor():
    """Whatever is wrong with it, it is some factor: the two numbers are told."""
    found = BY_ID["loss/mean_squared_error"].expected
    text = said(lambda case: right(case) | {"loss": found["loss"] * 10.2}, "loss/mean_squared_error")
    assert "times" not in text
    assert f"{found['loss'] * 10.2:.10g}, expected {found['loss']:.10g}" in text
