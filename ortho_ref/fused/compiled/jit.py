"""How the loops of this room are compiled, and when what Numba has kept of them is theirs still."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numba.extending

#: a * b + c may be one rounding; nothing else of IEEE's arithmetic is given away, and no sum is reordered.
CONTRACT = {"contract"}
#: Of all files of the room: what Numba keeps of a function has those in it that it calls, and asks after its own alone.
_STATE = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()


def compiled(function: Callable[..., Any], fastmath: Any = CONTRACT) -> Any:
    """Compile a function at its first call for the types of its arguments, and keep it in Numba's cache.

    It runs without the GIL.  Where no folder of the cache can be written, each process compiles anew.
    """
    options: dict[str, Any] = {"nogil": True, "fastmath": fastmath, "error_model": "numpy"}
    try:
        kept = numba.njit(cache=True, **options)(function)
        file = kept._cache._cache_file
        file._source_stamp = file._source_stamp, _STATE
        return kept
    except (RuntimeError, AttributeError):  # there is no such folder; another Numba's cache
        return numba.njit(**options)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function into each that calls it."""
    return numba.njit(forceinline=True, fastmath=CONTRACT, error_model="numpy")(function)


def either(of_tuple: Callable[..., Any], of_arrays: Callable[..., Any]) -> Any:
    """One of two functions, compiled into each that calls it: the first where an argument is a NamedTuple."""

    def choose(*arguments: Any) -> Any:
        return of_tuple if any(isinstance(own, numba.types.BaseNamedTuple) for own in arguments) else of_arrays

    def stub(*arguments: Any) -> Any:
        raise NotImplementedError

    options: Any = {"forceinline": True, "fastmath": CONTRACT, "error_model": "numpy"}
    numba.extending.overload(stub, jit_options=options, strict=False)(choose)
    return stub
