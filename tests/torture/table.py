"""The table of docs/reliability.md under `## Torture`; the rest of the page is written by hand, or by others."""

import collections
import re
from collections.abc import Mapping
from pathlib import Path

from scripts.program import blas
from tests.torture.judging import REFUSED, SURVIVED, WRONG

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
SECTION = "## Torture"
HEAD = "| what is done | tried | uses | survived | refused | wrong |"


def rows(table: Mapping[str, collections.Counter[str]], seed: int, seconds: float, share: float = 1.0) -> list[str]:
    """The table, and what it was measured with."""
    lines = [HEAD, "|---|---|---|---|---|---|"]
    for words, counts in table.items():
        numbers = (counts[SURVIVED] + counts[REFUSED] + counts[WRONG], counts["uses"])
        lines.append(
            "| "
            + " | ".join([words, *(f"{n:,}" for n in (*numbers, *(counts[k] for k in (SURVIVED, REFUSED, WRONG))))])
            + " |"
        )
    libraries = ", ".join(sorted(set(blas())))
    part = f", --share {share:g}" if share != 1 else ""
    return [*lines, "", f"Seed {seed}{part}, {seconds / 60:.0f} minutes; {libraries}."]


def replaced(page: str, lines: list[str]) -> str:
    """The page with this table in the place of the one in its section.  ValueError where there is none."""
    before, heading, after = page.partition(f"\n{SECTION}\n")
    own, rest = re.split(r"(?=^## )", after, maxsplit=1, flags=re.M) if re.search("^## ", after, re.M) else (after, "")
    found = re.search(rf"^{re.escape(HEAD)}\n(?:\|.*\n)+\nSeed .*\n", own, re.M)
    if not heading or found is None:
        raise ValueError(f"the page has no table under {SECTION!r}")
    return before + heading + own[: found.start()] + "\n".join(lines) + "\n" + own[found.end() :] + rest
