"""Annotations of GitHub's: one line each, escaped as its toolkit does, no more than are shown."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortho_ref.conformance.annotations import MOST, annotations
from ortho_ref.conformance.compare import Comparison
from ortho_ref.conformance.report import FAILED, PARTIAL, PASSED, UNSUPPORTED, Breach, Report, Result, Verdict

COMMAND = re.compile(r"::(error|notice) ([^:\r\n]*)::([^\r\n]*)")


def read(line):
    """Level, properties and message of a line, as GitHub's runner reads it."""
    level, properties, message = COMMAND.fullmatch(line).groups()
    codes = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}

    def plain(text):
        return re.sub("|".join(codes), lambda found: codes[found[0]], text)

    return level, {n: plain(value) for n, value in (p.split("=", 1) for p in properties.split(","))}, plain(message)


def test_failures():
    """A failed case with its worst output and what is said; passed and unsupported ones are not there."""
    results = (
        Result("cell/a", FAILED, {"h": Comparison(0.5, 1e-9)}, message="50% off: a, b\n::error ::c"),
        Result("cell/b", PARTIAL, missing=("d_x",)),
        Result("cell/c", PASSED),
        Result("cell/d", UNSUPPORTED),
    )
    lines = annotations(Report(results, "float64"))
    assert [read(line) for line in lines] == [
        ("error", {"title": "cell/a failed"}, "h 5.0e-01; 50% off: a, b ::error ::c"),
        ("error", {"title": "cell/b partial"}, "missing: d_x"),
    ]
    assert lines[0] == "::error title=cell/a failed::h 5.0e-01; 50%25 off: a, b ::error ::c"
    assert len(annotations(Report(results, "float64", allow_partial=True))) == 1
    assert annotations(Report(results[2:], "float64")) == []


def test_what_breaks_the_contract_comes_first_and_what_is_expected_is_one_notice():
    results = (Result("a", FAILED), Result("b", FAILED), Result("c", FAILED))
    verdict = Verdict(False, {"a": "known, since 1.0"}, (Breach("c", "passed in the baseline and failed"),))
    assert [read(line) for line in annotations(Report(results, "float64", verdict=verdict))] == [
        ("error", {"title": "c"}, "c passed in the baseline and failed"),
        ("error", {"title": "b failed"}, "failed"),
        ("notice", {"title": "1 expected to fail"}, "a: known, since 1.0"),
    ]


def test_as_many_as_are_shown():
    """Of more than ten the tenth counts the rest."""
    for count in (MOST, MOST + 1, 47):
        lines = annotations(Report(tuple(Result(f"a/{i}", FAILED) for i in range(count)), "float64"))
        assert len(lines) == MOST
        said = f"{count - MOST + 1} more, which the table and the report have"
        assert read(lines[-1])[2] == ("failed" if count == MOST else said)


def test_a_run_that_is_not_ok_says_so():
    """Also where nothing failed: interrupted, or nothing supported."""
    (line,) = annotations(Report((Result("a", UNSUPPORTED),), "float64"))
    assert "Nothing was supported" in read(line)[2]
    interrupted = annotations(Report((Result("a", FAILED),), "float64", interrupted=True))
    assert [read(line)[2] for line in interrupted] == ["the run was interrupted; there were more cases", "failed"]


@pytest.mark.parametrize(
    ("adapter", "file"),
    [("{root}/sub/mi,ne.py", "sub/mi,ne.py"), ("package.module", None), ("/elsewhere/mine.py", None), (None, None)],
)
def test_the_adapters_file(tmp_path, adapter, file):
    """By its path in the checkout; none for a module, a command, and what lies outside."""
    adapter = adapter and adapter.format(root=tmp_path)
    (line,) = annotations(Report((Result("a", FAILED),), "float64"), adapter, tmp_path)
    assert read(line)[1] == {"title": "a failed"} | ({} if file is None else {"file": file})


@given(st.text(st.characters(categories=None, exclude_categories=()), max_size=40))
def test_any_text_stays_one_command(text):
    """Whatever an adapter says: one line, printable, and the message comes back but for what `shown` changes."""
    lines = annotations(Report((Result("a", FAILED, message=f"x{text}x"),), "float64"))
    assert len(lines) == 1
    assert lines[0].isprintable()
    level, properties, _ = read(lines[0])
    assert (level, properties) == ("error", {"title": "a failed"})
