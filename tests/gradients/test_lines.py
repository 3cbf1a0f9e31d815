"""The first wrong line of a step back: every product and sum in every cell's step_backward, a hundredth too large."""

import ast
import inspect
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from gradients.checks import cells
from gradients.lines import first_wrong, lines_of
from gradients.problem import random_problem
from ortho_ref.own_file import module_of

CELLS = cells()
#: Gradients that a loop over the gates calls alike, so that no name of the step forward is theirs.
NAMELESS = ("da_g.T @ h_prev", "da.T @ h_prev")


def mistakes(kind):
    """Line, expression and source of every wrong version of a cell's file."""
    source = Path(inspect.getsourcefile(kind)).read_text()
    (own,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    (back,) = (node for node in own.body if getattr(node, "name", "") == "step_backward")
    for node in (node for statement in back.body for node in ast.walk(statement)):
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.BitOr) and node.lineno == node.end_lineno:
            lines = source.split("\n")
            line, (begin, end) = lines[node.lineno - 1], (node.col_offset, node.end_col_offset)
            lines[node.lineno - 1] = f"{line[:begin]}(1.01 * ({line[begin:end]})){line[end:]}"
            yield node.lineno, line[begin:end], "\n".join(lines)


@pytest.mark.parametrize(
    "name",
    ["Elman tanh", "Elman modrelu complex", "FastRNN relu", "GRUResetAfter modrelu", "GRUResetBefore tanh", "LSTM"],
)
def test_the_line_is_named(name, tmp_path):
    """It, or among those that are named beside it: what has no name in the step forward."""
    kind, path, exact, count = type(CELLS[name]), tmp_path / "wrong.py", 0, 0
    options = {field.name: getattr(CELLS[name], field.name) for field in fields(kind)}
    for number, expression, source in mistakes(kind):
        path.write_text(source)
        cell = getattr(module_of(path, f"cell {number}"), kind.__name__)(**options)
        said = first_wrong(random_problem(cell, np.random.default_rng(0)), np.random.default_rng(1))
        if expression in NAMELESS:
            continue
        assert said is not None, expression
        assert number in (said.line.number, *said.beside), (expression, str(said))
        exact, count = exact + (number == said.line.number), count + 1
    assert exact >= 0.6 * count > 0


@pytest.mark.parametrize("name", CELLS)
def test_no_line_of_ours_is_wrong(name):
    """And most of them are looked at."""
    lines = lines_of(random_problem(CELLS[name], np.random.default_rng(0)), np.random.default_rng(1))
    assert [line for line in lines if line.wrong] == []
    assert sum(line.error is not None for line in lines) >= 0.6 * len(lines)
