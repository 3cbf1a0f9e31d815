"""What an implementation returned, as plain arrays: copies, which nothing that it does later can change.

Arrays lose a class of their own, whose methods could say anything.  Tensors of other libraries are taken by what they
offer, without importing the library; what cannot be taken is refused by the name of its type.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ortho_ref.backend import NOT_PLAIN
from ortho_ref.boundary import with_article
from ortho_ref.conformance.cases.case import Case
from ortho_ref.conformance.running.implementation import Broken, Elsewhere, Raised, Run, said
from ortho_ref.terminal import cut

_NAME = 200  # characters of a type: one of many fields has more
_OTHERS = 5  # names of outputs that the case does not have: as many as are said


@dataclass(frozen=True)
class NoArray:
    """What stands where an array was expected."""

    remark: str  # what it is, as after the output's name: "is a list; expected a NumPy array"


Outputs: TypeAlias = dict[str, np.ndarray | NoArray]


def ask(run: Run, case: Case) -> Outputs | None:
    """The outputs of an implementation for a case, of which it gets a copy; None where it does not support it.

    Whatever it raises is raised, and `Broken` for what it does instead of giving outputs.
    """
    fresh = {} if isinstance(run, Elsewhere) else {name: array.copy() for name, array in case.inputs.items()}
    outputs = outputs_of(run(case), dict(case.outputs))
    if outputs is not None and fresh and (problem := modified(case.inputs, fresh)):
        raise Broken(problem)
    return outputs


def given(run: Run, case: Case) -> Outputs | Raised | None:
    """What `ask` gives, or what it raises, told; but for the user's KeyboardInterrupt."""
    try:
        return ask(run, case)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Raised.of(error)


def outputs_of(returned: Any, expected: Mapping[str, tuple[int, ...]]) -> Outputs | None:
    """What an implementation returned, by the shapes expected: a copy of each output, or what it is instead.

    Of others a few names; None: not supported.  `Broken` where it is no dict, or an empty one.
    """
    if returned is None or returned is NotImplemented:
        return None
    if not isinstance(returned, dict):
        kind = cut(type(returned).__name__, _NAME)
        raise Broken(f"returned {with_article(kind)}; expected a dict of arrays, or None")
    items = [(str.__str__(name) if isinstance(name, str) else name, value) for name, value in dict.items(returned)]
    if not items:
        raise Broken("returned an empty dict; None says that a case is not supported")
    own = {name: value for name, value in items if isinstance(name, str) and name in expected}
    others = [cut(str(name), 100) for name, _ in items if not (isinstance(name, str) and name in expected)]
    found: Outputs = {name: _taken(value, expected[name]) for name, value in own.items()}
    return found | {name: NoArray("is no output of this case") for name in others[:_OTHERS] if name not in expected}


def _taken(value: Any, shape: tuple[int, ...]) -> np.ndarray | NoArray:
    """A copy of an array, or why there is none."""
    array = view(value)
    if isinstance(array, NoArray):
        return array
    if array.dtype.kind not in "fiubc":
        return NoArray(f"is {cut(str(array.dtype), _NAME)}; expected real numbers")
    if array.size > 2 * np.prod(shape, dtype=int) + 1000:  # one that is broadcast may have no end
        return NoArray(f"has shape {array.shape}; expected {shape}")
    return np.array(array, order="C")


def view(value: Any) -> np.ndarray | NoArray:
    """An array of NumPy's own class for what is one, or can be taken for one: the same memory, where there is any.

    That is an array, a number, or a tensor with `__array__` or `__dlpack__`, perhaps after `detach`, `cpu` or `get`; of
    what cannot be taken the type is told.
    """
    if isinstance(value, NoArray):
        return value
    if type(value) in (int, float):
        try:
            return np.asarray(float(value))
        except OverflowError:
            return np.asarray(np.inf)
    kind = type(value)
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, NOT_PLAIN):
        return np.asarray(value) if isinstance(value, np.generic) else np.ndarray.view(value, np.ndarray)
    name = cut(kind.__name__, _NAME)
    if isinstance(value, NOT_PLAIN) or not (hasattr(kind, "__array__") or hasattr(kind, "__dlpack__")):
        return NoArray(f"is {with_article(name)}; expected a NumPy array")
    name = cut(f"{kind.__module__}.{kind.__qualname__}", _NAME)
    try:
        array = _of_tensor(value, kind)
    except Exception as error:
        return NoArray(f"is {with_article(name)}, which gives no NumPy array: {cut(said(error), _NAME)}")
    if type(array) is not np.ndarray or array.dtype.kind == "O":
        return NoArray(f"is {with_article(name)}, which gives no NumPy array")
    return array


def _of_tensor(value: Any, kind: type) -> Any:
    """PyTorch has to be detached and moved to the host, CuPy says `get`; of others the first that works."""
    if hasattr(kind, "detach") and hasattr(kind, "cpu"):
        value = value.detach().cpu()
    elif hasattr(kind, "__cuda_array_interface__") and hasattr(kind, "get"):
        value = value.get()
    if not hasattr(type(value), "__array__"):
        return np.from_dlpack(value)
    try:
        return np.asarray(value)
    except Exception as error:
        with contextlib.suppress(Exception):
            return np.from_dlpack(value)
        raise error  # of the two it says more


def modified(now: Any, fresh: Mapping[str, np.ndarray]) -> str:
    """What to say of inputs that an implementation changed, by what it left and what was; "" where it changed none."""
    if not isinstance(now, dict):
        return "modified its inputs: all"

    def same(name: str) -> bool:
        a, b = now.get(name), fresh[name]
        return isinstance(a, np.ndarray) and a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()

    changed = [name for name in fresh if not same(name)] + [cut(str(n), 100) for n in now if n not in fresh]
    return f"modified its inputs: {', '.join(changed[:50])}" if changed else ""
