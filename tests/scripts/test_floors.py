"""scripts.floors: the oldest version of each dependency, as pyproject.toml has it."""

import subprocess
import sys

import pytest

from scripts.floors import floors
from tests.scripts.runs import ROOT

PROJECT = {
    "name": "mine",
    "dependencies": ["numpy>=2.0"],
    "optional-dependencies": {
        "a": ["rich>=13.1", "numpy>=2.0"],
        "b": ["ruff>=0.17,<0.18", "torch==2.1.0", "mine[a]"],
        "c": ["pooch"],
        "d": ["pooch<2"],
        "e": ["mine[a,f]"],
        "f": ["dask[distributed]>=2024.8"],
    },
}


def test_floors():
    """Of the core and the extras asked for, with those they include; each once."""
    assert floors(PROJECT, []) == ["numpy==2.0"]
    assert floors(PROJECT, ["e"]) == ["numpy==2.0", "rich==13.1", "dask==2024.8"]
    assert floors(PROJECT, ["b"]) == ["numpy==2.0", "ruff==0.17", "torch==2.1.0", "rich==13.1"]


@pytest.mark.parametrize("extra", ["c", "d"])
def test_a_dependency_without_an_oldest_version(extra):
    """Would be installed in the newest: an error, not a floor that is none."""
    with pytest.raises(ValueError, match=r"^'pooch.*' in pyproject.toml has no oldest version"):
        floors(PROJECT, [extra])


def test_the_command():
    """A line for each, for `pip install --constraint`; every extra of pyproject.toml has them."""
    command = [sys.executable, "-S", "-m", "scripts.floors", "test", "crosscheck", "dev", "gpu", "mutants"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {line.split("==")[0] for line in lines} >= {"numpy", "scipy", "safetensors", "typer", "pytest", "ruff"}
