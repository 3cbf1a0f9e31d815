"""python -m scripts.mutants on a package of a few lines: what is killed, and what survives."""

import json
import shutil
import subprocess

import pytest

pytest.importorskip("cosmic_ray", reason="cosmic-ray is not installed: `make mutants` installs it")

from scripts import mutants
from scripts.mutation import folders, reasons, session, trial
from scripts.mutation.folders import FOLDERS, files_of
from scripts.mutation.lines import Lines
from scripts.mutation.mutants import make, places
from scripts.mutation.score import rows
from tests.scripts.runs import ROOT, call

SOURCE = '''"""A package."""

import functools

LIMIT = 3
TABLE = {"one": 1}


def add(a, b):
    return a + b


def never(a):
    return a - 1


def hang(a):
    while a < LIMIT:
        a += 1
    return a


@functools.cache
def remembered():
    return 2 * 3


def is_long(a):
    return a > LIMIT
'''
TESTS = '''"""Tests of it."""
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from ortho_ref import tiny

EARLY, ONE = tiny.remembered(), tiny.TABLE["one"]


@pytest.fixture(scope="module")
def shared():
    return tiny.is_long(9)


@pytest.mark.parametrize("b", [0, 1])
@pytest.mark.filterwarnings("ignore:a mark")  # which holds where a mutant is tried, too
def test_add(b):
    warnings.warn("a mark")
    assert tiny.add(1, b) == 1 + b


def test_hang():
    assert tiny.hang(0) == 3


def test_first(shared):
    pass


def test_second(shared):
    assert shared


def test_process():
    code = "from ortho_ref import tiny; assert tiny.remembered() == 6"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_process_that_is_killed():
    if "COVERAGE_PROCESS_START" in os.environ:  # what it leaves where it is killed while it writes
        Path(os.environ["COVERAGE_PROCESS_START"]).with_name("lines.killed").write_bytes(b"SQLite format 3")
'''


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A tree with a folder `tiny` to mutate, and limits that fit it."""
    root = tmp_path / "tree"
    for name in ("ortho_ref", "tests"):
        (root / name).mkdir(parents=True)
        (root / name / "__init__.py").touch()
    (root / "ortho_ref/tiny.py").write_text(SOURCE)
    (root / "tests/test_tiny.py").write_text(TESTS)
    settings = '[tool.pytest.ini_options]\nmarkers = ["install"]\nfilterwarnings = ["error"]\n'
    (root / "pyproject.toml").write_text(settings)
    (root / ".gitignore").write_text("__pycache__\n")
    shutil.copytree(ROOT / "scripts/mutation", root / "scripts/mutation", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "scripts/__init__.py").touch()  # its own: the project's imports the project
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    (root / "docs").mkdir()
    for module in (folders, session, mutants):
        monkeypatch.setattr(module, "FOLDERS", {"tiny": ("ortho_ref/tiny.py",)})
    monkeypatch.setattr(mutants, "ROOT", root)
    monkeypatch.setattr(mutants, "PAGE", root / "docs/reliability.md")
    monkeypatch.setattr(trial, "AT_LEAST", 2.0)
    monkeypatch.setattr(mutants, "read", lambda: reasons.read(root / "survivors.toml"))
    (root / "survivors.toml").touch()
    return root


@pytest.mark.slow
def test_what_is_killed_and_what_survives(tree, tmp_path):
    """A line that no test executes survives, and so do a bound that none reaches, a cache, a number that none reads.

    What is computed on import, in another process, or by a fixture that several tests share is seen, and so is an
    import that fails; a loop without end is timed out. A listed reason ends it; what is noted is not tried again, until
    a test changes.
    """
    arguments = ("tiny", "--jobs", 2, "--work", tmp_path / "work")
    code, out, err = call(mutants.main, *arguments)
    notes = [json.loads(line) for line in (tmp_path / "work/results.jsonl").read_text().splitlines()]
    survived = {(note["before"], note["after"]) for note in notes if note["outcome"] == "survived"}
    assert code == 1
    assert survived == {
        ("return a - 1", "return a + 1"),
        ("return a - 1", "return a - 2"),
        ("return a - 1", "return a - 0"),
        ("return a - 1", "return None"),
        ("return a > LIMIT", "return a >= LIMIT"),
        ("@functools.cache", ""),
        ('TABLE = {"one": 1}', 'TABLE = {"one": 2}'),
        ('TABLE = {"one": 1}', 'TABLE = {"one": 0}'),
    }
    timed_out = {note["before"] for note in notes if note["outcome"] == "timed out"}
    assert timed_out & {"a += 1", "while a < LIMIT:"}
    assert {note["how"] for note in notes} == {"warm", "cold", "no test"}
    by = {note["before"]: note["by"] for note in notes if note["outcome"] == "killed"}
    assert by["return 2 * 3"] == "tests/test_tiny.py::test_process"
    assert by["LIMIT = 3"].startswith("tests/test_tiny.py::")
    assert by['TABLE = {"one": 1}'] == "collecting"
    assert by["return a > LIMIT"] == "tests/test_tiny.py::test_second"
    assert err.count("survived: ") == len(survived)

    entries = "".join("[[survivor]]\n" + part.split("\n\n")[0] + "\n" for part in out.split("[[survivor]]\n")[1:])
    listed = entries.replace('why = ""', 'why = "a"').replace("equivalent = false", "equivalent = true")
    (tree / "survivors.toml").write_text(listed)
    code, out, err = call(mutants.main, *arguments, "--page")
    assert (code, "survived" in err) == (0, False)
    assert len((tmp_path / "work/results.jsonl").read_text().splitlines()) == len(notes)
    assert "Mutation testing" in (tree / "docs/reliability.md").read_text()

    with (tree / "tests/test_tiny.py").open("a") as file:
        file.write("\n\ndef test_never():\n    assert tiny.never(1) == 0\n")
    code, _, err = call(mutants.main, *arguments)
    assert code == 2
    assert "is listed as equivalent, but tests/test_tiny.py::test_never kills it" in err


def test_a_files_own_tests_come_first_and_see_its_constants(tmp_path):
    """Of a line that runs on import they are tried though they execute nothing of the file; then the quickest."""
    own, other, slow = (f"tests/a/test_{name}" for name in ("one.py::test_reads", "two.py::test_a", "two.py::test_b"))
    lines = Lines(tmp_path, tmp_path)
    lines.seconds = {own: 2.0, other: 0.1, slow: 1.0, "tests/test_someone.py::test_c": 0.1}
    assert lines.for_line("pack/one.py", "LIMIT = 3\n", 1) == set()
    lines._imported.add(("pack/one.py", 1))
    assert lines.for_line("pack/one.py", "LIMIT = 3\n", 1) == {own}
    assert lines.in_order("pack/one.py", {own, other, slow}, 60) == ([(own, 2.0), (other, 0.1), (slow, 1.0)], False)
    assert lines.in_order("pack/one.py", {own, other, slow}, 2.5) == ([(own, 2.0), (other, 0.1)], True)


def test_bad_input(tree):
    """One line and exit code 2."""
    code, _, err = call(mutants.main, "nothing")
    assert code == 2
    assert "FOLDER is 'nothing'; allowed: tiny" in err
    code, _, err = call(mutants.main, "tiny", "--tests", "ortho_ref")
    assert code == 2
    assert "no test files in ortho_ref" in err


def test_every_reason_is_of_a_mutant():
    """scripts/mutation/survivors.toml: each entry is a mutant of today's code. One that is not is to be taken out."""
    listed = reasons.read()
    for file in {reason.file for reason in listed}:
        source = (ROOT / file).read_text()
        wanted = {reason.mutant for reason in listed if reason.file == file}
        fits = [place for place in places(file, source) if (place.within, place.operator) in {w[1:3] for w in wanted}]
        made = {reasons.name_of(mutant) for place in fits if (mutant := make(place, source)) is not None}
        assert wanted <= made, wanted - made
        assert any(file in files_of(ROOT, targets) for targets in FOLDERS.values())


def test_the_page_is_up_to_date():
    """docs/reliability.md has every reason, and rows of folders that there are."""
    page = (ROOT / "docs/reliability.md").read_text()
    assert rows(page)
    for reason in reasons.read():
        assert reason.why in page
