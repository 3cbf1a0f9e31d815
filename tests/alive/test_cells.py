"""The cells in JavaScript have a line for every equation of ortho_ref's, in their order."""

import ast

import pytest

from scripts.maintain.equations.tags import tags_of
from tests.alive.node import ROOT, SCRIPTS

SOURCE = (ROOT / SCRIPTS / "cells.js").read_text(encoding="utf-8")
#: A cell, where it begins in the script, and the next thing there.
CELLS = {
    "elman": ("  function elman(", "  function gruResetBefore("),
    "gru_reset_before": ("  function gruResetBefore(", "  function gruResetAfter("),
    "gru_reset_after": ("  function gruResetAfter(", "  const lstm"),
    "lstm": ("  const lstm", "  function realU("),
}


def equations(name):
    """Those that the head of the Python file states, forward and backward."""
    head = ast.get_docstring(ast.parse((ROOT / f"ortho_ref/cells/{name}.py").read_text(encoding="utf-8")))
    forward, backward = head.split("Backward.")
    return tags_of(forward), tags_of(backward)


def lines(name):
    """The tags of the script's step forward, of its step back, and of the weights' gradients."""
    first, last = CELLS[name]
    own = SOURCE[SOURCE.index(first) : SOURCE.index(last)]
    forward, rest = own.split("backward: function", 1)
    backward, gradients = rest.split("weightGradients: function", 1)
    return tags_of(forward), tags_of(backward), tags_of(gradients)


#: Those that stand on a line beside others, or that ortho_ref tags in `cells/cell.py`.
ASIDE = {"goru:abl", "bp:urnn/x"}


@pytest.mark.parametrize("name", CELLS)
def test_every_equation_has_its_line(name):
    """Forward in the order of the Python file; backward all of them, and none that is not there."""
    (forward, backward), (ahead, back, gradients) = equations(name), lines(name)
    assert [tag for tag in ahead if tag not in ASIDE] == [tag for tag in forward if tag not in ASIDE]
    assert {*back, *gradients} - ASIDE == {*backward} - ASIDE
