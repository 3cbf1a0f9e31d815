"""U by its factors and never as a matrix: the engine "factored"; `scan` holds it (test_factored).

A step costs O(n log n) for uRNN and in FFT style, O(n k) for k layers of rotations, as the papers say, where a dense U
costs O(n^2).  uRNN's loops are in compiled/factors.py; of rotations they are those of the engine "compiled", with
compiled/rotations.py for the product.
"""

import importlib
from types import ModuleType
from typing import Any, NamedTuple

from ortho_ref.backend import Array, library_of
from ortho_ref.cells import Cell, Elman, FastRNN, Weights
from ortho_ref.fused import compiled
from ortho_ref.parametrizations import (
    Buffers,
    FFTRotations,
    Parametrization,
    Params,
    StructuredUnitary,
    TunableRotations,
    VolumePreserving,
)
from ortho_ref.scan import SequenceGradients

#: The kinds of U, and from which number of real rows on, two for a complex one, it is quicker than "compiled".
LEAST = {StructuredUnitary: 256, FFTRotations: 512, TunableRotations: 256, VolumePreserving: 512}


class Factors(NamedTuple):
    """What stands in the place of a dense U: how it is kept, its parameters and buffers."""

    kept: Any
    params: Params
    buffers: Buffers


def unroll(cell: Cell, weights: Weights, x: Array, h0: Array | None = None) -> tuple[Array, Any]:
    """Of arguments that have been checked, weights["U"] being `Factors`; ValueError for arrays of a GPU."""
    return _loops(cell, weights, x).unroll(cell, weights, x, h0)


def unroll_back(cell: Cell, weights: Weights, tape: Any, dh: Array, dh_T: Array | None = None) -> SequenceGradients:
    """`backward` of arguments that have been checked; the gradient of U is that of its parameters, by name."""
    return _loops(cell, weights, dh).unroll_back(cell, weights, tape, dh, dh_T)


def _loops(cell: Cell, weights: Weights, x: Array) -> ModuleType:
    if library_of(x).device != "cpu":
        raise ValueError(
            "engine is 'factored', which is for device 'cpu', and the arrays are on device 'gpu'; allowed there: "
            "'fused', 'persistent', 'scan'"
        )
    if isinstance(weights["U"].kept, StructuredUnitary):
        return importlib.import_module(f"{compiled.__name__}.factors")
    return compiled.loops_of(cell)


def refusal(cell: Cell, kept: Parametrization | None) -> str | None:
    """Why the engine cannot run a cell whose U is kept so; None where it can."""
    if type(cell) not in (Elman, FastRNN) or type(kept) not in LEAST:
        own = f"{cell} with {kept}" if kept else f"{cell}"
        others = "'compiled', 'fused', 'scan'" if compiled.has_form(cell) else "'scan'"
        return f"engine is 'factored', which is for urnn, eurnn, vprnn and sgornn; allowed for {own}: {others}"
    return None if compiled.is_installed() else "engine is 'factored', which needs Numba: pip install 'ortho-ref[fast]'"


def least(cell: Cell, kept: Parametrization) -> int:
    """From which n on it is quicker than the engine "compiled" (docs/performance.md), for what it does not refuse."""
    return LEAST[type(kept)] // (2 if cell.complex else 1)
