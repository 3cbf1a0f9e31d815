"""One test for each case: those that have to pass, and those that are known to fail, with the reason."""

from adapter import run

from ortho_ref.conformance import pytest_cases

test_tanh = pytest_cases(run, "cell/gru_reset_before/tanh", allow_partial=True, unsupported="fail")
test_others = pytest_cases(run, "cell/gru_reset_before", allow_partial=True, xfail={})
