"""What the fused cells share: input products, activations in place, chunks of time.

    P = W x_t + b for all t at once: x gets a column of ones, W the column b          [bp:bptt/W]
    P = columns of W + b, gathered, for integer tokens                                [bp:bptt/tokens]
    value in place:  tanh [bp:tanh]   relu [bp:relu]   modrelu [ncgru:20]
    derivative from the value alone:  tanh [bp:tanh]   relu [bp:relu]   modrelu [bp:modrelu-real]
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.cells.cell import State, Weights, is_tokens

_CHUNK = 16384  # elements per factor array and chunk: a few such arrays fit the second-level cache


class Tape(NamedTuple):
    """What backward needs.  x: as given; gates (G, T, B, n): after their activations; h, c (T+1, B, n); extra (T, B, n)."""

    x: Array
    gates: Array
    h: Array
    c: Array | None
    extra: Array | None


def stack(weights: Weights, kind: str, gates: str, halved: int = 0) -> Array:
    """weights[kind_g] for g in gates as one array (gates, ...), the first `halved` of them times 0.5."""
    xp = xp_of(*weights.values())
    stacked = xp.stack([weights[f"{kind}_{gate}"] for gate in gates])
    stacked[:halved] *= 0.5
    return stacked


def transposed(U: Array) -> Array:
    """Contiguous copies of the transposes of U (..., n, n): a product with a transposed view is slower in some BLAS."""
    return xp_of(U).ascontiguousarray(U.swapaxes(-1, -2))


def _with_ones(x: Array, dtype: Any) -> Array:
    T, B, m = x.shape
    xp = xp_of(x)
    rows = xp.empty((T * B, m + 1), dtype)
    rows[:, :m] = x.reshape(T * B, m)
    rows[:, m] = 1
    return rows


def input_products(W: Array, b: Array, x: Array) -> Array:
    """P (G, T, B, n) from W (G, n, m), b (G, n) and x (T, B, m) or tokens (T, B)."""
    xp = xp_of(W, b, x)
    G, n, _ = W.shape
    T, B = x.shape[:2]
    P = xp.empty((G, T, B, n), W.dtype)
    if is_tokens(x):
        table = transposed(W) + b[:, None, :]  # [bp:bptt/tokens]
        for g in range(G):
            xp.take(table[g], x, axis=0, out=P[g])  # [bp:bptt/tokens]
        return P
    W_b = xp.concatenate([W, b[:, :, None]], axis=2)
    xp.matmul(_with_ones(x, W.dtype), transposed(W_b), out=P.reshape(G, T * B, n))  # [bp:bptt/W]
    return P


def input_gradients(W: Array, x: Array, da: Array) -> tuple[Array, Array, Array | None]:
    """(dW (G, n, m), db (G, n), dx (T, B, m) or None for tokens) from da (G, T, B, n)."""
    xp = xp_of(W, x, da)
    G, T, B, n = da.shape
    m = W.shape[2]
    rows = da.reshape(G, T * B, n)
    if is_tokens(x):
        N = T * B
        one_hot = library_of(x).sparse.csr_matrix(
            (xp.ones(N, da.dtype), x.reshape(N).astype(xp.int32), xp.arange(N + 1, dtype=xp.int32)), shape=(N, m)
        )
        dW_T = xp.stack([one_hot.T @ rows[g] for g in range(G)])  # [bp:bptt/tokens]
        return dW_T.swapaxes(1, 2), dW_T.sum(axis=1), None
    dW_b = xp.matmul(rows.swapaxes(1, 2), _with_ones(x, da.dtype))  # [bp:bptt/W]
    dx = rows[0] @ W[0]  # [bp:bptt/W]
    for g in range(1, G):
        dx += rows[g] @ W[g]  # [bp:bptt/W]
    return dW_b[:, :, :m], dW_b[:, :, m], dx.reshape(x.shape)


def recurrent_gradients(da: Array, h_prev: Array) -> Array:
    """dU (..., n, n) = sum over t and B of da h_prev^T, from da (..., T, B, n) and h_prev (T, B, n)."""
    n = da.shape[-1]
    rows = da.reshape(*da.shape[:-3], -1, n)
    return xp_of(da).matmul(rows.swapaxes(-1, -2), h_prev.reshape(-1, n))


def unstack(kind: str, gates: str, stacked: Array) -> Weights:
    """The inverse of `stack`."""
    return {f"{kind}_{gate}": stacked[g] for g, gate in enumerate(gates)}


def initial_state(x: Array, U: Array, h0: State | None) -> Array:
    """An uninitialised (T+1, B, n) with h0 (or zeros) as its entry 0."""
    xp = xp_of(x, U, h0)
    h = xp.empty((x.shape[0] + 1, x.shape[1], U.shape[-1]), U.dtype)
    h[0] = 0 if h0 is None else h0
    return h


def last_cotangent(dh: Array, dh_T: State | None) -> Array:
    """A fresh (B, n) array that starts as dh_T, or as zeros."""
    xp = xp_of(dh, dh_T)
    return xp.zeros_like(dh[0], order="C") if dh_T is None else xp.array(dh_T, order="C")


def bias_before(activation: str) -> bool:
    """True where Phi(a, b) adds b to a first; modrelu takes its bias inside."""
    return activation != "modrelu"


def activate(activation: str, a: Array, b: Array, scratch: Array) -> None:
    """a <- Phi(a, b) in place; b is already in a where `bias_before`."""
    xp = xp_of(a)
    if activation == "tanh":
        xp.tanh(a, out=a)  # [bp:tanh]
    elif activation == "relu":
        xp.maximum(a, 0, out=a)  # [bp:relu]
    else:
        # np.sign costs as much as bit operations that mask z = 0, and is 0 there by itself
        xp.sign(a, out=scratch)
        xp.abs(a, out=a)
        xp.add(a, b, out=a)
        xp.maximum(a, 0, out=a)
        xp.multiply(a, scratch, out=a)  # [ncgru:20]


def derivative(activation: str, y: Array) -> Array:
    """Phi' as a fresh array, from the value y = Phi(a, b) alone."""
    xp = xp_of(y)
    if activation == "tanh":
        d = y * y
        return xp.subtract(1, d, out=d)  # [bp:tanh]
    d = xp.sign(y)
    # y is 0 exactly where the unit is off or at a kink, so sign(y)^2 is the mask chi
    return d if activation == "relu" else xp.multiply(d, d, out=d)  # [bp:relu] [bp:modrelu-real]


def inside_bias_gradient(y: Array, da: Array) -> Array:
    """db (n,) of modrelu's own bias from its value y and da, both (T, B, n)."""
    xp = xp_of(y, da)
    n = y.shape[-1]
    db = xp.zeros(n, da.dtype)
    for t in chunks(y):
        db += (xp.sign(y[t]) * da[t]).reshape(-1, n).sum(axis=0)  # [bp:modrelu-real]
    return db


def chunks(array: Array) -> Iterator[slice]:
    """Slices of the time axis of array (T, B, n), the last first, each of about a cache-sized number of elements."""
    T, size = array.shape[0], array.shape[1] * array.shape[2]
    steps = max(1, _CHUNK // size)
    for stop in range(T, 0, -steps):
        yield slice(max(0, stop - steps), stop)
