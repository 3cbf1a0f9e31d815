"""scripts.maintain.oldest_versions: the oldest version of each dependency, as pyproject.toml has it."""

import subprocess
import sys

import pytest

from scripts.maintain.oldest_versions import floors
from tests.scripts.runs import ROOT

DOCUMENT = {
    "project": {
        "name": "mine",
        "dependencies": ["numpy>=2.0"],
        "optional-dependencies": {
            "a": ["rich>=13.1", "numpy>=2.0"],
            "e": ["mine[a,f]"],
            "f": ["dask[distributed]>=2024.8"],
        },
    },
    "dependency-groups": {
        "b": ["ruff>=0.17,<0.18", "torch==2.1.0", "mine[a]"],
        "c": ["pooch"],
        "d": ["pooch<2"],
        "g": ["mypy>=2.4", {"include-group": "b"}],
    },
}


def test_floors():
    """Of the core and of the groups and extras asked for, with those they include; each once."""
    assert floors(DOCUMENT, []) == ["numpy==2.0"]
    assert floors(DOCUMENT, ["e"]) == ["numpy==2.0", "rich==13.1", "dask==2024.8"]
    assert floors(DOCUMENT, ["g"]) == ["numpy==2.0", "mypy==2.4", "ruff==0.17", "torch==2.1.0", "rich==13.1"]


@pytest.mark.parametrize("group", ["c", "d"])
def test_a_dependency_without_an_oldest_version(group):
    """Would be installed in the newest: an error, not a floor that is none."""
    with pytest.raises(ValueError, match=r"^'pooch.*' in pyproject.toml has no oldest version"):
        floors(DOCUMENT, [group])


def started(*words):
    """The program, of Python alone."""
    command = [sys.executable, "-S", "-m", "scripts.maintain.oldest_versions", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nope"], "error: GROUP is 'nope'; allowed: "),
        (["test", "tset"], "error: GROUP is 'tset'; allowed: "),
        (["--hepl"], "error: there is no option --hepl; allowed: --help"),
    ],
)
def test_what_it_refuses(words, message):
    """One line and exit code 2; nothing that could be taken for a constraint."""
    end = started(*words)
    assert (end.returncode, end.stdout, end.stderr.count("\n")) == (2, "", 1)
    assert end.stderr.startswith(message)


def test_its_help():
    """With Python alone: the groups there are."""
    end = started("--help")
    assert (end.returncode, end.stderr) == (0, "")
    assert end.stdout.startswith("Usage: python -m scripts.maintain.oldest_versions [GROUP ...]\n")
    assert " test, " in end.stdout
    assert max(map(len, end.stdout.splitlines())) <= 80


def test_the_command():
    """A line for each, for `pip install --constraint`; groups and extras of pyproject.toml have them."""
    lines = started("test", "crosscheck", "dev", "gpu", "mutants").stdout.splitlines()
    assert {line.split("==")[0] for line in lines} >= {"numpy", "scipy", "safetensors", "typer", "pytest", "ruff"}
