"""The cells at sequence level, written for speed: the same two functions as `scan`, the same results.

The fast form of cells/NAME.py is fused/NAME.py, that of its complex states fused/NAME_complex.py; a cell that has none
runs through `scan`, by itself.

Methods.  All input products are GEMMs before the time loop.  Gates are stored as (gates, T, B, n), so that every
element-wise call runs over contiguous memory.  The backward pass goes through time in chunks of some hundred rows: the
factors that multiply the cotangent are formed for a chunk at once, its loop keeps only what the recurrence needs, and
each weight's gradient is one GEMM over the chunk, while its cotangents are still in the cache.

Each file has set-up, one loop over time each way, and the gradients' products.  On a device that makes kernels the
loops are those of `fused/kernels/NAME.py`, chosen once before the loop; `fused/compiled/NAME.py` has them for Numba.

A BLAS with another number of threads adds up in another order, and the last digits are others.
"""

import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ortho_ref import scan
from ortho_ref.backend import Array
from ortho_ref.boundary import check_backward, check_forward
from ortho_ref.cells import CELLS, Cell, State, Weights
from ortho_ref.cells.by_name import name_of
from ortho_ref.fused.sequence import Tape
from ortho_ref.scan import SequenceGradients


@functools.cache
def _file(kind: type[Cell], complex: bool, room: str) -> ModuleType | None:
    """A room's file of this kind of cell."""
    if kind not in CELLS.values():
        return None
    path = f"{room}.{name_of(kind)}{'_complex' if complex else ''}"
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        return None


def file_of(cell: Cell, room: str = __name__) -> ModuleType | None:
    """What a package has in its file of the cell, NAME.py or NAME_complex.py; None where it has none."""
    return _file(type(cell), cell.complex, room)


def has_form(cell: Cell) -> bool:
    """Whether there is a fast form of the cell, complex states having one of their own; otherwise `scan` runs it."""
    return file_of(cell) is not None


def form_of(cell: Cell) -> ModuleType:
    """The module whose `unroll` and `unroll_back` run the cell, of arguments that have been checked."""
    return file_of(cell) or scan


def forward(cell: Cell, weights: Weights, x: Array, h0: State | None = None) -> tuple[State, Any]:
    """As `scan.forward`: states (T+1, B, n), entry 0 being h0, and the tape for `backward`."""
    check_forward(cell, weights, x, h0)
    return form_of(cell).unroll(cell, weights, x, h0)


def backward(cell: Cell, weights: Weights, tape: Any, dh: Array, dh_T: State | None = None) -> SequenceGradients:
    """As `scan.backward`, from the tape of `forward`, which is not changed and may be used again."""
    check_backward(cell, weights, tape, Tape if has_form(cell) else scan.Tape, dh, dh_T)
    return form_of(cell).unroll_back(cell, weights, tape, dh, dh_T)


def doors(unroll: Callable[..., Any], unroll_back: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """`forward` and `backward` of another engine whose tapes are of this kind: checks before its own two functions."""

    def forward(cell: Cell, weights: Weights, x: Array, h0: State | None = None) -> tuple[State, Any]:
        check_forward(cell, weights, x, h0)
        return unroll(cell, weights, x, h0)

    def backward(cell: Cell, weights: Weights, tape: Any, dh: Array, dh_T: State | None = None) -> SequenceGradients:
        check_backward(cell, weights, tape, Tape, dh, dh_T)
        return unroll_back(cell, weights, tape, dh, dh_T)

    return forward, backward


__all__ = ["backward", "doors", "file_of", "form_of", "forward", "has_form"]
