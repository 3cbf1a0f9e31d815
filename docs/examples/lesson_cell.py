"""The cell of docs/chapters/backward-by-hand.md: one gate f that keeps, and that damps what the state adds.

    f = sigmoid(W_f x + U_f h_prev + b_f)
    p = U h_prev
    c = tanh(W x + f * p + b)
    h = f * h_prev + (1 - f) * c

    python -m scripts.check_gradients --cell docs/examples/lesson_cell.py:LessonCell

Every line of step_backward has its reason in the chapter.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ortho_ref.activations import sigmoid, sigmoid_derivative
from ortho_ref.cells.cell import Cell, input_product, input_pullback


@dataclass(frozen=True)
class LessonCell(Cell):
    """No options."""

    products: ClassVar[tuple[str, ...]] = ("f", "")

    def step_forward(self, weights, x, h_prev):
        """One step.  x (B, m) or tokens (B,), h_prev (B, n) -> h (B, n), and what the step back needs."""
        w = weights
        f = sigmoid(input_product(w["W_f"], x) + h_prev @ w["U_f"].T + w["b_f"])
        p = h_prev @ w["U"].T
        c = np.tanh(input_product(w["W"], x) + f * p + w["b"])
        h = f * h_prev + (1 - f) * c
        return h, (x, h_prev, f, p, c)

    def step_backward(self, weights, dh, cache):
        """dh (B, n), all of dL/dh_t -> dx, dh_prev, and the gradient of every weight, summed over the batch."""
        w, (x, h_prev, f, p, c) = weights, cache
        dc = dh * (1 - f)  # [mine:1]
        da_c = dc * (1 - c * c)  # [mine:2]
        dp = da_c * f  # [mine:3]
        df = dh * (h_prev - c) + da_c * p  # [mine:4]
        da_f = df * sigmoid_derivative(f)  # [mine:5]
        dh_prev = dh * f + dp @ w["U"] + da_f @ w["U_f"]  # [mine:6]
        dx_f, dW_f = input_pullback(w["W_f"], x, da_f)  # [mine:7]
        dx_c, dW = input_pullback(w["W"], x, da_c)  # [mine:7]
        dx = None if dx_f is None else dx_f + dx_c  # [mine:7]
        dU_f, dU = da_f.T @ h_prev, dp.T @ h_prev  # [mine:8]
        db_f, db = da_f.sum(axis=0), da_c.sum(axis=0)  # [mine:8]
        return dx, dh_prev, {"W_f": dW_f, "U_f": dU_f, "b_f": db_f, "W": dW, "U": dU, "b": db}
