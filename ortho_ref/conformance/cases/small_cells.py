"""Two small gated cells that the kit has cases of and the package no layers: FastGRNN and UGRNN.

FastGRNN, one product for gate and content (Kusupati et al., NeurIPS 2018)
    p = W x + U h_prev;  z = sigmoid(p + b_z);  c = tanh(p + b_h)
    h = (sigmoid(zeta) (1 - z) + sigmoid(nu)) c + z h_prev

UGRNN (Collins, Sohl-Dickstein, Sussillo, ICLR 2017)
    g = sigmoid(W_g x + U_g h_prev + b_g);  c = tanh(W_c x + U_c h_prev + b_c)
    h = g h_prev + (1 - g) c
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ortho_ref.activations import sigmoid
from ortho_ref.cells.cell import Cell, Shapes, Weights, input_product, input_pullback
from ortho_ref.printing import brief

Step = tuple[np.ndarray, "Cache"]
Adjoint = tuple[np.ndarray | None, np.ndarray, Weights]


class Cache(NamedTuple):
    """All that step_backward reads: x (B, m), the rest (B, n)."""

    x: np.ndarray
    h_prev: np.ndarray
    gate: np.ndarray
    c: np.ndarray

    def __repr__(self) -> str:
        return brief(self)


@dataclass(frozen=True)
class FastGRNN(Cell):
    """FastGRNN. Weights W U b_z b_h zeta nu."""

    products: ClassVar[tuple[str, ...]] = ("",)

    def shapes(self, input_size: int, hidden_size: int) -> Shapes:
        """Name -> shape of every weight."""
        n, m = hidden_size, input_size
        return {"W": (n, m), "U": (n, n), "b_z": (n,), "b_h": (n,), "zeta": (), "nu": ()}

    def step_forward(self, weights: Weights, x: np.ndarray, h_prev: np.ndarray) -> Step:
        """One step.  x (B, m), h_prev (B, n) -> h (B, n)."""
        w = weights
        p = input_product(w["W"], x) + h_prev @ w["U"].T
        z, c = sigmoid(p + w["b_z"]), np.tanh(p + w["b_h"])
        h = (sigmoid(w["zeta"]) * (1 - z) + sigmoid(w["nu"])) * c + z * h_prev
        return h, Cache(x, h_prev, z, c)

    def step_backward(self, weights: Weights, dh: np.ndarray, cache: Cache) -> Adjoint:
        """Adjoint of one step.  dh (B, n) -> dx (B, m), dh_prev (B, n), dweights."""
        w, (x, h_prev, z, c) = weights, cache
        zeta, nu = sigmoid(w["zeta"]), sigmoid(w["nu"])
        da_z = dh * (h_prev - zeta * c) * z * (1 - z)
        da_h = dh * (zeta * (1 - z) + nu) * (1 - c * c)
        dp = da_z + da_h
        dx, dW = input_pullback(w["W"], x, dp)
        own = {"W": dW, "U": dp.T @ h_prev, "b_z": da_z.sum(axis=0), "b_h": da_h.sum(axis=0)}
        own["zeta"] = np.asarray((dh * (1 - z) * c).sum() * zeta * (1 - zeta))
        own["nu"] = np.asarray((dh * c).sum() * nu * (1 - nu))
        return dx, dh * z + dp @ w["U"], own


@dataclass(frozen=True)
class UGRNN(Cell):
    """UGRNN. Weights W U b with _g _c."""

    products: ClassVar[tuple[str, ...]] = ("g", "c")

    def step_forward(self, weights: Weights, x: np.ndarray, h_prev: np.ndarray) -> Step:
        """One step.  x (B, m), h_prev (B, n) -> h (B, n)."""
        w = weights
        g = sigmoid(input_product(w["W_g"], x) + h_prev @ w["U_g"].T + w["b_g"])
        c = np.tanh(input_product(w["W_c"], x) + h_prev @ w["U_c"].T + w["b_c"])
        return g * h_prev + (1 - g) * c, Cache(x, h_prev, g, c)

    def step_backward(self, weights: Weights, dh: np.ndarray, cache: Cache) -> Adjoint:
        """Adjoint of one step.  dh (B, n) -> dx (B, m), dh_prev (B, n), dweights."""
        w, (x, h_prev, g, c) = weights, cache
        da_g = dh * (h_prev - c) * g * (1 - g)
        da_c = dh * (1 - g) * (1 - c * c)
        dx_g, dW_g = input_pullback(w["W_g"], x, da_g)
        dx_c, dW_c = input_pullback(w["W_c"], x, da_c)
        own = {"W_g": dW_g, "U_g": da_g.T @ h_prev, "b_g": da_g.sum(axis=0)}
        own |= {"W_c": dW_c, "U_c": da_c.T @ h_prev, "b_c": da_c.sum(axis=0)}
        dx = None if dx_g is None or dx_c is None else dx_g + dx_c
        return dx, dh * g + da_g @ w["U_g"] + da_c @ w["U_c"], own


#: Name in a config -> the cell.
SMALL_CELLS: dict[str, type[Cell]] = {"fastgrnn": FastGRNN, "ugrnn": UGRNN}
