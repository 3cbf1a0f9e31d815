"""The standard LSTM: input, forget and output gates, no peepholes, one bias per gate.

Forward.  The state is the pair (h, c).
    i_t = sigmoid(W_i x_t + U_i h_{t-1} + b_i)             [bp:lstm/i]
    f_t = sigmoid(W_f x_t + U_f h_{t-1} + b_f)             [bp:lstm/f]
    g_t = tanh(W_g x_t + U_g h_{t-1} + b_g)                [bp:lstm/g]
    o_t = sigmoid(W_o x_t + U_o h_{t-1} + b_o)             [bp:lstm/o]
    c_t = f_t * c_{t-1} + i_t * g_t                        [bp:lstm/c]
    h_t = o_t * tanh(c_t)                                  [bp:lstm/h]

Backward.  (dh, dc) is all of dL/dh_t and all of dL/dc_t but what reaches c_t through h_t; y = tanh(c_t).
    do = dh * y    dc += dh * o * (1 - y^2)                [bp:lstm/1]
    di = dc * g    dg = dc * i    df = dc * c_prev         [bp:lstm/2]
    dc_prev = dc * f                                       [bp:lstm/3]
    da = sigmoid and tanh rules on di, df, dg, do          [bp:lstm/4]
    dh_prev = sum over gates of U^T da;  dU = da h_prev^T  [bp:lstm/5]
    dW = da x^T    db = da    dx = sum of W^T da           [bp:bptt/W]
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.activations import sigmoid, sigmoid_derivative
from ortho_ref.backend import Array, xp_of
from ortho_ref.cells.cell import Cell, Weights, draw, input_product, input_pullback
from ortho_ref.initial import constant
from ortho_ref.printing import brief


class Cache(NamedTuple):
    """All that step_backward reads."""

    x: Array  # (B, m), or integer tokens (B,)
    h_prev: Array  # (B, n), as all below
    c_prev: Array
    i: Array
    f: Array
    g: Array
    o: Array
    y: Array

    def __repr__(self) -> str:
        return brief(self)


@dataclass(frozen=True)
class LSTM(Cell):
    """Long short-term memory, the form of PyTorch and Keras with one bias.  Weights W_g U_g b_g for g in i, f, g, o."""

    states: ClassVar[tuple[str, ...]] = ("h", "c")
    products: ClassVar[tuple[str, ...]] = ("i", "f", "g", "o")

    def init(
        self, rng: np.random.Generator, input_size: int, hidden_size: int, *, dtype: DTypeLike = np.float32
    ) -> Weights:
        """Matrices Glorot uniform, biases 0 but the forget bias 1 (the code of the papers' baselines)."""
        return draw(self.shapes(input_size, hidden_size), rng, dtype, {"b_f": constant(1.0)})

    def step_forward(
        self, weights: Weights, x: Array, h_prev: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array], Cache]:
        """One step.  x (B, m) or tokens (B,), (h_prev, c_prev) each (B, n) -> (h, c).  Pure."""
        w, (h_prev, c_prev) = weights, h_prev
        xp = xp_of(x, h_prev)
        i = sigmoid(input_product(w["W_i"], x) + h_prev @ w["U_i"].T + w["b_i"])  # [bp:lstm/i]
        f = sigmoid(input_product(w["W_f"], x) + h_prev @ w["U_f"].T + w["b_f"])  # [bp:lstm/f]
        g = xp.tanh(input_product(w["W_g"], x) + h_prev @ w["U_g"].T + w["b_g"])  # [bp:lstm/g]
        o = sigmoid(input_product(w["W_o"], x) + h_prev @ w["U_o"].T + w["b_o"])  # [bp:lstm/o]
        c = f * c_prev + i * g  # [bp:lstm/c]
        y = xp.tanh(c)  # [bp:lstm/h]
        h = o * y  # [bp:lstm/h]
        return (h, c), Cache(x, h_prev, c_prev, i, f, g, o, y)

    def step_backward(
        self, weights: Weights, dh: tuple[Array, Array], cache: Cache
    ) -> tuple[Array | None, tuple[Array, Array], Weights]:
        """Adjoint of one step.  (dh, dc) each (B, n) -> dx (B, m), or None for tokens; (dh_prev, dc_prev); dweights."""
        w, (dh, dc) = weights, dh
        x, h_prev, c_prev, i, f, g, o, y = cache
        do, dc = dh * y, dc + dh * o * (1 - y * y)  # [bp:lstm/1]
        di, dg, df = dc * g, dc * i, dc * c_prev  # [bp:lstm/2]
        dc_prev = dc * f  # [bp:lstm/3]
        da_i, da_f = di * sigmoid_derivative(i), df * sigmoid_derivative(f)  # [bp:lstm/4]
        da_g, da_o = dg * (1 - g * g), do * sigmoid_derivative(o)  # [bp:lstm/4]
        dh_prev = da_i @ w["U_i"] + da_f @ w["U_f"] + da_g @ w["U_g"] + da_o @ w["U_o"]  # [bp:lstm/5]
        dweights: Weights = {}
        dx = None
        for gate, da in (("i", da_i), ("f", da_f), ("g", da_g), ("o", da_o)):
            dx_gate, dW = input_pullback(w[f"W_{gate}"], x, da)  # [bp:bptt/W]
            dx = dx_gate if dx is None else dx + dx_gate  # [bp:bptt/W]
            dU = da.T @ h_prev  # [bp:lstm/5]
            dweights |= {f"W_{gate}": dW, f"U_{gate}": dU, f"b_{gate}": da.sum(axis=0)}  # [bp:bptt/W]
        return dx, (dh_prev, dc_prev), dweights
