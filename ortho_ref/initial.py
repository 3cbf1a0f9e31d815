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
    """Uniform on [-limit, limit); of a complex dtype, real and imaginary part each.

    Parameters
    ----------
    limit : float
        The largest absolute value.

    Returns
    -------
    Initial
        (rng, shape, dtype) -> host array.
    """

    def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        values = rng.uniform(-limit, limit, shape)
        if np.dtype(dtype).kind == "c":
            values = values + 1j * rng.uniform(-limit, limit, shape)
        return values.astype(dtype)

    return draw


def of_complex(initial: Initial) -> Initial:
    """`initial` at the complex dtype of the real one that it is given.

    Parameters
    ----------
    initial : Initial
        One that can draw complex numbers, as `uniform` does.

    Returns
    -------
    Initial
        complex64 for float32, complex128 for float64.
    """
    return lambda rng, shape, dtype: initial(rng, shape, complex_dtype(dtype))


def normal(deviation: float) -> Initial:
    """Normal with mean 0.

    Parameters
    ----------
    deviation : float
        The standard deviation.

    Returns
    -------
    Initial
        (rng, shape, dtype) -> host array; real.
    """
    return lambda rng, shape, dtype: (deviation * rng.standard_normal(shape)).astype(dtype)


def glorot(rng: np.random.Generator, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Uniform on +-sqrt(6 / (rows + columns)).

    Parameters
    ----------
    rng : numpy.random.Generator
        What it is drawn from.
    shape : tuple of int
        Rows and columns.
    dtype : dtype
        Real or complex.

    Returns
    -------
    Array (rows, columns)
        On the host.

    References
    ----------
    Glorot and Bengio 2010.
    """
    return uniform(math.sqrt(6 / sum(shape)))(rng, shape, dtype)


def identity(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """The identity matrix."""
    return np.eye(*shape, dtype=dtype)
