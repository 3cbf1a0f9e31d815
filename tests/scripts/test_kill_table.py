"""docs/kill-table.md is what its script writes, and the script fails where a mistake is not shown."""

import pytest

from ortho_ref.conformance.case import vectors
from ortho_ref.conformance.mistake import Mistake
from scripts import kill_table
from tests.scripts.runs import call


@pytest.fixture(scope="module")
def found():
    """The whole table, by the kills that are stored, which test_mistakes.py counts again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kill_table, "killed", lambda mistake, vector: mistake.name in vector.kills)
        return kill_table.table()


def test_every_mistake_is_shown(found):
    """The kill rate is 100 %."""
    assert found.survivors() == []


def test_the_page_is_up_to_date(found):
    """Every case and every mistake is on it."""
    text = kill_table.PAGE.read_text()
    assert text == kill_table.page(found)
    assert all(f"`{vector.id}`" in text for vector in vectors())


def test_alone_is_what_no_other_case_of_the_subject_shows(found):
    """By hand, on one case."""
    assert found.alone("cell/lstm/long") == ["windows-of-8"]
    assert "W-transposed" in found.alone("cell/lstm/square")
    assert found.alone("cell/lstm") == []


def test_a_survivor_fails(monkeypatch, tmp_path):
    """Exit code 1, its name, and no page."""
    nothing = Mistake("none-at-all", "nothing wrong", lambda case: case.kind == "cell", lambda case, base: base(case))
    monkeypatch.setattr(kill_table, "MISTAKES", (nothing,))
    monkeypatch.setattr(kill_table, "PAGE", tmp_path / "page.md")
    code, _, error = call(kill_table.main)
    assert code == 1
    assert "no case shows none-at-all" in error
    assert not (tmp_path / "page.md").exists()
