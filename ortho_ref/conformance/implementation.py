"""What an implementation is, and what it can do instead of giving outputs."""

from collections.abc import Callable
from typing import Any, TypeAlias

from ortho_ref.conformance.case import Case

#: Takes a case, gives a dict of arrays, or None where it does not support it.
Run: TypeAlias = Callable[[Case], Any]


class Refused(Exception):
    """A program said that its input is invalid."""


class Broken(Exception):
    """What a program did instead of giving outputs."""


def said(error: BaseException) -> str:
    """What was raised, in one line: of `Broken` its message, of others the type as well."""
    if isinstance(error, Broken):
        return str(error)
    try:
        lines = str(error).strip().splitlines() or [""]
    except Exception:  # it cannot even be said
        lines = [""]
    return f"raised {type(error).__name__}: {lines[0]}" if lines[0] else f"raised {type(error).__name__}"
