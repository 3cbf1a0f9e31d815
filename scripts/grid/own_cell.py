"""A cell of somebody's own file, and whether its step back is its step's."""

import traceback
from typing import Any

import numpy as np

from gradients.checks import Result, check_cell
from gradients.problem import Problem, random_problem
from ortho_ref import models
from ortho_ref.cells import Cell
from ortho_ref.cells.cell import parts_of
from ortho_ref.terminal import shown


def own_cell(place: str, options: dict[str, Any]) -> Cell:
    """The cell of a place, "mine.py:MyCell"; ValueError where there is none."""
    return models.build(models.own(place), 3, 5, **options).cell


def checked(cell: Cell, rng: np.random.Generator, device: str = "cpu") -> Result:
    """Its gradients against finite differences; ValueError, with the line, for what a step raises."""
    try:
        _check_form(random_problem(cell, rng))
        return check_cell(type(cell).__name__, cell, rng, device=device)
    except Exception as error:  # whatever code of a user's raises
        at = next(
            (
                f" (line {own.lineno}: {own.line})"
                for own in reversed(traceback.extract_tb(error.__traceback__))
                if own.name.startswith("step_")
            ),
            "",
        )
        raise ValueError(f"{type(cell).__name__}: {type(error).__name__}: {shown(error)}{at}") from error


def _check_form(problem: Problem) -> None:
    """ValueError unless a step gives what a step gives."""
    cell, weights, x, h0, d_last = problem.cell, problem.weights, problem.x[0], problem.h0, problem.dh_T
    h, cache = cell.step_forward(weights, x, h0)
    dx, dh_prev, dweights = cell.step_backward(weights, d_last, cache)
    named = dict(zip(cell.states, parts_of(cell, h0), strict=True))
    for what, given, expected in (
        ("step_forward's states", dict(zip(cell.states, parts_of(cell, h), strict=True)), named),
        ("dh_prev", dict(zip(cell.states, parts_of(cell, dh_prev), strict=True)), named),
        ("dx", {"x": dx}, {"x": x}),
        ("dweights", dweights, weights),
    ):
        found, wanted = ({name: getattr(a, "shape", None) for name, a in own.items()} for own in (given, expected))
        if found != wanted:
            raise ValueError(f"{what} has the shapes {found}; expected {wanted}")


def check(name: str, cell: Cell) -> None:
    """ValueError unless the gradients of a model of a file are right: before it is trained."""
    result = checked(cell, np.random.default_rng(0))
    if not result.passed:
        place = name.partition("#")[0]
        where = f"python -m scripts.check_gradients --cell {place} says in which line"
        raise ValueError(f"model is {place!r}, whose step back is wrong: {result.faults()[0]}; {where}")
