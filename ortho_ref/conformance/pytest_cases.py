"""The kit in somebody's own test suite."""

from collections.abc import Callable
from typing import Any

from ortho_ref.conformance.case import DTYPES, Vector, select
from ortho_ref.conformance.report import PARTIAL, PASSED, UNSUPPORTED
from ortho_ref.conformance.runner import Run, check_all


def pytest_cases(
    run: Run, only: str | None = None, dtype: str = "float64", *, allow_partial: bool = False
) -> Callable[[Vector], None]:
    """A test function with one named test for each case; the arguments are those of `check`.

        test_mine = pytest_cases(run, only="cell/lstm")

    A case that is not supported is skipped; one that fails, fails with its diagnosis.  Needs pytest.
    """
    import pytest

    if dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype!r}; allowed: {', '.join(map(repr, DTYPES))}")

    @pytest.mark.parametrize("vector", select(only), ids=lambda vector: vector.id)
    def test(vector: Vector) -> None:
        (result,) = check_all(run, [vector], dtype).results
        if result.status == UNSUPPORTED:
            pytest.skip("not supported by the adapter")
        good: tuple[Any, ...] = (PASSED, PARTIAL) if allow_partial else (PASSED,)
        if result.status not in good:
            pytest.fail(f"{result.id} {result.status}: {result.remarks}", pytrace=False)

    return test
