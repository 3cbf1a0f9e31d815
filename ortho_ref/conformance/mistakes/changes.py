"""Changes of an array, for `ways`: what an input is read as, and its adjoint."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ortho_ref.activations import sigmoid, sigmoid_derivative

Change: TypeAlias = Callable[[np.ndarray], np.ndarray]

#: Zeros in place of an array, its negative.
nothing, negative = np.zeros_like, np.negative


def same(array: np.ndarray) -> np.ndarray:
    """The array as it is."""
    return array


def times(factor: float) -> Change:
    """A change: the array times a factor."""
    return lambda array: array * factor


def transposed(array: np.ndarray) -> np.ndarray:
    """The first two axes exchanged; a last axis of real and imaginary part stays."""
    return np.swapaxes(array, 0, 1)


def conjugate(array: np.ndarray) -> np.ndarray:
    """The conjugate, of an array with a last axis of real and imaginary part."""
    return array * [1, -1]


def late(array: np.ndarray) -> np.ndarray:
    """Each entry one step late, 0 first."""
    return np.concatenate([nothing(array[:1]), array[:-1]])


def sigmoid_slope(array: np.ndarray) -> np.ndarray:
    """The sigmoid's derivative, of each entry."""
    return np.asarray(sigmoid_derivative(sigmoid(array)))
