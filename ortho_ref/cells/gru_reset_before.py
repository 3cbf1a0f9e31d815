"""GRU with the reset gate inside the recurrent product: the GRU of ncgru:1 and the NC-GRU of ncgru:19.

Forward.  States are columns in the papers and rows here, hence `x @ W.T`; h_prev is h_{t-1}.
    r_t = sigmoid(W_r x_t + U_r h_{t-1} + b_r)             [ncgru:1/r]
    u_t = sigmoid(W_u x_t + U_u h_{t-1} + b_u)             [ncgru:1/u]
    s_t = r_t * h_{t-1}                                    [ncgru:1/s]
    a_t = W_c x_t + U_c s_t                                [ncgru:35]
    c_t = Phi(a_t, b_c)                                    [ncgru:1/c] [ncgru:19/c]
    h_t = (1 - u_t) * h_{t-1} + u_t * c_t                  [ncgru:1/h]

Phi(a, b) is tanh(a + b) in ncgru:1 and modrelu(a, b), the bias inside, in ncgru:19; relu(a + b) is an option.
u is the weight of the NEW content.  NOT this file: PyTorch and cuDNN reset after U_c, and their z is 1 - u.

Backward.  dh is all of dL/dh_t; d<name> is dL/d<name>.
    du = dh * (c - h_prev)    dc = dh * u    dh_prev = dh * (1 - u)           [bp:gru1/1]
    da_c, db_c = pullback of Phi at dc;  ds = U_c^T da_c;  dU_c = da_c s^T    [bp:gru1/2]
    dr = ds * h_prev;  dh_prev += ds * r                                      [bp:gru1/3]
    da_r = dr * r * (1 - r)    da_u = du * u * (1 - u)                        [bp:gru1/4]
    dh_prev += U_r^T da_r + U_u^T da_u;  dU_r = da_r h_prev^T, dU_u alike     [bp:gru1/5]
    dW_g = da_g x^T    db_g = da_g    dx = sum over g of W_g^T da_g           [bp:bptt/W]
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ortho_ref.activations import activation, sigmoid, sigmoid_derivative
from ortho_ref.backend import Array
from ortho_ref.cells.cell import Cell, Weights, input_product, input_pullback
from ortho_ref.printing import brief


class Cache(NamedTuple):
    """All that step_backward reads."""

    x: Array  # (B, m), or integer tokens (B,)
    h_prev: Array  # (B, n), as all below
    r: Array
    u: Array
    s: Array
    a: Array  # the pre-activation without b_c
    c: Array

    def __repr__(self) -> str:
        return brief(self)


@dataclass(frozen=True)
class GRUResetBefore(Cell):
    """GRU, reset before the recurrent product. Weights W_r U_r b_r  W_u U_u b_u  W_c U_c b_c.

    Parameters
    ----------
    activation : str
        Phi of the candidate, "tanh" (ncgru:1), "modrelu" (ncgru:19) or "relu".
    """

    activation: str = "tanh"

    products: ClassVar[tuple[str, ...]] = ("r", "u", "c")
    phi_bias: ClassVar[str | None] = "b_c"

    def __post_init__(self) -> None:
        activation(self.activation)

    def step_forward(self, weights: Weights, x: Array, h_prev: Array) -> tuple[Array, Cache]:
        """One step.  x (B, m) or tokens (B,), h_prev (B, n) -> h (B, n).  Pure: nothing is stored or changed."""
        w, phi = weights, activation(self.activation)
        r = sigmoid(input_product(w["W_r"], x) + h_prev @ w["U_r"].T + w["b_r"])  # [ncgru:1/r]
        u = sigmoid(input_product(w["W_u"], x) + h_prev @ w["U_u"].T + w["b_u"])  # [ncgru:1/u]
        s = r * h_prev  # [ncgru:1/s]
        a = input_product(w["W_c"], x) + s @ w["U_c"].T  # [ncgru:35]
        c = phi.value(a, w["b_c"])  # [ncgru:1/c] [ncgru:19/c]
        h = (1 - u) * h_prev + u * c  # [ncgru:1/h]
        return h, Cache(x, h_prev, r, u, s, a, c)

    def step_backward(self, weights: Weights, dh: Array, cache: Cache) -> tuple[Array | None, Array, Weights]:
        """Adjoint of one step.  dh (B, n) -> dx (B, m), or None for tokens; dh_prev (B, n); dweights."""
        w, phi = weights, activation(self.activation)
        x, h_prev, r, u, s, a, c = cache
        du, dc, dh_prev = dh * (c - h_prev), dh * u, dh * (1 - u)  # [bp:gru1/1]
        da_c, db_c = phi.pullback(dc, a, w["b_c"], c)  # [bp:gru1/2]
        ds, dU_c = da_c @ w["U_c"], da_c.T @ s  # [bp:gru1/2]
        dr = ds * h_prev  # [bp:gru1/3]
        dh_prev = dh_prev + ds * r  # [bp:gru1/3]
        da_r, da_u = dr * sigmoid_derivative(r), du * sigmoid_derivative(u)  # [bp:gru1/4]
        dh_prev = dh_prev + da_r @ w["U_r"] + da_u @ w["U_u"]  # [bp:gru1/5]
        dU_r, dU_u = da_r.T @ h_prev, da_u.T @ h_prev  # [bp:gru1/5]
        dx_r, dW_r = input_pullback(w["W_r"], x, da_r)  # [bp:bptt/W]
        dx_u, dW_u = input_pullback(w["W_u"], x, da_u)  # [bp:bptt/W]
        dx_c, dW_c = input_pullback(w["W_c"], x, da_c)  # [bp:bptt/W]
        dx = None if dx_r is None else dx_r + dx_u + dx_c  # [bp:bptt/W]
        dweights = {"W_r": dW_r, "U_r": dU_r, "b_r": da_r.sum(axis=0)}  # [bp:bptt/W]
        dweights |= {"W_u": dW_u, "U_u": dU_u, "b_u": da_u.sum(axis=0)}  # [bp:bptt/W]
        dweights |= {"W_c": dW_c, "U_c": dU_c, "b_c": db_c.sum(axis=0)}  # [bp:bptt/W]
        return dx, dh_prev, dweights
