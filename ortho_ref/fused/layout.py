"""How a step's numbers lie in memory, chosen by size before the loops.

A slab is one gate, or one state, of one time step.
    Rows      slabs (B, n): a product for each gate, (B, n) @ (G, n, n), and their sum on the way back
    Columns   slabs (n, B): one product for all gates, (G n, n) @ (n, B); that of the way back is the sum as well
    Inside    columns, and x and 1 beside the state, so that this product has W x + b in it

P = W x_t + b by columns: x gets a row of ones                                              [bp:bptt/W]
P = columns of W + b, gathered, for integer tokens                                          [bp:bptt/tokens]

Columns are for large weights and few sequences, where OpenBLAS spends more on packing the weights than on a product by
rows; x inside is for small sizes, where calls are what costs.  Which layout a size gets is written down below and never
measured: the same size gives the same bits.  Lines that are element-wise take slabs of either kind; what the world
outside sees is by rows.
"""

import math
from collections.abc import Callable

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.boundary import is_tokens
from ortho_ref.cells.cell import State
from ortho_ref.fused import sequence


class Rows:
    """Slabs (B, n)."""

    def slabs(self, rows: Array) -> Array:
        """Arrays (..., B, n) as slabs; the inverse of `rows`."""
        return rows

    def rows(self, slabs: Array) -> Array:
        """Slabs as arrays (..., B, n)."""
        return slabs

    def gathered(self, slabs: Array) -> Array:
        """Slabs (..., steps, slab) as (..., steps, B, n), in any order in memory that products over steps take."""
        return slabs

    def bias(self, b: Array) -> Array:
        """What a slab adds of b (n,)."""
        return b

    def sum_to_bias(self, slabs: Array) -> Array:
        """The sum of (steps, slab) over time and batch: (n,)."""
        return slabs.sum(axis=(0, 1))

    def begin(self, W: Array, b: Array, x: Array, h0: State | None) -> tuple[Array, Array]:
        """The states h (T+1, slab) to write to, h[0] being h0 or zeros, and P (G, T, slab), where products add U h."""
        return self.initial_state(x, W, h0), sequence.input_products(W, b, x)  # [bp:bptt/W]

    def reads(self, h: Array) -> Array:
        """What `product` is given of each h_{t-1}: (T, slab), or more than a slab."""
        return h[:-1]

    def initial_state(self, x: Array, W: Array, h0: State | None) -> Array:
        """States (T+1, slab) to write to, the first being h0 or zeros; W (G, n, m) tells n and the precision."""
        xp, B = xp_of(x, W, h0), x.shape[1]
        h = xp.empty((len(x) + 1, *self.shape(B, W.shape[-2])), W.dtype)
        h[0] = 0 if h0 is None else self.slabs(h0)
        return h

    def shape(self, B: int, n: int) -> tuple[int, int]:
        """Of a slab."""
        return B, n

    def chunk(self, G: int, steps: int, like: Array) -> Array:
        """Uninitialised slabs (G, steps, slab), in which those of a step are one block where products want that."""
        return xp_of(like).empty((G, steps, *like.shape), like.dtype)

    def factor(self, U: Array, W: Array, b: Array) -> Array:
        """U (G, n, n), or (n, n), as `product` takes it; W and b are those of the same gates."""
        return sequence.transposed(U)

    def product(self, U: Array, like: Array) -> Callable[[Array, Array], None]:
        """The function (h, a): a += U h, of slabs h, and (G, slab) a shaped as like."""
        xp, Uh = xp_of(U), xp_of(U).empty_like(like, order="C")

        def add(h: Array, a: Array) -> None:
            xp.matmul(h, U, out=Uh)
            xp.add(a, Uh, out=a)

        return add

    def factor_back(self, U: Array) -> Array:
        """U (G, n, n), or (n, n), as `product_back` takes it."""
        return xp_of(U).ascontiguousarray(U)

    def product_back(self, U: Array, like: Array) -> Callable[[Array, Array], None]:
        """The function (da, out): out = the sum over gates of U^T da; da (G, slab), or (slab), is shaped as like."""
        xp = xp_of(U)
        if like.ndim == 2:
            return lambda da, out: xp.matmul(da, U, out=out)
        U_da = xp.empty_like(like, order="C")
        first, second, *others = U_da  # two gates at least

        def back(da: Array, out: Array) -> None:
            xp.matmul(da, U, out=U_da)
            if others:
                xp.add.reduce(U_da, axis=0, out=out)
            else:  # half of what the other takes
                xp.add(first, second, out=out)

        return back


class Columns(Rows):
    """Slabs (n, B)."""

    def slabs(self, rows: Array) -> Array:
        """As `Rows`; a copy."""
        return sequence.transposed(rows)

    def rows(self, slabs: Array) -> Array:
        """As `Rows`; a copy."""
        return sequence.transposed(slabs)

    def gathered(self, slabs: Array) -> Array:
        """As `Rows`; a copy (..., n, steps, B), which moves whole rows of a slab."""
        xp = xp_of(slabs)
        return xp.moveaxis(xp.ascontiguousarray(slabs.swapaxes(-3, -2)), -3, -1)

    def bias(self, b: Array) -> Array:
        """As `Rows`."""
        return b[:, None]

    def sum_to_bias(self, slabs: Array) -> Array:
        """As `Rows`."""
        return slabs.sum(axis=(0, 2))

    def begin(self, W: Array, b: Array, x: Array, h0: State | None) -> tuple[Array, Array]:
        """As `Rows`; the slabs of a step are one block."""
        xp = xp_of(W, b, x)
        (G, n, m), (T, B) = W.shape, x.shape[:2]
        if is_tokens(x):
            table = sequence.transposed(_joined(W)) + b.reshape(G * n)  # [bp:bptt/tokens]
            P = self.slabs(table[x])  # [bp:bptt/tokens]
        else:
            columns = xp.empty((T, m + 1, B), W.dtype)
            columns[:, :m] = x.swapaxes(1, 2)
            columns[:, m] = 1
            W_b = xp.concatenate([_joined(W), b.reshape(-1, 1)], axis=1)
            P = xp.matmul(W_b, columns)  # [bp:bptt/W]
        return self.initial_state(x, W, h0), P.reshape(T, G, n, B).swapaxes(0, 1)

    def shape(self, B: int, n: int) -> tuple[int, int]:
        """As `Rows`."""
        return n, B

    def chunk(self, G: int, steps: int, like: Array) -> Array:
        """As `Rows`."""
        return xp_of(like).empty((steps, G, *like.shape), like.dtype).swapaxes(0, 1)

    def factor(self, U: Array, W: Array, b: Array) -> Array:
        """As `Rows`."""
        return _joined(U)

    def product(self, U: Array, like: Array) -> Callable[[Array, Array], None]:
        """As `Rows`."""
        xp, Uh = xp_of(U), xp_of(U).empty_like(like, order="C")
        joined = Uh.reshape(len(U), -1)

        def add(h: Array, a: Array) -> None:
            xp.matmul(U, h, out=joined)
            xp.add(a, Uh, out=a)

        return add

    def factor_back(self, U: Array) -> Array:
        """As `Rows`."""
        return sequence.transposed(_joined(U))

    def product_back(self, U: Array, like: Array) -> Callable[[Array, Array], None]:
        """As `Rows`."""
        xp = xp_of(U)
        if like.ndim == 2:
            return lambda da, out: xp.matmul(U, da, out=out)
        return lambda da, out: xp.matmul(U, da.reshape(len(U[0]), -1), out=out)


class Inside(Columns):
    """Slabs (n, B), and x and 1 beside the state: one product (G n, n + m + 1) @ (n + m + 1, B) has W x + b in it."""

    def begin(self, W: Array, b: Array, x: Array, h0: State | None) -> tuple[Array, Array]:
        """As `Rows`, of vectors; P is written over by the products."""
        (G, n, m), (T, B) = W.shape, x.shape[:2]
        self._read = xp_of(W, b, x).empty((T + 1, n + m + 1, B), W.dtype)
        self._read[0, :n] = 0 if h0 is None else h0.T
        self._read[:-1, n:-1] = x.swapaxes(1, 2)
        self._read[:, -1] = 1
        return self._read[:, :n], self.chunk(G, T, self._read[0, :n])

    def reads(self, h: Array) -> Array:
        """As `Rows`."""
        return self._read[:-1]

    def factor(self, U: Array, W: Array, b: Array) -> Array:
        """As `Rows`."""
        return xp_of(U).concatenate([_joined(U), _joined(W), b.reshape(-1, 1)], axis=1)

    def product(self, U: Array, like: Array) -> Callable[[Array, Array], None]:
        """The function (read, a): a = U h + W x + b, in place of what a held."""
        matmul, rows = xp_of(U).matmul, len(U)

        def write(read: Array, a: Array) -> None:
            matmul(U, read, out=a.reshape(rows, -1))  # [bp:bptt/W]

        return write


def _joined(U: Array) -> Array:
    """(G, n, m) as (G n, m), contiguous."""
    return xp_of(U).ascontiguousarray(U).reshape(-1, U.shape[-1])


#: Precision -> columns from so many units on, and up to so many sequences; of others nothing was measured.
COLUMNS = {"float32": (400, 64)}
#: Precision -> x inside up to so many units, and sequences, where a cell has one product a step.
INSIDE = {"float32": (64, 32)}


def layout_of(x: Array, U: Array, one_product: bool = False) -> Rows:
    """The layout of a size; on a device it is rows.

    Parameters
    ----------
    x : Array (T, B, m), or integer tokens (T, B)
        Tells B and the device.
    U : Array (..., n, n)
        Tells n and the precision.
    one_product : bool
        Whether every U of the cell is applied to h_{t-1}; no unless given.

    Returns
    -------
    Rows
        Or `Columns`, or `Inside`.
    """
    batch, n = x.shape[1], U.shape[-1]
    if library_of(x).device != "cpu":
        return Rows()
    least_units, most_sequences = COLUMNS.get(U.dtype.name, (math.inf, 0))
    if n >= least_units and batch <= most_sequences:
        return Columns()
    most_units, most_sequences = INSIDE.get(U.dtype.name, (0, 0))
    if one_product and n <= most_units and batch <= most_sequences and not is_tokens(x):
        return Inside()
    return Rows()
