"""A cell of your own: h_t = k h_{t-1} + (1 - k) tanh(W x_t + U h_{t-1} + b), with k of its own weights.

    python -m scripts.check_gradients --cell docs/examples/my_cell.py:MyCell
    python -m scripts.train parenthesis --model docs/examples/my_cell.py:MyCell

Every name that step_backward gives is d<name> of a <name> of step_forward, so that the check can say which line is
wrong: where step_forward has k = sigmoid(a + b_k), da_k is the gradient of what is in the brackets.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ortho_ref.activations import sigmoid, sigmoid_derivative
from ortho_ref.cells.cell import Cell, input_product, input_pullback


@dataclass(frozen=True)
class MyCell(Cell):
    """Its fields are options of the model: --model-option leak=0.9."""

    leak: float = 1.0
    products: ClassVar[tuple[str, ...]] = ("k", "")  # W_k x + U_k h, W x + U h: each U can be kept orthogonal

    def step_forward(self, weights, x, h_prev):
        """One step.  x (B, m) or tokens (B,), h_prev (B, n) -> h (B, n), and what the step back needs."""
        w = weights
        s = sigmoid(input_product(w["W_k"], x) + h_prev @ w["U_k"].T + w["b_k"])
        k = self.leak * s
        c = np.tanh(input_product(w["W"], x) + h_prev @ w["U"].T + w["b"])
        h = k * h_prev + (1 - k) * c
        return h, (x, h_prev, s, k, c)

    def step_backward(self, weights, dh, cache):
        """dh (B, n), all of dL/dh_t -> dx, dh_prev, and the gradient of every weight, summed over the batch."""
        w, (x, h_prev, s, k, c) = weights, cache
        dk, dc = dh * (h_prev - c), dh * (1 - k)  # [mine:1]
        ds = dk * self.leak  # [mine:2]
        da_s = ds * sigmoid_derivative(s)  # [mine:3]
        da_c = dc * (1 - c * c)  # [mine:4]
        dh_prev = dh * k + da_s @ w["U_k"] + da_c @ w["U"]  # [mine:5]
        dx_s, dW_k = input_pullback(w["W_k"], x, da_s)  # [mine:6]
        dx_c, dW = input_pullback(w["W"], x, da_c)  # [mine:6]
        dx = None if dx_s is None else dx_s + dx_c  # [mine:6]
        dU_k, dU = da_s.T @ h_prev, da_c.T @ h_prev  # [mine:7]
        db_k, db = da_s.sum(axis=0), da_c.sum(axis=0)  # [mine:7]
        return dx, dh_prev, {"W_k": dW_k, "U_k": dU_k, "b_k": db_k, "W": dW, "U": dU, "b": db}
