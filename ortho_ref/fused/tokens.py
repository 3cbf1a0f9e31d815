"""Sums of rows by their tokens: the gradients of W and of E, of which a token names a column or a row.

    S_v = sum of the rows k with token_k = v, in the order of k         [bp:bptt/tokens] [bp:lm-embedding/gradient]

On the host a product with a sparse matrix.  On a device sums have the same bits on every run, and nobody waits:
    few words     the product with dense one-hot rows
    many words    tokens are sorted, equal ones staying in order; a thread adds up one column of one word's rows
NOT on a device: sums by atomic additions, or cuSPARSE's product with a transpose, whose order differs from run to run.
"""

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.backend import Array, library_of, xp_of

#: Up to so many words a device multiplies by dense one-hot rows.
FEW = 2**8


def _one_hot(tokens: np.ndarray, m: int, dtype: DTypeLike) -> Any:
    """The sparse matrix (N, m) on the host with a 1 in each row at its token; its transpose adds up rows by token."""
    xp, N = xp_of(tokens), len(tokens)
    entries = (xp.ones(N, dtype), tokens.astype(xp.int32), xp.arange(N + 1, dtype=xp.int32))
    return importlib.import_module("scipy.sparse").csr_matrix(entries, shape=(N, m))


def sums(tokens: Array, rows: Array, m: int) -> Iterator[Array]:
    """S (m, n) of each of several arrays of rows (G, N, n), one after the other, by tokens (N,) below m."""
    library = library_of(tokens, rows)
    xp = library.xp
    if library.device == "cpu":
        matrix = _one_hot(tokens, m, rows.dtype).T
    elif m <= FEW:
        matrix = (tokens == xp.arange(m)[:, None]).astype(rows.dtype)
    else:
        assert library.sum_segments is not None
        tokens = tokens.astype(xp.int64, copy=False)  # m may be more than their own type holds
        order = xp.argsort(tokens, kind="stable")
        first = xp.searchsorted(tokens[order], xp.arange(m + 1))
        for own in rows:
            yield library.sum_segments(own, order, first)  # [bp:bptt/tokens] [bp:lm-embedding/gradient]
        return
    for own in rows:
        yield matrix @ own  # [bp:bptt/tokens] [bp:lm-embedding/gradient]
