"""uRNN with U by its factors and never as a matrix: the engine "factored"; `scan` holds it (test_factored).

A step costs O(n log n), as the paper says, where a dense U costs O(n^2).  The loops are in compiled/factors.py.
"""

import importlib
from types import ModuleType
from typing import Any, NamedTuple

from ortho_ref.backend import Array, library_of
from ortho_ref.cells import Cell, Elman, Weights
from ortho_ref.fused import compiled
from ortho_ref.parametrizations import Buffers, Parametrization, Params, StructuredUnitary
from ortho_ref.scan import SequenceGradients


class Factors(NamedTuple):
    """What stands in the place of a dense U: the parameters and buffers of a `StructuredUnitary`."""

    params: Params
    buffers: Buffers


def unroll(cell: Cell, weights: Weights, x: Array, h0: Array | None = None) -> tuple[Array, Any]:
    """Of arguments that have been checked, weights["U"] being `Factors`; ValueError for arrays of a GPU."""
    return _loops(x).unroll(cell, weights, x, h0)


def unroll_back(cell: Cell, weights: Weights, tape: Any, dh: Array, dh_T: Array | None = None) -> SequenceGradients:
    """`backward` of arguments that have been checked; the gradient of U is that of its parameters, by name."""
    return _loops(dh).unroll_back(cell, weights, tape, dh, dh_T)


def _loops(x: Array) -> ModuleType:
    if library_of(x).device != "cpu":
        raise ValueError(
            "engine is 'factored', which is for device 'cpu', and the arrays are on device 'gpu'; allowed there: "
            "'fused', 'persistent', 'scan'"
        )
    return importlib.import_module("ortho_ref.fused.compiled.factors")


def refusal(cell: Cell, kept: Parametrization | None) -> str | None:
    """Why the engine cannot run a cell whose U is kept so; None where it can."""
    if not (type(cell) is Elman and cell.complex and type(kept) is StructuredUnitary):
        own = f"{cell} with {kept}" if kept else f"{cell}"
        return f"engine is 'factored', which is for urnn; allowed for {own}: 'fused', 'scan'"
    return None if compiled.is_installed() else "engine is 'factored', which needs Numba: pip install 'ortho-ref[fast]'"
