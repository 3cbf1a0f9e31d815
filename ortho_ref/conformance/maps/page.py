"""What was found of a map, as one page of text."""

import textwrap
from collections.abc import Iterator
from math import isfinite, log10
from typing import TYPE_CHECKING

import ortho_ref
from ortho_ref.conformance.maps.adapter import Precision
from ortho_ref.conformance.maps.closed import Closed
from ortho_ref.conformance.maps.gradient import ABSENT, RIGHT
from ortho_ref.conformance.maps.observe import Determinant, Seen
from ortho_ref.conformance.maps.recognise import Found
from ortho_ref.terminal import shown

if TYPE_CHECKING:
    from ortho_ref.conformance.maps.report import MapReport

_COLUMNS = 100
_SHOWN = {
    "||Q||_2": (1e-12, 1e-3, 0.1, 0.3, 1.0, 3.0, 100.0, 1e6),
    "condition number of Q": (1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e6),
}
_ALSO = 3  # formulas of the same function that are told
_UNIT = 0.05  # as far as |det U| may be from 1 to be called 1


def page(report: "MapReport") -> str:
    """The page, in lines of at most 100 characters, of any map, also of one that gave no U."""
    lines = [
        f"{shown(report.name)}: a map Q -> U, asked {report.calls:,} times; ortho_ref {ortho_ref.__version__}",
        "",
    ]
    for label, words in _rows(report):
        lines += _wrapped(f"{label:11}", words)
    if report.curves:
        lines += ["", *_table(report), ""]
    return "\n".join([*lines, *_verdict(report)])


def _wrapped(label: str, words: str) -> list[str]:
    """In lines, of which the first begins with the label, the others with as many blanks."""
    own = textwrap.wrap(shown(words), _COLUMNS - len(label), break_long_words=False, break_on_hyphens=False)
    return [f"{label if i == 0 else '':{len(label)}}{line}" for i, line in enumerate(own)]


def _rows(report: "MapReport") -> Iterator[tuple[str, str]]:
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
        yield "is", f"{first.words}; to {_digits(found.error)} digits{rounded}"
        if others:
            more = f"; and {len(others) - _ALSO} more" if len(others) > _ALSO else ""
            yield "the same:", "; ".join(other.words for other in others[:_ALSO]) + more
    elif found.nearest is not None:
        away = f"{found.away:.1e} away, more than rounding explains"
        yield "is", f"none of the closed forms; nearest is {found.nearest.words}, {away}"
    else:
        yield "is", "none of the closed forms, nor near to one"


def _digits(error: float) -> str:
    return f"{min(16.0, -log10(error)) if error > 0 else 16.0:.1f}"


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


def _of_complex(report: "MapReport") -> str:
    own = report.complex
    if own.found is None or own.gradient is None:
        return f"refused: {own.refused}"
    words = _beside_real(own.found.fitting[0], report.found) if own.found.fitting else "none of the closed forms"
    size = "" if own.defect is None else f"; defect {own.defect:.1e}, ||Q||_2 up to 1"
    alone = f"a skew-Hermitian Q ({own.alone}): " if own.alone else ""
    return f"{alone}{words}{size}; gradient {own.gradient.words}"


def _beside_real(closed: Closed, found: Found) -> str:
    """A closed form for complex Q, where it can be said by that for real Q."""
    real = found.fitting[0] if found.fitting else None
    if real is None or (real.form, real.variant, real.place) != (closed.form, closed.variant, closed.place):
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


def _table(report: "MapReport") -> list[str]:
    columns = [at for at in _SHOWN[report.over] if at in report.curves[0].at]
    wide = ", of a wide Q ||U U^H - I||_2" if any(curve.n < curve.columns for curve in report.curves) else ""
    lines = [f"defect ||U^H U - I||_2{wide}", f"{report.over:22}" + "".join(f"{at:>9g}" for at in columns)]
    for curve in report.curves:
        by_place = dict(zip(curve.at, curve.defects, strict=True))
        lines.append(f"{curve.dtype}, {curve.size}".ljust(22) + "".join(_cell(by_place.get(at)) for at in columns))
    return lines


def _cell(defect: float | None) -> str:
    return f"{'-' if defect is None else 'inf' if not isfinite(defect) else f'{defect:.0e}':>9}"


def _verdict(report: "MapReport") -> list[str]:
    if not report.problems:
        low, high = report.range
        single = report.allowed("float32")
        least = f" (float32: {single:g})" if single > report.tolerance else ""
        gradient = {RIGHT: "; its gradient is right", ABSENT: "; no gradient was given"}
        status = "" if report.gradient is None else gradient.get(report.gradient.status, "")
        size = f"{report.over} from {low:g} to {high:g}"
        return [f"passed: orthogonal for {size}, to {report.tolerance:g}{least}{status}."]
    lines = []
    for i, problem in enumerate(report.problems):
        lines += _wrapped("failed: " if i == 0 else " " * 8, problem)
    if any(": defect" in problem for problem in report.problems):
        lines.append("A map that is cut off on purpose is not wrong: --tolerance and --range say what you need.")
    return lines
