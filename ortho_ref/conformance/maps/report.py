"""What was found of a map, what of it is wrong, as one page of text and as JSON; `picture` draws it."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, log10
from typing import Any, NamedTuple

import ortho_ref
from ortho_ref.conformance.maps.adapter import Precision
from ortho_ref.conformance.maps.closed import Closed
from ortho_ref.conformance.maps.gradient import ABSENT, RIGHT, Gradient
from ortho_ref.conformance.maps.observe import Determinant, Domain, Seen
from ortho_ref.conformance.maps.recognise import Found
from ortho_ref.conformance.maps.rectangular import Rectangular
from ortho_ref.conformance.maps.sweep import Curve
from ortho_ref.formats import plain, to_json
from ortho_ref.terminal import cut, shown

FORMAT = "ortho_ref map report 1"
#: The smallest tolerance of float32, whose rounding it is.
SINGLE = 1e-4
_COLUMNS = 100
_SHOWN = {
    "||Q||_2": (1e-12, 1e-3, 0.1, 0.3, 1.0, 3.0, 100.0, 1e6),
    "condition number of Q": (1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e6),
}
_ALSO = 3  # formulas of the same function that are told
_UNIT = 0.05  # as far as |det U| may be from 1 to be called 1


class Complex(NamedTuple):
    """What was found for complex Q."""

    refused: str  # why there is nothing; "" where there is
    found: Found = Found()  # which map it is
    defect: float | None = None  # the largest for ||Q||_2 up to 1
    gradient: Gradient | None = None
    alone: str = ""  # why all of this is of skew-Hermitian Q alone, where the map takes any real Q


@dataclass(frozen=True)
class MapReport:
    """What `check_map` found."""

    name: str  #: the map's
    domain: Domain | None  #: what it can be given; None where it takes nothing, as everything below then
    precision: Precision  #: what its values are rounded to, for a Q in float64
    found: Found  #: which closed form it is
    seen: Seen | None  #: what can be seen of it
    gradient: Gradient | None  #: its pullback's
    complex: Complex  #: what it does with complex Q
    rectangular: list[Rectangular]  #: what it does with tall Q and with wide ones
    curves: tuple[Curve, ...]  #: the defect over the size of Q, tall and wide ones after the square
    tolerance: float  #: the largest defect that passes
    range: tuple[float, float]  #: where
    batched: bool = False  #: whether it takes batches alone
    calls: int = 0  #: how often it was asked
    refusal: str = ""  #: why nothing could be found; "" else
    judges_complex: bool = False  #: whether what it does with complex Q counts

    @property
    def over(self) -> str:
        """What the defect is taken over."""
        return "condition number of Q" if self.seen is not None and self.seen.scale_free else "||Q||_2"

    @property
    def problems(self) -> list[str]:
        """Why it is not `ok`, each in a line."""
        if self.refusal:
            return [f"gives no U: {self.refusal}"]
        assert self.seen is not None
        found = [self._exceeded(dtype) for dtype in dict.fromkeys(curve.dtype for curve in self.curves)]
        given = {"gradient": self.gradient, **{f"{own.kind} Q: gradient": own.gradient for own in self.rectangular}}
        found += [f"{what} {own.words}" for what, own in given.items() if own and own.is_wrong]
        if "another" in self.seen.batch:
            found.append(f"batches: {self.seen.batch}")
        if self.seen.keeps_state:
            found.append("the same Q gave another U the second time: it keeps state, or is random")
        if self.judges_complex:
            found += self._complex_problems()
        return [line for line in found if line]

    def _complex_problems(self) -> list[str]:
        own = self.complex
        if own.refused:
            return [f"complex Q: refused: {own.refused}"]
        found = [f"complex Q: a skew-Hermitian one alone, {own.alone}"] if own.alone else []
        if own.defect is None or not own.defect <= self.tolerance:
            size = "no U for ||Q||_2 up to 1" if own.defect is None else f"defect {own.defect:.1e}"
            found.append(f"complex Q: {size}; allowed: {self.tolerance:g}")
        if own.gradient is not None and own.gradient.is_wrong:
            found.append(f"complex Q: gradient {own.gradient.words}")
        return found

    @property
    def ok(self) -> bool:
        """The defect is within the tolerance where it is judged, and no gradient is wrong."""
        return not self.problems

    def allowed(self, dtype: str) -> float:
        """The tolerance of a precision."""
        return max(self.tolerance, SINGLE) if dtype == "float32" else self.tolerance

    def _exceeded(self, dtype: str) -> str:
        """Where in the range a precision's curves are above the tolerance, by the worst of them; "" where nowhere."""
        (low, high), limit, whole, worst = self.range, self.allowed(dtype), "", 0.0
        own = [curve for curve in self.curves if curve.dtype == dtype]
        if not any(d is not None for curve in own for d in curve.defects):
            return f"{dtype}: {own[0].refused}"
        for curve in own:
            judged = [place for place in zip(curve.at, curve.defects, strict=True) if low <= place[0] <= high]
            given = [(at, d) for at, d in judged if d is not None]
            if given and len(given) < len(judged):
                return f"{dtype}, {curve.size}: {curve.refused}"
            at, largest = max(given, key=lambda pair: pair[1], default=(0.0, 0.0))
            if largest > max(limit, worst):
                worst, first = largest, next(place for place, d in given if d > limit)
                up_to = max((place for place, _ in given if place < first), default=None)
                where = "nowhere within it" if up_to is None else f"within it up to {up_to:g}"
                size = f"{worst:.1e}" if isfinite(worst) else "not finite"
                whole = f"{dtype}: defect {size} at {self.over} = {at:g} ({curve.size}), above {limit:g}; {where}"
        return whole

    def __str__(self) -> str:
        """One page, in lines of at most 100 characters, also of a map that gave no U."""
        asked = f"asked {self.calls:,} times; ortho_ref {ortho_ref.__version__}"
        lines = [f"{shown(self.name)}: a map Q -> U, {asked}", ""]
        for label, words in _rows(self):
            lines += _wrapped(f"{label:11}", words)
        if self.curves:
            lines += ["", *_table(self), ""]
        return "\n".join([*lines, *_verdict(self)])

    def as_json(self) -> str:
        """The whole report; numbers that are not finite as null."""
        document = {
            "format": FORMAT,
            "kit": ortho_ref.__version__,
            "name": cut(self.name),
            "ok": self.ok,
            "problems": self.problems,
            "refused": self.refusal,
            "calls": self.calls,
            "is": [closed.words for closed in self.found.fitting],
            "error": self.found.error,
            "nearest": None if self.found.nearest is None else self.found.nearest.words,
            "away": self.found.away,
            "needs_skew": self.domain is not None and self.domain.needs_skew,
            "precision": self.precision.name,
            "batches_alone": self.batched,
            "seen": self.seen,
            "gradient": self.gradient,
            "complex": {
                "refused": self.complex.refused,
                "skew_alone": self.complex.alone,
                "is": [closed.words for closed in self.complex.found.fitting],
                "defect": self.complex.defect,
                "gradient": self.complex.gradient,
            },
            "rectangular": self.rectangular,
            "tolerance": self.tolerance,
            "over": self.over,
            "range": self.range,
            "curves": self.curves,
        }
        return to_json(plain(document), 1)

    def svg(self) -> str:
        """The defect over the size of Q, as a picture.  ValueError where the map gave none."""
        from ortho_ref.conformance.maps.picture import picture

        return picture(self)


def _wrapped(label: str, words: str) -> list[str]:
    """In lines, of which the first begins with the label, the others with as many blanks."""
    indents: Any = {"initial_indent": label, "subsequent_indent": " " * len(label)}
    return textwrap.wrap(shown(words), _COLUMNS, break_long_words=False, break_on_hyphens=False, **indents)


def _rows(report: MapReport) -> Iterator[tuple[str, str]]:
    domain, seen, gradient = report.domain, report.seen, report.gradient
    if domain is None or seen is None or gradient is None:
        return
    yield from _which(report.found, report.precision)
    also = ", as batches of one alone" if report.batched else ""
    needs = f"a skew Q ({domain.why})" if domain.needs_skew else f"any Q; reads {seen.reads}"
    scale = ", and not its scale" if seen.scale_free else ""
    yield "takes", f"{needs}{scale}{also}"
    for own in report.rectangular:
        yield own.kind, own.words
    signs = [seen.at_zero, seen.first_order, *seen.symmetries]
    yield "signs", "; ".join(filter(None, signs)) or "Q^T gives no U^T, and nothing else was seen"
    yield "det U", "; ".join(_grouped(seen.determinants))
    yield "gradient", gradient.words
    yield "batches", f"Q (3, n, n): {seen.batch}"
    yield "blocks", f"block-diagonal Q: {seen.blocks}"
    yield "complex", _of_complex(report)
    yield "precision", "; ".join(_of_precision(seen, report.precision))


def _which(found: Found, precision: Precision) -> Iterator[tuple[str, str]]:
    if found.fitting:
        first, *others = found.fitting
        rounded = f", as far as {precision.name} tells" if precision.name in ("bfloat16", "float16") else ""
        yield "is", f"{first.words}; to {-log10(max(found.error, 1e-16)):.1f} digits{rounded}"
        if others:
            more = f"; and {len(others) - _ALSO} more" if len(others) > _ALSO else ""
            yield "the same:", "; ".join(other.words for other in others[:_ALSO]) + more
    elif found.nearest is not None:
        away = f"{found.away:.1e} away, more than rounding explains"
        yield "is", f"none of the closed forms; nearest is {found.nearest.words}, {away}"
    else:
        yield "is", "none of the closed forms, nor near to one"


def _grouped(determinants: dict[str, Determinant]) -> list[str]:
    """The same words once, with the n that they are of."""
    given = [own for own in determinants.values() if not own.refused]
    unit = all(abs(size - 1) <= _UNIT for own in given for size in (own.least, own.largest))
    between = f"|det U| {min(o.least for o in given):.1g} to {max(o.largest for o in given):.1g}" if given else ""
    groups: dict[str, list[str]] = {}
    for n, own in determinants.items():
        signs = " and ".join(f"{sign:+.0f}" for sign in sorted(own.signs, reverse=True))
        words = f"refused: {own.refused}" if own.refused else signs if unit else between
        groups.setdefault(words, []).append(n)
    if len(groups) == 1:
        words, sizes = next(iter(groups.items()))
        return [f"{words} (n = {sizes[0]} to {sizes[-1]})"]
    return [f"{words} (n = {', '.join(sizes)})" for words, sizes in groups.items()]


def _of_complex(report: MapReport) -> str:
    own = report.complex
    if own.gradient is None:
        return f"refused: {own.refused}"
    words = _beside_real(own.found.fitting[0], report.found) if own.found.fitting else "none of the closed forms"
    size = "" if own.defect is None else f"; defect {own.defect:.1e}, ||Q||_2 up to 1"
    alone = f"a skew-Hermitian Q ({own.alone}): " if own.alone else ""
    return f"{alone}{words}{size}; gradient {own.gradient.words}"


def _beside_real(closed: Closed, found: Found) -> str:
    """A closed form for complex Q, where it can be said by that for real Q."""
    real = found.fitting[0] if found.fitting else None
    if real is None or closed._replace(reading=real.reading) != real:
        return closed.words
    return "the same" if real.reading == closed.reading else f"the same, A = {closed.reading.words}"


def _of_precision(seen: Seen, precision: Precision) -> Iterator[str]:
    if precision.name != "float64":
        yield f"the values are {precision.name}'s, for a Q in float64"
    if seen.single is None:
        yield "no U of a Q in float32"
    else:
        away = "another map: " if seen.single > 0.1 else ""
        yield f"of a Q in float32, {away}U is {seen.single:.1e} away from that in float64"


def _table(report: MapReport) -> list[str]:
    columns = [at for at in _SHOWN[report.over] if at in report.curves[0].at]
    wide = ", of a wide Q ||U U^H - I||_2" if any(curve.n < curve.columns for curve in report.curves) else ""
    lines = [f"defect ||U^H U - I||_2{wide}", f"{report.over:22}" + "".join(f"{at:>9g}" for at in columns)]
    for curve in report.curves:
        by_place = dict(zip(curve.at, curve.defects, strict=True))
        cells = ["-" if d is None else f"{d:.0e}" for d in map(by_place.get, columns)]
        lines.append(f"{curve.dtype}, {curve.size}".ljust(22) + "".join(f"{cell:>9}" for cell in cells))
    return lines


def _verdict(report: MapReport) -> list[str]:
    if not report.problems:
        low, high = report.range
        single = report.allowed("float32")
        least = f" (float32: {single:g})" if single > report.tolerance else ""
        gradient = {RIGHT: "; its gradient is right", ABSENT: "; no gradient was given"}
        status = "" if report.gradient is None else gradient.get(report.gradient.status, "")
        size = f"{report.over} from {low:g} to {high:g}"
        return [f"passed: orthogonal for {size}, to {report.tolerance:g}{least}{status}."]
    lines: list[str] = []
    for problem in report.problems:
        lines += _wrapped("        " if lines else "failed: ", problem)
    if any(": defect" in problem for problem in report.problems):
        lines.append("A map that is cut off on purpose is not wrong: --tolerance and --range say what you need.")
    return lines
