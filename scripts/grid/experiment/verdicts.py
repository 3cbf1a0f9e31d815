"""What the runs say of the claims of a file, in Markdown."""

import math
from collections.abc import Sequence

from scripts.grid.experiment.claims import LAST_20, NOT, OPEN, REPRODUCED, SEEDS, Comparison, Ratio
from scripts.grid.experiment.file import LARGER_IS_BETTER, Experiment
from scripts.grid.experiment.states import markdown_table


def verdicts(experiment: Experiment, comparisons: Sequence[Comparison]) -> str:
    """Every comparison, the ratios by each statistic; of those that were not run a line for each claim and column.

    "" where there is none.
    """
    if not comparisons:
        return ""
    shown = list(dict.fromkeys(name for own in comparisons for name in [*own.by, *own.ratios] if name != LAST_20))
    shown += [LAST_20] if any(LAST_20 in own.ratios for own in comparisons) else []
    rows: dict[tuple[str, str, str, str], list[str]] = {}
    of_paper = experiment.paper is not None
    for own in comparisons:
        key = own.claim, own.column, own.model, "" if said(own, of_paper) == OPEN else own.rival
        if key in rows:
            rows[key][3] += f", {own.rival}"
        else:
            ratios = [between(own.ratios.get(name)) for name in shown]
            rows[key] = [own.claim, own.column, own.model, own.rival, *ratios, said(own, of_paper)]
    head = ["claim", "column", "model", "beside", *(name.replace("_", " ") for name in shown), "verdict"]
    reasons = dict.fromkeys(f"* {own.claim}: {own.why}" for own in comparisons if own.why)
    what = " of what is wrong" if experiment.metric in LARGER_IS_BETTER else ""
    parts = [f"Ratios{what}, model to rival:", markdown_table(head, rows.values()), "\n".join(reasons)]
    return "\n\n".join(filter(None, parts))


def said(own: Comparison, of_paper: bool = True) -> str:
    """The verdict, with how many seeds there are where that matters; a claim that is no paper's holds or does not."""
    n, holds, fails = least_seeds(own), *((REPRODUCED, NOT) if of_paper else ("holds", "does not hold"))
    if own.word == OPEN:
        return f"undecided, {n} of {SEEDS} seeds" if n else OPEN
    if own.word == REPRODUCED:
        return f"**{holds}**"
    of = "seeds" if own.seeds[1] is None else "pairs"
    return f"**{fails}** (n = {n}, {'none agrees' if own.reversed else f'{min(own.by.values()):.0%} of {of}'})"


def least_seeds(own: Comparison) -> int:
    """The fewest seeds of the two."""
    return min(count for count in own.seeds if count is not None)


def between(own: Ratio | None) -> str:
    """A ratio of medians and what lies between."""
    if own is None or math.isnan(own.median):
        return ""
    if own.low == own.high or (math.isnan(own.low) or math.isnan(own.high)):
        return f"{own.median:.2g}"
    return f"{own.median:.2g} ({own.low:.2g} to {own.high:.2g})"
