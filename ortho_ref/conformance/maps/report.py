"""What was found of a map: one page of text, JSON, and the picture."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite, log10
from typing import NamedTuple

import ortho_ref
from ortho_ref.conformance.maps.ask import Precision
from ortho_ref.conformance.maps.closed import Closed
from ortho_ref.conformance.maps.gradient import ABSENT, REFUSED, RIGHT, WRONG, Gradient
from ortho_ref.conformance.maps.observe import Determinant, Domain, Seen
from ortho_ref.conformance.maps.recognise import Found
from ortho_ref.conformance.maps.sweep import Curve
from ortho_ref.formats import plain, to_json
from ortho_ref.terminal import cut, shown

FORMAT = "ortho_ref map report 1"
#: The smallest tolerance of float32, whose rounding it is.
SINGLE = 1e-4
_COLUMNS = 100
_SHOWN = (1e-12, 1e-3, 0.1, 0.3, 1.0, 3.0, 100.0, 1e6)
_SHOWN_CONDITIONS = (1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e6)
_ALSO = 3
_UNIT = 0.05  # as far as |det U| may be from 1 to be called 1


class Complex(NamedTuple):
    """What was found for complex Q.

    Attributes
    ----------
    refused : str
        Why there is nothing; "" where there is.
    found : Found or None
        Which map it is.
    defect : float or None
        The largest for ||Q||_2 up to 1.
    gradient : Gradient or None
        Its gradient.
    alone : str
        Why all of this is of skew-Hermitian Q alone, where the map takes any real Q; "" else.
    """

    refused: str
    found: Found | None = None
    defect: float | None = None
    gradient: Gradient | None = None
    alone: str = ""


@dataclass(frozen=True)
class MapReport:
    """What `check_map` found.

    Attributes
    ----------
    name : str
        The map's.
    domain : Domain or None
        What it can be given; None where it takes nothing, as everything below then.
    precision : Precision
        What its values are rounded to, for a Q in float64.
    found : Found
        Which closed form it is.
    seen : Seen or None
        What can be seen of it.
    gradient : Gradient or None
        Its pullback's.
    complex : Complex
        What it does with complex Q.
    curves : tuple of Curve
        The defect over the size of Q.
    tolerance : float
        The largest defect that passes.
    range : pair of float
        Where.
    batched : bool
        Whether it takes batches alone.
    calls : int
        How often it was asked.
    refusal : str
        Why nothing could be found; "" else.
    judges_complex : bool
        Whether what it does with complex Q counts.
    """

    name: str
    domain: Domain | None
    precision: Precision
    found: Found
    seen: Seen | None
    gradient: Gradient | None
    complex: Complex
    curves: tuple[Curve, ...]
    tolerance: float
    range: tuple[float, float]
    batched: bool = False
    calls: int = 0
    refusal: str = ""
    judges_complex: bool = False

    @classmethod
    def refused(cls, name: str, why: str, tolerance: float, range: tuple[float, float]) -> "MapReport":
        """Of a map that gave no U at all."""
        nothing, precision = Found((), inf), Precision("float64", 2.0**-52)
        return cls(name, None, precision, nothing, None, None, Complex(why), (), tolerance, range, refusal=why)

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
        found += [f"gradient {_of_gradient(g)}" for g in [self.gradient] if g and g.status in (WRONG, REFUSED)]
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
        found += [
            f"complex Q: gradient {_of_gradient(g)}" for g in [own.gradient] if g and g.status in (WRONG, REFUSED)
        ]
        return found

    @property
    def ok(self) -> bool:
        """The defect is within the tolerance where it is judged, and no gradient is wrong."""
        return not self.problems

    @property
    def exit_code(self) -> int:
        """0 where it is `ok`, or 1."""
        return 0 if self.ok else 1

    def allowed(self, dtype: str) -> float:
        """The tolerance of a precision."""
        return max(self.tolerance, SINGLE) if dtype == "float32" else self.tolerance

    def _exceeded(self, dtype: str) -> str:
        """Where in the range a precision's curves are above the tolerance, by the worst of them; "" where nowhere."""
        limit, whole, worst = self.allowed(dtype), "", 0.0
        own = [curve for curve in self.curves if curve.dtype == dtype]
        if not any(d is not None for curve in own for d in curve.defects):
            return f"{dtype}: {own[0].refused}"
        for curve in own:
            given = [(at, d) for at, d in self._judged(curve) if d is not None]
            if given and len(given) < len(self._judged(curve)):
                return f"{dtype}, n = {curve.n}: {curve.refused}"
            at, largest = max(given, key=lambda pair: pair[1], default=(0.0, 0.0))
            if largest > max(limit, worst):
                worst, first = largest, next(place for place, d in given if d > limit)
                up_to = max((place for place, _ in given if place < first), default=None)
                where = "nowhere within it" if up_to is None else f"within it up to {up_to:g}"
                size = f"{worst:.1e}" if isfinite(worst) else "not finite"
                whole = f"{dtype}: defect {size} at {self.over} = {at:g} (n = {curve.n}), above {limit:g}; {where}"
        return whole

    def _judged(self, curve: Curve) -> list[tuple[float, float | None]]:
        low, high = self.range
        return [(at, d) for at, d in zip(curve.at, curve.defects, strict=True) if low <= at <= high]

    def __str__(self) -> str:
        """One page."""
        lines = [f"{shown(self.name)}: a map Q -> U, asked {self.calls:,} times; ortho_ref {ortho_ref.__version__}", ""]
        for label, words in self._rows():
            own = textwrap.wrap(shown(words), _COLUMNS - 11, break_long_words=False, break_on_hyphens=False)
            lines += [f"{label if i == 0 else '':11}{line}" for i, line in enumerate(own)]
        if self.curves:
            lines += ["", *self._table(), ""]
        lines += self._verdict()
        return "\n".join(lines)

    def _rows(self) -> Iterator[tuple[str, str]]:
        if self.domain is None or self.seen is None or self.gradient is None:
            return
        yield from self._which()
        also = ", as batches of one alone" if self.batched else ""
        needs = f"a skew Q ({self.domain.why})" if self.domain.needs_skew else f"any Q; reads {self.seen.reads}"
        scale = ", and not its scale" if self.seen.scale_free else ""
        yield "takes", f"{needs}{scale}{also}"
        signs = [self.seen.at_zero, self.seen.first_order, *self.seen.symmetries]
        yield "signs", "; ".join(filter(None, signs)) or "Q^T gives no U^T, and nothing else was seen"
        yield "det U", "; ".join(_grouped(self.seen.determinants))
        yield "gradient", _of_gradient(self.gradient)
        yield "batches", f"Q (3, n, n): {self.seen.batch}"
        yield "blocks", f"block-diagonal Q: {self.seen.blocks}"
        yield "complex", self._of_complex()
        yield "precision", "; ".join(self._of_precision())

    def _which(self) -> Iterator[tuple[str, str]]:
        if self.found.fitting:
            first, *others = self.found.fitting
            short = self.precision.name in ("bfloat16", "float16")
            rounded = f", as far as {self.precision.name} tells" if short else ""
            yield "is", f"{first.words}; to {_digits(self.found.error)} digits{rounded}"
            if others:
                more = f"; and {len(others) - _ALSO} more" if len(others) > _ALSO else ""
                yield "the same:", "; ".join(other.words for other in others[:_ALSO]) + more
        elif self.found.nearest is not None:
            away = f"{self.found.away:.1e} away, more than rounding explains"
            yield "is", f"none of the closed forms; nearest is {self.found.nearest.words}, {away}"
        else:
            yield "is", "none of the closed forms, nor near to one"

    def _of_complex(self) -> str:
        own = self.complex
        if own.refused:
            return f"refused: {own.refused}"
        assert own.found is not None
        assert own.gradient is not None
        fitting = own.found.fitting
        words = self._beside_real(fitting[0]) if fitting else "none of the closed forms"
        size = "" if own.defect is None else f"; defect {own.defect:.1e}, ||Q||_2 up to 1"
        alone = f"a skew-Hermitian Q ({own.alone}): " if own.alone else ""
        return f"{alone}{words}{size}; gradient {_of_gradient(own.gradient)}"

    def _beside_real(self, closed: Closed) -> str:
        """A closed form for complex Q, where it can be said by that for real Q."""
        real = self.found.fitting[0] if self.found.fitting else None
        if real is None or (real.form, real.variant, real.place) != (closed.form, closed.variant, closed.place):
            return closed.words
        return "the same" if real.reading == closed.reading else f"the same, A = {closed.reading.words}"

    def _of_precision(self) -> Iterator[str]:
        assert self.seen is not None
        if self.precision.name != "float64":
            yield f"the values are {self.precision.name}'s, for a Q in float64"
        if self.seen.single is None:
            yield "no U of a Q in float32"
        else:
            away = "another map: " if self.seen.single > 0.1 else ""
            yield f"of a Q in float32, {away}U is {self.seen.single:.1e} away from that in float64"

    def _table(self) -> list[str]:
        wanted = _SHOWN_CONDITIONS if self.over != "||Q||_2" else _SHOWN
        columns = [at for at in wanted if at in self.curves[0].at]
        lines = ["defect ||U^H U - I||_2", f"{self.over:22}" + "".join(f"{at:>9g}" for at in columns)]
        for curve in self.curves:
            by_place = dict(zip(curve.at, curve.defects, strict=True))
            lines.append(f"{curve.dtype}, n = {curve.n:<7}".ljust(22) + "".join(map(_cell, map(by_place.get, columns))))
        return lines

    def _verdict(self) -> list[str]:
        low, high = self.range
        problems = self.problems
        if not problems:
            single = self.allowed("float32")
            least = f" (float32: {single:g})" if single > self.tolerance else ""
            gradient = {RIGHT: "; its gradient is right", ABSENT: "; no gradient was given"}
            status = "" if self.gradient is None else gradient.get(self.gradient.status, "")
            return [
                f"passed: orthogonal for {self.over} from {low:g} to {high:g}, to {self.tolerance:g}{least}{status}."
            ]
        lines = []
        for i, problem in enumerate(problems):
            label = "failed: " if i == 0 else ""
            own = textwrap.wrap(shown(problem), _COLUMNS - 8, break_long_words=False)
            lines += [f"{label if j == 0 else '':8}{line}" for j, line in enumerate(own)]
        if any(": defect" in problem for problem in problems):
            lines.append("A map that is cut off on purpose is not wrong: --tolerance and --range say what you need.")
        return lines

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
                "is": [] if self.complex.found is None else [c.words for c in self.complex.found.fitting],
                "defect": self.complex.defect,
                "gradient": self.complex.gradient,
            },
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


def _of_gradient(gradient: Gradient) -> str:
    sizes = [
        f"{size:.1e} from {what}"
        for size, what in ((gradient.differences, "differences"), (gradient.closed, "the closed form's"))
        if size is not None
    ]
    single = "" if gradient.single is None else f"; in float32 {gradient.single:.1e} away"
    how = f", {gradient.convention}" if gradient.convention and gradient.status == RIGHT else ""
    remark = f"; {gradient.remark}" if gradient.remark else ""
    return f"{gradient.status}{how}{': ' if sizes else ''}{', '.join(sizes)}{single}{remark}"


def _grouped(determinants: dict[str, Determinant]) -> list[str]:
    """The same words once, with the n that they are of."""
    given = [own for own in determinants.values() if not own.refused]
    unit = all(abs(size - 1) <= _UNIT for own in given for size in (own.least, own.largest))
    between = f"|det U| {min(o.least for o in given):.1g} to {max(o.largest for o in given):.1g}" if given else ""
    groups: dict[str, list[str]] = {}
    for n, own in determinants.items():
        words = f"refused: {own.refused}" if own.refused else _signs(own.signs) if unit else between
        groups.setdefault(words, []).append(n)
    if len(groups) == 1:
        words, sizes = next(iter(groups.items()))
        return [f"{words} (n = {sizes[0]} to {sizes[-1]})"]
    return [f"{words} (n = {', '.join(sizes)})" for words, sizes in groups.items()]


def _signs(signs: tuple[float, ...]) -> str:
    return " and ".join(f"{sign:+.0f}" for sign in sorted(signs, reverse=True))


def _digits(error: float) -> str:
    return f"{min(16.0, -log10(error)) if error > 0 else 16.0:.1f}"


def _cell(defect: float | None) -> str:
    return f"{'-' if defect is None else 'inf' if not isfinite(defect) else f'{defect:.0e}':>9}"
