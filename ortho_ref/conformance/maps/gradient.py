"""Is a map's pullback right?  Along random directions, beside differences of the map and beside its closed form's.

L = Re sum(conj(dU) * U), dL/dQ = dL/dRe + i dL/dIm.  Differences are central, of fourth order; in a map that rounds to
less than double precision they see its rounding, and the closed form's derivative alone judges.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from ortho_ref.backend import Array
from ortho_ref.conformance.maps.adapter import Map, Refusal, precision_of
from ortho_ref.conformance.maps.closed import Closed, derivative, difference, quiet
from ortho_ref.conformance.maps.inputs import conditioned, skew_matrix, standard
from ortho_ref.conformance.maps.observe import Domain
from ortho_ref.conformance.maps.recognise import Known

RIGHT, WRONG, ABSENT, REFUSED, OPEN = "right", "wrong", "none given", "refused", "not judged"
#: The largest error that passes, relative to the largest derivative, by the precision of values and gradient.
TOLERANCES = {"float64": 1e-7, "float32": 1e-3}
_COARSE, _HALF = 0.1, ("float16", "bfloat16")
_DIRECTIONS = 12


class Gradient(Struct, frozen=True, forbid_unknown_fields=True):
    """What was found of a gradient."""

    status: str  # one of the above
    differences: float | None = None  # how far from differences of the map; None where that was not compared
    closed: float | None = None  # how far from its closed form's derivative
    convention: str = ""  # by what it is the derivative
    remark: str = ""  # what else to say
    single: float | None = None  # in single precision how far from that in double, relative to its largest entry

    @property
    def words(self) -> str:
        """All of it in one line, the status first."""
        how = f", {self.convention}" if self.convention and self.status == RIGHT else ""
        beside = ((self.differences, "differences"), (self.closed, "the closed form's"))
        sizes = ", ".join(f"{size:.1e} from {what}" for size, what in beside if size is not None)
        single = "" if self.single is None else f"; in float32 {self.single:.1e} away"
        remark = f"; {self.remark}" if self.remark else ""
        return f"{self.status}{how}{': ' if sizes else ''}{sizes}{single}{remark}"

    @property
    def is_wrong(self) -> bool:
        """Whether there is one that is none."""
        return self.status in (WRONG, REFUSED)


def judge(known: Known, shape: tuple[int, int] = (5, 5)) -> Gradient:
    """Whether a map's pullback is right at a Q of this shape, which is square where the map needs a skew one."""
    rng = np.random.default_rng(6)
    n, columns = shape
    if known.domain.needs_skew:
        Q = skew_matrix(rng, n, 0.7, known.of_complex)
    else:
        Q = 0.7 * conditioned(rng, n, 3.0, known.of_complex, columns)
    dU = standard(rng, Q.shape, known.of_complex)
    try:
        G = known.map.pullback(Q, dU)
        if G is None:
            return Gradient(ABSENT)
        if not np.isfinite(G).all():
            return Gradient(WRONG, remark="it is not finite")
        return _judged(known, Q, dU, G)
    except Refusal as refused:
        return Gradient(REFUSED, remark=str(refused))


def _judged(known: Known, Q: Array, dU: Array, G: Array) -> Gradient:
    map, closed, precision = known.map, known.closed, known.precision
    coarser = max(precision, precision_of(G), key=lambda p: p.eps)
    tolerance = TOLERANCES.get(coarser.name, _COARSE)
    exact = precision.name == "float64"
    if not exact and closed is None:
        return Gradient(OPEN, remark=f"the map rounds to {precision.name}, and is no closed form of the list")
    wide = G.astype(np.complex128 if Q.dtype.kind == "c" else np.float64)
    first: Gradient | None = None
    for words, skew, factor in _conventions(known.domain, wide):
        directions = _directions(Q, skew)
        by_map = np.array([_slope(map, Q, E, dU) for E in directions]) if exact else None
        by_form = None if closed is None else _slopes(closed, map, Q, dU, directions)
        right = by_map if exact else by_form
        assert right is not None
        own = factor * _along(wide, directions)
        beside, closely = (None if slopes is None else _away(own, slopes) for slopes in (by_map, by_form))
        if _away(own, right) <= tolerance and (closely is None or closely <= max(tolerance, 1e-6)):
            return Gradient(RIGHT, beside, closely, words, single=_single(map, Q, dU, wide))
        if first is None:
            remark, status = _looks(wide, directions, right, tolerance), WRONG
            if coarser.name in _HALF and "0 throughout" not in remark:
                remark, status = f"{coarser.name} is too coarse to tell", OPEN
            first = Gradient(status, beside, closely, words, remark)
    assert first is not None
    return first


def _conventions(domain: Domain, G: Array) -> Iterator[tuple[str, bool, float]]:
    """By what a gradient may be the derivative: words, whether along skew directions alone, times what."""
    if not domain.needs_skew or not domain.refuses:
        yield "by every entry of Q", False, 1.0
    if domain.needs_skew:
        is_skew = bool(abs(G + G.conj().T).max() <= 1e-6 * abs(G).max())
        yield "along skew Q, and itself skew" if is_skew else "along skew Q", True, 1.0
        if is_skew and G.dtype.kind != "c":
            yield "by the entries above the diagonal, Q_ij = -Q_ji", True, 0.5


def _directions(Q: Array, skew: bool) -> list[Array]:
    rng, n, of_complex = np.random.default_rng(7), len(Q), Q.dtype.kind == "c"
    return [
        skew_matrix(rng, n, 1.0, of_complex) if skew else standard(rng, Q.shape, of_complex) / n
        for _ in range(_DIRECTIONS)
    ]


def _slopes(closed: Closed, map: Map, Q: Array, dU: Array, directions: list[Array]) -> Array:
    """By the closed form."""
    base = map(np.zeros_like(Q)) if "map(0)" in closed.place else None
    with quiet():
        return np.array([_inner(dU, derivative(closed, Q, E, base)) for E in directions])


def _slope(map: Map, Q: Array, E: Array, dU: Array) -> float:
    return float(difference(lambda h: _inner(dU, map(Q + h * E) - map(Q - h * E))))


def _inner(a: Array, b: Array) -> float:
    return float((a.conj() * b).sum().real)


def _along(G: Array, directions: list[Array]) -> Array:
    return np.array([_inner(G, E) for E in directions])


def _away(given: Array, known: Array) -> float:
    largest = float(abs(known).max())
    away = float(abs(given - known).max()) / largest if largest != 0 else float(abs(given).max())
    return away if np.isfinite(away) else float("inf")


def _looks(G: Array, directions: list[Array], known: Array, tolerance: float) -> str:
    """What a wrong gradient is of the right one."""
    if not abs(G).max() > 0:
        return "it is 0 throughout"
    candidates = {"": G, "transposed": G.T, "conjugated": G.conj(), "conjugated and transposed": G.conj().T}
    for words, other in candidates.items():
        if other.shape != G.shape:
            continue
        own = _along(other, directions)
        factor = float(own @ known / (known @ known))
        if factor == 0 or _away(own / factor, known) > 10 * tolerance:
            continue
        times = "" if abs(factor - 1) < 1e-3 else f"{factor:.3g} times what it should be"
        return f"it is {' and '.join(filter(None, (times, words)))}"
    return ""


def _single(map: Map, Q: Array, dU: Array, wide: Array) -> float | None:
    """The gradient in single precision beside that in double, where U is the same."""
    single = np.complex64 if Q.dtype.kind == "c" else np.float32
    try:
        if not abs(map(Q.astype(single)) - map(Q)).max() <= _COARSE:
            return None
        G = map.pullback(Q.astype(single), dU.astype(single))
    except Refusal:
        return None
    if G is None or not np.isfinite(G).all():
        return None
    return float(abs(G - wide).max() / abs(wide).max())
