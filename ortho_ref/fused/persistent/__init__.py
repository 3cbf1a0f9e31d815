"""A cell's whole recurrence in one launch forward and one backward, on a GPU: the engine "persistent".

It is `fused` with other loops over time.  For each cell that has them NAME.py has `forward_loop` and `backward_loop`,
the signatures and results of those in `fused/kernels/NAME.py`, and NAME.cu what they launch; `plan.py` lays a size over
the device, `launch.py` compiles and launches.
"""

from types import ModuleType
from typing import Any

from ortho_ref import fused
from ortho_ref.backend import Array, library_of
from ortho_ref.cells import Cell, State, Weights
from ortho_ref.fused.kernels import launches
from ortho_ref.scan import SequenceGradients


def has_form(cell: Cell) -> bool:
    """Whether there are kernels of the cell, with its options."""
    return fused.file_of(cell, __name__) is not None


def unroll(cell: Cell, weights: Weights, x: Array, h0: State | None = None) -> tuple[State, Any]:
    """Of arguments that have been checked, on a GPU; ValueError for others, and for an n that does not fit it."""
    return fused.form_of(cell).unroll(cell, weights, x, h0, _loops_of(cell, x))


def unroll_back(cell: Cell, weights: Weights, tape: Any, dh: Array, dh_T: State | None = None) -> SequenceGradients:
    """`backward` of arguments that have been checked."""
    return fused.form_of(cell).unroll_back(cell, weights, tape, dh, dh_T, _loops_of(cell, dh))


#: Doors, as those of `fused`, whose tape `backward` takes too.
forward, backward = fused.doors(unroll, unroll_back)


def _loops_of(cell: Cell, x: Array) -> ModuleType:
    if (reason := refusal(cell)) is not None:
        raise ValueError(reason)
    library = library_of(x)
    if library.device != "gpu":
        raise ValueError(
            "engine is 'persistent', which is for device 'gpu', and the arrays are on device "
            f"{library.device!r}; allowed there: 'compiled', 'fused', 'scan'"
        )
    if not launches(library):
        raise ValueError(
            "engine is 'persistent', and kernels are switched off, by ORTHO_REF_KERNELS=0 or without_kernels(); "
            "allowed then: 'fused', 'scan'"
        )
    loops = fused.file_of(cell, __name__)
    assert loops is not None
    return loops


def refusal(cell: Cell) -> str | None:
    """Why the engine cannot run a cell; None where it can."""
    if has_form(cell):
        return None
    return f"engine is 'persistent', which has no kernels of {cell}; allowed for it: 'fused', 'scan'"


__all__ = ["backward", "forward", "has_form", "refusal", "unroll", "unroll_back"]
