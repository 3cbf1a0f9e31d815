"""What the fused cells share: input products, activations, chunks of time.

P = W x_t + b before the loop: x gets a column of ones, W the column b            [bp:bptt/W]
P = columns of W + b, gathered, for integer tokens                                [bp:bptt/tokens]
sigmoid:  1 / (1 + exp(-a))                                                       [bp:sigmoid]
value:  tanh [bp:tanh]   relu [bp:relu]   modrelu [ncgru:20]
derivative from the value alone:  tanh [bp:tanh]   relu [bp:relu]   modrelu [bp:modrelu-real]

A weight's gradient is the sum over chunks of time, from the last on.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.boundary import is_tokens
from ortho_ref.cells.cell import Cell, State, Weights
from ortho_ref.fused import tokens
from ortho_ref.printing import brief

_CHUNK_ROWS = 512
#: On a device: more than the papers' tasks have, of which a backward pass is one chunk.
_DEVICE_ROWS = 2**16


class Tape(NamedTuple):
    """What backward needs; None where a cell has no such thing."""

    cell: Cell
    shape: tuple[int, int, int]  # (T, B, n)
    x: Array  # (T, B, m), or tokens (T, B), as given
    gates: Array  # (G, T, B, n), after their activations; of a complex cell the pre-activation z (T, B, n)
    h: Array  # (T+1, B, n)
    c: Array = None  # (T+1, B, n)
    y: Array = None  # (T, B, n): the LSTM's tanh(c), the p = U_h h_prev of a GRU that resets after it

    def __repr__(self) -> str:
        return brief(self)


def stack(weights: Weights, kind: str, gates: str) -> Array:
    """The weights "W", "U" or "b" of several gates as one fresh array (gates, ...)."""
    return xp_of(*weights.values()).stack([weights[f"{kind}_{gate}"] for gate in gates])


def unstack(kind: str, gates: str, stacked: Array) -> Weights:
    """The inverse of `stack`: views by name."""
    return {f"{kind}_{gate}": stacked[g] for g, gate in enumerate(gates)}


def transposed(U: Array) -> Array:
    """(..., n, m) as contiguous (..., m, n): a product with a transposed view is slower in some BLAS."""
    return xp_of(U).ascontiguousarray(U.swapaxes(-1, -2))


def _with_ones(x: Array) -> Array:
    """The rows of x (T, B, m), and a column of ones."""
    xp, m = xp_of(x), x.shape[2]
    rows = xp.ones((x.shape[0] * x.shape[1], m + 1), x.dtype)
    rows[:, :m] = x.reshape(-1, m)
    return rows


def input_products(W: Array, b: Array, x: Array) -> Array:
    """W x + b of all gates, (G, T, B, n), from W (G, n, m), b (G, n) and x (T, B, m) or tokens (T, B)."""
    xp = xp_of(W, b, x)
    G, n, _ = W.shape
    T, B = x.shape[:2]
    P = xp.empty((G, T, B, n), W.dtype)
    if is_tokens(x):
        table = transposed(W) + b[:, None, :]  # [bp:bptt/tokens]
        for g in range(G):
            xp.take(table[g], x, axis=0, out=P[g])  # [bp:bptt/tokens]
        return P
    W_b = transposed(xp.concatenate([W, b[:, :, None]], axis=2))
    xp.matmul(_with_ones(x), W_b, out=P.reshape(G, T * B, n))  # [bp:bptt/W]
    return P


def input_product(W: Array, b: Array, activation: str, x: Array) -> Array:
    """W x + b of a cell with one product, (T, B, n); without b where the activation takes it inside."""
    before = b if bias_before(activation) else xp_of(b).zeros_like(b)
    return input_products(W[None], before[None], x)[0]


class InputGradients:
    """The gradients of W (G, n, m), b (G, n) and x (T, B, m), or tokens (T, B), summed up chunk by chunk of time.

    dx is None for tokens.
    """

    def __init__(self, W: Array, x: Array) -> None:
        xp = xp_of(W, x)
        G, n, m = W.shape
        self._W, self._x = W, x
        self.dx: Array = None if is_tokens(x) else xp.empty(x.shape, W.dtype)
        if is_tokens(x):
            self._dW_T, self._db = xp.zeros((G, m, n), W.dtype), xp.zeros((G, n), W.dtype)
        else:
            self._dW_b = xp.zeros((G, n, m + 1), W.dtype)

    def add(self, t: slice, da: Array) -> None:
        """Take in the chunk of the steps t, da (G, steps, B, n) being the cotangents of W x + b there."""
        G, n, m = self._W.shape
        rows, x = da.reshape(G, -1, n), self._x[t]
        if self.dx is None:
            for g, own in enumerate(tokens.sums(x.reshape(-1), rows, m)):
                self._dW_T[g] += own  # [bp:bptt/tokens]
            self._db += rows.sum(axis=1)  # [bp:bptt/tokens]
            return
        self._dW_b += xp_of(da).matmul(rows.swapaxes(1, 2), _with_ones(x))  # [bp:bptt/W]
        self.dx[t] = (rows @ self._W).sum(axis=0).reshape(x.shape)  # [bp:bptt/W]

    def sums(self) -> tuple[Array, Array]:
        """dW (G, n, m) and db (G, n), contiguous."""
        xp = xp_of(self._W)
        if self.dx is None:
            return transposed(self._dW_T), self._db
        return xp.ascontiguousarray(self._dW_b[:, :, :-1]), xp.ascontiguousarray(self._dW_b[:, :, -1])


def recurrent_gradients(da: Array, h_prev: Array) -> Array:
    """dU (..., n, n), the sum over time and batch of da h_prev^T; da is (..., steps, B, n), h_prev (steps, B, n)."""
    n = da.shape[-1]
    rows = da.reshape(*da.shape[:-3], -1, n)
    return xp_of(da).matmul(rows.swapaxes(-1, -2), h_prev.reshape(-1, n))


def initial_state(x: Array, U: Array, h0: State | None) -> Array:
    """The array (T+1, B, n) that the states are written to, h0 (or zeros) being its entry 0; U tells n and dtype."""
    xp = xp_of(x, U, h0)
    h = xp.empty((x.shape[0] + 1, x.shape[1], U.shape[-1]), U.dtype)
    h[0] = 0 if h0 is None else h0
    return h


def last_cotangent(dh: Array, dh_T: State | None) -> Array:
    """Where the cotangent of the state (B, n) begins: dh_T, or zeros; fresh."""
    xp = xp_of(dh, dh_T)
    return xp.zeros_like(dh[0], order="C") if dh_T is None else xp.array(dh_T, order="C")


def bias_before(activation: str) -> bool:
    """True where Phi(a, b) adds b to a first; modrelu takes its bias inside."""
    return activation != "modrelu"


def overflow() -> contextlib.AbstractContextManager[None]:
    """Within, what overflows is infinite without a warning: exp(-a) of a gate that is shut."""
    return np.errstate(over="ignore")


def sigmoid(xp: Any, a: Array) -> Array:
    """sigma(a).  Where exp overflows to infinity it is 0; `overflow` allows that."""
    return 1 / (xp.exp(-a) + 1)  # [bp:sigmoid]


def value(xp: Any, activation: str, a: Array, b: Array) -> Array:
    """Phi(a, b), shaped like a; b is modrelu's bias, any other's is in a (`bias_before`)."""
    if activation == "tanh":
        return xp.tanh(a)  # [bp:tanh]
    if activation == "relu":
        return xp.maximum(a, 0)  # [bp:relu]
    return xp.sign(a) * xp.maximum(xp.abs(a) + b, 0)  # [ncgru:20]


def derivative(activation: str, y: Array) -> Array:
    """Phi' from the value y = Phi(a, b) alone; fresh."""
    xp = xp_of(y)
    if activation == "tanh":
        d = y * y
        return xp.subtract(1, d, out=d)  # [bp:tanh]
    d = xp.sign(y)
    # y is 0 exactly where the unit is off or at a kink, so sign(y)^2 is the mask chi
    return d if activation == "relu" else xp.multiply(d, d, out=d)  # [bp:relu] [bp:modrelu-real]


def inside_bias_gradient(y: Array, da: Array) -> Array:
    """db of modrelu's own bias, to be summed over time and batch, from its value y and da, (steps, B, n) each."""
    return xp_of(y).sign(y) * da  # [bp:modrelu-real]


def chunks(dh: Array) -> Iterator[slice]:
    """The chunks of time of dh (T, B, ...), the last first.

    On the host a chunk has some hundred rows: enough for the gradients' GEMMs to run at full speed on it, and few
    enough to be in the cache still when they do. On a device it has so many that launches do not count.
    """
    T, B = dh.shape[:2]
    rows = _CHUNK_ROWS if library_of(dh).device == "cpu" else _DEVICE_ROWS
    steps = min(T, max(1, rows // B))
    return (slice(max(0, stop - steps), stop) for stop in range(T, 0, -steps))
