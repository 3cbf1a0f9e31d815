"""What was found of a map, what of it is wrong, and all of it as JSON; `page` writes it, `picture` draws it."""

from dataclasses import dataclass
from math import inf, isfinite
from typing import NamedTuple

import ortho_ref
from ortho_ref.conformance.maps.adapter import Precision
from ortho_ref.conformance.maps.gradient import REFUSED, WRONG, Gradient
from ortho_ref.conformance.maps.observe import Domain, Seen
from ortho_ref.conformance.maps.recognise import Found
from ortho_ref.conformance.maps.rectangular import Rectangular
from ortho_ref.conformance.maps.sweep import Curve
from ortho_ref.formats import plain, to_json
from ortho_ref.terminal import cut

FORMAT = "ortho_ref map report 1"
#: The smallest tolerance of float32, whose rounding it is.
SINGLE = 1e-4


class Complex(NamedTuple):
    """What was found for complex Q."""

    refused: str  # why there is nothing; "" where there is
    found: Found | None = None  # which map it is
    defect: float | None = None  # the largest for ||Q||_2 up to 1
    gradient: Gradient | None = None
    alone: str = ""  # why all of this is of skew-Hermitian Q alone, where the map takes any real Q


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
    rectangular : list of Rectangular
        What it does with tall Q and with wide ones.
    curves : tuple of Curve
        The defect over the size of Q, tall and wide ones after the square.
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
    rectangular: list[Rectangular]
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
        nothing, precision = Found((), inf), Precision()
        return cls(name, None, precision, nothing, None, None, Complex(why), [], (), tolerance, range, refusal=why)

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
        found += [f"{what} {own.words}" for what, own in given.items() if own and own.status in (WRONG, REFUSED)]
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
        found += [f"complex Q: gradient {g.words}" for g in [own.gradient] if g and g.status in (WRONG, REFUSED)]
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
                return f"{dtype}, {curve.size}: {curve.refused}"
            at, largest = max(given, key=lambda pair: pair[1], default=(0.0, 0.0))
            if largest > max(limit, worst):
                worst, first = largest, next(place for place, d in given if d > limit)
                up_to = max((place for place, _ in given if place < first), default=None)
                where = "nowhere within it" if up_to is None else f"within it up to {up_to:g}"
                size = f"{worst:.1e}" if isfinite(worst) else "not finite"
                whole = f"{dtype}: defect {size} at {self.over} = {at:g} ({curve.size}), above {limit:g}; {where}"
        return whole

    def _judged(self, curve: Curve) -> list[tuple[float, float | None]]:
        low, high = self.range
        return [(at, d) for at, d in zip(curve.at, curve.defects, strict=True) if low <= at <= high]

    def __str__(self) -> str:
        """One page."""
        from ortho_ref.conformance.maps.page import page

        return page(self)

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
