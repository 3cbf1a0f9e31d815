"""How the loops of this room are compiled."""

from collections.abc import Callable
from typing import Any

import numba

#: a * b + c may be one rounding; nothing else of IEEE's arithmetic is given away, and no sum is reordered.
CONTRACT = {"contract"}


def compiled(function: Callable[..., Any], fastmath: Any = CONTRACT) -> Any:
    """Compile a function at its first call for the types of its arguments, and keep it in Numba's cache.

    It runs without the GIL.  Where no folder of the cache can be written, each process compiles anew.
    """
    options: dict[str, Any] = {"nogil": True, "fastmath": fastmath, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # there is no such folder
        return numba.njit(**options)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function into each that calls it."""
    return numba.njit(forceinline=True, fastmath=CONTRACT, error_model="numpy")(function)
