"""Sums of rows by their tokens: the gradients of W and of E, of which a token names a column or a row.

    S_v = sum of the rows k with token_k = v, in the order of k         [bp:bptt/tokens] [bp:lm-embedding/gradient]

On the host a product with a sparse matrix.  On a device sums have the same bits on every run, and nobody waits:
    few words     the product with dense one-hot rows
    many words    tokens are sorted, equal ones staying in order; a thread adds up one column of one word's rows
NOT on a device: sums by atomic additions, or cuSPARSE's product with a transpose, whose order differs from run to run;
nor differences of running sums, which lose digits.
"""

import functools
import importlib
from collections.abc import Iterator
from typing import Any

from ortho_ref.backend import Array, library_of

#: Up to so many words a device multiplies by dense one-hot rows.
FEW = 2**8
#: S, a thread an entry, each adding up one column: neighbours read neighbouring numbers.
_SUM = """
const long long v = i / n, j = i - v * n;
T sum = 0;
for (long long k = first[v]; k < first[v + 1]; ++k) sum += rows[order[k] * n + j];
S = sum;
"""


@functools.cache
def _kernel(xp: Any) -> Any:
    """The kernel (rows (N, n), order (N,), first (m + 1,), n, S (m, n)) -> S, the sums of rows[order] by segments."""
    return xp.ElementwiseKernel("raw T rows, raw int64 order, raw int64 first, int64 n", "T S", _SUM, "sum_segments")


def sums(tokens: Array, rows: Array, m: int) -> Iterator[Array]:
    """S (m, n) of each of several arrays of rows (G, N, n), one after the other, by tokens (N,) below m."""
    library = library_of(tokens, rows)
    xp = library.xp
    if library.device == "cpu":
        N, csr_matrix = len(tokens), importlib.import_module("scipy.sparse").csr_matrix
        one_hot = (xp.ones(N, rows.dtype), tokens.astype(xp.int32), xp.arange(N + 1, dtype=xp.int32))
        matrix = csr_matrix(one_hot, shape=(N, m)).T
    elif m <= FEW:
        matrix = (tokens == xp.arange(m)[:, None]).astype(rows.dtype)
    else:
        tokens = tokens.astype(xp.int64, copy=False)  # m may be more than their own type holds
        order = xp.argsort(tokens, kind="stable")
        first = xp.searchsorted(tokens[order], xp.arange(m + 1))
        for own in rows:
            plain, S = xp.ascontiguousarray(own), xp.empty((m, own.shape[1]), own.dtype)
            yield _kernel(xp)(plain, order, first, S.shape[1], S)  # [bp:bptt/tokens] [bp:lm-embedding/gradient]
        return
    for own in rows:
        yield matrix @ own  # [bp:bptt/tokens] [bp:lm-embedding/gradient]
