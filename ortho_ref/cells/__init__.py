"""The definitions: one file per recurrence, one time step forward and backward, on dense weights."""

from ortho_ref.cells.cell import Cell, State, Weights
from ortho_ref.cells.elman import Elman
from ortho_ref.cells.fastrnn import FastRNN
from ortho_ref.cells.gru_reset_after import GRUResetAfter
from ortho_ref.cells.gru_reset_before import GRUResetBefore
from ortho_ref.cells.lstm import LSTM

__all__ = ["LSTM", "Cell", "Elman", "FastRNN", "GRUResetAfter", "GRUResetBefore", "State", "Weights"]
