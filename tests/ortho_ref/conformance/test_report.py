"""Reports: what is said, in words, as a table, as JSON; the exit code."""

import json
import sys

import numpy as np
import pytest
from hypothesis import given, strategies as st

import ortho_ref
from ortho_ref import formats
from ortho_ref.conformance import check
from ortho_ref.conformance.compare import Comparison
from ortho_ref.conformance.report import (
    FAILED,
    FORMAT,
    PARTIAL,
    PASSED,
    STATUSES,
    UNSUPPORTED,
    Report,
    Result,
    shortened,
)
from ortho_ref.conformance.stored import Stored, read_report
from tests.ortho_ref.conformance.adapters import right

GOOD, BAD, WILD = Comparison(1e-12, 1e-9), Comparison(0.5, 1e-9), Comparison(float("inf"), 1e-9, "is not finite")


def report_of(*statuses, allow_partial=False):
    return Report(tuple(Result(f"a/{i}", status) for i, status in enumerate(statuses)), "float64", allow_partial)


#: Whether it is ok, and where partial passes are allowed.
OK = {"P": (1, 1), "PP": (1, 1), "PU": (1, 1), "UP": (1, 1), "U": (0, 0), "UU": (0, 0), "F": (0, 0), "PF": (0, 0)}
OK |= {"FPP": (0, 0), "R": (0, 1), "PR": (0, 1), "RU": (0, 1), "RF": (0, 0), "": (0, 0)}


@pytest.mark.parametrize("statuses", OK)
def test_what_is_ok(statuses):
    """Only where every supported case passes and one is supported; R is partial, which may be allowed."""
    own = [{"P": PASSED, "U": UNSUPPORTED, "F": FAILED, "R": PARTIAL}[letter] for letter in statuses]
    for allow, expected in zip((False, True), OK[statuses], strict=True):
        report = report_of(*own, allow_partial=allow)
        assert report.ok == expected
        assert json.loads(report.as_json())["ok"] is bool(expected)


def test_an_interrupted_run_is_not_ok():
    """Though every case that was run passed; the rest of the report is as it is."""
    whole, cut = (Report((Result("a", PASSED),), "float64", interrupted=interrupted) for interrupted in (False, True))
    assert (whole.ok, cut.ok) == (True, False)
    changed, expected = validated(cut), validated(whole) | {"ok": False, "interrupted": True}
    assert changed | {"sha256": ""} == expected | {"sha256": ""}
    assert str(cut) == str(whole)


@given(st.lists(st.sampled_from(STATUSES)))
def test_counts(statuses):
    """Of every status, in one order, those of nothing too; the summary has them."""
    report = report_of(*statuses)
    assert list(report.counts.items()) == [(status, statuses.count(status)) for status in STATUSES]
    counted = ", ".join(f"{statuses.count(status)} {status}" for status in STATUSES)
    assert report.summary().startswith(f"{counted}; float64, ortho_ref {ortho_ref.__version__}.")
    assert json.loads(report.as_json())["counts"] == report.counts


def test_the_summary_says_what_is_special():
    assert report_of(UNSUPPORTED).summary().endswith("Nothing was supported: run(case) gave None for every case.")
    assert report_of(PARTIAL, allow_partial=True).summary().endswith("Partial cases were allowed.")
    for plain in (
        report_of(PASSED),
        report_of(PASSED, UNSUPPORTED),
        report_of(PARTIAL),
        report_of(PASSED, allow_partial=True),
        report_of(PARTIAL, FAILED, allow_partial=True),
    ):
        assert plain.summary().endswith(f"ortho_ref {ortho_ref.__version__}.")


RESULT = Result(
    "a/case",
    FAILED,
    {"h": GOOD, "d_x": BAD, "d_W": WILD},
    ("d_b", "d_U"),
    "a [red]message[/red]",
    (("first",), ("second", "third")),
    "look there",
)


def test_what_is_said_of_a_case():
    """The worst output; in one line message, diagnosis, remarks of outputs, what is missing."""
    passed = Result("b", PASSED, {"h": Comparison(1.26e-12, 1e-9)})
    rows = Report((RESULT, passed, Result("c", UNSUPPORTED)), "float64").rows()
    assert rows[0][:3] == ("a/case", FAILED, "d_W inf")
    assert RESULT.worst == ("d_W", WILD)
    assert RESULT.remarks == "a [red]message[/red]; look there; d_W is not finite; missing: d_b, d_U"
    assert rows[1:] == [("b", PASSED, "h 1.3e-12", ""), ("c", UNSUPPORTED, "", "")]
    for outputs in ({"h": GOOD, "d_x": BAD}, {"d_x": BAD, "h": GOOD}):
        assert Result("a", PASSED, outputs).worst == ("d_x", BAD)
    assert Result("a", FAILED, diagnosis="there").remarks == "there"


def test_remarks_of_outputs_are_grouped_by_what_they_say():
    """One sentence for seventeen outputs, another for the rest."""
    single, off = Comparison(1e-7, 1e-9, "is float32 for inputs in float64"), WILD
    outputs = {f"d_{i}": single for i in range(17)}
    every = Result("a", FAILED, outputs | {"h": GOOD})
    assert every.remarks == f"{shortened(tuple(outputs), (*outputs, 'h'))} is float32 for inputs in float64"
    mixed = Result("a", FAILED, {"h": single, "d_W": off, "c": single, "d_x": off, "y": GOOD}, ("z",))
    assert mixed.remarks == "h, c is float32 for inputs in float64; d_W, d_x is not finite; missing: z"


EXPLAINED = ["1 mistake explains 1 of 1 failing cases: first (1)."]
REPORT = Report((RESULT, Result("a/longer-name", PASSED, {"h": GOOD}), Result("b", UNSUPPORTED)), "float32")


def test_plain_text():
    """A line for each case, in columns, without blanks at its end; diagnoses below by number; the summary last."""
    lines = str(REPORT).split("\n")
    assert lines[0].split() == ["a/case", FAILED, "d_W", "inf", *RESULT.told("[1]").split()]
    assert lines[1].split() == ["a/longer-name", PASSED, "h", "1.0e-12"]
    assert lines[2].split() == ["b", UNSUPPORTED]
    assert lines[3:-2] == ["", "[1] Look there. The one failing case of a/case: a/case.", *EXPLAINED]
    assert lines[-2:] == ["", REPORT.summary()]
    columns = [line.index(word) for line, word in zip(lines, (FAILED, PASSED, UNSUPPORTED), strict=False)]
    assert columns == [len("a/longer-name") + 2] * 3
    assert lines[0].index("d_W") == lines[1].index("h 1.0")
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize(
    ("kinds", "statuses", "rows", "end"),
    [
        ({"cell": 4, "loss": 6}, (PASSED, FAILED), None, ""),
        ({"cell": 4, "loss": 7}, (PASSED, FAILED, PARTIAL), 3, " Unsupported: 4 cell, 7 loss."),
        ({"cell": 11}, (PARTIAL,), 1, " Unsupported: 11 cell."),
        ({"cell": 10}, (), None, " Nothing was supported: run(case) gave None for every case."),
        ({"cell": 11}, (), 0, " Nothing was supported: run(case) gave None for every case."),
        ({}, (), None, ""),
    ],
)
def test_unsupported_cases_have_rows_up_to_ten(kinds, statuses, rows, end):
    """More are folded into the summary, by kind; JSON has every one."""
    left = [Result(f"{kind}/{i}", UNSUPPORTED) for kind, count in kinds.items() for i in range(count)]
    every = (*left, *(Result(f"other/{i}", status) for i, status in enumerate(statuses)))
    report = Report(every, "float64")
    assert report.summary().endswith(f"float64, ortho_ref {ortho_ref.__version__}.{end}")
    *lines, empty, summary = str(report).split("\n")
    assert (empty, summary) == ("", report.summary())
    assert [line.split()[0] for line in lines] == [r.id for r in every][len(every) - rows if rows is not None else 0 :]
    assert [case["id"] for case in validated(report)["cases"]] == [result.id for result in every]


def validated(report):
    """The report's JSON, which is of the form that `read_report` takes."""
    document = json.loads(report.as_json(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    formats.check({name: value for name, value in document.items() if name not in ("format", "sha256")}, Stored)
    return document


def test_json():
    """Everything, with numbers that are not finite as null."""
    document = validated(REPORT)
    assert (document["kit"], document["dtype"], document["ok"]) == (ortho_ref.__version__, "float32", False)
    assert [case["id"] for case in document["cases"]] == ["a/case", "a/longer-name", "b"]
    first, limit = document["cases"][0], {"tolerance": 1e-9, "passed": False, "remark": "", "wrong": None}
    assert first.pop("outputs") == {
        "h": limit | {"error": 1e-12, "passed": True},
        "d_x": limit | {"error": 0.5},
        "d_W": limit | {"error": None, "remark": "is not finite"},
    }
    assert first == {
        "id": "a/case",
        "status": FAILED,
        "seconds": 0.0,
        "missing": ["d_b", "d_U"],
        "message": "a [red]message[/red]",
        "mistakes": [["first"], ["second", "third"]],
        "diagnosis": "look there",
        "traceback": "",
    }
    for error in (float("inf"), float("nan"), -0.0, 1e300):
        own = Result("a", FAILED, {"h": Comparison(error, 1e-9)}, traceback="first\n  \x1b[1m\udcff\n")
        (case,) = validated(Report((own,), "float64"))["cases"]
        assert case["outputs"]["h"]["error"] == (error if abs(error) < float("inf") else None)
        assert case["traceback"] == "first\n  \x1b[1m\\udcff\n"


def rubbish(case):
    """Each case in another way."""
    found, number = right(case), len(case.id) % 5
    if number == 0:
        return None
    if number == 1:
        raise ValueError(case.id)
    if number == 2:
        return {name: np.full_like(a, np.nan, float) for name, a in found.items()}
    if number == 3:
        return {name: a * 2 for name, a in found.items()}
    return dict([*found.items()][:1])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_json_of_real_runs(dtype):
    document = validated(check(rubbish, "[lo][op]*", dtype))
    assert document["dtype"] == dtype
    assert {case["status"] for case in document["cases"]} >= {FAILED, PARTIAL, UNSUPPORTED}
    assert any(case["mistakes"] for case in document["cases"])
    assert validated(check(right, "loss/*"))["ok"] is True


@pytest.mark.parametrize(
    "change", [{"ok": 1}, {"more": 1}, {"dtype": "float128"}, {"forward": 1}, {"cases": [{}]}, {"counts": {}}]
)
def test_what_is_no_report(change, tmp_path):
    """Sealed, and of another form: refused in one line."""
    value = {name: value for name, value in json.loads(REPORT.as_json()).items() if name not in ("format", "sha256")}
    (tmp_path / "x.json").write_bytes(formats.seal(value | change, FORMAT)[0])
    with pytest.raises(ValueError, match=r"x\.json is damaged"):
        read_report(tmp_path / "x.json")


@pytest.fixture
def terminal(monkeypatch):
    """Standard output taken for a terminal by rich."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_rich_on_a_terminal(terminal, capsys, monkeypatch):
    """Colours, and everything said as it stands: brackets are no markup.  Without rich, or a terminal, plain text."""
    REPORT.print()
    out = capsys.readouterr().out
    for color, status in (("31", FAILED), ("32", PASSED), ("2", UNSUPPORTED)):
        assert f"\x1b[{color}m{status}" in out
    for words in ("a [red]message[/red]", REPORT.summary(), "a/longer-name", "d_W inf"):
        assert words in out
    with monkeypatch.context() as without:
        for name in {"rich", *(name for name in sys.modules if name.split(".")[0] == "rich")}:
            without.setitem(sys.modules, name, None)
        REPORT.print()
        assert capsys.readouterr().out == f"{REPORT}\n"
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    REPORT.print()
    assert capsys.readouterr().out == f"{REPORT}\n"
