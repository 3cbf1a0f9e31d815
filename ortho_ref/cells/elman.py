"""The simple recurrent network, h = Phi(W x + U h + b).

tanh RNN, IRNN (relu), and with an orthogonal or unitary U scoRNN, oRNN, EURNN, EXPRNN, VPRNN, uRNN.

Forward
    z_t = W x_t + U h_{t-1}                                [urnn:1/z]
    h_t = Phi(z_t, b)                                      [urnn:1/h] [goru:2.6]

Phi(z, b) is tanh(z + b), relu(z + b), or modrelu(z, b) with the bias inside; where h, W and U are complex,
modrelu alone.

Backward.  dh is all of dL/dh_t; d<name> is dL/d<name>; of a complex quantity dL/dRe + i dL/dIm.
    dz, db = pullback of Phi at dh                         [bp:rnn/1]
    dh_prev = U^H dz    dU = dz h_prev^H                   [bp:rnn/2] [bp:urnn/U]
    dW = dz x^T    dx = W^T dz, or Re(W^H dz)              [bp:bptt/W]
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.activations import activation
from ortho_ref.backend import Array
from ortho_ref.boundary import check_switch
from ortho_ref.cells.cell import Cell, Weights, draw, input_product, input_pullback
from ortho_ref.initial import of_complex, uniform
from ortho_ref.printing import brief


class Cache(NamedTuple):
    """All that step_backward reads."""

    x: Array  # (B, m), or integer tokens (B,)
    h_prev: Array  # (B, n), as all below
    a: Array  # the pre-activation z without b
    h: Array

    def __repr__(self) -> str:
        return brief(self)


@dataclass(frozen=True)
class Elman(Cell):
    """Simple recurrent network. Weights W U b.

    Parameters
    ----------
    activation : str
        Phi, "tanh", "relu" or "modrelu".
    complex : bool
        h, W and U are complex, x and b real; needs modrelu.
    """

    activation: str = "tanh"
    complex: bool = False

    products: ClassVar[tuple[str, ...]] = ("",)
    phi_bias: ClassVar[str | None] = "b"

    def __post_init__(self) -> None:
        activation(self.activation)
        check_switch("complex", self.complex)
        if self.complex and self.activation != "modrelu":
            raise ValueError(f"activation is {self.activation!r}; allowed for a complex cell: 'modrelu'")

    def init(
        self, rng: np.random.Generator, input_size: int, hidden_size: int, *, dtype: DTypeLike = np.float32
    ) -> Weights:
        """Matrices Glorot uniform, bias 0 (urnn:init); of complex ones both parts, n complex numbers counted as 2 n."""
        shapes, n = self.shapes(input_size, hidden_size), hidden_size
        if not self.complex:
            return draw(shapes, rng, dtype)
        W, U = uniform(math.sqrt(6 / (input_size + 2 * n))), uniform(math.sqrt(6 / (4 * n)))
        return draw(shapes, rng, dtype, {"W": of_complex(W), "U": of_complex(U)})

    def step_forward(self, weights: Weights, x: Array, h_prev: Array) -> tuple[Array, Cache]:
        """One step.  x (B, m) or tokens (B,), h_prev (B, n) -> h (B, n).  Pure: nothing is stored or changed."""
        w, phi = weights, activation(self.activation)
        z = input_product(w["W"], x) + h_prev @ w["U"].T  # [urnn:1/z]
        h = phi.value(z, w["b"])  # [urnn:1/h] [goru:2.6]
        return h, Cache(x, h_prev, z, h)

    def step_backward(self, weights: Weights, dh: Array, cache: Cache) -> tuple[Array | None, Array, Weights]:
        """Adjoint of one step.  dh (B, n) -> dx (B, m), or None for tokens; dh_prev (B, n); dweights."""
        w, phi = weights, activation(self.activation)
        x, h_prev, z, h = cache
        dz, db = phi.pullback(dh, z, w["b"], h)  # [bp:rnn/1]
        dh_prev, dU = dz @ w["U"].conj(), dz.T @ h_prev.conj()  # [bp:rnn/2] [bp:urnn/U]
        dx, dW = input_pullback(w["W"], x, dz)  # [bp:bptt/W]
        return dx, dh_prev, {"W": dW, "U": dU, "b": db.sum(axis=0)}
