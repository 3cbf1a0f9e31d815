"""Which examples the profiles draw: fixed ones, or those of a seed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DRAWS = """
from hypothesis import given, settings, strategies as st
@settings(max_examples=5)
@given(st.integers(0, 2**60))
def test_draws(number):
    print("drawn", number)
"""


@pytest.fixture
def drawn(tmp_path):
    """The numbers that a test of these options draws."""

    def of(*options):
        (tmp_path / "test_draws.py").write_text(DRAWS)
        command = [sys.executable, "-m", "pytest", "-s", "-p", "tests.conftest", "-p", "no:cacheprovider", *options]
        command += ["--rootdir", str(tmp_path), "-c", "/dev/null", str(tmp_path / "test_draws.py")]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return re.findall(r"drawn (\d+)", result.stdout)

    return of


def test_which_examples_are_drawn(drawn):
    """A seed given back draws the same, as in `make fuzz SEED=1`, and another others; `make test` takes no seed."""
    random = ("--hypothesis-profile=random", "--hypothesis-seed")
    first, again, other = (drawn(*random, seed) for seed in ("1", "1", "2"))
    assert len(first) == 5
    assert first == again
    assert first != other
    fixed = drawn()
    assert fixed == drawn("--hypothesis-seed=1")
    assert fixed not in (first, other)
