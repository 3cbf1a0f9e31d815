"""Initial values, each a function (rng, shape, dtype) -> host array.  Drawn in float64, then rounded to `dtype`."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.backend import Array, complex_dtype

Initial: TypeAlias = Callable[[np.random.Generator, tuple[int, ...], DTypeLike], Array]


def constant(value: float) -> Initial:
    """Every entry equal to `value`."""
    return lambda rng, shape, dtype: np.full(shape, value, dtype)


def uniform(limit: float) -> Initial:
    """Uniform on [-limit, limit); of a complex dtype, real and imaginary part each."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        values = rng.uniform(-limit, limit, shape)
        if np.dtype(dtype).kind == "c":
            values = values + 1j * rng.uniform(-limit, limit, shape)
        return values.astype(dtype)

    return draw


def of_complex(initial: Initial) -> Initial:
    """`initial`, which can draw complex numbers as `uniform` does, at the complex dtype of the real one it is given."""
    return lambda rng, shape, dtype: initial(rng, shape, complex_dtype(dtype))


def normal(deviation: float) -> Initial:
    """Normal with mean 0 and this standard deviation; real."""
    return lambda rng, shape, dtype: (deviation * rng.standard_normal(shape)).astype(dtype)


def glorot(rng: np.random.Generator, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Uniform on +-sqrt(6 / (rows + columns)) (Glorot and Bengio 2010)."""
    return uniform(math.sqrt(6 / sum(shape)))(rng, shape, dtype)


def identity(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """The identity matrix."""
    return np.eye(*shape, dtype=dtype)
