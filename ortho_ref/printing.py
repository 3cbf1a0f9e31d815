"""What holds arrays, in a line: names, shapes and dtypes, never the numbers."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ortho_ref.backend import is_array

#: Of a list this many entries are told, and how many there are.
MOST = 3


def brief(value: Any) -> str:
    """A value as a short `repr` has it: an array, or tuples, lists and dicts of arrays and of anything else.

    "float64 (5, 2, 4)" for an array, "{W_r (4, 3), b_r (4,): float64}" for a dict of arrays of one dtype; of a named
    tuple the fields that are not None, of a long list the first entries.
    """
    if is_array(value):
        return f"{value.dtype} {value.shape}"
    if isinstance(value, Mapping):
        return _of_mapping(value)
    if names := _fields(value):
        own = ((name, getattr(value, name)) for name in names)
        return f"{type(value).__name__}({', '.join(f'{name}={brief(item)}' for name, item in own if item is not None)})"
    if isinstance(value, list | tuple):
        told = [brief(item) for item in value[:MOST]] + ([f"... {len(value)}"] if len(value) > MOST else [])
        return f"[{', '.join(told)}]" if isinstance(value, list) else f"({', '.join(told)})"
    return repr(value)


def _fields(value: Any) -> tuple[str, ...]:
    """Of a named tuple, or of a dataclass whose `repr` is `brief`; none of anything else."""
    if isinstance(value, tuple):
        return getattr(value, "_fields", ())
    own = type(value).__repr__ is brief and dataclasses.is_dataclass(value)
    return tuple(field.name for field in dataclasses.fields(value)) if own else ()


def _of_mapping(value: Mapping[str, Any]) -> str:
    dtypes = {str(item.dtype) if is_array(item) else None for item in value.values()}
    if len(dtypes) == 1 and None not in dtypes:
        return f"{{{', '.join(f'{name} {item.shape}' for name, item in value.items())}: {dtypes.pop()}}}"
    return f"{{{', '.join(f'{name}: {brief(item)}' for name, item in value.items())}}}"


class ArraysInOrder(tuple[Any, ...]):
    """A tuple of arrays, as a state of more than one part is; its `repr` is `brief`."""

    __slots__ = ()
    __repr__ = brief


class ArraysByName(dict[str, Any]):
    """A dict of arrays by name, as parameters, gradients and buffers are; its `repr` is `brief`."""

    __repr__ = brief

    def __or__(self, other: Any) -> "ArraysByName":  # type: ignore[override]
        """The two together, as of dicts."""
        return ArraysByName(super().__or__(other)) if isinstance(other, dict) else NotImplemented
