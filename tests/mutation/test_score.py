"""Scores of mutation testing, their table, and the reasons of those that survive."""

import math

import pytest

from scripts.mutation.folders import FOLDERS, files_of
from scripts.mutation.reasons import Reason, read
from scripts.mutation.score import Score, render, replace, row, rows, section, total
from tests.scripts.runs import ROOT

SCORES = {
    "cells": Score(mutants=800, tried=300, killed=290, timed_out=2, equivalent=5),
    "scan": Score(mutants=60, tried=60, killed=58, timed_out=0, equivalent=2),
    "runs": Score(mutants=1400, tried=300, killed=299, timed_out=0, equivalent=0),
}
REASON = Reason("ortho_ref/scan.py", "forward", "DropTrailer", "a | b.T", "a | b", True, "b is symmetric")


def test_what_a_score_counts():
    """A mutant that times out is killed, one that is proved equivalent counts neither way."""
    score = SCORES["cells"]
    assert score.survived == 3
    assert score.share == 292 / 295
    assert SCORES["scan"].share == 1
    assert math.isnan(Score(10, 2, 0, 0, 2).share)
    assert total(SCORES.values()) == Score(2260, 660, 647, 2, 7)


def test_wilsons_interval():
    """By its definition: the bounds are the two p with (share - p)^2 = z^2 p (1 - p) / n; 0 and 1 where it ends."""
    for killed in (0, 7, 59, 60):
        score = Score(60, 60, killed, 0, 0)
        for p in score.interval():
            assert (score.share - p) ** 2 == pytest.approx(1.959964**2 * p * (1 - p) / 60, abs=1e-12)
    assert Score(60, 60, 60, 0, 0).interval()[1] == 1
    assert Score().interval() == (0, 1)


def test_the_page_keeps_what_is_not_measured():
    """A row is read as it was written; a section goes into the place of its own, and leaves the others."""
    new = render(SCORES, [REASON], "Words.", {"scan": ["ortho_ref/scan.py"]})
    assert rows(new) == SCORES
    assert row("scan", SCORES["scan"]) in new
    assert "| **mathematics** (at least 99.0 %) | 860 | 360 | 348 | 2 | 7 | 3 | 99.2 % |" in new
    assert "| `ortho_ref/scan.py` forward | `a \\| b.T` as `a \\| b` | equivalent | b is symmetric |" in new
    page = "# Reliability\n\n## Torture\n\nKilled.\n"
    first = replace(page, new)
    assert first.startswith(page)
    assert section(first) == new
    later = replace(first + "\n## More\n\nWords.\n", new.replace("Words.", "Others."))
    assert later == first.replace("Words.", "Others.") + "\n## More\n\nWords.\n"
    assert rows("# Reliability\n") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[survivor]]\nfile = "a.py"\n', "an entry of a.py needs file, within"),
        ("{0}{0}", "stands twice"),
        ('{0}\nextra = ""\n', "needs file"),
    ],
)
def test_an_entry_that_is_not_whole(text, message, tmp_path):
    """Without a reason there is none, and one is enough."""
    entry = '[[survivor]]\nfile = "a.py"\nwithin = ""\noperator = "X"\nbefore = "a"\nafter = "b"\n'
    entry += 'equivalent = true\nwhy = "because"\n'
    path = tmp_path / "survivors.toml"
    path.write_text(entry)
    assert read(path) == [Reason("a.py", "", "X", "a", "b", True, "because")]
    path.write_text(text.format(entry))
    with pytest.raises(ValueError, match=message):
        read(path)
    path.write_text(entry.replace("because", " "))
    with pytest.raises(ValueError, match="needs"):
        read(path)


def test_every_folder_is_there():
    """No folder of the table is empty, and none has a file of another."""
    files = [file for targets in FOLDERS.values() for file in files_of(ROOT, targets)]
    assert all(files_of(ROOT, targets) for targets in FOLDERS.values())
    assert len(files) == len(set(files))
