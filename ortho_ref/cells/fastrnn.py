"""The simple recurrent network between two scalar gates: FastRNN, and SGORNN where U is orthogonal.

Forward.  alpha and beta are scalars; the weights alpha and beta are what they are before the sigmoid.
    alpha_t = sigmoid(alpha)    beta_t = sigmoid(beta)     [sgornn:1/gates]
    constraint: alpha_t <= 1/2, then beta_t <= 1 - 2 alpha_t                        [sgornn:3]
    z_t = W x_t + U h_{t-1}                                [sgornn:1/z]
    f_t = Phi(z_t, b)                                      [sgornn:1/f]
    h_t = alpha_t f_t + beta_t h_{t-1}                     [sgornn:1/h]

sgornn:3 prints the bound of beta alone, which is empty for alpha_t > 1/2: there beta_t < 0, and gradients can grow
without bound (E-sgornn-04).  So alpha_t is clipped first; "as printed" is an option, to study it.
Where alpha_t is clipped beta_t is 0, and no gradient reaches either: the two stay where they are.

Backward.  dh is all of dL/dh_t; d<name> is dL/d<name>; ^ marks a weight before its sigmoid.
    dz, db = pullback of Phi at alpha_t dh                 [bp:fastrnn/1]
    dh_prev = beta_t dh + U^T dz    dU = dz h_prev^T       [bp:fastrnn/2]
    dalpha_t = sum of dh * f    dbeta_t = sum of dh * h_prev                        [bp:fastrnn/3]
    where beta_t is clipped: dalpha_t -= 2 dbeta_t, then dbeta_t = 0; where alpha_t is clipped: dalpha_t = 0
                                                           [bp:fastrnn/4]
    dalpha^ = dalpha_t alpha_t (1 - alpha_t), dbeta^ alike [bp:fastrnn/5]
    dW = dz x^T    dx = W^T dz                             [bp:bptt/W]
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.activations import activation, sigmoid, sigmoid_derivative
from ortho_ref.backend import Array, xp_of
from ortho_ref.boundary import not_among
from ortho_ref.cells.cell import Cell, Shapes, Weights, draw, input_product, input_pullback
from ortho_ref.initial import constant
from ortho_ref.printing import brief

CONSTRAINTS = (None, "sgornn", "sgornn-as-printed")


class Cache(NamedTuple):
    """All that step_backward reads."""

    x: Array  # (B, m), or integer tokens (B,)
    h_prev: Array  # (B, n), as all below
    a: Array  # the pre-activation z without b
    f: Array

    def __repr__(self) -> str:
        return brief(self)


@dataclass(frozen=True)
class FastRNN(Cell):
    """FastRNN, or SGORNN. Weights W U b, and alpha and beta, 0-d, before the sigmoid.

    Parameters
    ----------
    activation : str
        Phi, "tanh", "relu" or "modrelu".
    constraint : str or None
        None for FastRNN; "sgornn": alpha_t <= 1/2 and beta_t <= 1 - 2 alpha_t; "sgornn-as-printed": the second alone.
    """

    activation: str = "tanh"
    constraint: str | None = None

    products: ClassVar[tuple[str, ...]] = ("",)
    phi_bias: ClassVar[str | None] = "b"

    def __post_init__(self) -> None:
        activation(self.activation)
        if self.constraint not in CONSTRAINTS:
            raise ValueError(not_among("constraint", self.constraint, CONSTRAINTS))

    def kink_distance(self, weights: Weights, cache: Cache) -> float:
        """Of Phi's arguments, the least over units and batch, and of the gates from where they are clipped."""
        distance = super().kink_distance(weights, cache)
        if self.constraint is None:
            return distance
        alpha, beta = float(sigmoid(weights["alpha"])), float(sigmoid(weights["beta"]))
        of_beta = abs(beta - (1 - 2 * alpha))
        if self.constraint == "sgornn":
            of_beta = min(abs(alpha - 0.5), of_beta if alpha < 0.5 else beta)
        return min(distance, of_beta)

    def shapes(self, input_size: int, hidden_size: int) -> Shapes:
        """Name -> shape of every weight."""
        return super().shapes(input_size, hidden_size) | {"alpha": (), "beta": ()}

    def init(
        self, rng: np.random.Generator, input_size: int, hidden_size: int, *, dtype: DTypeLike = np.float32
    ) -> Weights:
        """Matrices Glorot uniform, b = 0; alpha = -3.75, beta = 3 (SGORNN's code), just inside the constraint."""
        special = {"alpha": constant(-3.75), "beta": constant(3.0)}
        return draw(self.shapes(input_size, hidden_size), rng, dtype, special)

    def gates(self, weights: Weights) -> tuple[Array, Array]:
        """alpha_t and beta_t, 0-d: the weights alpha and beta after sigmoid and constraint."""
        xp = xp_of(weights["U"])
        alpha, beta = sigmoid(weights["alpha"]), sigmoid(weights["beta"])  # [sgornn:1/gates]
        if self.constraint == "sgornn":
            alpha = xp.minimum(alpha, 0.5)  # [sgornn:3]
        if self.constraint is not None:
            beta = xp.minimum(beta, 1 - 2 * alpha)  # [sgornn:3]
        return xp.asarray(alpha), xp.asarray(beta)

    def gates_pullback(self, weights: Weights, dalpha: Array, dbeta: Array) -> Weights:
        """The adjoint of `gates`: gradients of alpha_t and beta_t -> of the weights alpha and beta."""
        xp = xp_of(weights["U"])
        alpha, beta = sigmoid(weights["alpha"]), sigmoid(weights["beta"])
        alpha_t, _ = self.gates(weights)
        if self.constraint is not None:
            clipped = beta > 1 - 2 * alpha_t
            dalpha = xp.where(clipped, dalpha - 2 * dbeta, dalpha)  # [bp:fastrnn/4]
            dbeta = xp.where(clipped, 0, dbeta)  # [bp:fastrnn/4]
        if self.constraint == "sgornn":
            dalpha = xp.where(alpha > 0.5, 0, dalpha)  # [bp:fastrnn/4]
        dalpha, dbeta = dalpha * sigmoid_derivative(alpha), dbeta * sigmoid_derivative(beta)  # [bp:fastrnn/5]
        return {"alpha": xp.asarray(dalpha), "beta": xp.asarray(dbeta)}

    def step_forward(self, weights: Weights, x: Array, h_prev: Array) -> tuple[Array, Cache]:
        """One step.  x (B, m) or tokens (B,), h_prev (B, n) -> h (B, n).  Pure: nothing is stored or changed."""
        w, phi = weights, activation(self.activation)
        alpha, beta = self.gates(w)  # [sgornn:1/gates] [sgornn:3]
        z = input_product(w["W"], x) + h_prev @ w["U"].T  # [sgornn:1/z]
        f = phi.value(z, w["b"])  # [sgornn:1/f]
        h = alpha * f + beta * h_prev  # [sgornn:1/h]
        return h, Cache(x, h_prev, z, f)

    def step_backward(self, weights: Weights, dh: Array, cache: Cache) -> tuple[Array | None, Array, Weights]:
        """Adjoint of one step.  dh (B, n) -> dx (B, m), or None for tokens; dh_prev (B, n); dweights."""
        w, phi = weights, activation(self.activation)
        x, h_prev, z, f = cache
        alpha, beta = self.gates(w)  # [sgornn:1/gates] [sgornn:3]
        dz, db = phi.pullback(alpha * dh, z, w["b"], f)  # [bp:fastrnn/1]
        dh_prev, dU = beta * dh + dz @ w["U"], dz.T @ h_prev  # [bp:fastrnn/2]
        dalpha, dbeta = (dh * f).sum(), (dh * h_prev).sum()  # [bp:fastrnn/3]
        gates = self.gates_pullback(w, dalpha, dbeta)  # [bp:fastrnn/4] [bp:fastrnn/5]
        dx, dW = input_pullback(w["W"], x, dz)  # [bp:bptt/W]
        return dx, dh_prev, {"W": dW, "U": dU, "b": db.sum(axis=0)} | gates
