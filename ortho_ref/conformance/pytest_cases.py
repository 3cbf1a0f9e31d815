"""The kit in somebody's own test suite."""

from collections.abc import Callable, Sequence
from typing import Any

from ortho_ref.conformance.case_files import select
from ortho_ref.conformance.findings import Assume
from ortho_ref.conformance.implementation import Run
from ortho_ref.conformance.report import PARTIAL, PASSED, UNSUPPORTED
from ortho_ref.conformance.runner import check_vectors
from ortho_ref.terminal import shown_lines


def pytest_cases(
    run: Run,
    only: str | Sequence[str] | None = None,
    dtype: str = "float64",
    *,
    allow_partial: bool = False,
    assume: Assume = None,
) -> Callable[[str], None]:
    """A test function with one named test for each case.  Needs pytest.

    A case that is not supported is skipped; one that fails, fails with its diagnosis.

    Parameters
    ----------
    run : callable
        run(case) -> a dict of NumPy arrays, or None or NotImplemented where it does not support the `Case`.
    only : str or sequence of str, optional
        A pattern of case names, "cell/lstm*", or several; unless given, every case.
    dtype : str
        "float64" or "float32", of the inputs.
    allow_partial : bool
        Whether cases with outputs missing pass.
    assume : str, sequence of str or mapping of str to str, optional
        Departures that are known, as for `check`: each case is held to the reference with these.

    Returns
    -------
    callable
        For pytest to find, under a name that begins with test: test_mine = pytest_cases(run, only="cell/lstm").

    Raises
    ------
    ValueError
        A pattern that fits nothing, another dtype, files of cases that are not as the kit ships them, or departures
        that are none.
    """
    import pytest

    check_vectors(run, [], dtype, assume=assume)  # so that what is wrong is refused here, not in every test
    chosen = {vector.id: vector for vector in select(only)}

    @pytest.mark.parametrize("case", chosen)
    def test(case: str) -> None:
        report = check_vectors(run, [chosen[case]], dtype, allow_partial=allow_partial, assume=assume)
        (result,) = report.results
        if result.status == UNSUPPORTED:
            pytest.skip("not supported by the adapter")
        good: tuple[Any, ...] = (PASSED, PARTIAL) if allow_partial else (PASSED,)
        if result.status not in good:
            name, comparison = result.worst or ("", None)
            worst = "" if comparison is None or comparison.passed else f" ({name} is {comparison.error:.1e} off)"
            details = f"\n{shown_lines(result.traceback, None)}" if result.traceback else ""
            pytest.fail(f"{result.id} {result.status}{worst}: {result.remarks}{details}", pytrace=False)

    return test
