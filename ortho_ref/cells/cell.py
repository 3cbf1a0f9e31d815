"""What a cell is, and the input product that every cell shares.

x integer: W x is the columns of W that x names          [bp:bptt/tokens]
x float:   W x;  dx = W^T da,  dW = da x^T,  db = da     [bp:bptt/W]
W complex, x real: dx = Re(W^H da)                       [bp:urnn/x]
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.activations import activation
from ortho_ref.backend import Array, xp_of
from ortho_ref.boundary import check_integer, generator, is_tokens, precision
from ortho_ref.initial import Initial, constant, glorot
from ortho_ref.printing import ArraysInOrder

Weights: TypeAlias = dict[str, Array]
State: TypeAlias = Any  # an array; for LSTM the pair (h, c)
Shapes: TypeAlias = dict[str, tuple[int, ...]]


class Cell(ABC):
    """One time step, forward and backward: a frozen dataclass of options, without arrays.

    Attributes
    ----------
    states : tuple of str
        Names of the arrays a state is made of, ("h",) or ("h", "c"); with one name a state is that array itself, with
        more it is a tuple.
    phi_bias : str or None
        Name of the bias that Phi takes, of a cell that has an option `activation`, and in its cache Phi's argument a.
    """

    states: ClassVar[tuple[str, ...]] = ("h",)
    phi_bias: ClassVar[str | None] = None

    @property
    def complex(self) -> bool:
        """Whether its states, W and U are; x and biases are real in every cell."""
        return False

    @property
    @abstractmethod
    def products(self) -> tuple[str, ...]:
        """Suffixes g of its products W_g x + U_g h; "" stands for W and U."""

    @property
    def input_weights(self) -> tuple[str, ...]:
        """Names of the weights W_g (n, m)."""
        return tuple(weight_name("W", g) for g in self.products)

    @property
    def recurrent_weights(self) -> tuple[str, ...]:
        """Names of the weights U_g (n, n), which a parametrization can keep orthogonal."""
        return tuple(weight_name("U", g) for g in self.products)

    def kink_distance(self, weights: Weights, cache: Any) -> float:
        """How far a step is from the nearest kink of what it computes: of Phi's arguments the least, unless overridden.

        Parameters
        ----------
        weights : Weights
            As given to the step.
        cache : object
            What `step_forward` returned.

        Returns
        -------
        float
            Infinite for a smooth step.
        """
        if self.phi_bias is None:
            return float("inf")
        own: Any = self
        return float(activation(own.activation).kink_distance(cache.a, weights[self.phi_bias]).min())

    def shapes(self, input_size: int, hidden_size: int) -> Shapes:
        """The shape of every weight: W (n, m), U (n, n), b (n,) for each of `products`, unless a cell has its own.

        Parameters
        ----------
        input_size : int
            m.
        hidden_size : int
            n.

        Returns
        -------
        dict of str to tuple of int
            Name -> shape.
        """
        return gate_shapes(self.products, input_size, hidden_size)

    def init(
        self, rng: np.random.Generator, input_size: int, hidden_size: int, *, dtype: DTypeLike = np.float32
    ) -> Weights:
        """Initial weights: matrices Glorot uniform, biases 0, unless a cell has its own.

        Parameters
        ----------
        rng : numpy.random.Generator
            Each weight is drawn from its own child.
        input_size : int
            m.
        hidden_size : int
            n.
        dtype : dtype
            The real precision, float32 or float64.

        Returns
        -------
        Weights
            By name, on the host.
        """
        return draw(self.shapes(input_size, hidden_size), rng, dtype)

    @abstractmethod
    def step_forward(self, weights: Weights, x: Array, h_prev: State) -> tuple[State, Any]:
        """One step. Pure: nothing is stored or changed.

        Parameters
        ----------
        weights : Weights
            Under the names and of the shapes that `shapes` gives.
        x : Array (B, m), or integer tokens (B,)
            The input at this step.
        h_prev : State
            (B, n), for LSTM (h_prev, c_prev).

        Returns
        -------
        h : State
            (B, n), for LSTM (h, c).
        cache : object
            For `step_backward`.
        """

    @abstractmethod
    def step_backward(self, weights: Weights, dh: State, cache: Any) -> tuple[Array | None, State, Weights]:
        """Adjoint of one step.

        Parameters
        ----------
        weights : Weights
            As given to `step_forward`.
        dh : State
            (B, n), all of dL/dh_t; for LSTM (dh, dc).
        cache : object
            What `step_forward` returned.

        Returns
        -------
        dx : Array (B, m) or None
            None for tokens.
        dh_prev : State
            (B, n), for LSTM (dh_prev, dc_prev).
        dweights : Weights
            Under the weights' names, summed over the batch.
        """


def weight_name(kind: str, suffix: str) -> str:
    """The name of a product's weight: U_r of U and r, and U where there is no suffix."""
    return f"{kind}_{suffix}" if suffix else kind


def parts_of(cell: Cell, state: State) -> tuple[Array, ...]:
    """The arrays that a state is made of: (h,), or (h, c)."""
    return (state,) if len(cell.states) == 1 else tuple(state)


def state_of(parts: tuple[Array, ...]) -> State:
    """The inverse of `parts_of`: one array is a state by itself."""
    return parts[0] if len(parts) == 1 else ArraysInOrder(parts)


def zero_state(cell: Cell, weights: Weights, batch: int) -> State:
    """The state of zeros, (B, n) each, in the weights' precision and on their device."""
    U = weights[cell.recurrent_weights[0]]
    zeros = xp_of(U).zeros((batch, U.shape[0]), U.dtype)
    return state_of((zeros,) * len(cell.states))


def gate_shapes(gates: tuple[str, ...], input_size: int, hidden_size: int) -> Shapes:
    """W_g (n, m), U_g (n, n), b_g (n,) by name for each gate g, "" for a cell with one product."""
    check_integer("input_size", input_size)
    check_integer("hidden_size", hidden_size)
    n, m = hidden_size, input_size
    return {weight_name(kind, g): shape for g in gates for kind, shape in (("W", (n, m)), ("U", (n, n)), ("b", (n,)))}


def draw(
    shapes: Shapes, rng: np.random.Generator, dtype: DTypeLike, special: dict[str, Initial] | None = None
) -> Weights:
    """Initial weights on the host, each from its own child of rng: matrices Glorot uniform, biases 0, but `special`."""
    special, rng, dtype = special or {}, generator(rng), precision(dtype)
    return {
        name: special.get(name, glorot if len(shape) == 2 else constant(0.0))(child, shape, dtype)
        for (name, shape), child in zip(shapes.items(), rng.spawn(len(shapes)), strict=True)
    }


def input_product(W: Array, x: Array) -> Array:
    """W x, (B, n), for input vectors x (B, m), or the columns of W (n, m) named by tokens x (B,)."""
    if is_tokens(x):
        return W.T[x]  # [bp:bptt/tokens]
    return x @ W.T  # [bp:bptt/W]


def input_pullback(W: Array, x: Array, da: Array) -> tuple[Array | None, Array]:
    """The adjoint of `input_product` at da (B, n): dx (B, m), None for tokens, and dW (n, m), summed over the batch."""
    if is_tokens(x):
        xp = xp_of(W, x, da)
        one_hot = (x[:, None] == xp.arange(W.shape[1])).astype(da.dtype)
        return None, da.T @ one_hot  # [bp:bptt/tokens]
    return (da @ W.conj()).real, da.T @ x  # [bp:bptt/W] [bp:urnn/x]
