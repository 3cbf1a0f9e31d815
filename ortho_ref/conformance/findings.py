"""What a run found, each thing once: a diagnosis with its cases, and the fewest mistakes for the most cases.

A finding says how much of what is wrong it explains: "5 of 12 failing cases of cell/lstm; the others: ...".
"""

import re
import textwrap
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

from msgspec import Meta, Struct

from ortho_ref.terminal import shown

if TYPE_CHECKING:  # the report prints what is found here
    from ortho_ref.conformance.report import Result

_WIDTH, _NAMED = 100, 6
#: Lines of findings, so that a report is on one screen.
_LINES = 24
#: What differs from case to case of one mistake: whose outputs, which weight of many, numbers.
_VARIES = (
    (re.compile(r"^(your (?:forward )?outputs equal) \S+ "), r"\1 the reference "),
    (re.compile(r"; or with .*$"), ""),
    (re.compile(r"^.*: look at "), "look at "),
    (re.compile(r"; off by [^;]*"), ""),
    (re.compile(r"\b(forward wrong|wrong): [^;]*"), r"\1"),
    (re.compile(r"(only .*|(?<=; )d_.*) wrong(?=;|$)"), "some wrong"),
    (re.compile(r"(; asked again.*|; look at what multiplies.*)$"), ""),
    (re.compile(r"\bevery (?=[UWb]\b)|\blayer\d(_reverse)?\.|(?<=[UWb])_\w+"), ""),
    (re.compile(r"\b(\w+(\.[\w*]+)?)(, \w+(\.[\w*]+)?)*: "), ""),
    (re.compile(r"[-+]?\d[\d.]*(e[-+]?\d+)?"), "#"),
)
Count: TypeAlias = Annotated[int, Meta(ge=0, le=10**9)]
#: Departures to be assumed: names of mistakes in one text, or a file of them; several; with reasons; none.
Assume: TypeAlias = str | Sequence[str] | Mapping[str, str] | None


class Finding(Struct, frozen=True, forbid_unknown_fields=True):
    """One diagnosis."""

    says: str  # in words
    cases: tuple[str, ...]  # those that have it
    failing: Count  # how many cases of the same cells, maps or optimizers fail
    others: tuple[str, ...]  # those of them that it does not explain

    @property
    def coverage(self) -> str:
        """How much it explains."""
        counts = Counter(map(_family, self.cases))
        if len(counts) > 1:
            few = _few([f"{family} {count}" for family, count in counts.most_common()])
            return f"{len(self.cases)} of {self.failing} failing cases: {few}."
        family = _family(self.cases[0])
        if self.failing == 1:
            return f"The one failing case of {family}: {self.cases[0]}."
        own, others = ([id.removeprefix(f"{family}/") for id in ids] for ids in (self.cases, self.others))
        end = f"; the others: {_few(others)}" if others else ""
        return f"{len(own)} of {self.failing} failing cases of {family}: {_few(own)}{end}."


class Assumed(Struct, frozen=True, forbid_unknown_fields=True):
    """A departure that the implementation was held to."""

    mistake: str  # its name
    says: str  # what it is
    reason: str  # why it is assumed; "" where none was given
    cases: tuple[str, ...]  # those whose answer it changes

    def __str__(self) -> str:
        """In one sentence."""
        count = len(self.cases)
        where = f"in {count} case{'' if count == 1 else 's'}" if count else "which changes no case that was run"
        return f"Assumed: {self.mistake}, {self.says}, {where}{f' ({self.reason})' if self.reason else ''}."


class Mistake(Struct, frozen=True, forbid_unknown_fields=True):
    """A mistake that explains cases, and how many have it."""

    name: str
    cases: Count


class Summary(Struct, frozen=True, forbid_unknown_fields=True):
    """The fewest mistakes that explain the most failing cases."""

    mistakes: tuple[Mistake, ...]
    explained: Count  # how many failing cases they explain
    failing: Count  # how many there are
    unexplained: tuple[str, ...]  # the others

    def __str__(self) -> str:
        """In one sentence; "" where nothing failed."""
        if not self.failing:
            return ""
        left = f" Unexplained: {_few(self.unexplained)}." if self.unexplained else ""
        if not self.mistakes:
            cases = "the one failing case" if self.failing == 1 else f"any of the {self.failing} failing cases"
            return f"No known mistake explains {cases}."
        named = ", ".join(f"{own.name} ({own.cases})" for own in self.mistakes)
        plural = "mistake explains" if len(self.mistakes) == 1 else "mistakes explain"
        how = f"{self.explained} of {self.failing} failing cases"
        return f"{len(self.mistakes)} {plural} {how}: {named}.{left}"


def _family(id: str) -> str:
    """The kind of a case and what it is of: "cell/lstm"."""
    return "/".join(id.split("/")[:2])


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def findings(results: "Sequence[Result]") -> list[Finding]:
    """Every diagnosis of a run once, whatever it is of and whatever its numbers, in the order of the cases.

    A row of the table has its number, from 1.
    """
    failing = [result.id for result in results if result.failed]
    cases: dict[str, dict[str, str]] = {}
    for result in results:
        if alike := result.diagnosis:
            for varies, by in _VARIES:
                alike = varies.sub(by, alike)
            cases.setdefault(alike, {})[result.id] = result.diagnosis
    found = []
    for own in cases.values():
        families = set(map(_family, own))
        others = tuple(id for id in failing if _family(id) in families and id not in own)
        says = Counter(own.values()).most_common(1)[0][0]
        if len(families) > 1:
            says = _VARIES[0][0].sub(_VARIES[0][1], says)
        found.append(Finding(says, tuple(own), len(own) + len(others), others))
    return found


def summary(results: "Sequence[Result]") -> Summary:
    """The fewest mistakes for the most failing cases: one after the other, the one that explains most of the rest."""
    failing = [result for result in results if result.failed]
    left = [result.mistakes for result in failing if result.mistakes]
    explained, chosen = len(left), dict[str, None]()

    def gain(names: tuple[str, ...]) -> tuple[float, int]:
        """How many more cases are explained with these mistakes too, for each that is new; of as many rather few."""
        count, new = sum(bool(_within({*chosen, *names}, every)) for every in left), len(set(names) - chosen.keys())
        return count / max(new, 1), -new

    while left:
        best = max(dict.fromkeys(names for every in left for names in every), key=gain)
        chosen |= dict.fromkeys(best)
        left = [every for every in left if not _within(chosen, every)]
    ways = [{name for own in _within(chosen, result.mistakes) for name in own} for result in failing]
    counts = [Mistake(name, sum(name in names for names in ways)) for name in chosen]
    named = sorted(counts, key=lambda own: -own.cases)
    unexplained = tuple(result.id for result in failing if not result.mistakes)
    return Summary(tuple(named), explained, len(failing), unexplained)


def _within(chosen: Collection[str], every: tuple[tuple[str, ...], ...]) -> list[tuple[str, ...]]:
    """The ways to explain a case that have chosen mistakes alone."""
    return [own for own in every if set(own) <= set(chosen)]


def lines(results: "Sequence[Result]", assumed: Sequence[Assumed] = ()) -> list[str]:
    """Below the table, within 100 columns: each finding under its number, what was assumed, and the summary."""
    blocks: list[str] = []
    left: list[Finding] = []
    for number, finding in enumerate(findings(results), 1):
        mark = f"[{number}] "
        says = finding.says[0].upper() + finding.says[1:]
        own = _wrapped(f"{says}{'' if says.endswith('.') else '.'} {finding.coverage}", mark, " " * len(mark))
        if left or (blocks and len(blocks) + len(own) > _LINES):
            left.append(finding)
        else:
            blocks += own
    if left:
        count = sum(len(finding.cases) for finding in left)
        blocks.append(f"{len(left)} more findings, of {count} cases, are in the report (--report).")
    for departure in assumed:
        blocks += _wrapped(str(departure))
    if any(result.diagnosis for result in results):
        blocks += _wrapped(str(summary(results)))
    return blocks


def _wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    text = shown(text, None)
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def numbers(results: "Sequence[Result]") -> dict[str, int]:
    """Case -> the number of its finding."""
    return {id: number for number, finding in enumerate(findings(results), 1) for id in finding.cases}
