"""uRNN's released LSTM: a full peephole from the new c to the output gate.  Its first states are 0 here, trained there.

o_t = sigmoid(W_o x_t + U_o h_{t-1} + V_o c_t + b_o), the rest as LSTM
da_o reaches c_t through V_o, too: dc_t = dh_t * o_t * (1 - y_t^2) + V_o^T da_o, and dV_o = da_o c_t^T
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ortho_ref.activations import sigmoid, sigmoid_derivative
from ortho_ref.cells import LSTM
from ortho_ref.cells.cell import Shapes, Weights, input_product, input_pullback


@dataclass(frozen=True)
class PeepholeLSTM(LSTM):
    """An LSTM with V_o (n, n)."""

    def shapes(self, input_size: int, hidden_size: int) -> Shapes:
        """Name -> shape of every weight."""
        return super().shapes(input_size, hidden_size) | {"V_o": (hidden_size, hidden_size)}

    def step_forward(self, weights: Weights, x: Any, h_prev: Any) -> tuple[Any, Any]:
        """One step, as LSTM's."""
        w, (h_prev, c_prev) = weights, h_prev
        i = sigmoid(input_product(w["W_i"], x) + h_prev @ w["U_i"].T + w["b_i"])
        f = sigmoid(input_product(w["W_f"], x) + h_prev @ w["U_f"].T + w["b_f"])
        g = np.tanh(input_product(w["W_g"], x) + h_prev @ w["U_g"].T + w["b_g"])
        c = f * c_prev + i * g
        o = sigmoid(input_product(w["W_o"], x) + h_prev @ w["U_o"].T + c @ w["V_o"].T + w["b_o"])
        y = np.tanh(c)
        return (o * y, c), (x, h_prev, c_prev, i, f, g, o, c, y)

    def step_backward(self, weights: Weights, dh: Any, cache: Any) -> tuple[Any, Any, Weights]:
        """Its adjoint, as LSTM's."""
        w, (dh, dc) = weights, dh
        x, h_prev, c_prev, i, f, g, o, c, y = cache
        da_o = dh * y * sigmoid_derivative(o)
        dc = dc + dh * o * (1 - y * y) + da_o @ w["V_o"]
        da_i = dc * g * sigmoid_derivative(i)
        da_f = dc * c_prev * sigmoid_derivative(f)
        da_g = dc * i * (1 - g * g)
        dh_prev = da_i @ w["U_i"] + da_f @ w["U_f"] + da_g @ w["U_g"] + da_o @ w["U_o"]
        dweights: Weights = {"V_o": da_o.T @ c}
        dx: Any = None
        for gate, da in (("i", da_i), ("f", da_f), ("g", da_g), ("o", da_o)):
            dx_gate, dweights[f"W_{gate}"] = input_pullback(w[f"W_{gate}"], x, da)
            dx = dx_gate if dx is None else dx + dx_gate
            dweights |= {f"U_{gate}": da.T @ h_prev, f"b_{gate}": da.sum(axis=0)}
        return dx, (dh_prev, dc * f), dweights
