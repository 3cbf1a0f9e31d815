"""What the runs say of a paper's claims: each holds, does not hold, or cannot be told from so few runs."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from ortho_ref.training import Record
from scripts.grid.experiment.file import Experiment
from scripts.grid.experiment.states import State
from scripts.grid.experiment.table import Line, number

HOLDS, FAILS, OPEN = "holds", "does not hold", "too small to tell"
#: A loss within this share below the baseline is at the baseline.
AT = 0.05
#: In place of a column: the mean over all of them.
MEAN = "mean of all columns"


class Verdict(NamedTuple):
    """What the runs say of a claim.

    Attributes
    ----------
    text : str
        The claim.
    column : str
        In which column.
    word : str
        HOLDS, FAILS or OPEN.
    because : str
        The numbers.
    why : str
        The reason, where it is known.
    """

    text: str
    column: str
    word: str
    because: str
    why: str


def verdicts_of(experiment: Experiment, lines: Sequence[Line], states: Sequence[State], scale: float) -> list[Verdict]:
    """A verdict on each claim in each of its columns that was run.

    One number is below another's where every seed's is, of two seeds at least.  Of a row with several lines, as it has
    a list for an option, the best one counts.  What is run below the paper's size, or on a part of its data, decides
    nothing.

    Parameters
    ----------
    experiment
        The file.
    lines
        Of its table.
    states
        Of its runs: the baselines are in their configs.
    scale
        Of the runs.

    Returns
    -------
    list of Verdict
        Claim by claim.
    """
    found = []
    for claim in experiment.claims:
        everywhere = [column.name for column in experiment.columns]
        for column in [MEAN] if claim.get("mean_of_columns") else claim.get("columns", everywhere):
            baselines = {s.config["baseline"] for s in states if s.cell.column.name == column and s.config}
            baseline = baselines.pop() / experiment.unit if len(baselines) == 1 else None
            values = {
                row.name: _mean(experiment, lines, row.name)
                if column == MEAN
                else _best(experiment, lines, row.name, column)
                for row in experiment.run_rows
            }
            word, because = _judge(claim, values, baseline)
            if because:
                if (less := experiment.less_than_papers(scale)) and word != OPEN:
                    word, because = OPEN, f"{less}; {because}"
                found.append(Verdict(claim["text"], column, word, because, claim.get("why", "")))
    return found


def _mean(experiment: Experiment, lines: Sequence[Line], row: str) -> list[float]:
    """For each seed that a row has in every column, the mean over the columns; a row of several lines has none."""
    own = [line for line in lines if line.name == row and experiment.statistic in line.values]
    if sorted(line.column for line in own) != sorted(column.name for column in experiment.columns):
        return []
    by_seed = [dict(zip(line.seeds, line.values[experiment.statistic], strict=True)) for line in own]
    return [
        statistics.mean(values[seed] for values in by_seed) for seed in by_seed[0] if all(seed in v for v in by_seed)
    ]


def _best(experiment: Experiment, lines: Sequence[Line], row: str, column: str) -> list[float]:
    """The values of a row's best line in a column, one for each seed."""
    of_row = [
        line.values[experiment.statistic]
        for line in lines
        if (line.name, line.column) == (row, column) and experiment.statistic in line.values
    ]
    pick = max if experiment.larger_is_better else min
    return pick(of_row, key=statistics.mean) if of_row else []


def _judge(claim: Record, values: dict[str, list[float]], baseline: float | None) -> tuple[str, str]:
    """The word, and the numbers; no numbers where nothing was run."""
    for key in ("below", "above"):
        if key in claim:
            return _compare(claim[key], values, key)
    for key in ("at_baseline", "beats_baseline"):
        if key in claim:
            own = values[claim[key]]
            if not own or baseline is None:
                return OPEN, ""
            at = [value > (1 - AT) * baseline for value in own]
            wanted = at if key == "at_baseline" else [not one for one in at]
            because = f"{claim[key]} {_numbers(own)}, knowing nothing {number(baseline)}"
            if len(own) < 2:
                return OPEN, f"{because}; one seed"
            return (HOLDS if all(wanted) else FAILS if not any(wanted) else OPEN), because
    if "less_than" in claim:
        rows = claim.get("rows", values)
        below = [value < claim["less_than"] for name in rows for value in values[name]]
        word = OPEN if any(len(values[name]) < 2 for name in rows) else HOLDS if all(below) else FAILS
        return word, "; ".join(f"{name} {_numbers(values[name])}" for name in rows if values[name])
    return OPEN, ""


def _compare(names: Sequence[str], values: dict[str, list[float]], key: str) -> tuple[str, str]:
    """The first one's values against each of the others'."""
    first, *others = (values[name] for name in names)
    if not first or not any(others):
        return OPEN, ""
    words = []
    for other in others:
        if len(first) < 2 or len(other) < 2:
            words.append(OPEN)
            continue
        low, high = (first, other) if key == "below" else (other, first)
        words.append(HOLDS if max(low) < min(high) else FAILS if min(low) > max(high) else OPEN)
    numbers = "; ".join(f"{name} {_numbers(values[name])}" for name in names if values[name])
    word = FAILS if FAILS in words else OPEN if OPEN in words else HOLDS
    return word, numbers


def _numbers(values: Sequence[float]) -> str:
    return " ".join(map(number, sorted(values)))
