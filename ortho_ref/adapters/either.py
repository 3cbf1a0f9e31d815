"""Several adapters as one."""

from collections.abc import Callable
from typing import Any


def either(*runs: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """An adapter that gives a case to each of these, and what the first says that supports it.

    Parameters
    ----------
    *runs : callable
        Adapters, run(case).  What one of them assumes of itself, "h0-ignored" without an initial state, is not assumed
        of all: give `assume` for it.

    Returns
    -------
    callable
        run(case) -> the outputs, or None where none of them supports it.
    """

    def run(case: Any) -> Any:
        """The outputs of the first that has any; None where none has."""
        for one in runs:
            outputs = one(case)
            if outputs is not None and outputs is not NotImplemented:
                return outputs
        return None

    return run
