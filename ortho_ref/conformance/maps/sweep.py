"""The defect ||U^H U - I||_2 over the size of Q, or over its condition number where the size does not matter."""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from ortho_ref.conformance.maps.ask import Map, Refusal
from ortho_ref.conformance.maps.inputs import conditioned, defect
from ortho_ref.conformance.maps.observe import Domain

#: n of the curves; sizes ||Q||_2, condition numbers; each is drawn so often, and the largest defect counts.
CURVES = (2, 8, 37, 64)
NORMS = (1e-12, 1e-6, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 100.0, 1e4, 1e6)
CONDITIONS = (1.0, 1.5, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e5, 1e6)
_DRAWS = 2


class Curve(Struct, frozen=True, forbid_unknown_fields=True):
    """The defects for one n and precision.

    Attributes
    ----------
    dtype : str
        "float64", "float32" or "complex128".
    n : int
        Q is n x n.
    at : tuple of float
        ||Q||_2, or condition numbers.
    defects : tuple of float or None
        The largest of the draws; inf where U is not finite, None where there was none.
    refused : str
        Why there was none, the first time.
    """

    dtype: str
    n: Annotated[int, Meta(ge=1, le=10**9)]
    at: tuple[float, ...]
    defects: tuple[float | None, ...]
    refused: str


def sweep(map: Map, domain: Domain, conditions: bool, dtype: str, n: int, ends: tuple[float, float]) -> Curve:
    """One curve.

    Parameters
    ----------
    map : Map
        What is asked.
    domain : Domain
        What it can be given.
    conditions : bool
        Whether over condition numbers.
    dtype : str
        What Q is given in.
    n : int
        Q is n x n.
    ends : pair of float
        Of the range that is judged: they are places as well.

    Returns
    -------
    Curve
        Over all places.
    """
    at = tuple(sorted({*(CONDITIONS if conditions else NORMS), *ends}))
    found, why = [], ""
    for where in at:
        largest: float | None = None
        rng = np.random.default_rng(n)
        for _ in range(_DRAWS):
            make = conditioned(rng, n, where, dtype[0] == "c") if conditions else None
            Q = domain.make(rng, n, where, dtype[0] == "c") if make is None else make
            try:
                own = defect(map(Q.astype(dtype)))
            except Refusal as refused:
                why = why or f"at {where:g}: {refused}"
                continue
            largest = own if largest is None else max(largest, own)
        found.append(largest)
    return Curve(dtype, n, at, tuple(found), why)
