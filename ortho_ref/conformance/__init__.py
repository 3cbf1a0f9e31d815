"""The conformance kit: whether an implementation is right, and if not, which convention it got wrong.

    from ortho_ref.conformance import check, check_function, check_map, pytest_cases

    print(check(run))                  # run(case) -> dict of arrays, or None where a case is not supported
    test_mine = pytest_cases(run)      # in a test file: one named test for each case
    print(check_function(forward, backward, inputs))        # gradients of any function of yours, by differences
    print(check_map(map, pullback))    # which orthogonal map Q -> U it is, and how orthogonal

docs/check/cases.md states what each kind of case holds.
"""

from ortho_ref.conformance.cases.case import KINDS, Case
from ortho_ref.conformance.function import FunctionReport, check_function
from ortho_ref.conformance.maps.check import check_map
from ortho_ref.conformance.maps.report import MapReport
from ortho_ref.conformance.report import Report, Result
from ortho_ref.conformance.running.adapters import load_adapter
from ortho_ref.conformance.running.apart import Apart
from ortho_ref.conformance.running.programs import command_adapter
from ortho_ref.conformance.running.pytest_cases import pytest_cases
from ortho_ref.conformance.running.runner import check
from ortho_ref.conformance.stored import read_report

__all__ = [
    "KINDS",
    "Apart",
    "Case",
    "FunctionReport",
    "MapReport",
    "Report",
    "Result",
    "check",
    "check_function",
    "check_map",
    "command_adapter",
    "load_adapter",
    "pytest_cases",
    "read_report",
]
