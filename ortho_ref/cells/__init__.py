"""The definitions: one file per recurrence, one time step forward and backward, on dense weights."""

from ortho_ref.cells.by_name import *  # noqa: F403  every cell of the one list
from ortho_ref.cells.by_name import CELLS, by_name
from ortho_ref.cells.cell import Cell, State, Weights

__all__ = ["CELLS", "Cell", "State", "Weights", "by_name", *(kind.__name__ for kind in CELLS.values())]
