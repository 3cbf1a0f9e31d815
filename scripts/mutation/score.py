"""Scores by folder with their intervals, and the section of docs/reliability.md that lists them."""

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

from scripts.mutation.folders import ELSEWHERE, FOLDERS, MATHEMATICS
from scripts.mutation.reasons import Reason

HEADING = "## Mutation testing"
HEAD = ("folder", "mutants", "tried", "killed", "timed out", "equivalent", "survived", "score", "95 % interval")
GOALS = {"mathematics": (MATHEMATICS, 0.99), "elsewhere": (ELSEWHERE, 0.98)}


class Score(NamedTuple):
    """Counts of a folder: all its mutants, those tried, and what became of them; survived: none of the others."""

    mutants: int = 0
    tried: int = 0
    killed: int = 0
    timed_out: int = 0
    equivalent: int = 0

    @property
    def survived(self) -> int:
        """Those that no test kills, and that are not proved equivalent."""
        return self.tried - self.killed - self.timed_out - self.equivalent

    @property
    def share(self) -> float:
        """Of those that are not proved equivalent, how many are killed."""
        counted = self.tried - self.equivalent
        return (self.killed + self.timed_out) / counted if counted else math.nan

    def interval(self) -> tuple[float, float]:
        """Wilson's, 95 %."""
        counted, z = self.tried - self.equivalent, 1.959964
        if not counted:
            return 0.0, 1.0
        middle = (self.share + z * z / (2 * counted)) / (1 + z * z / counted)
        half = z * math.sqrt(self.share * (1 - self.share) / counted + (z / counted / 2) ** 2) / (1 + z * z / counted)
        return max(0.0, middle - half), min(1.0, middle + half)


def total(scores: Iterable[Score]) -> Score:
    """The sum of the counts."""
    return Score(*map(sum, zip(*scores, strict=True)))


def row(name: str, score: Score) -> str:
    """A row of the table."""
    low, high = score.interval()
    counts = (score.mutants, score.tried, score.killed, score.timed_out, score.equivalent, score.survived)
    cells = (name, *(f"{count:,}" for count in counts), _percent(score.share), f"{_percent(low)} to {_percent(high)}")
    return f"| {' | '.join(cells)} |"


def _percent(share: float) -> str:
    return "" if math.isnan(share) else f"{100 * share:.1f} %"


def rows(page: str) -> dict[str, Score]:
    """The folders' scores as a page has them."""
    found = {}
    for line in section(page).splitlines():
        cells = [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]
        if len(cells) == len(HEAD) and cells[0] in FOLDERS:
            found[cells[0]] = Score(*map(int, cells[1:6]))
    return found


def section(page: str) -> str:
    """The section of a page, up to the next heading of its rank."""
    found = re.search(rf"^{HEADING}\n.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def render(scores: dict[str, Score], reasons: list[Reason], words: str, files: dict[str, list[str]]) -> str:
    """The section: words, the table, and every survivor with its reason.  files: those of each folder."""
    lines = [HEADING, "", words.strip(), "", f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    for group, (folders, goal) in GOALS.items():
        own = [scores[name] for name in folders if name in scores]
        lines += [row(name, scores[name]) for name in folders if name in scores]
        if own:
            lines.append(row(f"**{group}** (at least {_percent(goal)})", total(own)))
    for name, own_files in files.items():
        own_reasons = [reason for reason in reasons if reason.file in own_files]
        if own_reasons:
            lines += ["", f"### Survivors: {name}", "", "| where | change | | why |", "|---|---|---|---|"]
            lines += [_reason(reason) for reason in own_reasons]
    return "\n".join(lines) + "\n"


def _reason(reason: Reason) -> str:
    kind = "equivalent" if reason.equivalent else "survives"
    where = f"`{reason.file}` {reason.within}".strip()
    before, after = (text.replace("|", "\\|") for text in (reason.before, reason.after))
    return f"| {where} | `{before}` as `{after}` | {kind} | {reason.why} |"


def replace(page: str, new: str) -> str:
    """A page with this section in the place of its own, or at its end."""
    old = section(page)
    if not old:
        return page.rstrip("\n") + "\n\n" + new
    after = page.split(old, 1)[1]
    return page.replace(old, new + ("\n" if after else ""))
