"""The GRU of ncgru:1 and the NC-GRU of ncgru:19: the derivative of every gate as a dense matrix.

    dr/dh = diag(r (1 - r)) U_r                                                 [ncgru:29]
    du/dh = diag(u (1 - u)) U_u                                                 [ncgru:32]
    c = Phi(a, b_c),  a = W_c x + U_c (r * h)                                   [ncgru:35]
    dc/dh = diag(Phi'(a)) U_c (diag(h) dr/dh + diag(r))                         [ncgru:36]
    dh_t/dh = -diag(h) du/dh + diag(1 - u) + diag(c) du/dh + diag(u) dc/dh      [ncgru:40]

h is h_{t-1}, (n,); r, u, c are of step t.
"""

from typing import NamedTuple

import numpy as np

from gradients.bptt import Matrix, Step, Vector, Weights, one_step
from ortho_ref.activations import activation, sigmoid
from ortho_ref.cells import GRUResetBefore


class Values(NamedTuple):
    """What one step computes, all (n,): the gates, the candidate, the state, Phi's derivatives by a and by b_c."""

    r: Vector
    u: Vector
    c: Vector
    h: Vector
    slope: Vector
    bias_slope: Vector


def values(cell: GRUResetBefore, w: Weights, x: Vector, h: Vector) -> Values:
    """What one step computes from x (m,) and h_{t-1} (n,); ValueError for other names or shapes."""
    w, x, h = one_step(cell, w, x, h)
    phi = activation(cell.activation)
    r = sigmoid(w["W_r"] @ x + w["U_r"] @ h + w["b_r"])
    u = sigmoid(w["W_u"] @ x + w["U_u"] @ h + w["b_u"])
    a = w["W_c"] @ x + w["U_c"] @ (r * h)  # [ncgru:35]
    c = phi.value(a, w["b_c"])  # [ncgru:35]
    slope, bias_slope = phi.pullback(np.ones_like(a), a, w["b_c"], c)
    return Values(r, u, c, (1 - u) * h + u * c, slope, bias_slope)


def dr_dh(w: Weights, r: Vector) -> Matrix:
    """dr/dh (n, n) of the reset gate r (n,)."""
    return np.diag(r * (1 - r)) @ w["U_r"]  # [ncgru:29]


def du_dh(w: Weights, u: Vector) -> Matrix:
    """du/dh (n, n) of the update gate u (n,)."""
    return np.diag(u * (1 - u)) @ w["U_u"]  # [ncgru:32]


def dc_dh(w: Weights, h: Vector, r: Vector, slope: Vector) -> Matrix:
    """dc/dh (n, n) of the candidate, at h, r and slope = Phi'(a), all (n,)."""
    return np.diag(slope) @ w["U_c"] @ (np.diag(h) @ dr_dh(w, r) + np.diag(r))  # [ncgru:36]


def jacobian(cell: GRUResetBefore, w: Weights, x: Vector, h: Vector) -> Matrix:
    """dh_t/dh_{t-1} (n, n)."""
    v = values(cell, w, x, h)
    du, dc = du_dh(w, v.u), dc_dh(w, h, v.r, v.slope)
    return -np.diag(h) @ du + np.diag(1 - v.u) + np.diag(v.c) @ du + np.diag(v.u) @ dc  # [ncgru:40]


def step(cell: GRUResetBefore, w: Weights, x: Vector, h: Vector) -> Step:
    """One step for `bptt`."""
    v = values(cell, w, x, h)
    of_u = np.diag((v.c - h) * v.u * (1 - v.u))
    of_c = np.diag(v.u * v.slope)
    of_r = of_c @ w["U_c"] @ np.diag(h * v.r * (1 - v.r))
    S: dict[str, tuple[Matrix, Vector | None]] = {}
    for gate, matrix, recurrent in (("r", of_r, h), ("u", of_u, h), ("c", of_c, v.r * h)):
        S |= {f"W_{gate}": (matrix, x), f"U_{gate}": (matrix, recurrent), f"b_{gate}": (matrix, None)}
    S["b_c"] = (np.diag(v.u * v.bias_slope), None)
    return Step(v.h, jacobian(cell, w, x, h), S)
