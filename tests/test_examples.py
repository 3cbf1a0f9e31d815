"""Which examples the profiles draw: fixed ones, or those of a seed."""

import re

import pytest

DRAWS = """
from hypothesis import given, settings, strategies as st
@settings(max_examples=5)
@given(st.integers(0, 2**60))
def test_draws(number):
    print("drawn", number)
"""


@pytest.fixture
def drawn(tmp_path, forks):
    """The numbers that a test of these options draws."""

    def of(*options):
        (tmp_path / "test_draws.py").write_text(DRAWS)
        alone = ["--rootdir", tmp_path, "-c", "/dev/null", tmp_path / "test_draws.py"]
        end = forks.run("pytest", "-s", "-p", "tests.conftest", "-p", "no:cacheprovider", *options, *alone)
        assert end["code"] == 0, end
        return re.findall(r"drawn (\d+)", end["stdout"])

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
