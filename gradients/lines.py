"""Which line of a step back is wrong.

A line `da = dc * (1 - c * c)` of step_backward says what dL/da is, of the `a` that step_forward computes.  So `a` is
moved where it is computed, and d<name> held against the difference of the loss: the first line that is off is where
the mistake is.  Where step_forward says `i = sigmoid(W x + U h + b)`, what is in the brackets is a_i.
"""

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gradients.problem import Problem
from ortho_ref.cells import Cell, Weights
from ortho_ref.cells.cell import parts_of

#: Of differences by 1e-6 to either side, in float64.
STEP, ALLOWED = 1e-6, 1e-6
DIRECTIONS = 3


class Line(NamedTuple):
    """What one line of step_backward gives."""

    number: int  # in its file; of a name that is given in several lines the last
    text: str
    name: str  # "da"
    error: float | None  # of d<name> along random directions, by the largest; None where step_forward has no such name

    @property
    def wrong(self) -> bool:
        """Whether it was checked, and is off."""
        return self.error is not None and not self.error <= ALLOWED


def lines_of(problem: Problem, rng: np.random.Generator) -> list[Line]:
    """Every d<name> that step_backward gives in its first step, in the order of its lines."""
    cell, forward, back = problem.cell, _Record(), _Record()
    step, step_back = _watched(cell, "step_forward", forward), _watched(cell, "step_backward", back)

    def loss(weights: Weights) -> float:
        state, _ = step(cell, weights, problem.x[0], problem.h0)
        pairs = zip(parts_of(cell, problem.dh_T), parts_of(cell, state), strict=True)
        return float(sum((d.conj() * part).real.sum() for d, part in pairs))

    _, cache = step(cell, problem.weights, problem.x[0], problem.h0)
    once = {name: own.value for name, own in forward.found.items() if own.times == 1}
    step_back(cell, problem.weights, problem.dh_T, cache)

    def along(name: str, direction: np.ndarray) -> float:
        if name in once:
            ends = [forward.moved(name, s * direction, lambda: loss(problem.weights)) for s in (STEP, -STEP)]
        else:
            ends = [loss(problem.weights | {name: problem.weights[name] + s * direction}) for s in (STEP, -STEP)]
        return (ends[0] - ends[1]) / (2 * STEP)

    found, code = [], _method(cell, "step_backward").__code__
    for name, own in sorted(back.found.items(), key=lambda item: item[1].lines[-1]):
        of = name.removeprefix("d")
        if of == name:
            continue
        value, error = (problem.weights | once).get(of), None
        if value is not None:
            error = _error(own.value, np.asarray(value), partial(along, of), rng)
        number = code.co_firstlineno - 1 + own.lines[-1]
        found.append(Line(number, linecache.getline(code.co_filename, number).strip(), name, error))
    return found


class Suspect(NamedTuple):
    """The first line that is off, and lines before it that go into it and could not be looked at."""

    line: Line
    beside: tuple[int, ...]

    def __str__(self) -> str:
        lines = ", ".join(map(str, self.beside))
        go = f"lines {lines}, which go" if len(self.beside) > 1 else f"line {lines}, which goes"
        also = f"; or in {go} into it" if self.beside else ""
        name, error = self.line.name, self.line.error
        wrong = f"the first that is wrong: {name} is off by {error:.1e}{also}"
        return f"line {self.line.number}: {self.line.text}\n    {wrong}"


def first_wrong(problem: Problem, rng: np.random.Generator) -> Suspect | None:
    """The first line that is off; None where none is, or the step cannot be watched: without source, with super()."""
    try:
        lines = lines_of(problem, rng)
    except (OSError, SyntaxError, RuntimeError, NameError, AttributeError):
        # compiled anew, the step lacks what was around it, and the class in the name of its __method
        return None
    at = next((i for i, line in enumerate(lines) if line.wrong), None)
    if at is None:
        return None
    right = {own.name: own.number for own in lines if own.error is not None and not own.wrong}
    return Suspect(lines[at], _going_into(problem.cell, lines[at], right))


def _going_into(cell: Cell, line: Line, right: dict[str, int]) -> tuple[int, ...]:
    """The lines from which a line's names come, back to those that are right, by name and line."""
    back = _method(cell, "step_backward")
    first, tree = back.__code__.co_firstlineno - 1, ast.parse(textwrap.dedent(inspect.getsource(back)))
    needed, found = {line.name}, set[int]()
    for number, names, read in sorted(_assignments(tree), key=lambda own: -own[0]):
        number += first
        if number > line.number or not needed & names:
            continue
        if any(right.get(name) == number for name in needed & names):
            needed -= {name for name in names if right.get(name) == number}
            continue
        if number == line.number and line.name not in names:
            continue
        needed |= read
        found.add(number)
    return tuple(sorted(found - {line.number}))


def _assignments(tree: ast.AST) -> Iterator[tuple[int, set[str], set[str]]]:
    """Line, names given, and names read, of everything that is computed; of `a, b = x, y` each by itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            yield node.lineno, _names(node.target), _names(node.iter)
        elif isinstance(node, ast.AugAssign):
            yield node.lineno, _names(node.target), _names(node.target) | _names(node.value)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target, value = node.targets[0] if isinstance(node, ast.Assign) else node.target, node.value
            pairs: list[tuple[ast.expr, ast.expr]] = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts, strict=False))
            for own, given in pairs:
                if not isinstance(given, ast.Name):  # what is unpacked from the cache is as the step forward left it
                    yield node.lineno, _names(own), _names(given)


def _names(node: ast.AST) -> set[str]:
    return {own.id for own in ast.walk(node) if isinstance(own, ast.Name)}


class _Seen(NamedTuple):
    """The last value that a name was given, in which lines of the function, and how often it was given one."""

    value: Any
    lines: tuple[int, ...]
    times: int


class _Record:
    """What the names of a function were given; one of them can be moved."""

    def __init__(self) -> None:
        self.found: dict[str, _Seen] = {}
        self._move: tuple[str, np.ndarray] | None = None

    def __call__(self, name: str, line: int, value: Any) -> Any:
        """The value, or the moved one."""
        if getattr(getattr(value, "dtype", None), "kind", "") not in ("f", "c"):  # tokens, states that are pairs
            return value
        if self._move is not None:
            return value + self._move[1] if self._move[0] == name else value
        before = self.found.get(name, _Seen(None, (), 0))
        self.found[name] = _Seen(value, tuple(sorted({*before.lines, line})), before.times + 1)
        return value

    def moved(self, name: str, by: np.ndarray, run: Callable[[], float]) -> float:
        """What `run` gives with a name moved."""
        self._move = name, by
        try:
            return run()
        finally:
            self._move = None


class _Probes(ast.NodeTransformer):
    """After each assignment `name = _probe("name", line, name)`; for `i = f(a)` also a_i."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        given = [self._probed(own.arg, node) for own in node.args.args[1:]]
        node.body[:0] = given
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if node.value is None:
            return [node]
        return self.visit_Assign(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        names = [own for target in node.targets for own in ast.walk(target) if isinstance(own, ast.Name)]
        one, call = node.targets[0], node.value
        if isinstance(one, ast.Name) and isinstance(call, ast.Call) and len(call.args) == 1:
            call.args[0] = self._call(f"a_{one.id}", node, call.args[0])
        return [node, *(self._probed(own.id, node) for own in names if isinstance(own.ctx, ast.Store))]

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        return [node, *([self._probed(node.target.id, node)] if isinstance(node.target, ast.Name) else [])]

    def _probed(self, name: str, at: ast.stmt) -> ast.stmt:
        value = self._call(name, at, ast.Name(name, ast.Load()))
        return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), at)

    def _call(self, name: str, at: ast.stmt, value: ast.expr) -> ast.expr:
        arguments: list[ast.expr] = [ast.Constant(name), ast.Constant(at.lineno), value]
        return ast.Call(ast.Name("_probe", ast.Load()), arguments, [])


def _method(cell: Cell, name: str) -> Any:
    """A cell's function of that name, as it is written: without what decorates it."""
    return inspect.unwrap(getattr(type(cell), name))


def _watched(cell: Cell, method: str, record: _Record) -> Callable[..., Any]:
    """A cell's method, whose assignments go through a record."""
    own = _method(cell, method)
    tree = _Probes().visit(ast.parse(textwrap.dedent(inspect.getsource(own))))
    names: dict[str, Any] = {**own.__globals__, "_probe": record}
    exec(compile(ast.fix_missing_locations(tree), f"<{method}, watched>", "exec"), names)
    return names[method]


def _error(
    gradient: np.ndarray, value: np.ndarray, along: Callable[[np.ndarray], float], rng: np.random.Generator
) -> float:
    """Of a gradient, along random directions, relative to the largest difference; one of each sequence is summed."""
    if gradient.shape[1:] == value.shape:
        gradient = gradient.sum(axis=0)
    if gradient.shape != value.shape:
        return float("inf")
    ours, theirs = [], []
    for _ in range(DIRECTIONS):
        direction = rng.standard_normal(value.shape)
        if value.dtype.kind == "c":
            direction = direction + 1j * rng.standard_normal(value.shape)
        ours.append(float((gradient.conj() * direction).real.sum()))
        theirs.append(along(direction))
    scale = max(map(abs, theirs))
    return max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / scale if scale else float(any(ours))
