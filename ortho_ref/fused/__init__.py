"""The cells at sequence level, written for speed: the same two functions as `scan`, the same results.

Methods.  All input products are one GEMM before the time loop.  Gates are stored as (gates, T, B, n), so that every
element-wise call runs over contiguous memory.  In the loop nothing is allocated: results go to `out=`.  A sigmoid is
0.5 + 0.5 tanh(a / 2), the halving folded into the weights.  The backward pass goes through time in chunks of some
hundred rows: the factors that multiply the cotangent are formed for a chunk at once, its loop keeps only what the
recurrence needs, and each weight's gradient is one GEMM over the chunk, while its cotangents are still in the cache.
On a device what stands between two products is one kernel (`backend.kernel`): the functions _gates, _state, _meet and
_carry of the cells; ORTHO_REF_FUSE=0 or `backend.unfused()` runs the host's lines there instead.
"""

from types import ModuleType

from ortho_ref.backend import Array
from ortho_ref.cells import LSTM, Cell, Elman, FastRNN, GRUResetAfter, GRUResetBefore, State, Weights
from ortho_ref.fused import elman, elman_complex, fastrnn, gru_reset_after, gru_reset_before, lstm
from ortho_ref.fused.sequence import Tape
from ortho_ref.scan import SequenceGradients

_ENGINES: dict[type, ModuleType] = {
    GRUResetBefore: gru_reset_before,
    GRUResetAfter: gru_reset_after,
    LSTM: lstm,
    Elman: elman,
    FastRNN: fastrnn,
}


def _engine(cell: Cell) -> ModuleType:
    if type(cell) not in _ENGINES:
        raise TypeError(
            f"cell is a {type(cell).__name__}; fused forms: {', '.join(c.__name__ for c in _ENGINES)}; use scan"
        )
    return elman_complex if cell.complex else _ENGINES[type(cell)]


def forward(cell: Cell, weights: Weights, x: Array, h0: State | None = None) -> tuple[State, Tape]:
    """As `scan.forward`: states (T+1, B, n) and the tape for `backward`.  TypeError for a cell without a fused form."""
    return _engine(cell).forward(cell, weights, x, h0)


def backward(cell: Cell, weights: Weights, tape: Tape, dh: Array, dh_T: State | None = None) -> SequenceGradients:
    """As `scan.backward`.  The tape is not changed and may be used again."""
    return _engine(cell).backward(cell, weights, tape, dh, dh_T)


__all__ = ["backward", "forward"]
