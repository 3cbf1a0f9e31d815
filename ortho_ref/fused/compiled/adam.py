"""Adam's delta in one pass over memory, compiled: to the bit what `training.optimizers.Adam` computes in nine.

m <- b1 m + (1 - b1) g                                              [bp:opt/m]
v <- b2 v + (1 - b2) g^2                                            [bp:opt/v]
delta = rate * m / (1 - b1^k) / (sqrt(v / (1 - b2^k)) + epsilon)    [bp:opt/delta]

Nothing is contracted here: each product and each sum is rounded, as NumPy's are.
"""

import math
from functools import partial

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.fused.compiled.jit import compiled


def delta(g: Array, m: Array, v: Array, beta1: float, beta2: float, epsilon: float, rate: float, k: int) -> Array:
    """The k-th delta of the real array g; moves m and v on in place.  The three are in one order of memory."""
    found, cast = np.empty_like(g), g.dtype.type
    numbers = (beta1, 1 - beta1, beta2, 1 - beta2, 1 - beta2**k, epsilon, rate / (1 - beta1**k))
    _delta(*(array.ravel("K") for array in (g, m, v, found)), *map(cast, numbers))
    return found


@partial(compiled, fastmath=False)
def _delta(
    g: Array, m: Array, v: Array, delta: Array,
    b1: float, rest1: float, b2: float, rest2: float, unbiased: float, epsilon: float, rate: float,
) -> None:  # fmt: skip
    for i in range(len(g)):
        m[i] = m[i] * b1 + rest1 * g[i]  # [bp:opt/m]
        v[i] = v[i] * b2 + rest2 * (g[i] * g[i])  # [bp:opt/v]
        delta[i] = m[i] * rate / (math.sqrt(v[i] / unbiased) + epsilon)  # [bp:opt/delta]
