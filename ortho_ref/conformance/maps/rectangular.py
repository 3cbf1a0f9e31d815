"""Tall and wide Q, where a map takes them: U^H U = c^2 I or U U^H = c^2 I, with the factor c of some optimizers.

c is found beside a square Q with the same singular values: they alone decide how far an iteration has come.  A factor
other than 1 and sqrt(rows/columns) is none that is known: such a U counts as it is, and is not orthogonal.
"""

import contextlib
from math import sqrt

import numpy as np
from msgspec import Struct

from ortho_ref.backend import Array
from ortho_ref.conformance.maps.adapter import Precision, Refusal
from ortho_ref.conformance.maps.closed import Closed, quiet, values_of
from ortho_ref.conformance.maps.gradient import Gradient, judge
from ortho_ref.conformance.maps.inputs import conditioned
from ortho_ref.conformance.maps.recognise import Known

#: Rows and columns; no tile divides the first.
SHAPES = {"tall": ((37, 19), (64, 16)), "wide": ((19, 37), (16, 64))}
_FOR_GRADIENTS = {"tall": (5, 3), "wide": (3, 5)}
_RATIO = "sqrt(rows/columns)"
_NEAR = 0.02  # a factor is recognised within this, in bfloat16 as well


class Rectangular(Struct, frozen=True, forbid_unknown_fields=True):
    """What was found for tall Q, or for wide ones."""

    kind: str  # "tall" or "wide"
    refused: str  # why there is nothing; "" where there is
    factor: str = "1"  # c: "1", "sqrt(rows/columns)", or the number that it is for one shape
    same: bool = False  # whether the closed form of square Q is that of these too
    gradient: Gradient | None = None  # its pullback's, beside differences

    @property
    def words(self) -> str:
        """All of it in one line."""
        if self.refused:
            return f"refused: {self.refused}"
        gram = "U^H U" if self.kind == "tall" else "U U^H"
        squared = {"1": "", _RATIO: "rows/columns "}.get(self.factor, f"{self.factor}^2 ")
        assert self.gradient is not None
        form = "; the same closed form" if self.same else ""
        return f"{gram} = {squared}I{form}; gradient {self.gradient.words}"

    def factor_of(self, rows: int, columns: int) -> float:
        """What U is divided by before its defect is taken: c, where it is known."""
        return sqrt(rows / columns) if self.factor == _RATIO else 1.0


def rectangular(known: Known) -> list[Rectangular]:
    """What a map does with tall Q and with wide ones; nothing of one that needs skew Q, which is square."""
    return [] if known.domain.needs_skew else [_one(known, kind) for kind in SHAPES]


def _one(known: Known, kind: str) -> Rectangular:
    rows, columns = SHAPES[kind][-1]
    Q = conditioned(np.random.default_rng(8), rows, 1.0, columns=columns)
    square = conditioned(np.random.default_rng(9), min(rows, columns), 1.0)
    try:
        U, beside = known.map(Q), known.map(square)
    except Refusal as refused:
        return Rectangular(kind, str(refused))
    c = _ratio(U, beside)
    ratios = {"1": 1.0, _RATIO: sqrt(rows / columns)}
    factor = next((words for words, size in ratios.items() if abs(c / size - 1) <= _NEAR), f"{c:.3g}")
    same = known.closed is not None and _is_same(known.closed, Q, U / ratios.get(factor, 1.0), known.precision)
    return Rectangular(kind, "", factor, same, judge(known._replace(closed=None), _FOR_GRADIENTS[kind]))


def _ratio(U: Array, beside: Array) -> float:
    """Of the means of their singular values; 1 where there is none, so that what is not finite is judged as it is."""
    if not (np.isfinite(U).all() and np.isfinite(beside).all() and beside.any()):
        return 1.0
    own, other = (np.linalg.svd(V.astype(np.float64), compute_uv=False).mean() for V in (U, beside))
    return float(own / other)


def _is_same(closed: Closed, Q: Array, U: Array, precision: Precision) -> bool:
    """Whether a closed form gives U, of Q or of its transposed; a series of Q filled up by zeros, and cut off."""
    if closed.form.series:
        k = max(Q.shape)
        Q = np.pad(Q, [(0, k - size) for size in Q.shape])
    for X, own in ((Q, U), (Q.T, U.T)):
        with quiet(), contextlib.suppress(ValueError, np.linalg.LinAlgError):  # a form of square matrices
            value = values_of(closed, X, None)[: own.shape[0], : own.shape[1]]
            if value.shape == own.shape and abs(value - own).max() <= max(1e-10, 100 * precision.eps):
                return True
    return False
