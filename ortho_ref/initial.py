"""Initial values, each a function (rng, shape, dtype) -> host array.  Drawn in float64, then rounded to `dtype`."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.backend import Array, complex_dtype

Initial: TypeAlias = Callable[[np.random.Generator, tuple[int, ...], DTypeLike], Array]


@dataclass(frozen=True)
class _With:
    """A function with its first argument, as `functools.partial`; two of the same are equal, and so layers are."""

    draw: Callable[..., Array]
    argument: Any

    def __call__(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        return self.draw(self.argument, rng, shape, dtype)


def constant(value: float) -> Initial:
    """Every entry equal to `value`."""
    return _With(_constant, value)


def _constant(value: float, rng: np.random.Generator, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    return np.full(shape, value, dtype)


def uniform(limit: float) -> Initial:
    """Uniform on [-limit, limit); of a complex dtype, real and imaginary part each."""
    return _With(_uniform, limit)


def _uniform(limit: float, rng: np.random.Generator, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    values = rng.uniform(-limit, limit, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.uniform(-limit, limit, shape)
    return values.astype(dtype)


def of_complex(initial: Initial) -> Initial:
    """`initial`, which can draw complex numbers as `uniform` does, at the complex dtype of the real one it is given."""
    return lambda rng, shape, dtype: initial(rng, shape, complex_dtype(dtype))


def normal(deviation: float) -> Initial:
    """Normal with mean 0 and this standard deviation; real."""
    return _With(_normal, deviation)


def _normal(deviation: float, rng: np.random.Generator, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    return (deviation * rng.standard_normal(shape)).astype(dtype)


def glorot(rng: np.random.Generator, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Uniform on +-sqrt(6 / (rows + columns)) (Glorot and Bengio 2010)."""
    return uniform(math.sqrt(6 / sum(shape)))(rng, shape, dtype)


def identity(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """The identity matrix."""
    return np.eye(*shape, dtype=dtype)
