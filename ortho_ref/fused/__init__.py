"""The cells at sequence level, written for speed: the same two functions as `scan`, the same results.

The fast form of cells/NAME.py is fused/NAME.py, that of its complex states fused/NAME_complex.py; a cell that has none
runs through `scan`, by itself.

Methods.  All input products are GEMMs before the time loop.  Gates are stored as (gates, T, B, n), so that every
element-wise call runs over contiguous memory.  In the loop nothing is allocated: results go to `out=`.  A sigmoid is
1 / (1 + exp(-a)), the sign folded into the weights.  The backward pass goes through time in chunks of some hundred
rows: the factors that multiply the cotangent are formed for a chunk at once, its loop keeps only what the recurrence
needs, and each weight's gradient is one GEMM over the chunk, while its cotangents are still in the cache.

Each file has set-up, one loop over time each way, and the gradients' products.  On a device that makes kernels the
loops are those of `fused/kernels/NAME.py`, chosen once before the loop.  LSTM and the GRU that resets before keep a
step's numbers by rows or by columns, as `fused/layout.py` says for their size; their loops are the same for both.
"""

import functools
import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from ortho_ref import scan
from ortho_ref.backend import Array
from ortho_ref.cells import CELLS, Cell, State, Weights
from ortho_ref.cells.by_name import name_of
from ortho_ref.cells.cell import check_sequence, check_weights
from ortho_ref.fused import sequence
from ortho_ref.scan import SequenceGradients


@functools.cache
def _form(kind: type[Cell], complex: bool) -> ModuleType | None:
    """The file with the fast form of this kind of cell."""
    if kind not in CELLS.values():
        return None
    path = f"{__name__}.{name_of(kind)}{'_complex' if complex else ''}"
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        return None


def form_of(cell: Cell) -> ModuleType:
    """The file with the fast form of a cell that `has_form`."""
    form = _form(type(cell), cell.complex)
    assert form is not None
    return form


def has_form(cell: Cell) -> bool:
    """Whether there is a fast form of the cell; otherwise `scan` runs it.

    Parameters
    ----------
    cell : Cell
        With its options: complex states have a form of their own.

    Returns
    -------
    bool
        False for a cell that is not on the list, too.
    """
    return _form(type(cell), cell.complex) is not None


def forward(cell: Cell, weights: Weights, x: Array, h0: State | None = None) -> tuple[State, Any]:
    """As `scan.forward`.

    Parameters
    ----------
    cell : Cell
        Which recurrence.
    weights : Weights
        Its dense weights.
    x : Array (T, B, m), or integer tokens (T, B)
        The sequence.
    h0 : State, optional
        (B, n), for LSTM a pair; zeros if None.

    Returns
    -------
    h : State
        (T+1, B, n), entry 0 being h0; for LSTM the pair of such arrays.
    tape : object
        For `backward`.
    """
    check_sequence(cell, x)
    engine = _form(type(cell), cell.complex) or scan
    check_weights(cell, weights)
    states: tuple[State, Any] = engine.forward(cell, weights, x, h0)
    return states


def backward(cell: Cell, weights: Weights, tape: Any, dh: Array, dh_T: State | None = None) -> SequenceGradients:
    """As `scan.backward`. The tape is not changed and may be used again.

    Parameters
    ----------
    cell : Cell
        As given to `forward`.
    weights : Weights
        As given to `forward`.
    tape : object
        What `forward` returned.
    dh : Array (T, B, n)
        The loss's own gradient with respect to h[1:], step by step (for LSTM: of its h).
    dh_T : State, optional
        A further gradient with respect to the last state, as a state; None is 0.

    Returns
    -------
    SequenceGradients
        Of the weights, of x and of h0.
    """
    engine = _form(type(cell), cell.complex) or scan
    check_weights(cell, weights)
    gradients: SequenceGradients = engine.backward(cell, weights, tape, dh, dh_T)
    return gradients


def chunks(cell: Cell, dh: Array) -> Iterator[slice]:
    """As `scan.chunks`: stretches of time, the last first, whose gradients `backward` adds up.

    Parameters
    ----------
    cell : Cell
        As given to `forward`.
    dh : Array (T, B, n)
        Tells T, B and the device.

    Returns
    -------
    iterator of slice
        Of time.
    """
    return sequence.chunks(dh)[1] if has_form(cell) else scan.chunks(cell, dh)


def part(cell: Cell, tape: Any, t: slice) -> Any:
    """As `scan.part`: the tape of some of the steps.

    Parameters
    ----------
    cell : Cell
        As given to `forward`.
    tape : object
        What `forward` returned.
    t : slice
        The steps, start and stop.

    Returns
    -------
    object
        For `backward`.
    """
    return sequence.part(tape, t) if has_form(cell) else scan.part(cell, tape, t)


__all__ = ["backward", "chunks", "form_of", "forward", "has_form", "part"]
