"""GRU with the reset gate after the recurrent product: the GRU of goru:2.2 (cuDNN, PyTorch) and the GORU of goru:3.1.

Forward.  States are columns in the paper and rows here, hence `x @ W.T`; h_prev is h_{t-1}.
    r_t = sigmoid(W_r x_t + U_r h_{t-1} + b_r)             [goru:2.4] [goru:3.3]
    z_t = sigmoid(W_z x_t + U_z h_{t-1} + b_z)             [goru:2.3] [goru:3.2]
    r_t = r, z_t = z, where a gate is switched off         [goru:abl]
    p_t = U_h h_{t-1}  (+ b_hh)                            [goru:2.2/p] [goru:3.1/p]
    a_t = W_h x_t + r_t * p_t                              [goru:2.2/a] [goru:3.1/a]
    c_t = Phi(a_t, b_h)                                    [goru:2.2/c] [goru:3.1/c]
    h_t = z_t * h_{t-1} + (1 - z_t) * c_t                  [goru:2.2/h] [goru:3.1/h]

Phi(a, b) is tanh(a + b) in goru:2.2 and modrelu(a, b), the bias inside, in goru:3.1, where it is printed as an added
bias (E-goru-02).  z is the weight of the OLD state, 1 - u of ncgru:1.  b_hh, inside the reset, is what PyTorch and
cuDNN have besides b_h; theirs of r and z are sums of two.  NOT this file: ncgru:1 resets before U.

Backward.  dh is all of dL/dh_t; d<name> is dL/d<name>.
    dz = dh * (h_prev - c)    dc = dh * (1 - z)    dh_prev = dh * z           [bp:gru2/1]
    da, db_h = pullback of Phi at dc                                          [bp:gru2/2]
    dr = da * p;  dp = da * r;  dh_prev += U_h^T dp;  dU_h = dp h_prev^T      [bp:gru2/3]
    da_g = dg * g * (1 - g);  dh_prev += U_g^T da_g;  dU_g = da_g h_prev^T    [bp:gru2/4]
    dW_g = da_g x^T    db_g = da_g    dx = sum over g of W_g^T da_g           [bp:bptt/W]
    a gate that is off, a vector: its gradient is dr or dz itself             [bp:gru2/5]
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.activations import activation, sigmoid, sigmoid_derivative
from ortho_ref.backend import Array
from ortho_ref.boundary import check_switch
from ortho_ref.cells.cell import Cell, Shapes, Weights, draw, gate_shapes, input_product, input_pullback
from ortho_ref.initial import constant
from ortho_ref.printing import brief


class Cache(NamedTuple):
    """All that step_backward reads."""

    x: Array  # (B, m), or integer tokens (B,)
    h_prev: Array  # (B, n), as all below
    r: Array  # (n,) where off
    z: Array  # (n,) where off
    p: Array
    a: Array  # the pre-activation without b_h
    c: Array

    def __repr__(self) -> str:
        return brief(self)


@dataclass(frozen=True)
class GRUResetAfter(Cell):
    """GRU, reset after the recurrent product. Weights W_r U_r b_r  W_z U_z b_z  W_h U_h b_h.

    Parameters
    ----------
    activation : str
        Phi of the candidate, "tanh" (goru:2.2), "modrelu" (goru:3.1) or "relu".
    reset_gate, update_gate : bool
        False puts a trainable vector r or z (n,), used as it is, in place of that gate's W U b (goru:abl).
    recurrent_bias : bool
        True adds b_hh (n,) to U_h h, inside the reset, as PyTorch and cuDNN do.
    """

    activation: str = "tanh"
    reset_gate: bool = True
    update_gate: bool = True
    recurrent_bias: bool = False

    phi_bias: ClassVar[str | None] = "b_h"

    def __post_init__(self) -> None:
        activation(self.activation)
        for name in ("reset_gate", "update_gate", "recurrent_bias"):
            check_switch(name, getattr(self, name))

    @property
    def products(self) -> tuple[str, ...]:
        """Of the gates that are on, and of the candidate."""
        return ("r",) * self.reset_gate + ("z",) * self.update_gate + ("h",)

    def shapes(self, input_size: int, hidden_size: int) -> Shapes:
        """Name -> shape of every weight."""
        shapes: Shapes = {}
        for gate, on in (("r", self.reset_gate), ("z", self.update_gate)):
            shapes |= gate_shapes((gate,), input_size, hidden_size) if on else {gate: (hidden_size,)}
        shapes |= gate_shapes(("h",), input_size, hidden_size)
        return shapes | ({"b_hh": (hidden_size,)} if self.recurrent_bias else {})

    def init(
        self, rng: np.random.Generator, input_size: int, hidden_size: int, *, dtype: DTypeLike = np.float32
    ) -> Weights:
        """Matrices Glorot uniform, biases 0; in place of a gate r = 1 or z = 1/2, which the paper leaves open."""
        special = {"r": constant(1.0), "z": constant(0.5)}
        return draw(self.shapes(input_size, hidden_size), rng, dtype, special)

    def step_forward(self, weights: Weights, x: Array, h_prev: Array) -> tuple[Array, Cache]:
        """One step.  x (B, m) or tokens (B,), h_prev (B, n) -> h (B, n).  Pure: nothing is stored or changed."""
        w, phi = weights, activation(self.activation)
        if self.reset_gate:
            r = sigmoid(input_product(w["W_r"], x) + h_prev @ w["U_r"].T + w["b_r"])  # [goru:2.4] [goru:3.3]
        if self.update_gate:
            z = sigmoid(input_product(w["W_z"], x) + h_prev @ w["U_z"].T + w["b_z"])  # [goru:2.3] [goru:3.2]
        if not self.reset_gate:
            r = w["r"]  # [goru:abl]
        if not self.update_gate:
            z = w["z"]  # [goru:abl]
        p = h_prev @ w["U_h"].T  # [goru:2.2/p] [goru:3.1/p]
        if self.recurrent_bias:
            p = p + w["b_hh"]  # [goru:2.2/p]
        a = input_product(w["W_h"], x) + r * p  # [goru:2.2/a] [goru:3.1/a]
        c = phi.value(a, w["b_h"])  # [goru:2.2/c] [goru:3.1/c]
        h = z * h_prev + (1 - z) * c  # [goru:2.2/h] [goru:3.1/h]
        return h, Cache(x, h_prev, r, z, p, a, c)

    def step_backward(self, weights: Weights, dh: Array, cache: Cache) -> tuple[Array | None, Array, Weights]:
        """Adjoint of one step.  dh (B, n) -> dx (B, m), or None for tokens; dh_prev (B, n); dweights."""
        w, phi = weights, activation(self.activation)
        x, h_prev, r, z, p, a, c = cache
        dz, dc, dh_prev = dh * (h_prev - c), dh * (1 - z), dh * z  # [bp:gru2/1]
        da, db_h = phi.pullback(dc, a, w["b_h"], c)  # [bp:gru2/2]
        dr, dp = da * p, da * r  # [bp:gru2/3]
        dh_prev, dU_h = dh_prev + dp @ w["U_h"], dp.T @ h_prev  # [bp:gru2/3]
        dweights: Weights = {}
        dx = None
        for gate, on, g, dg in (("r", self.reset_gate, r, dr), ("z", self.update_gate, z, dz)):
            if on:
                da_g = dg * sigmoid_derivative(g)  # [bp:gru2/4]
                dh_prev, dU = dh_prev + da_g @ w[f"U_{gate}"], da_g.T @ h_prev  # [bp:gru2/4]
                dx_g, dW = input_pullback(w[f"W_{gate}"], x, da_g)  # [bp:bptt/W]
                dx = dx_g if dx is None else dx + dx_g  # [bp:bptt/W]
                dweights |= {f"W_{gate}": dW, f"U_{gate}": dU, f"b_{gate}": da_g.sum(axis=0)}  # [bp:bptt/W]
            else:
                dweights[gate] = dg.sum(axis=0)  # [bp:gru2/5]
        dx_h, dW_h = input_pullback(w["W_h"], x, da)  # [bp:bptt/W]
        dx = dx_h if dx is None else dx + dx_h  # [bp:bptt/W]
        dweights |= {"W_h": dW_h, "U_h": dU_h, "b_h": db_h.sum(axis=0)}  # [bp:bptt/W]
        if self.recurrent_bias:
            dweights["b_hh"] = dp.sum(axis=0)  # [bp:gru2/3]
        return dx, dh_prev, dweights
