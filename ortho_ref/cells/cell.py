"""What a cell is, and the input product that every cell shares.

x integer: W x is the columns of W that x names          [bp:bptt/tokens]
x float:   W x;  dx = W^T da,  dW = da x^T,  db = da     [bp:bptt/W]
W complex, x real: dx = Re(W^H da)                       [bp:urnn/x]
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ortho_ref.backend import Array, xp_of
from ortho_ref.initial import Initial, constant, glorot

Weights: TypeAlias = dict[str, Array]
State: TypeAlias = Any  # an array; for LSTM the pair (h, c)
Shapes: TypeAlias = dict[str, tuple[int, ...]]


class Cell(ABC):
    """One time step, forward and backward: a frozen dataclass of options, without arrays.

    states: names of the arrays a state is made of, ("h",) or ("h", "c"); with one name a state is that array itself,
    with more it is a tuple.
    phi_bias: name of the bias that Phi takes, of a cell whose activation is an option.
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
        return tuple(_named("W", g) for g in self.products)

    @property
    def recurrent_weights(self) -> tuple[str, ...]:
        """Names of the weights U_g (n, n), which a parametrization can keep orthogonal."""
        return tuple(_named("U", g) for g in self.products)

    def kink_distance(self, weights: Weights, cache: Any) -> float:
        """How far a step is from the nearest kink of what it computes; infinite for a smooth one."""
        return float("inf")

    @abstractmethod
    def shapes(self, input_size: int, hidden_size: int) -> Shapes:
        """Name -> shape of every weight, with m = input_size and n = hidden_size: W (n, m), U (n, n), b (n,)."""

    @abstractmethod
    def init(self, rng: np.random.Generator, input_size: int, hidden_size: int, dtype: Any) -> Weights:
        """Initial weights on the host; each weight from its own child of `rng`."""

    @abstractmethod
    def step_forward(self, weights: Weights, x: Array, h_prev: State) -> tuple[State, Any]:
        """One step.  x (B, m), or integer tokens (B,); h_prev (B, n) -> h (B, n) and the cache for step_backward."""

    @abstractmethod
    def step_backward(self, weights: Weights, dh: State, cache: Any) -> tuple[Array | None, State, Weights]:
        """Adjoint of one step.  dh (B, n) is all of dL/dh_t -> dx (None for tokens), dh_prev, dweights (summed)."""


def _named(kind: str, suffix: str) -> str:
    return f"{kind}_{suffix}" if suffix else kind


def parts_of(cell: Cell, state: State) -> tuple[Array, ...]:
    """The arrays a state is made of: (h,), or (h, c)."""
    return (state,) if len(cell.states) == 1 else tuple(state)


def state_of(parts: tuple[Array, ...]) -> State:
    """The inverse of `parts_of`: one array is a state by itself."""
    return parts[0] if len(parts) == 1 else parts


def gate_shapes(gates: tuple[str, ...], input_size: int, hidden_size: int) -> Shapes:
    """W_g (n, m), U_g (n, n), b_g (n,) for each gate g, in that order; "" stands for a cell with one product."""
    n, m = hidden_size, input_size
    return {_named(kind, g): shape for g in gates for kind, shape in (("W", (n, m)), ("U", (n, n)), ("b", (n,)))}


def draw(shapes: Shapes, rng: np.random.Generator, dtype: Any, special: dict[str, Initial] | None = None) -> Weights:
    """Initial weights: matrices Glorot uniform, biases 0, unless `special` says otherwise; one child of `rng` each."""
    special = special or {}
    return {
        name: special.get(name, glorot if len(shape) == 2 else constant(0.0))(child, shape, dtype)
        for (name, shape), child in zip(shapes.items(), rng.spawn(len(shapes)), strict=True)
    }


def is_tokens(x: Array) -> bool:
    """True when x holds integer tokens instead of input vectors."""
    return x.dtype.kind in "iu"


def input_product(W: Array, x: Array) -> Array:
    """W x for rows x (B, m), or the columns of W (n, m) named by tokens x (B,) -> (B, n)."""
    if is_tokens(x):
        return W.T[x]  # [bp:bptt/tokens]
    return x @ W.T  # [bp:bptt/W]


def input_pullback(W: Array, x: Array, da: Array) -> tuple[Array | None, Array]:
    """(dx, dW) from da (B, n); dx is None for tokens."""
    if is_tokens(x):
        xp = xp_of(W, x, da)
        one_hot = (x[:, None] == xp.arange(W.shape[1])).astype(da.dtype)
        return None, da.T @ one_hot  # [bp:bptt/tokens]
    return (da @ W.conj()).real, da.T @ x  # [bp:bptt/W] [bp:urnn/x]
