"""What the fused cells share: input products, activations in place, chunks of time.

P = W x_t + b before the loop, a chunk of time at once: x gets a column of ones, W the column b          [bp:bptt/W]
P = columns of W + b, gathered, for integer tokens                                [bp:bptt/tokens]
sigmoid:  1 / (1 + exp(-a)), three passes over memory; the weights have the sign        [bp:sigmoid]
value:  tanh [bp:tanh]   relu [bp:relu]   modrelu [ncgru:20]
derivative from the value alone:  tanh [bp:tanh]   relu [bp:relu]   modrelu [bp:modrelu-real]

Every product over time is one for each chunk of `chunks`, and a weight's gradient the sum over chunks from the last on:
a BLAS rounds a row by how many rows there are, so a stretch of whole chunks has the same bits by itself (`recompute`).
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.brief import brief
from ortho_ref.cells.cell import State, Weights, is_tokens
from ortho_ref.fused import tokens

_CHUNK_ROWS = 512
#: On a device: more than the papers' tasks have, of which a backward pass is one chunk.
_DEVICE_ROWS = 2**16
#: From this size of W on a BLAS spends so long on packing it that its product takes several chunks at once.
_LARGE, _SEVERAL = 2**16, 4
#: Up to this size of W tokens are dense one-hot rows in its gradient: `tokens.sums` costs more to begin.
_DENSE = 2**11


class Tape(NamedTuple):
    """What backward needs; None where a cell has no such thing.

    Attributes
    ----------
    x : Array (T, B, m), or integer tokens (T, B)
        As given.
    gates : Array (G, T, B, n)
        After their activations; of a complex cell the pre-activation z (T, B, n).
    h, c : Array (T+1, B, n)
        The states.
    y : Array (T, B, n)
        The LSTM's tanh(c), the p = U_h h_prev of a GRU that resets after it.
    """

    x: Array
    gates: Array
    h: Array
    c: Array
    y: Array

    def __repr__(self) -> str:
        return brief(self)


def stack(weights: Weights, kind: str, gates: str, negated: int = 0) -> Array:
    """The weights of several gates as one array.

    Parameters
    ----------
    weights : Weights
        The cell's.
    kind : str
        "W", "U" or "b".
    gates : str
        Their letters, in order.
    negated : int
        How many of them, the first, come times -1; 0 unless given.

    Returns
    -------
    Array (gates, ...)
        Fresh.
    """
    xp = xp_of(*weights.values())
    stacked = xp.stack([weights[f"{kind}_{gate}"] for gate in gates])
    stacked[:negated] *= -1
    return stacked


def transposed(U: Array) -> Array:
    """Contiguous copies of transposes: a product with a transposed view is slower in some BLAS.

    Parameters
    ----------
    U : Array (..., n, m)
        One matrix or several.

    Returns
    -------
    Array (..., m, n)
        Contiguous.
    """
    return xp_of(U).ascontiguousarray(U.swapaxes(-1, -2))


def _with_ones(x: Array, m: int, dtype: DTypeLike) -> Array:
    """The rows of x, of m numbers each or one-hot for tokens below m, and a column of ones."""
    xp, N = xp_of(x), x.shape[0] * x.shape[1]
    rows = xp.empty((N, m + 1), dtype)
    rows[:, :m] = x.reshape(N, 1) == xp.arange(m) if is_tokens(x) else x.reshape(N, m)
    rows[:, m] = 1
    return rows


def input_products(W: Array, b: Array, x: Array) -> Array:
    """W x + b of all gates, a chunk of time at once.

    Parameters
    ----------
    W : Array (G, n, m)
        The input weights.
    b : Array (G, n)
        The biases.
    x : Array (T, B, m), or integer tokens (T, B)
        The sequence.

    Returns
    -------
    Array (G, T, B, n)
        P.
    """
    xp = xp_of(W, b, x)
    G, n, _ = W.shape
    T, B = x.shape[:2]
    P = xp.empty((G, T, B, n), W.dtype)
    if is_tokens(x):
        table = transposed(W) + b[:, None, :]  # [bp:bptt/tokens]
        for g in range(G):
            xp.take(table[g], x, axis=0, out=P[g])  # [bp:bptt/tokens]
        return P
    W_b, rows = transposed(xp.concatenate([W, b[:, :, None]], axis=2)), P.reshape(G, T * B, n)
    ones = _with_ones(x, W.shape[2], W.dtype)
    for own in chunks_of_rows(x, chunks_at_once(*W.shape[1:])):
        xp.matmul(ones[own], W_b, out=rows[:, own])  # [bp:bptt/W]
    return P


def input_product(W: Array, b: Array, activation: str, x: Array) -> Array:
    """W x + b at all steps of a cell with one product; without b where the activation takes it inside.

    Parameters
    ----------
    W : Array (n, m)
        The input weight.
    b : Array (n,)
        The bias.
    activation : str
        Phi.
    x : Array (T, B, m), or integer tokens (T, B)
        The sequence.

    Returns
    -------
    Array (T, B, n)
        P.
    """
    before = b if bias_before(activation) else xp_of(b).zeros_like(b)
    return input_products(W[None], before[None], x)[0]


class InputGradients:
    """The gradients of W, b and x, summed up chunk by chunk of time.

    Parameters
    ----------
    W : Array (G, n, m)
        The input weights.
    x : Array (T, B, m), or integer tokens (T, B)
        The sequence.

    Attributes
    ----------
    dx : Array (T, B, m) or None
        None for tokens.
    """

    def __init__(self, W: Array, x: Array) -> None:
        xp = xp_of(W, x)
        G, n, m = W.shape
        self._W, self._x = W, x
        self.dx: Array = None if is_tokens(x) else xp.empty(x.shape, W.dtype)
        self._by_token = is_tokens(x) and m * n > _DENSE
        if self._by_token:
            self._dW_T, self._db = xp.zeros((G, m, n), W.dtype), xp.zeros((G, n), W.dtype)
        else:
            self._dW_b = xp.zeros((G, n, m + 1), W.dtype)

    def add(self, t: slice, da: Array) -> None:
        """Take in a chunk of time.

        Parameters
        ----------
        t : slice
            Its time steps.
        da : Array (G, steps, B, n)
            The cotangents of W x + b there.
        """
        G, n, m = self._W.shape
        rows, x = da.reshape(G, -1, n), self._x[t]
        N = rows.shape[1]
        if self._by_token:
            for g, own in enumerate(tokens.sums(x.reshape(N), rows, m)):
                self._dW_T[g] += own  # [bp:bptt/tokens]
                # every row of da went to exactly one token: the fewer of the two add up to db
                self._db[g] += (own if m < N else rows[g]).sum(axis=0)  # [bp:bptt/tokens]
            return
        self._dW_b += xp_of(da).matmul(rows.swapaxes(1, 2), _with_ones(x, m, da.dtype))  # [bp:bptt/W] [bp:bptt/tokens]
        if self.dx is None:
            return
        dx = rows[0] @ self._W[0]  # [bp:bptt/W]
        for g in range(1, G):
            dx += rows[g] @ self._W[g]  # [bp:bptt/W]
        self.dx[t] = dx.reshape(x.shape)

    def sums(self) -> tuple[Array, Array]:
        """The sums of all that was taken in.

        Returns
        -------
        dW : Array (G, n, m)
            Contiguous.
        db : Array (G, n)
            Contiguous.
        """
        xp = xp_of(self._W)
        if self._by_token:
            return transposed(self._dW_T), self._db
        return xp.ascontiguousarray(self._dW_b[:, :, :-1]), xp.ascontiguousarray(self._dW_b[:, :, -1])


def recurrent_gradients(da: Array, h_prev: Array) -> Array:
    """dU: the sum over time and batch of da h_prev^T.

    Parameters
    ----------
    da : Array (..., steps, B, n)
        The cotangents of U h_prev.
    h_prev : Array (steps, B, n)
        What U was applied to.

    Returns
    -------
    Array (..., n, n)
        dU.
    """
    n = da.shape[-1]
    rows = da.reshape(*da.shape[:-3], -1, n)
    return xp_of(da).matmul(rows.swapaxes(-1, -2), h_prev.reshape(-1, n))


def unstack(kind: str, gates: str, stacked: Array) -> Weights:
    """The inverse of `stack`.

    Parameters
    ----------
    kind : str
        "W", "U" or "b".
    gates : str
        Their letters, in order.
    stacked : Array (gates, ...)
        What is taken apart.

    Returns
    -------
    Weights
        Views, by name.
    """
    return {f"{kind}_{gate}": stacked[g] for g, gate in enumerate(gates)}


def initial_state(x: Array, U: Array, h0: State | None) -> Array:
    """The array that the states are written to.

    Parameters
    ----------
    x : Array (T, B, m), or integer tokens (T, B)
        The sequence.
    U : Array (..., n)
        Tells n and dtype.
    h0 : State, optional
        (B, n).

    Returns
    -------
    Array (T+1, B, n)
        Uninitialised, with h0 (or zeros) as its entry 0.
    """
    xp = xp_of(x, U, h0)
    h = xp.empty((x.shape[0] + 1, x.shape[1], U.shape[-1]), U.dtype)
    h[0] = 0 if h0 is None else h0
    return h


def last_cotangent(dh: Array, dh_T: State | None) -> Array:
    """Where the cotangent of the state begins.

    Parameters
    ----------
    dh : Array (T, B, n)
        The loss's own gradient.
    dh_T : State, optional
        (B, n).

    Returns
    -------
    Array (B, n)
        Fresh: dh_T, or zeros.
    """
    xp = xp_of(dh, dh_T)
    return xp.zeros_like(dh[0], order="C") if dh_T is None else xp.array(dh_T, order="C")


def bias_before(activation: str) -> bool:
    """True where Phi(a, b) adds b to a first; modrelu takes its bias inside."""
    return activation != "modrelu"


def sigmoid_in_place(like: Array) -> Callable[[Array], None]:
    """The function -a <- sigma(a), the sign being in the weights already.

    As accurate for shut gates as for others. exp overflows to infinity, and the gate is 0; `overflow` allows that.

    Parameters
    ----------
    like : Array
        Tells library and precision.

    Returns
    -------
    callable
        (Array) -> None.
    """
    xp = xp_of(like)
    one = xp.ones((), like.dtype)

    def sigmoid(negative: Array) -> None:
        xp.exp(negative, out=negative)
        xp.add(negative, one, out=negative)
        xp.divide(one, negative, out=negative)  # [bp:sigmoid]

    return sigmoid


def overflow() -> contextlib.AbstractContextManager[None]:
    """Within, what overflows is infinite without a warning: exp(-a) of a gate that is shut."""
    return np.errstate(over="ignore")


def in_place(activation: str, b: Array, scratch: Array) -> Callable[[Array], None]:
    """The function a <- Phi(a, b).

    Parameters
    ----------
    activation : str
        Phi.
    b : Array (n,)
        The bias; it is already in a where `bias_before`.
    scratch : Array
        Shaped like a; written to.

    Returns
    -------
    callable
        (Array) -> None.
    """
    xp = xp_of(b, scratch)

    def tanh(a: Array) -> None:
        xp.tanh(a, out=a)  # [bp:tanh]

    def relu(a: Array) -> None:
        xp.maximum(a, zero, out=a)  # [bp:relu]

    def modrelu(a: Array) -> None:
        # np.sign costs no more than bit operations that mask z = 0, and is 0 there by itself
        xp.sign(a, out=scratch)
        xp.abs(a, out=a)
        xp.add(a, b, out=a)
        xp.maximum(a, zero, out=a)
        xp.multiply(a, scratch, out=a)  # [ncgru:20]

    zero = xp.zeros((), scratch.dtype)
    return {"tanh": tanh, "relu": relu, "modrelu": modrelu}[activation]


def derivative(activation: str, y: Array) -> Array:
    """Phi' from the value alone.

    Parameters
    ----------
    activation : str
        Phi.
    y : Array
        Phi(a, b).

    Returns
    -------
    Array
        Shaped like y; fresh.
    """
    xp = xp_of(y)
    if activation == "tanh":
        d = y * y
        return xp.subtract(1, d, out=d)  # [bp:tanh]
    d = xp.sign(y)
    # y is 0 exactly where the unit is off or at a kink, so sign(y)^2 is the mask chi
    return d if activation == "relu" else xp.multiply(d, d, out=d)  # [bp:relu] [bp:modrelu-real]


def inside_bias_gradient(y: Array, da: Array) -> Array:
    """db of modrelu's own bias.

    Parameters
    ----------
    y : Array (steps, B, n)
        modrelu's value.
    da : Array (steps, B, n)
        The cotangent of its argument.

    Returns
    -------
    Array
        Shaped like y; to be summed over time and batch.
    """
    return xp_of(y).sign(y) * da  # [bp:modrelu-real]


def part(tape: Tape, t: slice) -> Tape:
    """The tape of some of the steps.

    Parameters
    ----------
    tape : Tape
        Of a sequence.
    t : slice
        The steps, start and stop.

    Returns
    -------
    Tape
        Views.
    """
    states = slice(t.start, t.stop + 1)
    gates, h, c, y = tape.gates, tape.h, tape.c, tape.y
    return Tape(
        tape.x[t],
        None if gates is None else gates[..., t, :, :],
        h[states],
        None if c is None else c[states],
        None if y is None else y[t],
    )


def chunks_at_once(n: int, m: int) -> int:
    """How many chunks of time one product W x takes at once.

    Parameters
    ----------
    n, m : int
        The shape of W; of a complex one its real rows.

    Returns
    -------
    int
        1, or more for a large W.
    """
    return _SEVERAL if n * m >= _LARGE else 1


def chunks(h_prev: Array, at_once: int = 1) -> tuple[int, Iterator[slice]]:
    """Chunks of time, the last first.

    On the host a chunk has some hundred rows: enough for the gradients' GEMMs to run at full speed on it, and few
    enough to be in the cache still when they do. On a device it has so many that launches do not count.

    Parameters
    ----------
    h_prev : Array (T, B, ...)
        Tells T, B and the device.
    at_once : int
        On the host so many of them are one; 1 unless given.

    Returns
    -------
    steps : int
        How many time steps make a chunk.
    slices : iterator of slice
        Of time.
    """
    T, B = h_prev.shape[:2]
    steps = at_once * max(1, _CHUNK_ROWS // B) if library_of(h_prev).device == "cpu" else max(1, _DEVICE_ROWS // B)
    steps = min(T, steps)
    return steps, (slice(max(0, stop - steps), stop) for stop in range(T, 0, -steps))


def chunks_of_rows(h: Array, at_once: int = 1) -> list[slice]:
    """The chunks of time of a sequence, as slices of its rows, step by step; the last first.

    Parameters
    ----------
    h : Array (T, B, n), or (B, n)
        What is read; of one step its rows are one chunk.
    at_once : int
        As of `chunks`.

    Returns
    -------
    list of slice
        Of the rows of h.reshape(-1, n).
    """
    if h.ndim < 3:
        return [slice(0, len(h))]
    B = h.shape[1]
    return [slice(t.start * B, t.stop * B) for t in chunks(h, at_once)[1]]
