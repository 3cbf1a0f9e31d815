"""Initial values, each a function (rng, shape, dtype) -> host array.  Drawn in float64, then rounded to `dtype`."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ortho_ref.backend import Array

Initial: TypeAlias = Callable[[np.random.Generator, tuple[int, ...], Any], Array]


def constant(value: float) -> Initial:
    """Every entry equal to `value`."""
    return lambda rng, shape, dtype: np.full(shape, value, dtype)


def uniform(limit: float) -> Initial:
    """Uniform on [-limit, limit)."""
    return lambda rng, shape, dtype: rng.uniform(-limit, limit, shape).astype(dtype)


def glorot(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """Uniform on +-sqrt(6 / (rows + columns)) (Glorot and Bengio 2010)."""
    return uniform(math.sqrt(6 / sum(shape)))(rng, shape, dtype)


def identity(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """The identity matrix."""
    return np.eye(*shape, dtype=dtype)
