"""The GRU of goru:2.2 and the GORU of goru:3.1: the derivative of every gate as a dense matrix.

    dr/dh = diag(r (1 - r)) U_r    dz/dh = diag(z (1 - z)) U_z                  [goru:jac/gates]
    c = Phi(a, b_h),  a = W_h x + r * p,  p = U_h h  (+ b_hh)                   [goru:jac/p]
    dc/dh = diag(Phi'(a)) (diag(p) dr/dh + diag(r) U_h)                         [goru:jac/c]
    dh_t/dh = diag(z) + diag(h - c) dz/dh + diag(1 - z) dc/dh                   [goru:jac/h]
    ||dh_t/dh|| <= max(z (1 - z) |h - c|) ||U_z|| + sqrt(s (max |z| + max |1 - z| mu^2)),
        mu = (max(|p| r (1 - r)) ||U_r|| + max |r| ||U_h||) max |Phi'|,
        s = max(|z| + |1 - z|), which is 1 for a gate                           [goru:jac/bound]

A gate that is off is a vector; it has no derivative by h, and nothing keeps it within [0, 1].
"""

from typing import NamedTuple

import numpy as np

from gradients.bptt import Bound, Matrix, Step, Vector, Weights, norm, one_step
from ortho_ref.activations import activation, sigmoid
from ortho_ref.cells import GRUResetAfter


class Values(NamedTuple):
    """What one step computes, all (n,): the gates, what r multiplies, the candidate, the state, Phi's slopes."""

    r: Vector
    z: Vector
    p: Vector
    c: Vector
    h: Vector
    slope: Vector
    bias_slope: Vector


def values(cell: GRUResetAfter, w: Weights, x: Vector, h: Vector) -> Values:
    """What one step computes from x (m,) and h_{t-1} (n,); ValueError for other names or shapes."""
    w, x, h = one_step(cell, w, x, h)
    phi = activation(cell.activation)
    r = sigmoid(w["W_r"] @ x + w["U_r"] @ h + w["b_r"]) if cell.reset_gate else w["r"]
    z = sigmoid(w["W_z"] @ x + w["U_z"] @ h + w["b_z"]) if cell.update_gate else w["z"]
    p = w["U_h"] @ h + (w["b_hh"] if cell.recurrent_bias else 0)  # [goru:jac/p]
    a = w["W_h"] @ x + r * p  # [goru:jac/p]
    c = phi.value(a, w["b_h"])  # [goru:jac/p]
    slope, bias_slope = phi.pullback(np.ones_like(a), a, w["b_h"], c)
    return Values(r, z, p, c, z * h + (1 - z) * c, slope, bias_slope)


def jacobian(cell: GRUResetAfter, w: Weights, x: Vector, h: Vector) -> Matrix:
    """dh_t/dh_{t-1} (n, n)."""
    v = values(cell, w, x, h)
    nothing = np.zeros_like(w["U_h"])
    dr = np.diag(v.r * (1 - v.r)) @ w["U_r"] if cell.reset_gate else nothing  # [goru:jac/gates]
    dz = np.diag(v.z * (1 - v.z)) @ w["U_z"] if cell.update_gate else nothing  # [goru:jac/gates]
    dc = np.diag(v.slope) @ (np.diag(v.p) @ dr + np.diag(v.r) @ w["U_h"])  # [goru:jac/c]
    return np.diag(v.z) + np.diag(h - v.c) @ dz + np.diag(1 - v.z) @ dc  # [goru:jac/h]


def bound(cell: GRUResetAfter, w: Weights, x: Vector, h: Vector) -> Bound:
    """A bound of dh_t/dh_{t-1}: nothing keeps it below 1 (E-goru-07)."""
    v = values(cell, w, x, h)
    mu = float(abs(v.r).max()) * norm(w["U_h"])
    if cell.reset_gate:
        mu += float((abs(v.p) * v.r * (1 - v.r)).max()) * norm(w["U_r"])
    mu *= float(abs(v.slope).max())
    through_z = float((v.z * (1 - v.z) * abs(h - v.c)).max()) * norm(w["U_z"]) if cell.update_gate else 0.0
    keep, write = abs(v.z), abs(1 - v.z)
    # hypot: the square of a small mu is 0, and the bound too small
    inner = np.hypot(np.sqrt(keep.max()), np.sqrt(write.max()) * mu)  # [goru:jac/bound]
    limit = through_z + float(np.sqrt((keep + write).max()) * inner)  # [goru:jac/bound]
    return Bound(limit, norm(jacobian(cell, w, x, h)))


def step(cell: GRUResetAfter, w: Weights, x: Vector, h: Vector) -> Step:
    """One step for `bptt`."""
    v = values(cell, w, x, h)
    of_a = np.diag((1 - v.z) * v.slope)
    of_p, of_r, of_z = of_a @ np.diag(v.r), of_a @ np.diag(v.p), np.diag(h - v.c)
    S: dict[str, tuple[Matrix, Vector | None]] = {}
    for gate, on, matrix, value in (("r", cell.reset_gate, of_r, v.r), ("z", cell.update_gate, of_z, v.z)):
        if on:
            matrix = matrix @ np.diag(value * (1 - value))
            S |= {f"W_{gate}": (matrix, x), f"U_{gate}": (matrix, h), f"b_{gate}": (matrix, None)}
        else:
            S[gate] = (matrix, None)
    S |= {"W_h": (of_a, x), "U_h": (of_p, h), "b_h": (np.diag((1 - v.z) * v.bias_slope), None)}
    if cell.recurrent_bias:
        S["b_hh"] = (of_p, None)
    return Step(v.h, jacobian(cell, w, x, h), S)
