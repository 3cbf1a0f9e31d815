"""spectra: eigenvalues and products of the first Jacobians of a grid's rows."""

import re

import numpy as np
import pytest

from scripts.maintain import spectra
from tests.scripts.runs import call, refusal

GRID = """
format = "ortho_ref experiment 1"
title = "a grid of two rows"
seeds = 2
[options]
task = "copying"
length = 9
batch = 2
iterations = 1
model = "nc-gru"
hidden = 6
[[column]]
name = "all"
[[row]]
name = "open"
[[row]]
name = "closed"
options = { model_options = { update_bias = -50.0 } }
"""


def test_figures_are_of_the_product():
    """Against the product written out; the last ones come first (ncgru:7)."""
    Js = list(np.random.default_rng(0).standard_normal((12, 3, 3)))
    middle, largest, last, ten, whole = spectra.figures(Js)
    sizes = [abs(np.linalg.eigvals(J)) for J in Js]
    assert (middle, largest) == pytest.approx((np.median(sizes), np.max(sizes)))
    wanted = [np.linalg.norm(np.linalg.multi_dot([*Js[:1:-1], np.eye(3)]), 2), np.linalg.norm(Js[-1], 2)]
    assert (ten, last) == pytest.approx(wanted)
    assert whole == pytest.approx(np.linalg.norm(np.linalg.multi_dot(Js[::-1]), 2))


def test_a_closed_gate_keeps_all(tmp_path):
    """A line a row: u = 0 makes every J the identity, u = 1/2 does not; a task of no name is one line."""
    (tmp_path / "grid.toml").write_text(GRID)
    code, stdout, stderr = call(spectra.main, tmp_path / "grid.toml")
    assert code == 0, stderr
    assert re.fullmatch(
        r"open; all: \|eigenvalues\| 0\.\d\d, at most 0\.\d\d; products 0\.\d+, 0\.\d+, [\de.-]+\n"
        r"closed; all: \|eigenvalues\| 1\.00, at most 1\.00; products 1, 1, 1\n",
        stdout,
    )
    (tmp_path / "grid.toml").write_text(GRID.replace("hidden = 6", "hidden = 6\nlayers = 2"))
    assert "open; all; seed 0 has 2 layers, embedding None; allowed: 1, none" in refusal(
        spectra.main, tmp_path / "grid.toml"
    )
    (tmp_path / "grid.toml").write_text(GRID.replace('"copying"', '"none"'))
    assert "none" in refusal(spectra.main, tmp_path / "grid.toml")
