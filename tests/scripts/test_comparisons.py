"""The rule by which runs decide a claim, one comparison at a time (docs/claims.md, how a claim is judged)."""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from scripts.grid.experiment.claims import MEAN, NOT, OPEN, REPRODUCED, beside_each_other, comparisons_of, ratio
from scripts.grid.experiment.file import read
from scripts.grid.experiment.table import Line
from scripts.grid.experiment.verdicts import verdicts

#: Of three seeds: the best evaluation and the last one.  The baseline is 0.2.
VALUES = {
    "good": ([0.01, 0.02, 0.015], [0.02, 0.03, 0.02]),
    "near": ([0.018, 0.03, 0.03], [0.04, 0.04, 0.04]),
    "spikes": ([0.05, 0.05, 0.05], [0.9, 0.05, 0.05]),
    "stuck": ([0.199, 0.2, 0.195], [0.2, 0.21, 0.2]),
    "half": ([0.1, 0.11, 0.2], [0.1, 0.11, 0.2]),
    "two": ([0.5, 0.6], [0.5, 0.6]),
    "none": ([], []),
    "same": ([0.7, 0.7, 0.7], [0.7, 0.7, 0.7]),
}


@dataclass
class Made:
    """An experiment of rows without options, and its table of made-up numbers."""

    path: object

    def comparisons(self, claim, values=VALUES, more="", columns=("all",), diverged=None, baselines=(0.2,)):
        rows = "".join(f'[[row]]\nname = "{name}"\n' for name in dict.fromkeys(name for name in values))
        at = "".join(f'[[column]]\nname = "{column}"\n' for column in columns)
        said = "".join(
            f"{key} = {str(value).lower() if value is True else repr(value)}\n" for key, value in claim.items()
        )
        head = 'format = "ortho_ref experiment 1"\ntitle = "x"\nseeds = 3\n'
        own = f'{head}{more}[options]\ntask = "adding"\n{at}{rows}[[claim]]\ntext = "x"\n{said}'
        self.path.write_text(own.replace("'", '"'))
        experiment = read(self.path)
        lines = [
            line(name, column, *own, (diverged or {}).get(name, 0))
            for name, own in values.items()
            for column in columns
        ]
        states = [
            SimpleNamespace(cell=SimpleNamespace(column=SimpleNamespace(name=column)), config={"baseline": baseline})
            for column in columns
            for baseline in baselines
        ]
        return experiment, lines, comparisons_of(experiment, lines, states)


def line(name, column, best, final, diverged=0):
    values = {"minimum": best, "maximum": best, "final": final, "median_of_last_20": final} if best else {}
    return Line(name, name, column, values, tuple(range(len(best))), 3, (), diverged, 1, 1.0, {}, {})


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / "x.toml")


@pytest.mark.parametrize(
    ("claim", "word", "reverse"),
    [
        ({"below": ["good", "stuck"]}, REPRODUCED, False),
        ({"below": ["stuck", "good"]}, NOT, True),
        ({"above": ["stuck", "good"]}, REPRODUCED, False),
        ({"below": ["good", "near"]}, NOT, False),  # by the last evaluation, not by the best
        ({"below": ["good", "near"], "statistic": "final"}, REPRODUCED, False),
        ({"below": ["good", "spikes"]}, REPRODUCED, False),
        ({"below": ["spikes", "stuck"]}, NOT, False),  # by the best evaluation, not by the last
        ({"below": ["good", "two"]}, OPEN, False),
        ({"below": ["two", "good"]}, OPEN, True),
        ({"below": ["good", "none"]}, OPEN, False),
        ({"below": ["near", "good"], "times": 4}, REPRODUCED, False),
        ({"comparable": ["near", "good"], "times": 4}, REPRODUCED, False),
        ({"comparable": ["near", "good"]}, NOT, False),
        ({"comparable": ["stuck", "good"]}, NOT, True),
        ({"comparable": ["same", "same"], "times": 1.0}, REPRODUCED, False),
        ({"below": ["same", "same"]}, NOT, True),  # of two that are equal none is better
        ({"at_baseline": "stuck"}, REPRODUCED, False),
        ({"at_baseline": "good"}, NOT, True),
        ({"beats_baseline": "good"}, REPRODUCED, False),
        ({"beats_baseline": "half"}, NOT, False),
        ({"beats_baseline": "spikes"}, NOT, False),
        ({"beats_baseline": "good", "to": 0.05}, NOT, False),
        ({"at_baseline": "half", "to": 0.4}, REPRODUCED, False),
        ({"beats_baseline": "two"}, OPEN, True),
        ({"less_than": 0.05, "rows": ["good"]}, REPRODUCED, False),
        ({"more_than": 0.05, "rows": ["good"]}, NOT, True),
    ],
)
def test_one_comparison(made, claim, word, reverse):
    """Three seeds each, separated in every pair by the best evaluation and by the last."""
    _, _, (found,) = made.comparisons(claim | {"why": "y"})
    assert (found.word, found.reversed and word != REPRODUCED, found.why, found.column) == (word, reverse, "y", "all")


def test_two_baselines_in_a_column_decide_nothing(made):
    """Runs of a column that were held against different predictors are held against none."""
    assert [one.word for one in made.comparisons({"beats_baseline": "good"}, baselines=(0.2, 0.3))[2]] == [OPEN]


def test_a_comparison_says_how_many_pairs_are_as_the_paper_says(made):
    """One seed of three of `near` is better than two of `good` by the best evaluation; none by the last."""
    _, _, (found,) = made.comparisons({"below": ["good", "near"]})
    assert found.by == {"minimum": pytest.approx(8 / 9), "final": 1.0}


def test_a_claim_of_several_models_is_several_comparisons(made):
    """Each rival by itself: one that was not run leaves the others decided."""
    _, _, found = made.comparisons({"below": ["good", "stuck", "two", "none"]})
    assert [(one.rival, one.word, one.seeds) for one in found] == [
        ("stuck", REPRODUCED, (3, 3)),
        ("two", OPEN, (3, 2)),
        ("none", OPEN, (3, 0)),
    ]
    assert found[2].ratios == {}
    _, _, found = made.comparisons({"less_than": 1, "rows": ["good", "half"]})
    assert [(one.model, one.rival, one.word) for one in found] == [
        ("good", "less than 1", REPRODUCED),
        ("half", "less than 1", REPRODUCED),
    ]


def test_a_run_that_diverged_is_worse(made):
    """Than every other, by each statistic: two seeds and a diverged one are three, and lose to all."""
    own = {"good": VALUES["good"], "bursts": ([0.001, 0.001], [0.001, 0.001]), "gone": ([], [])}
    for rival, diverged, word, reverse in (("bursts", 1, NOT, False), ("gone", 3, REPRODUCED, False)):
        _, _, (found,) = made.comparisons({"below": ["good", rival]}, own, diverged={rival: diverged})
        assert (found.word, found.seeds, found.reversed) == (word, (3, 3), reverse)
    _, _, (found,) = made.comparisons({"beats_baseline": "gone"}, own, diverged={"gone": 3})
    assert (found.word, found.reversed) == (NOT, True)
    accuracy = {"good": ([0.9] * 3, [0.9] * 3), "gone": ([], [])}
    more = 'metric = "accuracy"\n'
    _, _, (found,) = made.comparisons({"above": ["good", "gone"]}, accuracy, more, diverged={"gone": 3})
    assert found.word == REPRODUCED


@pytest.mark.parametrize(
    ("more", "by"),
    [
        ("", ["minimum", "final"]),
        ('metric = "accuracy"\n', ["maximum", "final"]),
        ('metric = "worst_condition"\n', ["minimum"]),
        ('statistic = "final"\n', ["minimum", "final"]),
    ],
)
def test_which_statistics_count(made, more, by):
    """Best and last of what is evaluated; of one number a run, that."""
    _, _, (found,) = made.comparisons({"below": ["good", "stuck"]}, more=more)
    assert list(found.by) == by


def test_the_mean_of_the_columns(made):
    """Seed by seed, of the seeds that every column has; of no row that a column lacks."""
    experiment, lines, _ = made.comparisons({"above": ["good", "stuck"], "mean_of_columns": True}, columns=("a", "b"))
    lines = [one for one in lines if (one.name, one.column) not in {("good", "a"), ("none", "a"), ("none", "b")}]
    lines.append(line("good", "a", [0.5, 0.7, 0.6, 9.0], [0.5, 0.7, 0.6, 9.0]))
    (found,) = comparisons_of(experiment, lines, [])
    assert (found.column, found.word, found.seeds) == (MEAN, REPRODUCED, (3, 3))
    assert found.ratios["minimum"].median == pytest.approx((0.6 + 0.015) / (2 * 0.199), abs=1e-9)
    without = [one for one in lines if (one.name, one.column) != ("good", "b")]
    (found,) = comparisons_of(experiment, without, [])
    assert (found.word, found.seeds) == (OPEN, (0, 3))


def test_of_a_row_of_several_lines_the_best_counts(made):
    """A search: the line with the smaller median, of accuracies the larger."""
    experiment, lines, _ = made.comparisons({"below": ["good", "stuck"]})
    lines.append(line("good", "all", [0.9, 0.9, 0.9], [0.9, 0.9, 0.9])._replace(row="good, lr = 1"))
    (found,) = comparisons_of(experiment, lines, [])
    assert found.word == REPRODUCED


def test_model_and_rival_as_if_it_were_claimed(made):
    """The first page's table: below of losses, above of accuracies, whose ratio is that of what is wrong."""
    of_accuracies = 'metric = "accuracy"\nunit = 1e-2\n'
    for more, word, median in (("", REPRODUCED, 0.015 / 0.199), (of_accuracies, NOT, (100 - 0.015) / (100 - 0.199))):
        experiment, lines, _ = made.comparisons({"below": ["good", "stuck"]}, more=more)
        found = beside_each_other(experiment, lines, "all", "good", "stuck")
        assert found.word == word
        assert next(iter(found.ratios.values())).median == pytest.approx(median, rel=1e-12)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=8), st.lists(st.floats(0.01, 100), min_size=1, max_size=8))
def test_ratios(a, b):
    """Of the medians; all pairs below five seeds, else a bootstrap, which lies within all pairs, the same each time."""
    own, pairs = ratio(a, b), np.divide.outer(a, b)
    assert own.median == pytest.approx(np.median(a) / np.median(b), rel=1e-12)
    assert own == ratio(a, b)
    if min(len(a), len(b)) < 5:
        assert (own.low, own.high) == (pairs.min(), pairs.max())
    assert pairs.min() <= own.low <= own.high <= pairs.max()


def test_a_ratio_of_a_diverged_median():
    """Infinity, and no warning."""
    assert ratio([math.inf] * 3, [1.0]).median == math.inf
    assert math.isnan(ratio([math.inf] * 3, [math.inf] * 3).median)


@pytest.mark.parametrize(
    ("paper", "words"), [("", ("holds", "does not hold")), ('paper = "goru"\n', (REPRODUCED, NOT))]
)
def test_a_claim_of_ones_own_is_not_reproduced_but_holds(tmp_path, paper, words):
    """A file without `paper` says nothing of a paper; the rule is the same."""
    made = Made(tmp_path / "own.toml").comparisons({"below": ["half", "same", "good"]}, more=paper)
    rows = [row.split(" | ")[3:] for row in verdicts(made[0], made[2]).splitlines() if row.startswith("| x | ")]
    assert [(rival, verdict) for rival, *_, verdict in rows] == [
        ("same", f"**{words[0]}** |"),
        ("good", f"**{words[1]}** (n = 3, none agrees) |"),
    ]
