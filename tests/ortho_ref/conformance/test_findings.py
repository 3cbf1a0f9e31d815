"""What a run found, each thing once: how much a diagnosis explains, and the fewest mistakes for the most cases."""

import numpy as np
import pytest

from ortho_ref.conformance import check
from ortho_ref.conformance.findings import findings, lines, numbers, summary
from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.conformance.mistakes.mistake import made
from ortho_ref.conformance.report import FAILED, PASSED, Report, Result
from tests.ortho_ref.conformance.adapters import BY_ID, right

BY_NAME = {mistake.name: mistake for mistake in MISTAKES}


def result(id, diagnosis="", *mistakes):
    return Result(id, FAILED, diagnosis=diagnosis, mistakes=mistakes)


RESULTS = (
    result("cell/lstm", "equal to a", ("a",)),
    result("cell/lstm/long", "equal to a", ("a",)),
    result("cell/lstm/step", "something else"),
    Result("cell/lstm/square", PASSED),
    result("loss/ce", "equal to a", ("a",)),
    Result("loss/ce/raised", FAILED, message="raised E"),
)


def test_a_diagnosis_stands_once():
    """With its cases, and those of the same cells that it does not explain; a case without one has no number."""
    found = findings(RESULTS)
    assert [(f.says, f.cases, f.failing, f.others) for f in found] == [
        ("equal to a", ("cell/lstm", "cell/lstm/long", "loss/ce"), 5, ("cell/lstm/step", "loss/ce/raised")),
        ("something else", ("cell/lstm/step",), 3, ("cell/lstm", "cell/lstm/long")),
    ]
    assert found[0].coverage == "3 of 5 failing cases: cell/lstm 2, loss/ce 1."
    assert found[1].coverage == "1 of 3 failing cases of cell/lstm: step; the others: cell/lstm, long."
    assert numbers(RESULTS) == {"cell/lstm": 1, "cell/lstm/long": 1, "cell/lstm/step": 2, "loss/ce": 1}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("forward right; d_x, d_h0 wrong; asked again, x", "forward right; d_h0, d_x, d_c0 wrong; asked again, y"),
        ("forward right; only d_x wrong", "forward right; only d_h0, d_weights.U wrong"),
        ("only U, A wrong", "only A_tilde wrong"),
    ],
)
def test_which_outputs_are_wrong_makes_no_other_finding(one, other):
    """In any order and number, of gradients and of what an update gives."""
    found = findings([result("cell/lstm", one), result("cell/lstm/long", other)])
    assert [own.cases for own in found] == [("cell/lstm", "cell/lstm/long")]


@pytest.mark.parametrize(
    ("results", "says"),
    [
        (RESULTS, "1 mistake explains 3 of 5 failing cases: a (3). Unexplained: cell/lstm/step, loss/ce/raised."),
        (RESULTS[3:4], ""),
        (RESULTS[2:3], "No known mistake explains the one failing case."),
        (RESULTS[2:3] * 2, "No known mistake explains any of the 2 failing cases."),
    ],
)
def test_the_summary_counts_and_names_what_is_left(results, says):
    assert str(summary(results)) == says


@pytest.mark.parametrize(
    ("every", "chosen"),
    [
        ([[("a",), ("b",)], [("b",)]], ["b"]),
        ([[("a", "b"), ("c",)], [("a",)], [("b",)]], ["a", "b"]),
        ([[("a",), ("c", "d")], [("c",)], [("d",)]], ["c", "d"]),
        ([[("a",)], [("b",)], [("a",), ("c",)], [("b",), ("c",)]], ["a", "b"]),
    ],
)
def test_the_fewest_mistakes_for_the_most_cases(every, chosen):
    """Where several explain a case, that which others have too."""
    found = summary([result(f"cell/{i}", "x", *ways) for i, ways in enumerate(every)])
    assert sorted(own.name for own in found.mistakes) == chosen
    assert (found.explained, found.unexplained) == (len(every), ())


def test_lines_are_within_100_columns():
    """However long what there is to say, and however many cases."""
    many = [result(f"cell/{'long-name' * 3}/{i}", "word " * 60 + "\x1b[1m", ("a-mistake",)) for i in range(40)]
    for line in lines(many):
        assert len(line) <= 100
        assert "\x1b" not in line
    assert str(Report(tuple(many), "float64")).count("Word word") == 1


def has(names, where=lambda case: True):
    """An adapter with mistakes in some of its cases."""

    def run(case):
        own = [BY_NAME[name] for name in names if BY_NAME[name].applies(case) and where(case)]
        return made(own, BY_ID[case.id]) if own else right(case)

    return run


def test_a_run_with_two_mistakes_in_two_places():
    """Every failing case is explained, by these alone."""
    report = check(has(["adam-k-late", "momentum-nesterov"]), "optimizer/*")
    found = summary(report.results)
    assert {own.name for own in found.mistakes} == {"adam-k-late", "momentum-nesterov"}
    assert found.unexplained == ()
    assert found.explained == report.counts[FAILED]


def test_one_step_names_nothing():
    """Too much is alike there: the same outputs in a case of more steps have a name."""
    for id, named in (("cell/lstm/step", False), ("cell/lstm/long", True)):
        (found,) = check(has(["no-bias"]), id).results
        assert found.status == FAILED
        assert bool(found.mistakes) == named
        assert ("your outputs equal" in found.diagnosis) == named


def test_one_case_of_many_names_nothing():
    """It fits there; in two more, where it would show, something else is wrong."""
    alone = has(["U-transposed"], lambda case: case.id == "cell/lstm/square")

    def run(case):
        found = alone(case)
        noise = np.random.default_rng(0).standard_normal(found["h"].shape)
        return found if case.id == "cell/lstm/square" else found | {"h": found["h"] + noise}

    found = {r.id: r for r in check(run, ["cell/lstm/square", "cell/lstm", "cell/lstm/long"]).results}
    assert found["cell/lstm/square"].mistakes == ()
    assert ("U-transposed",) in check(run, "cell/lstm/square").results[0].mistakes


# Outputs apart


@pytest.mark.parametrize("spoil", [lambda a: np.full_like(a, np.nan), lambda a: a[:1], lambda a: 2 * a])
def test_one_output_silences_nothing(spoil):
    """Not finite, of another shape, or twice what it is: the others are named all the same, with what is left."""
    (found,) = check(spoiled(has(["reset-after"]), "d_h0", spoil), "cell/gru_reset_before/tanh").results
    assert ("reset-after",) in found.mistakes
    assert not found.outputs["d_h0"].passed
    if found.outputs["d_h0"].error < 10:
        assert found.mistakes == (("reset-after",),)
        assert found.diagnosis.endswith(", in all but d_h0; d_h0: 2 times what it then is")


def spoiled(run, name, spoil):
    """An adapter with one output changed."""
    return lambda case: (found := run(case)) | {name: spoil(found[name])}


def test_h_0_is_judged_apart():
    """h[0] is given, not computed."""
    id = "cell/lstm/square"

    def zeros(h):
        return np.concatenate([0 * h[:1], h[1:]])

    (found,) = check(spoiled(right, "h", zeros), id).results
    assert found.mistakes == ()
    assert "h: right but for h[0], which is the h0 that was given" in found.diagnosis
    (found,) = check(spoiled(has(["no-bias"]), "h", zeros), id).results
    assert ("no-bias",) in found.mistakes
    assert "in all but h[0]" in found.diagnosis
