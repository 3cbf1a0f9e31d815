"""Sums of rows over segments on a device, always in the same order, which CuPy has no function for.

    S_v = sum over k from first_v to first_{v+1} - 1 of row order_k

Its own ways are atomic additions, whose order differs from run to run, and differences of running sums, which lose
digits.  Here each entry of S has a thread, which adds up one column: neighbours read neighbouring numbers.
"""

from collections.abc import Callable
from typing import Any

Array = Any  # cupy.ndarray; backend, which has the name, imports this file

_SUM = """
const long long v = i / n, j = i - v * n;
T sum = 0;
for (long long k = first[v]; k < first[v + 1]; ++k) sum += rows[order[k] * n + j];
S = sum;
"""


def of_cupy(cupy: Any) -> Callable[[Array, Array, Array], Array]:
    """Make the function (rows (N, n), order (N,), first (m + 1,)) -> S (m, n).

    Parameters
    ----------
    cupy : module
        The namespace.

    Returns
    -------
    callable
        One launch.
    """
    arguments = "raw T rows, raw int64 order, raw int64 first, int64 n"
    kernel = cupy.ElementwiseKernel(arguments, "T S", _SUM, "sum_segments")

    def sum_segments(rows: Array, order: Array, first: Array) -> Array:
        S = cupy.empty((len(first) - 1, rows.shape[1]), rows.dtype)
        return kernel(cupy.ascontiguousarray(rows), order, first, rows.shape[1], S)

    return sum_segments
