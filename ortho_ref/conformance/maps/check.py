"""Ask a map everything: `check_map`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ortho_ref.boundary import check_number, short
from ortho_ref.conformance.maps.adapter import Map, Precision, Refusal, as_run
from ortho_ref.conformance.maps.gradient import judge
from ortho_ref.conformance.maps.inputs import defect
from ortho_ref.conformance.maps.observe import Domain, domain_of, observe
from ortho_ref.conformance.maps.recognise import Found, identify, places_of, precision_at
from ortho_ref.conformance.maps.rectangular import SHAPES, rectangular
from ortho_ref.conformance.maps.report import Complex, MapReport
from ortho_ref.conformance.maps.sweep import CURVES, sweep
from ortho_ref.conformance.running.implementation import Run

#: The largest defect that passes unless said otherwise, and the ranges in which it has to.
TOLERANCE = 1e-10
NORM_RANGE, CONDITION_RANGE = (1e-12, 1.0), (1.0, 100.0)


def check_map(
    map: Callable[[Any], Any],
    pullback: Callable[[Any, Any], Any] | None = None,
    *,
    tolerance: float = TOLERANCE,
    range: tuple[float, float] | None = None,
    complex: bool = False,
    name: str = "map",
) -> MapReport:
    """What an orthogonal map Q -> U is, how orthogonal, and whether its gradient is right.

    Parameters
    ----------
    map : callable
        map(Q) -> U: real Q (n, n), n from 2 to 97, in float64 and float32. It may take batches (b, n, n), alone or as
        well, complex Q, and tall and wide ones, whose U may have a factor sqrt(max(1, rows/columns)). What it does not
        take it refuses by an exception or None. `ortho_ref.adapters` has `map_from_torch` and `map_from_jax`, which
        give both functions.
    pullback : callable, optional
        pullback(Q, dU) -> dL/dQ where dU is dL/dU; of complex ones dL/dRe + i dL/dIm.
    tolerance : float
        The largest defect ||U^H U - I||_2 that passes. In float32 it is 1e-4 at least.
    range : pair of float, optional
        Between which ||Q||_2 that is judged; 1e-12 and 1 unless given. Where the scale of Q does not matter, between
        which condition numbers; 1 and 100.
    complex : bool
        Whether complex Q count as well, up to ||Q||_2 = 1. What it does with them is reported anyhow.
    name : str
        What the report calls it.

    Returns
    -------
    MapReport
        `ok`, `str` of it one page, `as_json`, `svg`. Exceptions of the map are in it.

    Raises
    ------
    TypeError
        `map` or `pullback` is no function.
    ValueError
        A tolerance that is not above 0, or a range that is none.
    """
    return check_run(as_run(map, pullback), tolerance=tolerance, range=range, complex=complex, name=name)


def check_limits(tolerance: float, range: tuple[float, float] | None) -> None:
    """ValueError unless the tolerance is above 0, and the range two finite numbers above 0, the lower one first."""
    check_number("tolerance", tolerance, lambda own: own > 0, "above 0, and finite")
    try:
        pair = isinstance(range, tuple | list) and len(range) == 2
        good = range is None or (pair and 0 < range[0] <= range[1] < float("inf"))
    except TypeError:
        good = False
    if not good:
        raise ValueError(f"range is {short(range)}; allowed: LOW:HIGH, finite, above 0, LOW not above HIGH")


def check_run(run: Run, *, tolerance: float, range: tuple[float, float] | None, complex: bool, name: str) -> MapReport:
    """`check_map` of a map as an implementation, in this process or in another."""
    check_limits(tolerance, range)
    asked = Map(run)
    try:
        domain = domain_of(asked)
    except Refusal as refused:
        why, ends = str(refused), range or NORM_RANGE
        return MapReport(
            name, None, Precision(), Found(), None, None, Complex(why), [], (), tolerance, ends, refusal=why
        )
    places = places_of(asked, domain, False)
    seen = observe(asked, domain, precision_at(places))
    known = identify(asked, domain, False, places)
    ends = range or (CONDITION_RANGE if seen.scale_free else NORM_RANGE)
    others = rectangular(known)
    shapes = [(n, n, 1.0) for n in CURVES]
    shapes += [(*shape, own.factor_of(*shape)) for own in others if not own.refused for shape in SHAPES[own.kind]]
    return MapReport(
        name,
        domain,
        known.precision,
        known.found,
        seen,
        judge(known),
        _complex(asked, domain),
        others,
        tuple(
            sweep(asked, domain, seen.scale_free, dtype, (n, m), ends, factor)
            for dtype in ("float64", "float32")
            for n, m, factor in shapes
        ),
        tolerance,
        ends,
        asked.batched,
        asked.calls,
        judges_complex=complex,
    )


def _complex(map: Map, real: Domain) -> Complex:
    """The same of complex matrices, as far as it takes them.

    What takes any real Q is asked for any complex one too: skew-Hermitian Q alone would not show a map that transposes
    and does not conjugate, since Q - Q^T is real there.
    """
    try:
        domain = domain_of(map, True)
    except Refusal as refused:
        return Complex(str(refused))
    alone = ""
    if domain.needs_skew and not real.needs_skew:
        if domain.refuses:
            alone = domain.why
        else:
            domain = real
    known = identify(map, domain, True, places_of(map, domain, True))
    small = [place for place in known.places if np.linalg.norm(place.Q, 2) <= 1 + 1e-9]
    largest = max((defect(place.U) for place in small), default=None)
    return Complex("", known.found, largest, judge(known), alone)
