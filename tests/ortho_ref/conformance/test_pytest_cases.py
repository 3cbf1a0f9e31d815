"""The kit in somebody's test suite: one named test for each case."""

import re

import pytest

from ortho_ref.conformance import pytest_cases
from ortho_ref.conformance.cases.case_files import select
from tests.ortho_ref.conformance.adapters import BY_ID, right

pytest_plugins = ["pytester"]

HEAD = """
import numpy as np
from ortho_ref.conformance import pytest_cases
from tests.ortho_ref.conformance.adapters import right
"""


@pytest.fixture
def suite(pytester):
    """A run of a test file: of its source."""

    def run(source, *arguments):
        pytester.makepyfile(test_mine=HEAD + source)
        return pytester.runpytest_inprocess("-v", "-rs", "-p", "no:cacheprovider", "-W", "error", *arguments)

    return run


def test_one_named_test_for_each_case(suite):
    """Cases whose name begins another's, too: each test runs its own case and no other."""
    source = """
seen = []
def run(case):
    seen.append(case.id)
    return right(case)
test_mine = pytest_cases(run, "cell/lstm")
def test_each_twice():
    from ortho_ref.conformance.cases.case_files import select
    assert seen == [vector.id for vector in select("cell/lstm") for _ in range(2)]
"""
    result = suite(source)
    result.assert_outcomes(passed=len(select("cell/lstm")) + 1)
    names = re.findall(r"test_mine\.py::test_mine\[(\S+)\] PASSED", result.stdout.str())
    assert names == [vector.id for vector in select("cell/lstm")]


def test_every_case(suite):
    """Or one by its name; those of several patterns; what is not supported is skipped; the precision is passed on."""
    suite("test_mine = pytest_cases(right)\n", "-q").assert_outcomes(passed=len(BY_ID))
    source = """
def run(case):
    assert case.inputs["outputs"].dtype == np.float32
    return {name: array.astype(np.float32) for name, array in right(case).items()}
test_mine = pytest_cases(run, ["loss/*/groups", "loss/*/large"], "float32")
test_none = pytest_cases(lambda case: None, "loss/*")
"""
    result = suite(source)
    result.assert_outcomes(passed=len(select(["loss/*/groups", "loss/*/large"])), skipped=len(select("loss/*")))
    result.stdout.fnmatch_lines(["SKIPPED*not supported by the adapter"])
    suite(source, "-k", "test_none[loss/cross_entropy]").assert_outcomes(
        skipped=1, deselected=len(select("loss/*")) + len(select(["loss/*/groups", "loss/*/large"])) - 1
    )


def test_a_failing_test_has_the_diagnosis(suite):
    """One line with the worst output and what is wrong, and no traceback of the kit; an exception has its own."""
    source = """
def within(case):
    return 1 / 0
def run(case):
    found = right(case)
    if case.id == "loss/mean_squared_error":
        found["d_outputs"] *= 0.5
    return within(case) if case.id.endswith("/large") else found
test_mine = pytest_cases(run, ["loss/mean*", "loss/cross_entropy/large"])
"""
    result = suite(source)
    result.assert_outcomes(passed=len(select("loss/mean*")) - 1, failed=2)
    line = (HEAD + source).strip().splitlines().index("    return 1 / 0") + 1
    says = "raised ZeroDivisionError: division by zero"
    result.stdout.fnmatch_lines_random(
        [
            "loss/mean_squared_error failed (d_outputs is 5.0e-01 off): "
            "your outputs equal mean_squared_error with *without the factor 2*",
            f"loss/cross_entropy/large failed: {says} (test_mine.py:{line} in within)",
            "Traceback (most recent call last):",
            f'  File "*test_mine.py", line {line + 5}, in run',
            f'  File "*test_mine.py", line {line}, in within',
            "ZeroDivisionError: division by zero",
        ]
    )
    assert "pytest_cases.py" not in result.stdout.str()


def test_partial_cases_fail_unless_allowed(suite):
    source = """
def run(case):
    return {"loss": right(case)["loss"]}
test_mine = pytest_cases(run, "loss/cross*/large")
test_allowed = pytest_cases(run, "loss/cross*/large", allow_partial=True)
def wrong(case):
    return {"loss": right(case)["loss"] * 2}
test_wrong = pytest_cases(wrong, "loss/cross*/large", allow_partial=True)
"""
    result = suite(source)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["loss/cross_entropy/large partial: missing: d_outputs"])
    assert "test_allowed[loss/cross_entropy/large] PASSED" in result.stdout.str()


def test_known_failures_and_cases_that_have_to_pass(suite):
    """One that fails as expected is an xfail, with its reason; one that passes all the same is an error."""
    source = """
def run(case):
    if case.id == "loss/cross_entropy":
        return None
    return {name: -array for name, array in right(case).items()} if case.id.endswith("/large") else right(case)
known = {"loss/cross_entropy/large": "the sign is ours"}
test_mine = pytest_cases(run, "loss/cross_entropy", xfail=known, unsupported="fail")
test_fixed = pytest_cases(right, "loss/cross_entropy/large", xfail=known)
"""
    result = suite(source, "-rx")
    passed = len(select("loss/cross_entropy")) - 2
    result.assert_outcomes(passed=passed, failed=2, xfailed=1)
    result.stdout.fnmatch_lines_random(
        [
            "loss/cross_entropy unsupported: *",
            "*XPASS(strict)* the sign is ours",
            "XFAIL *test_mine*loss/cross_entropy/large* - the sign is ours",
        ]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["loss/*", "nothing"],), "only is 'nothing', which fits no case"),
        (("loss/*", "float16"), "dtype is 'float16'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    """When the tests are collected."""
    with pytest.raises(ValueError, match=message):
        pytest_cases(right, *arguments)
