"""What an implementation is, and what it can do instead of giving outputs."""

from collections.abc import Callable
from typing import Any, TypeAlias

from ortho_ref.conformance.case import Case
from ortho_ref.terminal import cut

_SAID = 1000  # characters: there is more to say than that

#: Takes a case, gives a dict of arrays, or None where it does not support it.
Run: TypeAlias = Callable[[Case], Any]


class Refused(Exception):
    """A program said that its input is invalid."""


class Broken(Exception):
    """What a program did instead of giving outputs."""


def said(error: BaseException) -> str:
    """What was raised, in one line: of `Broken` its message, of others the type as well."""
    if isinstance(error, Broken):
        return cut(str(error), _SAID)
    name = cut(type(error).__name__, 100)
    try:
        line = str(error).strip().partition("\n")[0].rstrip()
    except KeyboardInterrupt:
        raise
    except BaseException:  # it cannot even be said, or ends the process where it is
        line = ""
    return f"raised {name}: {cut(line, _SAID)}" if line else f"raised {name}"
