"""uRNN with U by its factors and never as a matrix: the engine "factored"; `scan` holds it (test_factored).

A step costs O(n log n), as the paper says, where a dense U costs O(n^2).  The loops are those of compiled/factored.py.

Forward, d_j = e^{i w_j}
    u = D_3 R_2 F^{-1} D_2 Pi R_1 F D_1 h_{t-1}            [urnn:6]
    z_t = W x_t + u                                        [urnn:1/z]
    h_t = z_t max(|z_t| + b, 0) / |z_t|, 0 at z_t = 0      [urnn:8]

Backward, g = all of dL/dh_t; s goes back from u to h_{t-1} by inverses, and ds, dz at first, beside it
    g += dh_t                                              [bp:bptt/g]
    dz from g, and db                                      [bp:modrelu-complex]
    D_j: dw = Im(ds s^*) of its output; s, ds <- d_j^* s, d_j^* ds             [bp:phase]
    R_j: dv and ds from its input s and its output's ds    [bp:householder]
    F, F^{-1} and Pi: their adjoints; g <- ds              [bp:urnnW]
    dW, dx, as of real pairs                               [bp:bptt/W]
(|z_t| below the smallest normal number counts as 0 here.)
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
    return importlib.import_module("ortho_ref.fused.compiled.factored")


def refusal(cell: Cell, kept: Parametrization | None) -> str | None:
    """Why the engine cannot run a cell whose U is kept so; None where it can."""
    if not (type(cell) is Elman and cell.complex and type(kept) is StructuredUnitary):
        return f"engine is 'factored', which is for urnn; allowed for {cell} with {kept}: 'fused', 'scan'"
    return None if compiled.is_installed() else "engine is 'factored', which needs Numba: pip install 'ortho-ref[fast]'"
