"""Backpropagation through time as a product of Jacobians, dense and literal.

    dL/dh_i = dL/dh_T J_T J_{T-1} ... J_{i+1},  J_t = dh_t/dh_{t-1}             [ncgru:7]
    with losses at every step, l_t = dL/dh_t of the loss alone:
        g_T = l_T;  g_{t-1} = l_{t-1} + J_t^T g_t                               [bp:bptt/g]
    dL/dW_g = sum over t of (S_t^T g_t) x_t^T,  S_t = dh_t/da_{g,t}             [bp:bptt/sum]

ncgru:7 is printed without an order of its factors; t decreases from left to right, and the formula is of a loss that
sees h_T alone (E-ncgru-08).  One sequence, no batch.  A state of several arrays (LSTM's h and c, the real and imaginary
part of a complex h) is one vector of N numbers, and J is N x N.

Each cell's file here, called as the cell's own, has what the papers print, dense, and `step(cell, weights, x, h_prev)
-> Step`, which `step_of` finds; tests/gradients/test_jacobians.py holds it to the cell.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.cells import Cell
from ortho_ref.cells.by_name import name_of

Vector = np.ndarray
Matrix = np.ndarray
Weights = dict[str, np.ndarray]


class Bound(NamedTuple):
    """A bound of a norm, beside the norm."""

    bound: float
    actual: float

    @property
    def ratio(self) -> float:
        """actual / bound: at most 1 for a true bound, but for rounding.

        0 of 0 / 0: gates that round to 0 or 1 leave a bound of nothing on nothing.
        """
        if self.bound == 0:
            return 0.0 if self.actual == 0 else float("inf")
        return self.actual / self.bound


def norm(M: Matrix) -> float:
    """||M||_2."""
    return float(np.linalg.norm(M, 2))


def double(array: Any) -> np.ndarray:
    """The array in float64 or complex128."""
    array = np.asarray(array)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def one_step(cell: Cell, weights: Weights, x: Any, h: Any) -> tuple[Weights, Vector, Vector]:
    """The weights, x (m,) and the state before (N,) in float64 or complex128; ValueError for other names or shapes."""
    if set(weights) != set(cell.shapes(1, 1)):
        raise ValueError(
            f"the weights are {', '.join(sorted(weights))}; {cell} has {', '.join(sorted(cell.shapes(1, 1)))}"
        )
    if np.ndim(x) != 1 or np.ndim(h) != 1:
        raise ValueError(
            f"x has shape {np.shape(x)} and h {np.shape(h)}; allowed: x (m,) and h (n,) of one sequence, a token as "
            "its row of np.eye(m)"
        )
    return {name: double(value) for name, value in weights.items()}, double(x), double(h)


class Step(NamedTuple):
    """One time step: the state (N,), J = dh/dh_prev (N, N), and S.

    S: name of a weight -> (dh/da (N, rows), what the weight multiplies).  A vector in place of a gate, a bias and a
    scalar gate multiply 1: None.
    """

    h: Vector
    J: Matrix
    S: dict[str, tuple[Matrix, Vector | None]]


class Gradients(NamedTuple):
    """Of one sequence: all of dL/dh_t, g (T+1, N), g[0] that of h_0; and those of the weights by their names."""

    g: Matrix
    weights: Weights


StepFunction = Callable[[Any, Weights, Vector, Vector], Step]


def step_of(cell: Cell) -> Callable[..., Step]:
    """The function `step` of the cell's file in this folder: (cell, weights, x, h_prev) -> Step."""
    step: Callable[..., Step] = importlib.import_module(f"gradients.{name_of(cell)}").step
    return step


def run(step: StepFunction, cell: Any, weights: Weights, x: Matrix, h0: Vector) -> list[Step]:
    """The T steps of a sequence x (T, m) from the state h0 (N,); step: as of `step_of`."""
    steps, h = [], h0
    for x_t in x:
        steps.append(step(cell, weights, x_t, h))
        h = steps[-1].h
    return steps


def last_loss(jacobians: Sequence[Matrix], dh_T: Vector) -> Matrix:
    """dL/dh_i for i = 0 .. T, (T+1, N), of a loss of h_T alone: the row dL/dh_T times J_T, J_{T-1} .. J_{i+1}."""
    rows = [dh_T]
    for J in reversed(jacobians):
        rows.append(rows[-1] @ J)  # [ncgru:7]
    return np.array(rows[::-1])


def by_jacobians(steps: Sequence[Step], weights: Weights, dh: Matrix) -> Gradients:
    """Gradients of a loss of all states from its own derivatives dh (T, N) by h_1 .. h_T."""
    dweights = {name: np.zeros_like(value) for name, value in weights.items()}
    g = np.zeros(dh.shape[1:], dh.dtype)
    history = []
    for step, l in zip(reversed(steps), dh[::-1], strict=True):
        g = l + g  # [bp:bptt/g]
        history.append(g)
        for name, (S, factor) in step.S.items():
            da = S.T @ g  # [bp:bptt/sum]
            dW = da if factor is None else np.outer(da, factor)
            dweights[name] = dweights[name] + dW.reshape(weights[name].shape)
        g = step.J.T @ g  # [bp:bptt/g]
    return Gradients(np.array([g, *history[::-1]]), dweights)
