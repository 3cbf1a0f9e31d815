"""What came of a use: it survived, was refused, or is wrong."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

SURVIVED, REFUSED, WRONG = "survived", "refused", "wrong"
#: Characters that a refusal may have.
LONGEST = 2100
#: Lines on stderr that may come before: of a run that goes (`scripts.grid.run`, `scripts.train`), of `evaluate`.
_GOES = re.compile(
    r"(\d+/\d+ +)?loss .*|[\d.]+ steps/s *|\S+ \S+ [━╸╺ ]+ +\d+/\d+ [-:\d]+ *|"  # a line of metrics; the bar at its end
    r"stopping after this update; .*|SIG\w+: saved after .*|python -m .*|note: .*|\S+, n = \d+, .*|\s*|"
    r"made: words; .*|licence: .*|archive [━╸╺]+ .*"  # of `scripts.data fetch`
)


@dataclass(frozen=True)
class Verdict:
    """What came of a use, and why it is called so."""

    kind: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.why}" if self.why else self.kind


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several uses: wrong before refused before survived."""
    return max(verdicts, key=lambda verdict: (SURVIVED, REFUSED, WRONG).index(verdict.kind))


def judge(
    end: dict[str, Any],
    difference: Callable[[], str],
    names: Iterable[str] = (),
    *,
    goes: bool = False,
    codes: Iterable[int] = (2,),
) -> Verdict:
    """The verdict on a process.

    end: as `Forks.run` gives it.
    difference: asked after exit code 0; in what the result is another than the untouched one's, or "".
    names: of these a refusal has to name one.
    goes: lines of progress may stand before the refusal.
    codes: of a refusal.
    """
    if problem := _misbehaved(end):
        return Verdict(WRONG, problem)
    if end["code"] == 0:
        other = difference()
        return Verdict(WRONG, f"exit code 0, and {other}") if other else Verdict(SURVIVED)
    if end["code"] not in codes:
        return Verdict(WRONG, f"exit code {end['code']}: {_tail(end['stderr'])}")
    return _refusal(end, [*names], goes)


def must_survive(verdict: Verdict) -> Verdict:
    """Of a run to which nothing was done but that it was ended: to be refused is to have lost it."""
    return Verdict(WRONG, f"lost: {verdict.why}") if verdict.kind == REFUSED else verdict


def _misbehaved(end: dict[str, Any]) -> str:
    """A hang, a traceback, or characters that no program may print."""
    if end["code"] is None:
        return f"hangs: {end['seconds']:.0f} seconds; {_tail(end['stderr'])}"
    for name in ("stderr", "stdout"):
        if "Traceback (most recent call last)" in end[name]:
            return f"traceback: {_tail(end[name])}"
        if raw := raw_characters(end[name]):
            return f"{raw!r} raw on {name}: {_tail(end[name])}"
    return ""


def _refusal(end: dict[str, Any], names: list[str], goes: bool) -> Verdict:
    *before, line = end["stderr"].splitlines() or [""]
    if not line.startswith("error: ") or not end["stderr"].endswith("\n"):
        return Verdict(WRONG, f"exit code {end['code']} without an error: {_tail(end['stderr'])}")
    if before and not (goes and all(_GOES.fullmatch(own) for own in before)):
        return Verdict(WRONG, f"{len(before) + 1} lines: {before[0]!r} ... {_tail(end['stderr'])}")
    if len(line) > LONGEST:
        return Verdict(WRONG, f"a line of {len(line)} characters: {line[:300]}")
    if end["stdout"]:
        return Verdict(WRONG, f"refused, with this on stdout: {end['stdout'][:200]!r}")
    if names and not any(name in line for name in names):
        return Verdict(WRONG, f"names none of {', '.join(names)}: {line[:300]}")
    return Verdict(REFUSED, line[:300])


def raw_characters(text: str) -> str:
    """What a terminal acts upon, or cannot show: controls, direction marks, line separators, bytes of no character."""
    found = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c != "\n"}
    return "".join(sorted(found))


def _tail(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return "".join(c if c.isprintable() else "?" for c in lines[-1][-300:]) if lines else "nothing on stderr"
