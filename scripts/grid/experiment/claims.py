"""What the runs say of a paper's claims, one comparison at a time: a model beside a rival, in a column of the table.

How a claim is judged is told in docs/claims.md.  A part of the data, or less than the paper's size, is judged alike
and shown apart.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from ortho_ref.training.trainer import Record
from scripts.grid.experiment.file import (
    LARGER_IS_BETTER,
    OF_BASELINE,
    OF_NUMBER,
    OF_ROWS,
    ON_TEST,
    Experiment,
)
from scripts.grid.experiment.states import State
from scripts.grid.experiment.table import Line, number

REPRODUCED, NOT, OPEN = "reproduced", "not reproduced", "not run"
#: Of each model, to decide; of each, for an interval by bootstrap and not of all pairs.
SEEDS, BOOTSTRAP = 3, 5
#: A loss above this share of the baseline is at the baseline.
AT = 0.95
#: Losses of which none is more than so many times another are comparable, unless a claim says how many.
TIMES = 2.0
#: In place of a column: the mean over all of them.
MEAN = "mean of all columns"
FINAL, LAST_20 = "final", "median_of_last_20"

#: Statistic -> a number for each seed; of a diverged run infinity, on the side that is worse.
Values = Mapping[str, Sequence[float]]


class Ratio(NamedTuple):
    """Of two medians, with what lies between: all pairs of seeds, of five or more 95 % of a bootstrap."""

    median: float
    low: float
    high: float


class Comparison(NamedTuple):
    """What the runs say of a claim about a model and one rival, in a column."""

    claim: str
    column: str
    model: str
    rival: str  # a row, or what else the model is beside: "the baseline: below 0.95 of it", "less than 0.5"
    word: str  # REPRODUCED, NOT or OPEN
    by: dict[str, float]  # statistic that counts -> the share of pairs of seeds that is as the paper says
    seeds: tuple[int, int | None]  # of the model and of the rival
    ratios: dict[str, Ratio]  # by statistic, of accuracies that of what is wrong; none where nothing was run
    why: str  # the reason, where it is known

    @property
    def reversed(self) -> bool:
        """Whether every seed stands to every other the opposite way."""
        return all(share == 0 for share in self.by.values())


def comparisons_of(experiment: Experiment, lines: Sequence[Line], states: Sequence[State]) -> list[Comparison]:
    """Every comparison of every claim, those that were not run among them."""
    found = []
    for claim in experiment.claims:
        columns = [column.name for column in experiment.columns]
        for column in [MEAN] if claim.get("mean_of_columns") else claim.get("columns", columns):
            values = {row.name: _values(experiment, lines, row.name, column) for row in experiment.run_rows}
            baselines = {s.config["baseline"] for s in states if s.cell.column.name == column and s.config}
            baseline = baselines.pop() / experiment.unit if len(baselines) == 1 else math.nan
            for model, rival, than, holds in _asked(claim, values, baseline):
                found.append(_comparison(experiment, claim, column, model, rival, values[model], than, holds))
    return found


def beside_each_other(experiment: Experiment, lines: Sequence[Line], column: str, model: str, rival: str) -> Comparison:
    """Whether a model is better than a rival in a column, as if it were claimed."""
    own, than = (_values(experiment, lines, name, column) for name in (model, rival))
    holds = _above(1) if experiment.larger_is_better else _below(1)
    return _comparison(experiment, {"text": ""}, column, model, rival, own, than, holds)


Test = Callable[[float, float], bool]


def _below(times: float) -> Test:
    return lambda a, b: a < times * b


def _above(times: float) -> Test:
    return lambda a, b: a > times * b


def _at_most(times: float) -> Test:
    return lambda a, b: a <= times * b


def _comparable(times: float) -> Test:
    return lambda a, b: a <= times * b and b <= times * a


def _asked(
    claim: Record, values: Mapping[str, Values], baseline: float
) -> Iterable[tuple[str, str, Values | float, Test]]:
    """The comparisons of a claim: the model, what it is beside, its numbers, and what must hold of each two."""
    for key in OF_ROWS:
        if key in claim:
            first, *others = claim[key]
            most = claim.get("times") or (TIMES if key == "comparable" else 1)
            holds = {"below": _below, "above": _above, "comparable": _comparable}[key](most)
            yield from ((first, other, values[other], holds) for other in others)
    for key in OF_BASELINE:
        if key in claim:
            share, above = claim.get("to", AT), key == "at_baseline"
            rival = f"the baseline: {'above' if above else 'below'} {share:g} of it"
            yield claim[key], rival, baseline, _above(share) if above else _at_most(share)
    for key in OF_NUMBER:
        if key in claim:
            less = key == "less_than"
            for name in claim.get("rows", values):
                rival = f"{key.replace('_', ' ')} {number(claim[key])}"
                yield name, rival, claim[key], _below(1) if less else _above(1)


def _comparison(
    experiment: Experiment,
    claim: Record,
    column: str,
    model: str,
    rival: str,
    own: Values,
    than: Values | float,
    holds: Test,
) -> Comparison:
    counted = _counted(experiment, claim)

    def beside(name: str) -> tuple[Sequence[float], Sequence[float]]:
        return own.get(name, ()), than.get(name, ()) if isinstance(than, Mapping) else [than]

    def error(values: Sequence[float]) -> Sequence[float]:  # two accuracies near 1 have a ratio of 1
        return [1 / experiment.unit - one for one in values] if experiment.metric in LARGER_IS_BETTER else values

    by = {name: _share(*beside(name), holds) for name in counted}
    shown = dict.fromkeys([*counted, *([LAST_20] if FINAL in counted else [])])
    ratios = {name: ratio(*map(error, beside(name))) for name in shown if all(map(len, beside(name)))}
    here, there = len(own.get(counted[0], ())), len(than.get(counted[0], ())) if isinstance(than, Mapping) else None
    decidable = there >= SEEDS if there is not None else not math.isnan(cast("float", than))
    word = OPEN if here < SEEDS or not decidable else REPRODUCED if min(by.values()) == 1 else NOT
    return Comparison(claim["text"], column, model, rival, word, by, (here, there), ratios, claim.get("why", ""))


def _counted(experiment: Experiment, claim: Record) -> list[str]:
    """The statistics that decide."""
    if "statistic" in claim:
        return [claim["statistic"]]
    if experiment.statistic == ON_TEST or experiment.of_one_number:
        return [experiment.statistic]
    return [experiment.best, FINAL]


def _share(own: Sequence[float], than: Sequence[float], holds: Test) -> float:
    met = [holds(a, b) for a, b in itertools.product(own, than)]
    return sum(met) / len(met) if met else math.nan


def ratio(own: Sequence[float], than: Sequence[float]) -> Ratio:
    """Of the medians of two samples."""
    a, b = np.asarray(own, float), np.asarray(than, float)
    with np.errstate(all="ignore"):
        median = float(np.median(a) / np.median(b))
        pairs = (a[:, None] / b).ravel()
        if min(len(a), len(b)) >= BOOTSTRAP:
            rng = np.random.default_rng(0)
            drawn = (np.median(rng.choice(one, (2000, len(one))), axis=1) for one in (a, b))
            pairs = np.quantile(next(drawn) / next(drawn), [0.025, 0.975])
    return Ratio(median, float(np.min(pairs)), float(np.max(pairs)))


def _values(experiment: Experiment, lines: Sequence[Line], row: str, column: str) -> Values:
    """A row's numbers in a column; of several lines, as a row has with lists for options, the best one's."""
    if column == MEAN:
        return _mean(experiment, lines, row)
    own = [_with_diverged(experiment, line) for line in lines if (line.name, line.column) == (row, column)]
    own = [values for values in own if values.get(experiment.statistic)]
    pick = max if experiment.larger_is_better else min
    return pick(own, key=lambda values: statistics.median(values[experiment.statistic])) if own else {}


def _with_diverged(experiment: Experiment, line: Line) -> Values:
    """The numbers of a line; of evaluations the diverged runs' too."""
    if not line.diverged or experiment.of_one_number:
        return line.values
    worst = [-math.inf if experiment.metric in LARGER_IS_BETTER else math.inf] * line.diverged
    names = line.values or {name: [] for name in ("minimum", "maximum", FINAL, LAST_20)}
    return {name: [*values, *worst] for name, values in names.items()}


def _mean(experiment: Experiment, lines: Sequence[Line], row: str) -> Values:
    """For each seed that a row has in every column, the mean over the columns; nothing for a row of several lines."""
    own = [line for line in lines if line.name == row and line.seeds]
    if sorted(line.column for line in own) != sorted(column.name for column in experiment.columns):
        return {}
    found = {}
    for name in own[0].values:
        if all(len(line.values.get(name, ())) == len(line.seeds) for line in own):
            by_seed = [dict(zip(line.seeds, line.values[name], strict=True)) for line in own]
            seeds = [seed for seed in by_seed[0] if all(seed in values for values in by_seed)]
            found[name] = [statistics.mean(values[seed] for values in by_seed) for seed in seeds]
    return found
