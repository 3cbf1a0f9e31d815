"""How a step's numbers lie in memory, chosen by size before the loops.

A slab is one gate, or one state, of one time step.
    Rows      slabs (B, n): a product for each gate, (B, n) @ (G, n, n), and their sum on the way back
    Columns   slabs (n, B): one product for all gates, (G n, n) @ (n, B); that of the way back is the sum as well

Columns are for large weights and few sequences, where OpenBLAS spends more on packing the weights than on a product by
rows.  Which layout a size gets is written down below and never measured: the same size gives the same bits.  Lines that
are element-wise take slabs of either kind; what the world outside sees is by rows.
"""

from collections.abc import Callable

import numpy as np

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.cells.cell import State, is_tokens
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

    def input_products(self, W: Array, b: Array, x: Array) -> Array:
        """W x + b as slabs (G, T, slab), as `sequence.input_products`."""
        return sequence.input_products(W, b, x)

    def initial_state(self, x: Array, U: Array, h0: State | None) -> Array:
        """The array (T+1, slab) that the states are written to, as `sequence.initial_state`."""
        return sequence.initial_state(x, U, h0)

    def chunk(self, G: int, steps: int, like: Array) -> Array:
        """Uninitialised slabs (G, steps, slab), in which those of a step are one block where products want that."""
        return xp_of(like).empty((G, steps, *like.shape), like.dtype)

    def factor(self, U: Array) -> Array:
        """U (G, n, n), or (n, n), as `product` takes it."""
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

        def back(da: Array, out: Array) -> None:
            xp.matmul(da, U, out=U_da)
            xp.add.reduce(U_da, axis=0, out=out)

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

    def input_products(self, W: Array, b: Array, x: Array) -> Array:
        """As `Rows`; the slabs of a step are one block."""
        xp = xp_of(W, b, x)
        (G, n, m), (T, B) = W.shape, x.shape[:2]
        if is_tokens(x):
            table = sequence.transposed(W.reshape(G * n, m)) + b.reshape(G * n)  # [bp:bptt/tokens]
            P = self.slabs(table[x])  # [bp:bptt/tokens]
        else:
            columns = xp.empty((T, m + 1, B), W.dtype)
            columns[:, :m] = x.swapaxes(1, 2)
            columns[:, m] = 1
            W_b = xp.concatenate([W.reshape(G * n, m), b.reshape(G * n, 1)], axis=1)
            P = xp.matmul(W_b, columns)  # [bp:bptt/W]
        return P.reshape(T, G, n, B).swapaxes(0, 1)

    def initial_state(self, x: Array, U: Array, h0: State | None) -> Array:
        """As `Rows`."""
        (T, B), n = x.shape[:2], U.shape[-1]
        h = xp_of(x, U, h0).empty((T + 1, n, B), U.dtype)
        h[0] = 0 if h0 is None else h0.T
        return h

    def chunk(self, G: int, steps: int, like: Array) -> Array:
        """As `Rows`."""
        return xp_of(like).empty((steps, G, *like.shape), like.dtype).swapaxes(0, 1)

    def factor(self, U: Array) -> Array:
        """As `Rows`."""
        return xp_of(U).ascontiguousarray(U).reshape(-1, U.shape[-1])

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
        return sequence.transposed(self.factor(U))

    def product_back(self, U: Array, like: Array) -> Callable[[Array, Array], None]:
        """As `Rows`."""
        xp = xp_of(U)
        if like.ndim == 2:
            return lambda da, out: xp.matmul(U, da, out=out)
        return lambda da, out: xp.matmul(U, da.reshape(len(U[0]), -1), out=out)


#: Precision -> columns from so many units on, and up to so many sequences; of others nothing was measured.
COLUMNS = {np.dtype(np.float32): (400, 64)}


def layout_of(x: Array, U: Array) -> Rows:
    """The layout of a size; on a device it is rows.

    Parameters
    ----------
    x : Array (T, B, ...)
        Tells B and the device.
    U : Array (..., n, n)
        Tells n and the precision.

    Returns
    -------
    Rows
        Or `Columns`.
    """
    if U.dtype not in COLUMNS or library_of(x).device != "cpu":
        return Rows()
    least_units, most_sequences = COLUMNS[U.dtype]
    return Columns() if U.shape[-1] >= least_units and x.shape[1] <= most_sequences else Rows()
