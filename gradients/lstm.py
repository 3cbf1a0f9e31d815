"""The LSTM: the derivative of (h_t, c_t) by (h_{t-1}, c_{t-1}), a 2n x 2n matrix of four blocks.

di/dh = diag(i (1 - i)) U_i, f and o alike;  dg/dh = diag(1 - g^2) U_g      [bp:lstm/gates]
dc_t/dh = diag(c_{t-1}) df/dh + diag(g) di/dh + diag(i) dg/dh               [bp:lstm/c-h]
dc_t/dc = diag(f)                                                           [bp:lstm/c-c]
dh_t/dh = diag(tanh c_t) do/dh + diag(o (1 - tanh^2 c_t)) dc_t/dh           [bp:lstm/h-h]
dh_t/dc = diag(o (1 - tanh^2 c_t)) dc_t/dc                                  [bp:lstm/h-c]

No paper here bounds it.  Block by block, and a matrix of blocks is no larger than the matrix of bounds on their norms:
    ||dc_t/dh|| <= max|c_{t-1} f (1 - f)| ||U_f|| + max|g i (1 - i)| ||U_i|| + max(i (1 - g^2)) ||U_g|| = gamma
    ||d(h_t, c_t)/d(h, c)|| <= || a  max(o (1 - tanh^2 c_t) f) ||
                               || gamma            max f       ||
    a = max|tanh(c_t) o (1 - o)| ||U_o|| + max(o (1 - tanh^2 c_t)) gamma    [bp:lstm/bound]
"""

from typing import NamedTuple

import numpy as np

from gradients.bptt import Bound, Matrix, Step, Vector, Weights, norm, one_step
from ortho_ref.activations import sigmoid
from ortho_ref.cells import LSTM


class Values(NamedTuple):
    """What one step computes, all (n,): the gates, the candidate, the memory, and its tanh."""

    i: Vector
    f: Vector
    g: Vector
    o: Vector
    c: Vector
    y: Vector


def values(w: Weights, x: Vector, h: Vector, c: Vector) -> Values:
    """What one step computes from x (m,), h_{t-1} and c_{t-1} (n,)."""
    i, f, o = (sigmoid(w[f"W_{k}"] @ x + w[f"U_{k}"] @ h + w[f"b_{k}"]) for k in "ifo")
    g = np.tanh(w["W_g"] @ x + w["U_g"] @ h + w["b_g"])
    c = f * c + i * g
    return Values(i, f, g, o, c, np.tanh(c))


def step(cell: LSTM, w: Weights, x: Vector, state: Vector) -> Step:
    """One step for `bptt`; the state (2n,) is h_{t-1} and c_{t-1} one after the other."""
    w, x, state = one_step(cell, w, x, state)
    h, c = np.split(state, 2)
    v = values(w, x, h, c)
    slopes = {"i": v.i * (1 - v.i), "f": v.f * (1 - v.f), "g": 1 - v.g**2, "o": v.o * (1 - v.o)}
    through = {"i": v.g, "f": c, "g": v.i}  # dc_t by the gate
    to_h = np.diag(v.o * (1 - v.y**2))  # dh_t by c_t
    gates = {k: np.diag(slope) @ w[f"U_{k}"] for k, slope in slopes.items()}  # [bp:lstm/gates]
    c_h = sum(np.diag(through[k]) @ gates[k] for k in "ifg")  # [bp:lstm/c-h]
    c_c = np.diag(v.f)  # [bp:lstm/c-c]
    h_h = np.diag(v.y) @ gates["o"] + to_h @ c_h  # [bp:lstm/h-h]
    h_c = to_h @ c_c  # [bp:lstm/h-c]
    S: dict[str, tuple[Matrix, Vector | None]] = {}
    for k, slope in slopes.items():
        if k == "o":
            matrix = np.vstack([np.diag(v.y * slope), np.zeros_like(to_h)])
        else:
            matrix = np.vstack([to_h, np.eye(len(h))]) @ np.diag(through[k] * slope)
        S |= {f"W_{k}": (matrix, x), f"U_{k}": (matrix, h), f"b_{k}": (matrix, None)}
    return Step(np.concatenate([v.o * v.y, v.c]), np.block([[h_h, h_c], [c_h, c_c]]), S)


def bound(cell: LSTM, w: Weights, x: Vector, state: Vector) -> Bound:
    """||d(h_t, c_t)/d(h, c)|| and what it is at most."""
    actual = norm(step(cell, w, x, state).J)
    w, x, state = one_step(cell, w, x, state)
    h, c = np.split(state, 2)
    v = values(w, x, h, c)
    to_h = v.o * (1 - v.y**2)
    through = {"f": c * v.f * (1 - v.f), "i": v.g * v.i * (1 - v.i), "g": v.i * (1 - v.g**2)}
    gamma = sum(abs(own).max() * norm(w[f"U_{k}"]) for k, own in through.items())  # [bp:lstm/bound]
    a = abs(v.y * v.o * (1 - v.o)).max() * norm(w["U_o"]) + to_h.max() * gamma  # [bp:lstm/bound]
    return Bound(norm(np.array([[a, (to_h * v.f).max()], [gamma, v.f.max()]])), actual)  # [bp:lstm/bound]
