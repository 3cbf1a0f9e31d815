"""What the runs say of a paper's claims: each holds, does not hold, or cannot be told from so few runs."""

import statistics
from collections.abc import Iterable, Sequence
from operator import gt, lt
from typing import NamedTuple

from ortho_ref.training.trainer import Record
from scripts.grid.experiment.file import OF_BASELINE, OF_NUMBER, OF_ROWS, Experiment
from scripts.grid.experiment.states import State
from scripts.grid.experiment.table import Line, number

HOLDS, FAILS, OPEN = "holds", "does not hold", "too small to tell"
#: A loss above this share of the baseline is at the baseline.
AT = 0.95
#: Losses of which none is more than so many times another are comparable, unless a claim says how many.
TIMES = 2.0
#: In place of a column: the mean over all of them.
MEAN = "mean of all columns"


class Verdict(NamedTuple):
    """What the runs say of a claim."""

    text: str
    column: str
    word: str  # HOLDS, FAILS or OPEN
    so_far: str  # HOLDS or FAILS, where the word is OPEN and the runs that are there all say the same; else OPEN
    because: str
    why: str  # the reason, where it is known


def verdicts_of(experiment: Experiment, lines: Sequence[Line], states: Sequence[State], scale: float) -> list[Verdict]:
    """A verdict on each claim in each of its columns that was run.

    One number is below another's where every seed's is, of two seeds at least.  Of a row with several lines, as it has
    a list for an option, the best one counts.  What is run below the paper's size, or on a part of its data, decides
    nothing, nor do rows of which a seed failed.
    """
    found = []
    for claim in experiment.claims:
        everywhere = [column.name for column in experiment.columns]
        for column in [MEAN] if claim.get("mean_of_columns") else claim.get("columns", everywhere):
            baselines = {s.config["baseline"] for s in states if s.cell.column.name == column and s.config}
            baseline = baselines.pop() / experiment.unit if len(baselines) == 1 else None
            statistic = claim.get("statistic", experiment.statistic)
            values = {
                row.name: _mean(experiment, lines, row.name, statistic)
                if column == MEAN
                else _best(experiment, lines, row.name, column, statistic)
                for row in experiment.run_rows
            }
            word, so_far, because = _judge(claim, values, baseline)
            failed = [
                f"{line.name}, {reason.partition(':')[0]} failed"
                for line in lines
                if line.name in _rows(claim, values) and column in (line.column, MEAN)
                for reason in line.failed
            ]
            if because:
                there = [len(values[name]) for name in _rows(claim, values) if values[name]]
                because += _seeds(there, len(experiment.seeds))
                if less := experiment.less_than_papers(scale):
                    word, because = OPEN, f"{less}; {because}"
                if failed:
                    word, so_far, because = OPEN, OPEN, f"{because}; {', '.join(failed)}"
                found.append(Verdict(claim["text"], column, word, so_far, because, claim.get("why", "")))
    return found


def _mean(experiment: Experiment, lines: Sequence[Line], row: str, statistic: str) -> list[float]:
    """For each seed that a row has in every column, the mean over the columns.

    A row of several lines has none, nor one where a seed has no such number: a decay of gradients that became 0.
    """
    own = [line for line in lines if line.name == row and len(line.values.get(statistic, ())) == len(line.seeds) > 0]
    if sorted(line.column for line in own) != sorted(column.name for column in experiment.columns):
        return []
    by_seed = [dict(zip(line.seeds, line.values[statistic], strict=True)) for line in own]
    return [
        statistics.mean(values[seed] for values in by_seed) for seed in by_seed[0] if all(seed in v for v in by_seed)
    ]


def _best(experiment: Experiment, lines: Sequence[Line], row: str, column: str, statistic: str) -> list[float]:
    """The values of a row's best line in a column, one for each seed."""
    of_row = [
        line.values[statistic]
        for line in lines
        if (line.name, line.column) == (row, column) and statistic in line.values
    ]
    pick = max if experiment.larger_is_better else min
    return pick(of_row, key=statistics.mean) if of_row else []


def _judge(claim: Record, values: dict[str, list[float]], baseline: float | None) -> tuple[str, str, str]:
    """The word, what it would be if a seed were enough, and the numbers; no numbers where nothing was run."""
    for key in OF_ROWS:
        if key in claim:
            return _compare(claim[key], values, key, claim.get("times"))
    for key in OF_BASELINE:
        if key in claim:
            return _beside_baseline(claim[key], values[claim[key]], baseline, key, claim.get("to", AT))
    for key in OF_NUMBER:
        if key in claim:
            rows = claim.get("rows", values)
            because = "; ".join(f"{name} {_numbers(values[name])}" for name in rows if values[name])
            so_far = _all([_word([_is(value, key, claim[key]) for value in values[name]]) for name in rows])
            word = OPEN if any(len(values[name]) < 2 for name in rows) else so_far
            return word, so_far, because and f"{because}; asked: {key.replace('_', ' ')} {number(claim[key])}"
    return OPEN, OPEN, ""


def _rows(claim: Record, values: Iterable[str]) -> Sequence[str]:
    """The rows that a claim is about."""
    for key in OF_ROWS:
        if key in claim:
            return list(claim[key])
    return [claim[key] for key in OF_BASELINE if key in claim] or claim.get("rows", list(values))


def _is(value: float, key: str, limit: float) -> bool:
    return value < limit if key == "less_than" else value > limit


def _all(words: Sequence[str]) -> str:
    """Of what each row says: does not hold where it does not for one of them."""
    return FAILS if FAILS in words else OPEN if OPEN in words else HOLDS


def _word(met: Sequence[bool]) -> str:
    """Of what each seed says: all of them, none of them, or some; nothing of no seed."""
    return OPEN if not met or len(set(met)) > 1 else HOLDS if met[0] else FAILS


def _beside_baseline(
    name: str, own: Sequence[float], baseline: float | None, key: str, to: float
) -> tuple[str, str, str]:
    """Whether a row's losses are above a share of the baseline, or below it."""
    if not own or baseline is None:
        return OPEN, OPEN, ""
    above = [value > to * baseline for value in own]
    asked = "above" if key == "at_baseline" else "below"
    shares = " ".join(_share(value / baseline) for value in sorted(own))
    because = f"{name} {_numbers(own)}, which is {shares} of the baseline {number(baseline)}; asked: {asked} {to:g}"
    so_far = _word(above if key == "at_baseline" else [not one for one in above])
    return OPEN if len(own) < 2 else so_far, so_far, because


def _compare(
    names: Sequence[str], values: dict[str, list[float]], key: str, times: float | None
) -> tuple[str, str, str]:
    """The first one's values against each of the others'; `times` is how many of the other's may be the first one's."""
    first, *others = (values[name] for name in names)
    if not first or not any(others):
        return OPEN, OPEN, ""
    most = times or (TIMES if key == "comparable" else 1)
    so_far = [_beside(key, most, first, other) for other in others]
    enough = [len(first) > 1 and len(other) > 1 for other in others]
    words = [word if yes else OPEN for word, yes in zip(so_far, enough, strict=True)]
    numbers = "; ".join(f"{name} {_numbers(values[name])}" for name in names if values[name])
    asked = f"{key} {most:g} times the others'" if times else ""
    if key == "comparable":
        asked = f"none more than {most:g} times another"
    return _all(words), _all(so_far), f"{numbers}; asked: {asked}" if asked else numbers


def _beside(key: str, most: float, first: Sequence[float], other: Sequence[float]) -> str:
    """What each seed of one row says beside each of another; of two that are equal none is better."""
    pairs = [(a, most * b) for a in first for b in other]
    if key == "comparable":
        return _word([a <= b and b <= most**2 * a for a, b in pairs])
    less, more = (all(one(a, b) for a, b in pairs) for one in (lt, gt))
    holds, fails = (less, more) if key == "below" else (more, less)
    return OPEN if not pairs else HOLDS if holds else FAILS if fails else OPEN


def _share(share: float) -> str:
    """Of the baseline; two digits behind the point about 1, where 0.95 is what counts."""
    return f"{share:.2f}" if 0.1 < share < 10 else f"{share:.2g}"


def _seeds(counts: Sequence[int], wanted: int) -> str:
    """How many seeds the numbers are of, where that is one, or fewer than the file has."""
    least, most = min(counts), max(counts)
    if most == 1:
        return "; one seed"
    if least == wanted:
        return ""
    return f"; {least} of {wanted} seeds" if least == most else f"; {least} to {most} of {wanted} seeds"


def _numbers(values: Sequence[float]) -> str:
    return " ".join(map(number, sorted(values)))
