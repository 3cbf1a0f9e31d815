"""The defect ||U^H U - I||_2 over the size of Q, or over its condition number where the size does not matter."""

from typing import Any

import numpy as np
from msgspec import Struct

from ortho_ref.conformance.maps.adapter import Map, Refusal
from ortho_ref.conformance.maps.inputs import conditioned, defect
from ortho_ref.conformance.maps.observe import Domain

#: n of the curves; sizes ||Q||_2, condition numbers; each is drawn so often, and the largest defect counts.
CURVES = (2, 8, 37, 64, 97)
NORMS = (1e-12, 1e-6, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 100.0, 1e4, 1e6)
CONDITIONS = (1.0, 1.5, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e5, 1e6)
_DRAWS = 2


class Curve(Struct, frozen=True, forbid_unknown_fields=True):
    """The defects for one n and precision."""

    dtype: str  # "float64" or "float32"
    n: int
    columns: int
    at: tuple[float, ...]
    defects: tuple[float | None, ...]  # of Q (n x columns), the largest of the draws; inf: U not finite, None: no U
    refused: str  # why there was none, the first time

    @property
    def size(self) -> str:
        """Of Q, in words."""
        return f"n = {self.n}" if self.n == self.columns else f"{self.n} x {self.columns}"


def sweep(
    map: Map,
    domain: Domain,
    conditions: bool,
    dtype: str,
    shape: tuple[int, int],
    ends: tuple[float, float],
    factor: float,
) -> Curve:
    """One curve, over ||Q||_2 or over condition numbers; the ends of what is judged are places as well.

    factor: what U is divided by first.
    """
    at = tuple(sorted({*(CONDITIONS if conditions else NORMS), *ends}))
    n, columns = shape
    more: dict[str, Any] = {} if n == columns else {"columns": columns}
    make, found, why = conditioned if conditions else domain.make, [], ""
    for where in at:
        rng, defects = np.random.default_rng(n), []
        for _ in range(_DRAWS):
            Q = make(rng, n, where, **more)
            try:
                defects.append(defect(map(Q.astype(dtype)) / factor))
            except Refusal as refused:
                why = why or f"at {where:g}: {refused}"
        found.append(max(defects, default=None))
    return Curve(dtype, n, columns, at, tuple(found), why)
