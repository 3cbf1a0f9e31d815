"""docs/equations.md, docs/equation-index.md and the program that writes and checks it."""

import re
import shutil

import pytest

from scripts.maintain import equation_index
from scripts.maintain.equation_index import (
    CODE,
    INDEX,
    ROOT,
    STATED,
    TESTS,
    problems,
    read_equations,
    render,
    rows_of,
    strays,
)
from tests.scripts.runs import call

PAGE = """
## First

| id | formula | what it says |
|---|---|---|
| `goru:2.8` `goru:2.9` `goru:2.10` | `a`; `b` | three |
| `goru:3.1` = `goru:2.8` | | the first of them |
| `ncgru:7` | | **prose:** a remark, no formula |
| `ncgru:8` | | **open:** half of it |

## Second

| id | formula | what it says |
|---|---|---|
| `bp:gru1` | `goru:2.9` = `goru:2.10` | two, in parts |
| `urnn:2` `urnn:4` = `goru:2.9` `goru:2.10` | | each its own |
| `sgornn:thm1` = `goru:2.9` `goru:2.10` `bp:gru1` | | all three |
"""
CODE_FILES = {
    "ortho_ref/a.py": '"""Not urnn:2, nor [goru:2.8]."""\nx = 1  # [bp:gru1/1] [bp:gru1/c-h] [goru:2.9] [goru:2.10]\n',
    "tasks/b.py": '"""The task (ncgru:8)."""\n',
}
TEST_FILES = {"tests/c.py": '"""By bp:gru1/2."""\ndef f():\n    """goru:2.10."""\n    "ncgru:7"\n    # [goru:2.8]\n'}


HELD = TEST_FILES | {"tests/d.py": '"""goru:2.9, urnn:2."""'}


def kinds(code=CODE_FILES, tests=TEST_FILES):
    """The kind of every id of PAGE."""
    return {name: row.kind for name, row in rows_of(read_equations(PAGE), code, tests).items()}


def wrong(code=CODE_FILES, tests=TEST_FILES, page=PAGE, written=None):
    """What the check says; of an index as it would be written unless one is given."""
    entries = read_equations(page)
    return problems(page, code, tests, written or render(entries, rows_of(entries, code, tests)))


def test_every_equation_of_the_project_is_held():
    """Every id has its code and test, or a reason; every tag and every id that a test names is stated; the index is of
    today.  Where this fails: python -m scripts.maintain.equation_index."""
    assert call(equation_index.main, "--check") == (0, "", "")


def texts():
    """Every page, source and stored case of the project, but this file and the changelog's history."""
    yield from (path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md")
    for folder in (*CODE, *TESTS, "docs", "results"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".cu", ".cuh", ".md", ".toml", ".json"} and path.name != "test_equation_index.py":
                yield path


# A number, and behind it more of them that a search would not find.
HIDDEN = re.compile(
    r"(?:ncgru|urnn|sgornn|goru):\d[\d.]*[a-z]?(?:\s?[-\u2013]\s?|, | and | to )\(?\d[\d.]*\b(?! ?[=<*])"
)


def hidden(text):
    """What a text says of several equations in a way that hides all but the first from a search, such as a range."""
    return HIDDEN.findall(text)


def test_a_plain_search_finds_every_id():
    """No text names several equations in a way that hides all but the first, in brackets or not."""
    found = {path.relative_to(ROOT).as_posix(): hidden(path.read_text(encoding="utf-8")) for path in texts()}
    assert len(found) > 500
    assert {name: ids for name, ids in found.items() if ids} == {}


@pytest.mark.parametrize(
    "text", ["[ncgru:16-18]", "goru:2.9-2.10", "sgornn:7, 8", "ncgru:29, 32 and 40", "urnn:2\u20134", "ncgru:8 to (12)"]
)
def test_what_hides_an_id(text):
    """Ranges and lists; not two ids beside each other, nor a number that is none of an equation."""
    assert len(hidden(f"x {text} y")) == 1
    assert (
        hidden("[ncgru:16] [ncgru:17], ncgru:1-h0, goru:2.9 and goru:2.10, urnn:2 and T = 3; bp:gru1, 2 of them") == []
    )


def test_kinds():
    """Tags count in the code's comments only, and in the words of tasks; ids in any words of a test, not in its data.
    What an id is the same as holds it too: one each, or all.  Open stays open."""
    assert kinds() == {
        "goru:2.8": "test",
        "goru:2.9": "**code**",
        "goru:2.10": "code + test",
        "goru:3.1": "test",
        "ncgru:7": "prose",
        "ncgru:8": "open",
        "bp:gru1": "code + test",
        "urnn:2": "**code**",
        "urnn:4": "code + test",
        "sgornn:thm1": "code + test",
    }
    assert kinds(tests={"tests/c.py": '"""ncgru:7, ncgru:8."""'})["ncgru:7"] == "test"
    assert kinds(tests={"tests/c.py": '"""ncgru:7, ncgru:8."""'})["ncgru:8"] == "open"
    assert [line.split(" is not")[0].split(": ")[0] for line in wrong()] == ["goru:2.9", "urnn:2"]
    assert wrong(tests=HELD) == []


def test_a_tag_of_no_equation():
    """Named with its file, in the code and in a test; so is a range, which is no id."""
    made_up = {"gradients/d.py": "x = 1  # [ncgru:99/a]\ny = 2  # [goru:2.8-2.10]\n"}
    assert [line.split(" is not")[0] for line in strays(read_equations(PAGE), made_up, {})] == [
        "gradients/d.py: ncgru:99/a",
        "gradients/d.py: goru:2.8-2.10",
    ]
    assert len(wrong(CODE_FILES | made_up, HELD)) == 2
    (line,) = wrong(tests=HELD | {"tests/e.py": '"""urnn:77."""'})
    assert line.startswith("tests/e.py: urnn:77 is not stated")


def test_an_equation_that_nothing_holds():
    """One line for it, and for each that is only the same as it."""
    lines = wrong(tests={"tests/c.py": '"""bp:gru1, goru:2.10, goru:2.9, urnn:2."""'})
    assert [line.split(":", 2)[:2] for line in lines] == [["goru", "2.8"], ["goru", "3.1"]]
    assert all("neither computed nor tested" in line for line in lines)
    assert wrong()[0].startswith("goru:2.9: computed by the code, but no test names it")


def test_an_index_out_of_date():
    """After a test is gone, and where there is no index."""
    written = render(read_equations(PAGE), rows_of(read_equations(PAGE), CODE_FILES, HELD))
    assert wrong(tests=HELD, written=written) == []
    assert "| `goru:2.10` | code + test | [a.py](../ortho_ref/a.py) | [c.py](../tests/c.py) |" in written
    assert "| `ncgru:7` | prose: a remark, no formula |  |  |" in written
    (line,) = wrong(tests={name.replace("c", "e"): text for name, text in HELD.items()}, written=written)
    assert "out of date" in line
    assert len(problems(PAGE, CODE_FILES, HELD, None)) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [("| `goru:2.9` | | again |", "states goru:2.9 twice"), ("| `goru:4` = `goru:5` | | |", "goru:5, which is not")],
)
def test_a_page_that_contradicts_itself(row, message):
    """An id twice, or the same as one that is not there."""
    with pytest.raises(ValueError, match=message):
        read_equations(PAGE + row + "\n")


def test_the_program(tmp_path, monkeypatch):
    """On a copy: --check writes nothing; a made-up tag, a lost equation and a changed index are one line each and exit
    code 1; without --check the index is written again, to the byte."""
    for folder in (*CODE, *TESTS, "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.svg"))
    monkeypatch.setattr(equation_index, "ROOT", tmp_path)
    index, stated = tmp_path / INDEX, (tmp_path / STATED).read_text()
    call(equation_index.main)
    first = index.read_text()
    index.write_text(first + "\n")
    (tmp_path / "ortho_ref/extra.py").write_text("x = 1  # [ncgru:100]\n")
    (tmp_path / STATED).write_text(stated.replace("| `ncgru:40` |", "| `ncgru:90` |"))
    code, out, _ = call(equation_index.main, "--check")
    assert code == 1
    for begins in (
        "ortho_ref/extra.py: ncgru:100 ",
        "gradients/gru_reset_before.py: ncgru:40 is not stated",
        "ncgru:90: neither",
    ):
        assert any(line.startswith(begins) for line in out.splitlines()), begins
    assert "out of date" in out
    assert index.read_text() == first + "\n"
    (tmp_path / "ortho_ref/extra.py").unlink()
    (tmp_path / STATED).write_text(stated)
    assert call(equation_index.main)[0] == 0
    assert index.read_text() == first
    (tmp_path / STATED).write_text(stated + "| `ncgru:40` | | |\n")
    code, _, err = call(equation_index.main, "--check")
    assert code == 2
    assert "twice" in err
