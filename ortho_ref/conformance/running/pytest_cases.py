"""The kit in somebody's own test suite."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from ortho_ref.boundary import check_choice, kind_of
from ortho_ref.conformance.cases.case_files import select
from ortho_ref.conformance.findings import Assume
from ortho_ref.conformance.report import UNSUPPORTED
from ortho_ref.conformance.running.implementation import Run
from ortho_ref.conformance.running.runner import check_vectors
from ortho_ref.terminal import shown_lines


def pytest_cases(
    run: Run,
    only: str | Sequence[str] | None = None,
    dtype: str = "float64",
    *,
    allow_partial: bool = False,
    assume: Assume = None,
    xfail: Mapping[str, str] | None = None,
    unsupported: Literal["skip", "fail"] = "skip",
) -> Callable[[str], None]:
    """A test function with one named test for each case.  Needs pytest.

    One that fails, fails with its diagnosis.  Everything else is pytest's own: `-k`, `--junitxml`, timeouts and
    annotations by its plugins.

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
    xfail : mapping of str to str, optional
        Cases that are known to fail, patterns as of `only` -> why; one that passes all the same is an error.
    unsupported : str
        "skip", or "fail", for cases that have to pass.

    Returns
    -------
    callable
        For pytest to find, under a name that begins with test: test_mine = pytest_cases(run, only="cell/lstm").

    Raises
    ------
    ValueError
        A pattern that fits nothing, another dtype or `unsupported`, files of cases that are not as the kit ships them,
        or departures that are none.
    """
    import pytest

    check_vectors(run, [], dtype, assume=assume)  # so that what is wrong is refused here, not in every test
    check_choice("unsupported", unsupported, ("skip", "fail"))
    chosen = {vector.id: vector for vector in select(only)}
    if not isinstance(xfail, Mapping | None):
        raise TypeError(f"xfail is {kind_of(xfail)}; allowed: a dict, pattern -> reason")
    known = {vector.id: why for pattern, why in (xfail or {}).items() for vector in select(pattern)}

    def marked(id: str) -> Any:
        return pytest.param(id, marks=pytest.mark.xfail(reason=known[id], strict=True) if id in known else ())

    @pytest.mark.parametrize("case", [marked(id) for id in chosen])
    def test(case: str) -> None:
        report = check_vectors(run, [chosen[case]], dtype, allow_partial=allow_partial, assume=assume)
        (result,) = report.results
        if result.status == UNSUPPORTED and unsupported == "skip":
            pytest.skip("not supported by the adapter")
        if not report.ok:
            name, comparison = result.worst or ("", None)
            worst = "" if comparison is None or comparison.passed else f" ({name} is {comparison.error:.1e} off)"
            details = f"\n{shown_lines(result.traceback)}" if result.traceback else ""
            pytest.fail(f"{result.id} {result.status}{worst}: {result.remarks}{details}", pytrace=False)

    return test
