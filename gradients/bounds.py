"""Bounds on ||dh_t/dh_{t-1}||_2: of every cell that has one, in `BOUNDS`; here NC-GRU's own.

Theorem 1 and Corollaries 1 to 3, as printed, as corrected, and tighter.  Those of other cells are in the cells' files.

    delta_u = max u (1 - u)    delta_r = max r (1 - r)                          [ncgru:11] [ncgru:12]
    alpha = delta_u (max |h| + max |c|) ||U_u|| + max (1 - u)                   [ncgru:9]
    beta = max u (delta_r ||U_r|| max |h| + max r)                              [ncgru:10]
    Theorem 1: ||dh_t/dh|| <= alpha + beta ||U_c||                              [ncgru:8]
    printed, with max h and max c for max |h| and max |c|: false (E-ncgru-01)

    its proof, step by step
        ||dr/dh|| <= delta_r ||U_r||,  delta_r <= 1/4                           [ncgru:30] [ncgru:31]
        ||du/dh|| <= delta_u ||U_u||,  delta_u <= 1/4                           [ncgru:33] [ncgru:34]
        ||dc/dh|| <= max |Phi'| (delta_r ||U_r|| max |h| + max r) ||U_c||       [ncgru:37]
                  <= (delta_r ||U_r|| max |h| + max r) ||U_c||, |Phi'| <= 1     [ncgru:38]
        the four terms of dh_t/dh apart, by the triangle inequality             [ncgru:41]
        their norms' sum <= alpha + beta ||U_c||            [ncgru:42] [ncgru:43] [ncgru:44] [ncgru:45]

    tighter: max(u (1 - u) |c - h|) ||U_u|| + sqrt(max (1 - u) + max(u) mu^2),
             mu = ||U_c|| (delta_r ||U_r|| max |h| + max r)                     [ncgru:thm1-tight]

    Corollary 1, tanh and h_0 = 0: |h| <= 1, |c| <= 1, delta <= 1/4, so that
        alpha <= ||U_u|| / 2 + 1,  beta <= ||U_r|| / 4 + 1                      [ncgru:13]
    Corollary 2, every u_i and r_i within eps of 0 or 1, H = max |h|, C = max |c|:
        alpha + beta <= 2 + eps ((H + C) ||U_u|| + H ||U_r||)                   [ncgru:14]
        and where all are near the same one: <= 1 + eps ((H + C) ||U_u|| + H ||U_r|| + 1)        [ncgru:15]
        printed without eps, as about 2 and about 1: not independent of U_u (E-ncgru-04)
    Corollary 3, U_r and U_c orthogonal: the same of dh_t/dh itself             [ncgru:21] [ncgru:22]
        sharper for mixed gates: eps (H + C) ||U_u|| + sqrt(1 + (1 + eps ||U_r|| H)^2)           [ncgru:cor3]

A step is of x (m,) and h = h_{t-1} (n,); weights of other names or shapes are a ValueError.  || || is the largest
singular value.  A bound is of one step: bounds above 1 compound (E-ncgru-05).

`BOUNDS` and `of_step` take of an LSTM h_{t-1} and c_{t-1} one after the other, (2n,).
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gradients import elman, fastrnn, gru_reset_after, gru_reset_before, lstm
from gradients.bptt import Bound, Vector, Weights, norm
from ortho_ref.cells import Cell, GRUResetBefore
from ortho_ref.cells.by_name import name_of

StepBounds: TypeAlias = Callable[[Any, Weights, Vector, Vector], dict[str, Bound]]


class Constants(NamedTuple):
    """delta_u, delta_r, alpha and beta of one step, and the norms of U_r, U_u, U_c."""

    delta_u: float
    delta_r: float
    alpha: float
    beta: float
    U_r: float
    U_u: float
    U_c: float


def constants(cell: GRUResetBefore, w: Weights, x: Vector, h: Vector, printed: bool = False) -> Constants:
    """The constants of the step from h = h_{t-1} (n,) on the input x (m,).  printed: maxima without absolute values."""
    v = gru_reset_before.values(cell, w, x, h)
    U_r, U_u, U_c = (norm(w[name]) for name in ("U_r", "U_u", "U_c"))
    largest_h, largest_c = (float(a.max() if printed else abs(a).max()) for a in (h, v.c))
    delta_u, delta_r = float((v.u * (1 - v.u)).max()), float((v.r * (1 - v.r)).max())  # [ncgru:11] [ncgru:12]
    alpha = delta_u * (largest_h + largest_c) * U_u + float((1 - v.u).max())  # [ncgru:9]
    beta = float(v.u.max()) * (delta_r * U_r * largest_h + float(v.r.max()))  # [ncgru:10]
    return Constants(delta_u, delta_r, alpha, beta, U_r, U_u, U_c)


def theorem_1(cell: GRUResetBefore, w: Weights, x: Vector, h: Vector, printed: bool = False) -> Bound:
    """Theorem 1: alpha + beta ||U_c|| beside ||dh_t/dh||.  printed: the paper's form (E-ncgru-01)."""
    k = constants(cell, w, x, h, printed)
    return Bound(k.alpha + k.beta * k.U_c, norm(gru_reset_before.jacobian(cell, w, x, h)))  # [ncgru:8]


def theorem_1_tight(cell: GRUResetBefore, w: Weights, x: Vector, h: Vector) -> Bound:
    """Theorem 1, in most states sharper: (1 - u_i) x_i + u_i y_i squared is at most (1 - u_i) x_i^2 + u_i y_i^2."""
    v, k = gru_reset_before.values(cell, w, x, h), constants(cell, w, x, h)
    mu = k.U_c * (k.delta_r * k.U_r * float(abs(h).max()) + float(v.r.max()))
    through_u = float((v.u * (1 - v.u) * abs(v.c - h)).max()) * k.U_u
    # hypot: the square of a small mu is 0, and the bound too small
    bound = through_u + float(np.hypot(np.sqrt((1 - v.u).max()), np.sqrt(v.u.max()) * mu))  # [ncgru:thm1-tight]
    return Bound(bound, norm(gru_reset_before.jacobian(cell, w, x, h)))


def proof_of_theorem_1(cell: GRUResetBefore, w: Weights, x: Vector, h: Vector) -> dict[str, Bound]:
    """Equation -> its inequality of the proof, each with absolute values where the paper leaves them out."""
    v, k = gru_reset_before.values(cell, w, x, h), constants(cell, w, x, h)
    dr, du = gru_reset_before.dr_dh(w, v.r), gru_reset_before.du_dh(w, v.u)
    dc = gru_reset_before.dc_dh(w, h, v.r, v.slope)
    inner = k.delta_r * k.U_r * float(abs(h).max()) + float(v.r.max())
    terms = (np.diag(h) @ du, np.diag(1 - v.u), np.diag(v.c) @ du, np.diag(v.u) @ dc)
    total = sum(norm(term) for term in terms)
    return {
        "30": Bound(k.delta_r * k.U_r, norm(dr)),  # [ncgru:30]
        "31": Bound(0.25, k.delta_r),  # [ncgru:31]
        "33": Bound(k.delta_u * k.U_u, norm(du)),  # [ncgru:33]
        "34": Bound(0.25, k.delta_u),  # [ncgru:34]
        "37": Bound(float(abs(v.slope).max()) * inner * k.U_c, norm(dc)),  # [ncgru:37]
        "38": Bound(inner * k.U_c, norm(dc)),  # [ncgru:38]
        "41": Bound(total, norm(gru_reset_before.jacobian(cell, w, x, h))),  # [ncgru:41]
        "42-45": Bound(k.alpha + k.beta * k.U_c, total),  # [ncgru:42] [ncgru:43] [ncgru:44] [ncgru:45]
    }


def corollary_1(w: Weights) -> tuple[float, float]:
    """Upper bounds of alpha and beta that hold at every step of a tanh GRU from h_0 = 0, or any |h_0| <= 1."""
    return norm(w["U_u"]) / 2 + 1, norm(w["U_r"]) / 4 + 1  # [ncgru:13]


def nearness(gate: Vector) -> float:
    """eps of Corollary 2: how far a gate's entries (n,) are from 0 or 1, the nearer of the two for each."""
    return float(np.minimum(gate, 1 - gate).max())


def corollary_2(cell: GRUResetBefore, w: Weights, x: Vector, h: Vector) -> Bound:
    """Corollary 2, of alpha + beta; the uniform bound where all of u, and all of r, are near the same of 0 and 1."""
    v, k = gru_reset_before.values(cell, w, x, h), constants(cell, w, x, h)
    eps = max(nearness(v.u), nearness(v.r))
    H, C = float(abs(h).max()), float(abs(v.c).max())
    uniform = all((gate < 0.5).all() or (gate > 0.5).all() for gate in (v.u, v.r))
    more = eps * ((H + C) * k.U_u + H * k.U_r)
    return Bound(1 + more + eps if uniform else 2 + more, k.alpha + k.beta)  # [ncgru:14] [ncgru:15]


def corollary_3(cell: GRUResetBefore, w: Weights, x: Vector, h: Vector) -> Bound:
    """Corollary 3: the bound of Corollary 2, for U_r and U_c orthogonal, of the Jacobian; times ||U_c|| above 1."""
    bound = max(1.0, norm(w["U_c"])) * corollary_2(cell, w, x, h).bound  # [ncgru:21] [ncgru:22]
    return Bound(bound, norm(gru_reset_before.jacobian(cell, w, x, h)))


def corollary_3_sharper(cell: GRUResetBefore, w: Weights, x: Vector, h: Vector) -> Bound:
    """Corollary 3 for gates near 0 or 1, mixed or not: where U_c is orthogonal the constant is sqrt(2)."""
    v, k = gru_reset_before.values(cell, w, x, h), constants(cell, w, x, h)
    eps = max(nearness(v.u), nearness(v.r))
    H, C = float(abs(h).max()), float(abs(v.c).max())
    bound = eps * (H + C) * k.U_u + float(np.hypot(1, k.U_c * (1 + eps * k.U_r * H)))  # [ncgru:cor3]
    return Bound(bound, norm(gru_reset_before.jacobian(cell, w, x, h)))


def _named(name: str, bound: Callable[..., Bound]) -> StepBounds:
    return lambda cell, w, x, h: {name: bound(cell, w, x, h)}


#: Name of a cell -> the bounds of a step, by what they are called.
BOUNDS: dict[str, StepBounds] = {
    "gru_reset_before": lambda *step: {"Theorem 1": theorem_1(*step), "tighter": theorem_1_tight(*step)},
    "gru_reset_after": _named("goru:jac", gru_reset_after.bound),
    "elman": _named("urnn:3", elman.bound),
    "fastrnn": _named("alpha ||D|| ||U|| + |beta|", fastrnn.bound),
    "lstm": _named("block by block", lstm.bound),
}


def of_step(cell: Cell, w: Weights, x: Vector, h: Vector) -> dict[str, Bound]:
    """Every bound of a step, by what `BOUNDS` calls it; ValueError for a cell that has none."""
    name = name_of(cell)
    if name not in BOUNDS:
        raise ValueError(f"the cell is {name}; bounds are for {', '.join(BOUNDS)}")
    return BOUNDS[name](cell, w, x, h)
