"""Is it rounding?  What is nearly right is computed in float32, or by another formula; only the first is claimed.

Rounding shows in one of two ways.  Either the values are float32 numbers, every one of them.  Or the error is another
one beside the case: asked again with every input 1e-7 of itself away, code that rounds to 24 bits is off by something
else, while an epsilon, a series cut short, or a clipped gate is off by the same.
"""

from collections.abc import Collection, Mapping

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Vector
from ortho_ref.conformance.compare import largest, scales

#: Relative to an output's scale: a rounding to float32, and what correct code in float32 shows at most, with room.
ROUNDING, ROUNDINGS = 2.0**-24, 100
#: How much of every input the case beside is away.
BESIDE = 1e-7
#: The share of the error that is another one beside the case, at least, where it is rounding.
_ROUGH = 0.1


def in_float32(given: Arrays, vector: Vector, wrong: Collection[str]) -> bool:
    """Whether wrong outputs hold float32 numbers alone, where the answer does not, off by no more than rounding."""
    size = scales(vector.expected)
    return all(
        _is_single(given[name])
        and not _is_single(vector.expected[name])
        and largest(given[name] - vector.expected[name]) <= ROUNDINGS * ROUNDING * size[name]
        for name in wrong
    )


def _is_single(array: np.ndarray) -> bool:
    with np.errstate(all="ignore"):
        return bool((array.astype(np.float32).astype(np.float64) == array).all())


def beside(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Inputs a little away, by seeded random numbers: each times a number near 1, so that a skew matrix stays one."""
    rng = np.random.default_rng(0)
    return {
        name: array * (1 + BESIDE * rng.uniform(0.3, 1)) if array.dtype.kind == "f" else array
        for name, array in arrays.items()
    }


def is_rounding(
    given: Arrays, vector: Vector, given_beside: Arrays, vector_beside: Vector, wrong: Collection[str]
) -> bool | None:
    """Whether the error of every wrong output is rounding, by what was given beside the case.

    None where that cannot be said: an output is missing, or all are as before, as of who does not compute.
    """
    size = scales(vector.expected)
    good = all(
        name in given_beside and given_beside[name].shape == given[name].shape and np.isfinite(given_beside[name]).all()
        for name in wrong
    )
    if not good or all((given_beside[name] == given[name]).all() for name in wrong):
        return None
    for name in wrong:
        error = given[name] - vector.expected[name]
        another = given_beside[name] - vector_beside.expected[name]
        few = largest(error) <= ROUNDINGS * ROUNDING * size[name]
        if not few or largest(another - error) < _ROUGH * largest(error):
            return False
    return True
