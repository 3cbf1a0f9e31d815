"""The list of cells.  Everything else that goes over all of them asks here.

A cell is called as its file: "gru_reset_before" is cells/gru_reset_before.py.  By that name the conformance kit has its
cases, `fused` its fast form and `gradients` its Jacobian.
"""

import inspect
from typing import Any

from ortho_ref.boundary import check_choice, nearest, short
from ortho_ref.cells.cell import Cell
from ortho_ref.cells.elman import Elman as Elman
from ortho_ref.cells.fastrnn import FastRNN as FastRNN
from ortho_ref.cells.gru_reset_after import GRUResetAfter as GRUResetAfter
from ortho_ref.cells.gru_reset_before import GRUResetBefore as GRUResetBefore
from ortho_ref.cells.lstm import LSTM as LSTM

#: Name -> class, from the imports above.
CELLS: dict[str, type[Cell]] = {
    kind.__module__.rpartition(".")[2]: kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Cell) and kind is not Cell
}


def name_of(cell: Cell | type[Cell]) -> str:
    """The name of a cell or of its class; of one of your own "module:Class", which is none of these."""
    kind = cell if isinstance(cell, type) else type(cell)
    return next((name for name, own in CELLS.items() if own is kind), f"{kind.__module__}:{kind.__name__}")


def options_of(kind: type[Cell]) -> tuple[str, ...]:
    """Names of a cell's options."""
    return tuple(inspect.signature(kind).parameters)


def by_name(name: str, **options: Any) -> Cell:
    """The cell called `name` with these options.

    Parameters
    ----------
    name : str
        A name in `CELLS`.
    **options : object
        As the cell's class takes them.

    Raises
    ------
    ValueError
        There is no cell of that name, the message lists those there are; or an option has a value that is not allowed.
    TypeError
        The cell has no such option.
    """
    check_choice("cell", name, CELLS)
    allowed = options_of(CELLS[name])
    for option in options:
        if option not in allowed:
            near = nearest(option, allowed)
            raise TypeError(f"{name} has no option {short(option)}{near}; allowed: {', '.join(allowed) or 'none'}")
    return CELLS[name](**options)
