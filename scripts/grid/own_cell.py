"""A cell of somebody's own file, and whether its step back is its step's."""

import copy
import traceback
from functools import partial
from typing import Any

import numpy as np

from gradients.checks import Result, check_cell
from gradients.problem import standard_normal
from ortho_ref import models
from ortho_ref.backend import Array
from ortho_ref.cells import Cell
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.terminal import shown


def own_cell(place: str, options: dict[str, Any]) -> Cell:
    """The cell of a place, "mine.py:MyCell"; ValueError where there is none."""
    return models.build(models.own(place), 3, 5, **options).cell


def checked(cell: Cell, rng: np.random.Generator, device: str = "cpu") -> Result:
    """Its gradients against finite differences; ValueError, with the line, for what a step raises."""
    try:
        _check_form(cell, np.random.default_rng(0))
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


def _check_form(cell: Cell, rng: np.random.Generator) -> None:
    """ValueError unless a step, and a step back, give what they are to give."""

    def drawn(*shape: int) -> Array:
        return standard_normal(rng, shape, cell.complex and len(shape) == 2)

    weights = {name: np.asarray(drawn(*shape)) for name, shape in cell.shapes(3, 5).items()}
    x, h0, d_last = rng.standard_normal((2, 3)), *(state_of(tuple(drawn(2, 5) for _ in cell.states)) for _ in range(2))
    taken = {**weights, "x": x}
    for name, h_prev, dh in zip(cell.states, parts_of(cell, h0), parts_of(cell, d_last), strict=True):
        taken |= {f"{name}_prev": h_prev, f"d{name}": dh}
    before = copy.deepcopy(taken)
    step: Any = cell.step_forward(weights, x, h0)
    if not isinstance(step, tuple) or len(step) != 2:
        raise ValueError("step_forward returns one thing; expected two: h, and what step_backward needs")
    h, cache = step
    back: Any = cell.step_backward(weights, d_last, cache)
    if not isinstance(back, tuple) or len(back) != 3:
        raise ValueError("step_backward returns other than three things; expected dx, dh_prev, dweights")
    dx, dh_prev, dweights = back
    for name in weights.keys() ^ dweights.keys():
        what = "no gradient of" if name in weights else "a gradient of what is no weight,"
        raise ValueError(f"step_backward gives {what} {name}")
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
    same = partial(np.array_equal, equal_nan=True)
    changed = [name for name, a in taken.items() if not same(a, before[name])]
    _, dh_again, again = cell.step_backward(weights, d_last, cache)
    first, second = ([*parts_of(cell, d), *own.values()] for d, own in ((dh_prev, dweights), (dh_again, again)))
    if changed or not all(map(same, first, second)):
        what = ", ".join(changed) or "its cache"
        raise ValueError(f"a step changes {what} in place; expected: arrays of its own, as a tape is used again")


def check(name: str, cell: Cell) -> None:
    """ValueError unless the gradients of a model of a file are right: before it is trained."""
    result = checked(cell, np.random.default_rng(0))
    if not result.passed:
        place = name.partition("#")[0]
        where = f"python -m scripts.check_gradients --cell {place} says in which line"
        raise ValueError(f"model is {place!r}, whose step back is wrong: {result.faults()[0]}; {where}")
