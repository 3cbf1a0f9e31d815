"""Which closed form a map is: every one of `forms`, of every reading of Q, beside what the map gives.

A form is named where it agrees at every place that the map was asked, as far as rounding explains: by a multiple of
the precision of the map's values, and of how far the form itself moves when Q is moved by so much.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, product
from math import inf
from typing import NamedTuple, TypeAlias

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.conformance.maps.adapter import Map, Precision, precision_of
from ortho_ref.conformance.maps.closed import (
    AS_IT_IS,
    LEFT,
    NEGATED,
    OF_TRANSPOSED,
    READINGS,
    RIGHT,
    TRANSPOSED,
    Closed,
    placed,
    quiet,
)
from ortho_ref.conformance.maps.forms import MATRICES, SERIES, Form
from ortho_ref.conformance.maps.inputs import any_matrix, defect
from ortho_ref.conformance.maps.observe import Domain

#: n and ||Q||_2 of the places where a map is compared with the closed forms; no tile divides the last n.
_PLACES = ((4, 1.0), (5, 0.3), (5, 4.0), (37, 1.0))
_SPREAD = (1.0, 0.1, 1e-2, 1e-3, 1e-4)
#: Roundings that are no difference, in units of eps: fewer in a format so short that everything would fit.
_ROUNDINGS = {"float64": 50.0, "float32": 30.0}
_FEW_ROUNDINGS = 10.0
_ALIKE = 4.0  # times the smallest error: as good
_NEAR = 0.1  # a form that is nearest is told where it is not further off than this
#: A form's name, its reading's words, and its place.
_Kind: TypeAlias = tuple[str, str, str]


class Place(NamedTuple):
    """Where a map was asked."""

    Q: Array
    U: Array  # what the map was given, and gave
    base: Array | None  # map(0), where that is something else than I


class Found(NamedTuple):
    """What a map was recognised as."""

    fitting: tuple[Closed, ...] = ()  # what it equals, the one to be named first; formulas of the same function
    error: float = inf  # how far from the first at most, relative to the largest entry and at least 1; inf: none
    nearest: Closed | None = None  # where none fits: the one that is least far off, if it is near at all
    away: float = inf  # how far that is


class Known(NamedTuple):
    """What is known of a map of real matrices, or of complex ones."""

    map: Map
    domain: Domain
    of_complex: bool
    places: list[Place]
    precision: Precision
    found: Found
    closed: Closed | None  # what it equals, where that holds for every Q that the gradient's directions lead to


def identify(map: Map, domain: Domain, of_complex: bool, places: list[Place]) -> Known:
    """Which map it is; of one that needs skew Q first of all Q, which says how it goes on beyond them."""
    precision = precision_at(places)
    beyond = domain.needs_skew and not domain.refuses
    found, everywhere = Found(), True
    if beyond:
        found = recognise(places_of(map, domain._replace(make=any_matrix), of_complex), precision, False)
    if not found.fitting:
        found, everywhere = recognise(places, precision, domain.needs_skew), not beyond
    closed = found.fitting[0] if found.fitting and everywhere else None
    return Known(map, domain, of_complex, places, precision, found, closed)


def places_of(map: Map, domain: Domain, of_complex: bool) -> list[Place]:
    """Where it is compared with the closed forms; those that it refuses are left out."""
    rng = np.random.default_rng(0)
    asked = [domain.make(rng, n, size, of_complex) for n, size in _PLACES]
    if not domain.needs_skew:  # what an iteration makes of each singular value, in whatever precision
        asked.append(np.diag(_SPREAD).astype(asked[0].dtype))
    given = [(Q, map.or_none(Q)) for Q in asked]
    return [Place(Q, U, _base(map, Q)) for Q, U in given if U is not None]


def precision_at(places: Sequence[Place]) -> Precision:
    """Of what a map gave there."""
    values = [place.U.ravel() for place in places]
    return precision_of(np.concatenate(values)) if values else Precision()


def _base(map: Map, Q: Array) -> Array | None:
    """map(0), where it is orthogonal and not I."""
    U = map.or_none(np.zeros_like(Q))
    return None if U is None or defect(U) > 0.1 or abs(U - np.eye(len(U))).max() <= 1e-12 else U


class _Error(NamedTuple):
    size: float
    allowed: float


def recognise(places: Sequence[Place], precision: Precision, skew: bool) -> Found:
    """What a map is: what fits at all places, best of several sizes of Q and of n, where the map is finite.

    skew: whether all Q are skew: then how Q is read cannot be told.
    """
    finite = [place for place in places if np.isfinite(place.U).all()]
    every: dict[Closed, list[_Error]] = {}
    near: set[_Kind] | None = None  # the forms of which one variant is still near
    with quiet():
        for i, place in enumerate(finite):
            still = set()
            for closed, error in _errors(place, precision, skew, near):
                if (i == 0 or closed in every) and error.size <= max(_NEAR, error.allowed):
                    every.setdefault(closed, []).append(error)
                    still.add((closed.form.name, closed.reading.words, closed.place))
            near = still
    whole = {closed: errors for closed, errors in every.items() if len(errors) == len(finite) > 0}
    sizes = {closed: max(error.size for error in errors) for closed, errors in whole.items()}
    fitting = [closed for closed, errors in whole.items() if all(e.size <= e.allowed for e in errors)]
    if fitting:
        least = max(_ALIKE * min(sizes[closed] for closed in fitting), 8 * precision.eps)
        best: dict[tuple[object, ...], Closed] = {}
        for closed in fitting:
            if sizes[closed] <= least:  # of a form with more than one thing around it, the first
                best.setdefault(closed[:3], closed)
        first = next(iter(best.values()))
        return Found(tuple(best.values()), sizes[first])
    nearest = min(sizes, key=lambda closed: sizes[closed], default=None)
    return Found() if nearest is None else Found(nearest=nearest, away=sizes[nearest])


def _errors(
    place: Place, precision: Precision, skew: bool, among: set[_Kind] | None
) -> Iterator[tuple[Closed, _Error]]:
    """How far each of the closed forms is from what the map gave at a place."""
    turned = np.where(np.random.default_rng(0).random(place.Q.shape) < 0.5, -1.0, 1.0)
    near = place.Q * (1 + precision.eps * turned)
    near = (near - near.conj().T) / 2 if skew else near
    roundings = _ROUNDINGS.get(precision.name, _FEW_ROUNDINGS)
    for closed, value, moved in _candidates(place, near, skew, among):
        scale = max(1.0, float(abs(place.U).max()))
        size = float(abs(value - place.U).max()) / scale
        allowed = roundings * (precision.eps + float(abs(moved - value).max()) / scale)
        if np.isfinite(size):
            yield closed, _Error(size, allowed if np.isfinite(allowed) else 0.0)


def _candidates(
    place: Place, near: Array, skew: bool, among: set[_Kind] | None
) -> Iterator[tuple[Closed, Array, Array]]:
    """The closed forms at a place and near it."""
    # of a skew Q, all readings are Q itself or twice it
    read = [AS_IT_IS] if skew else [own for own in READINGS if place.Q.dtype.kind == "c" or not own.of_complex]
    series = product(SERIES, read, ("",) if place.base is None else (RIGHT, LEFT))
    matrices = product(MATRICES, [AS_IT_IS], ("", TRANSPOSED, OF_TRANSPOSED, NEGATED))
    for form, reading, where in chain(series, matrices):
        if among is None or (form.name, reading.words, where) in among:
            (X, after), (Y, _) = placed(where, place.Q, place.base), placed(where, near, place.base)
            for variant, value, moved in _both(form, reading.of(X), reading.of(Y)):
                yield Closed(form, variant, reading, where), after(value), after(moved)


def _both(form: Form, X: Array, Y: Array) -> Iterator[tuple[str, Array, Array]]:
    """The variants of a form at two matrices, as far as it has them."""
    at, beside = form.values(X), form.values(Y)
    while True:
        try:
            (variant, value), (_, moved) = next(at), next(beside)
        except (StopIteration, ValueError, np.linalg.LinAlgError):
            return
        yield variant, value, moved
