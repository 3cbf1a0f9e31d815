"""What the compiled cells share: slices of the batch on threads, chunks of time, what stands before and behind a loop.

Before a loop W x_t + b of a chunk of time, into the array that it adds U h to, or a column of W for tokens; behind it,
from its cotangents, dW, db and dx.  The activations and their derivatives by the value alone are those of
`fused/sequence.py`.

How a batch is cut depends on B and n alone, and what the slices give is added in their order: the bits do not depend
on the number of threads.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.boundary import is_tokens
from ortho_ref.cells.cell import Weights
from ortho_ref.fused.compiled import rotations
from ortho_ref.fused.compiled.elementary import sigmoid, tanh
from ortho_ref.fused.compiled.jit import compiled, either, inlined
from ortho_ref.fused.compiled.pool import on_threads
from ortho_ref.fused.compiled.products import outer, pack, product, rows_like, width, zeros
from ortho_ref.fused.factored import Factors
from ortho_ref.fused.sequence import bias_before, stack, transposed
from ortho_ref.parametrizations import Params

#: Where steps of time, or rows of a batch, begin and end.
Span: TypeAlias = tuple[int, int]

#: A slice of the batch has so many rows at least and, for large n, a row for so many columns, as it reads all of U each
#: step and has sums of U's size; up to so many; and there are so many slices at most.
LEAST, COLUMNS, ENOUGH, SLICES = 8, 24, 16, 8
#: Up to so many products, of all gates, a second thread takes longer to wake than it saves.
WORTH = 2**24
#: Rows of a slice in a chunk of time, about: what a loop leaves is in the cache still.  For large n it has n / 2, as
#: each chunk reads and writes sums of U's size.
CHUNK = 256
TANH, RELU, MODRELU = range(3)
#: The number of an activation in compiled code.
PHI = {"tanh": TANH, "relu": RELU, "modrelu": MODRELU}


def slices(B: int, n: int) -> list[Span]:
    """How a batch is cut: where each slice begins and ends."""
    least = max(LEAST, min(n // COLUMNS, ENOUGH))
    count = max(1, min(SLICES, B // least))
    return list(itertools.pairwise(B * k // count for k in range(count + 1)))


def _steps(T: int, rows: int, n: int) -> int:
    """The steps of a chunk of time."""
    return min(T, max(1, max(CHUNK, n // 2) // rows))


def forward(loop: Callable[[Span, Span, Array], None], inputs: "Inputs", shape: tuple[int, int, int]) -> None:
    """Go over time in each slice of the batch; shape is (T, B, n).

    loop: goes over a chunk of time (from, to), in a slice (from, to), from a = W x + b (G, steps, rows, width).
    """
    T, _, n = shape

    def one(first: int, stop: int) -> None:
        q, rows = (first, stop), stop - first
        steps = _steps(T, rows, n)
        a = zeros((inputs.gates, steps, rows, width(n, inputs.dtype)), inputs.dtype)
        for start in range(0, T, steps):
            t = start, min(T, start + steps)
            inputs.products(t, q, a)  # [bp:bptt/W]
            loop(t, q, a)

    _each(one, shape, inputs.gates)


def backward(
    loop: Callable[..., None], inputs: "InputGradients", shape: tuple[int, int, int], sums: Sequence[tuple[int, ...]]
) -> list[Array]:
    """Go back over time in each slice of the batch; shape is (T, B, n).  The sums of all slices, added in their order.

    loop: goes back over a chunk of time, in a slice, writes the cotangents da (G, steps, rows, width) of W x + b, and
    adds to its own sums, of shapes `sums`.
    """
    T, _, n = shape

    def one(first: int, stop: int) -> list[Array]:
        q, rows = (first, stop), stop - first
        steps = _steps(T, rows, n)
        da = zeros((inputs.gates, steps, rows, width(n, inputs.dtype)), inputs.dtype)
        own = [zeros(of, inputs.dtype) for of in sums]
        inputs.begin(q)
        for start in reversed(range(0, T, steps)):
            t = start, min(T, start + steps)
            loop(t, q, da, *own)
            inputs.add(t, q, da)  # [bp:bptt/W]
        return own

    whole, *others = _each(one, shape, inputs.gates)
    for other in others:
        for total, own in zip(whole, other, strict=True):
            total += own
    return whole


def _each(one: Callable[..., Any], shape: tuple[int, int, int], gates: int) -> list[Any]:
    """What a function gives for each slice, on threads where that is worth it."""
    (T, B, n), own = shape, slices(shape[1], shape[2])
    return on_threads(one, own) if gates * T * B * n * n > WORTH else [one(*q) for q in own]


def plain(x: Array, like: Array) -> Array:
    """An array as the loops read it: in C's order, and tokens as int64."""
    return np.ascontiguousarray(x, np.int64 if is_tokens(x) else like.dtype)


def packed(U: Array | Factors, back: bool = False) -> Array | rotations.Turns:
    """U (..., n, n) by tiles: for h U^T, or for da U on the way back; or its rotations in turn."""
    if isinstance(U, Factors):
        return rotations.turns(U)
    return pack(U if back else U.swapaxes(-1, -2))


def cotangent(dh: Array, dh_T: Array | None) -> Array:
    """The cotangent of the state (B, width) where time ends: dh_T, or zeros."""
    g = zeros((dh.shape[1], width(dh.shape[2], dh.dtype)), dh.dtype)
    if dh_T is not None:
        g[:, : dh.shape[2]] = dh_T
    return g


def cut(g: Array, n: int) -> Array:
    """The first n columns."""
    return np.ascontiguousarray(g[..., :n])


def recurrent_gradients(sums: Array) -> Array:
    """dU (G, n, n) of sums (G, n, width) of h da^T."""
    return transposed(sums[:, :, : sums.shape[1]])


def shape_of_sums(U: Array | rotations.Turns, g: Array) -> tuple[int, ...]:
    """Of what is summed up for U's gradient, U being packed; g (B, width)."""
    if isinstance(U, rotations.Turns):
        return 1, len(U.upper), rotations.LANES
    return 1, U.shape[1], g.shape[1]


def gradient_of_one(U: Array | Factors, packed: Array | rotations.Turns, sums: Array) -> Array | Params:
    """That of U, or of its angles by name, from sums (1, ...) that `recur_back` and `recurrent_gradient` made."""
    return rotations.gradients(U, packed.angle, sums[0]) if isinstance(U, Factors) else recurrent_gradients(sums)[0]


class Inputs:
    """W x + b of several gates: W (G, n, m), b (G, n), x (T, B, m) or tokens (T, B)."""

    def __init__(self, W: Array, b: Array, x: Array) -> None:
        self._x, self._by_token = plain(x, W), is_tokens(x)
        self.gates, self.dtype = len(W), W.dtype
        if self._by_token:
            self._table = transposed(W) + b[:, None, :]
        else:
            self._table = pack(np.concatenate([W, b[:, :, None]], axis=2).swapaxes(1, 2))

    def products(self, t: Span, q: Span, P: Array) -> None:
        """Into P (G, steps, rows, width) for a chunk of time and a slice of the batch."""
        (_tokens_in if self._by_token else _vectors_in)(*t, *q, self._x, self._table, P)


class InputGradients:
    """The gradients of W (G, n, m), b (G, n) and x; each slice of the batch has its own sums."""

    def __init__(self, W: Array, x: Array) -> None:
        self._W, self._x, self._by_token = W, plain(x, W), is_tokens(x)
        self.gates, self.dtype = len(W), W.dtype
        self.dx: Array = None if self._by_token else np.empty(x.shape, W.dtype)
        self._packed = None if self._by_token else pack(W)
        # which of its slice's columns each token names
        self._names: Array = np.empty_like(self._x) if self._by_token else None
        # by slice: columns of W, and the sums (G, columns + 1, width) of these and of b
        self._columns: dict[Span, Array] = {}
        self._sums: dict[Span, Array] = {}

    def begin(self, q: Span) -> None:
        """A slice's sums, which are 0; of tokens those that it has."""
        (G, n, m), own = self._W.shape, slice(*q)
        self._columns[q] = np.arange(m)
        if self._by_token:
            tokens = self._x[:, own]
            if m > tokens.size:
                self._columns[q], tokens = np.unique(tokens, return_inverse=True)
            self._names[:, own] = tokens.reshape(-1, q[1] - q[0])
        self._sums[q] = zeros((G, len(self._columns[q]) + 1, width(n, self._W.dtype)), self._W.dtype)

    def add(self, t: Span, q: Span, da: Array) -> None:
        """Take in da (G, steps, rows, width), the cotangents of W x + b in a chunk of time."""
        n = self._W.shape[1]
        if self._by_token:
            _tokens_back(*t, *q, n, self._names, da, self._sums[q])
        else:
            _vectors_back(*t, *q, n, self._x, self._packed, da, self.dx, self._sums[q])

    def sums(self) -> tuple[Array, Array]:
        """dW and db."""
        G, n, m = self._W.shape
        whole = np.zeros((G, m + 1, n), self._W.dtype)
        for q in sorted(self._sums):
            whole[:, [*self._columns[q], m]] += self._sums[q][:, :, :n]
        return transposed(whole[:, :m]), np.ascontiguousarray(whole[:, m])


def gradients_of(weights: Weights, gates: str, x: Array) -> InputGradients:
    """Those of several gates' W and b."""
    return InputGradients(stack(weights, "W", gates), x)


def inputs_of_one(weights: Weights, activation: str, x: Array) -> Inputs:
    """W x + b of a cell with one product, without b where Phi takes it inside."""
    b = weights["b"] if bias_before(activation) else np.zeros_like(weights["b"])
    return Inputs(weights["W"][None], b[None], x)


def sums_of_one(inputs: InputGradients, activation: str, db_inside: Array) -> tuple[Array, Array]:
    """dW (n, m) and db (n,) of such a cell."""
    dW, db = inputs.sums()
    return dW[0], db[0] if bias_before(activation) else db_inside


@compiled
def _vectors_in(t0: int, t1: int, q0: int, q1: int, x: Array, W_b: Array, P: Array) -> None:
    rows = _with_ones(x, t0, t1, q0, q1)
    for gate in range(len(P)):
        whole = P[gate].reshape(-1, P.shape[3])
        product(rows, W_b[gate], whole, P.shape[3], False)  # [bp:bptt/W]


@compiled
def _tokens_in(t0: int, t1: int, q0: int, q1: int, x: Array, table: Array, P: Array) -> None:
    for gate in range(len(P)):
        for t in range(t0, t1):
            for i in range(q1 - q0):
                token = x[t, q0 + i]
                for j in range(table.shape[2]):
                    P[gate, t - t0, i, j] = table[gate, token, j]  # [bp:bptt/tokens]


@inlined
def _with_ones(x: Array, t0: int, t1: int, q0: int, q1: int) -> Array:
    """The rows of a chunk and a slice, with a column of ones."""
    m, B = x.shape[2], q1 - q0
    rows = np.ones(((t1 - t0) * B, m + 1), x.dtype)
    for t in range(t0, t1):
        for i in range(B):
            for j in range(m):
                rows[(t - t0) * B + i, j] = x[t, q0 + i, j]
    return rows


@compiled
def _vectors_back(
    t0: int, t1: int, q0: int, q1: int, n: int, x: Array, W: Array, da: Array, dx: Array, dW_b: Array
) -> None:
    m, B = x.shape[2], q1 - q0
    N = (t1 - t0) * B
    rows, dx_rows = _with_ones(x, t0, t1, q0, q1).reshape(1, N, m + 1), rows_like(N, m, x)
    for gate in range(len(da)):
        own = da[gate].reshape(1, -1, da.shape[3])[:, :N, :n]
        outer(rows, own, dW_b[gate])  # [bp:bptt/W]
        product(own[0], W[gate], dx_rows, m, gate > 0)  # [bp:bptt/W]
    for t in range(t0, t1):
        for i in range(B):
            for j in range(m):
                dx[t, q0 + i, j] = dx_rows[(t - t0) * B + i, j]


@compiled
def _tokens_back(t0: int, t1: int, q0: int, q1: int, n: int, x: Array, da: Array, dW_b: Array) -> None:
    for gate in range(len(da)):
        for t in range(t0, t1):
            for i in range(q1 - q0):
                token = x[t, q0 + i]
                for j in range(n):
                    dW_b[gate, token, j] += da[gate, t - t0, i, j]  # [bp:bptt/tokens]
                for j in range(n):
                    dW_b[gate, -1, j] += da[gate, t - t0, i, j]  # [bp:bptt/tokens]


@inlined
def recurrent_gradient(t0: int, t1: int, q0: int, q1: int, h: Array, da: Array, dU: Array) -> None:
    """dU^T + the sum over a chunk of time and a slice of the batch of h da^T; h (T, B, n), da (steps, rows, width)."""
    outer(h[t0:t1, q0:q1], da[: t1 - t0, :, : h.shape[2]], dU)


def _recur(h: Array, U: Array, out: Array) -> None:
    product(h, U, out, h.shape[1], True)


def _recur_back(h: Array, dy: Array, U: Array, dh: Array, add: bool, dU: Array) -> None:
    product(dy[:, : h.shape[1]], U, dh, h.shape[1], add)


def _nothing(U: rotations.Turns, t0: int, t1: int, q0: int, q1: int, h: Array, da: Array, dU: Array) -> None:
    pass


def _sum_up(U: Array, t0: int, t1: int, q0: int, q1: int, h: Array, da: Array, dU: Array) -> None:
    recurrent_gradient(t0, t1, q0, q1, h, da, dU)


#: Out += U h of rows.  Dh = (dh +) U^T dy of y = U h.  `recurrent_gradient`; of rotations `recur_back` has it.
recur = either(rotations.add, _recur)
recur_back = either(rotations.add_back, _recur_back)
sum_up = either(_nothing, _sum_up)


@inlined
def open_gate(a: Array, y: Array) -> None:
    """Y = sigma(a) of a row.  All of a, whole tiles, is computed: no vector is cut, which would go number by number."""
    for j in range(len(a)):
        a[j] = sigmoid(a[j])  # [bp:sigmoid]
    for j in range(len(y)):
        y[j] = a[j]


@inlined
def tanh_of(a: Array, y: Array) -> None:
    """Y = tanh(a) of a row, as `open_gate`."""
    for j in range(len(a)):
        a[j] = tanh(a[j])  # [bp:tanh]
    for j in range(len(y)):
        y[j] = a[j]


@inlined
def activate(phi: int, a: Array, b: Array, y: Array) -> None:
    """Y = Phi(a, b) of a row; b is in a already but for modrelu, which takes it inside."""
    zero = y.dtype.type(0)
    if phi == TANH:
        tanh_of(a, y)  # [bp:tanh]
    elif phi == RELU:
        for j in range(len(y)):
            y[j] = zero if a[j] < zero else a[j]  # [bp:relu]
    else:
        for j in range(len(y)):
            size = abs(a[j]) + b[j]
            size = zero if size < zero else size
            y[j] = size if a[j] > zero else -size if a[j] < zero else a[j]  # [ncgru:20]


@inlined
def derivative(phi: int, y: Any) -> Any:
    """Phi' from the value y alone: relu and modrelu are 0 exactly where the unit is off, or at a kink."""
    one = type(y)(1)
    if phi == TANH:
        return one - y * y  # [bp:tanh]
    return one if y != type(y)(0) else type(y)(0)  # [bp:relu] [bp:modrelu-real]
