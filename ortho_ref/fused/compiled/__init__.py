"""The cells at sequence level as loops that Numba compiles for this processor: the engine "compiled".

For each cell that `fused` has NAME.py has two loops over time, one tagged equation a line, and what calls them.  There
is no BLAS in them: `products.py` has their products, `rotations.py` that of a U of rotations for the engine "factored",
`elementary.py` exp, sigmoid and tanh, `sequence.py` what the cells share.  A batch is cut into slices by B and n alone,
each a call on a thread (`pool.py`): bits depend neither on the number of threads nor on the machine's BLAS.

The extra `fast` has Numba; nothing here imports it before a cell is run.
"""

import functools
import importlib
import importlib.util
from types import ModuleType
from typing import Any

from ortho_ref import fused
from ortho_ref.backend import Array, library_of
from ortho_ref.cells import Cell, State, Weights
from ortho_ref.fused.compiled.pool import cores, set_threads, threads
from ortho_ref.scan import SequenceGradients


def has_form(cell: Cell) -> bool:
    """Whether there are loops of the cell, with its options."""
    return fused.has_form(cell) and _is_there(_path(cell))


def _path(cell: Cell) -> str:
    """The module with the loops of a cell."""
    return f"{__name__}.{fused.form_of(cell).__name__.rpartition('.')[2]}"


@functools.cache
def _is_there(module: str) -> bool:
    """Whether there is a module; it is not imported."""
    return importlib.util.find_spec(module) is not None


def is_installed() -> bool:
    """Whether Numba is there."""
    return _is_there("numba")


def unroll(cell: Cell, weights: Weights, x: Array, h0: State | None = None) -> tuple[State, Any]:
    """Of arguments that have been checked, on the host; ValueError for others, and where Numba is not installed."""
    return _form_of(cell, x).unroll(cell, weights, x, h0)


def unroll_back(cell: Cell, weights: Weights, tape: Any, dh: Array, dh_T: State | None = None) -> SequenceGradients:
    """`backward` of arguments that have been checked."""
    return _form_of(cell, dh).unroll_back(cell, weights, tape, dh, dh_T)


#: Doors, as those of `fused`.
forward, backward = fused.doors(unroll, unroll_back)


def _form_of(cell: Cell, x: Array) -> ModuleType:
    if (reason := refusal(cell)) is not None:
        raise ValueError(reason)
    if library_of(x).device != "cpu":
        raise ValueError(
            "engine is 'compiled', which is for device 'cpu', and the arrays are on device 'gpu'; allowed there: "
            "'fused', 'persistent', 'scan'"
        )
    return loops_of(cell)


def loops_of(cell: Cell) -> ModuleType:
    """The module with the loops of a cell that has them."""
    return importlib.import_module(_path(cell))


def refusal(cell: Cell) -> str | None:
    """Why the engine cannot run a cell; None where it can."""
    if not is_installed():
        return "engine is 'compiled', which needs Numba: pip install 'ortho-ref[fast]'"
    return None if has_form(cell) else f"engine is 'compiled', which has no loops of {cell}; allowed for it: 'scan'"


__all__ = [
    "backward",
    "cores",
    "forward",
    "has_form",
    "is_installed",
    "loops_of",
    "refusal",
    "set_threads",
    "threads",
    "unroll",
    "unroll_back",
]
