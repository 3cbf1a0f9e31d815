"""uRNN's released step, from a checkout: its unitary matrix and its modReLU; Theano by a stand-in.

PyTensor, which continues Theano, stands in for it, pickle for cPickle, and a matrix of the discrete Fourier transform
for the one on a GPU.  The step is the function that the program hands to theano.scan, as it is.  With a bias of 1e-5
its modReLU is the identity, and what it makes of the unit vectors is its matrix; of h = 0 it makes modReLU of x.
"""

import pickle
import sys
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as T

from scripts.maintain.scoreboard.sources import importable


def _transformed(sign: int) -> Any:
    """What cufft (-1) and cuifft (1) of the program's fftconv do, to (rows, n, 2)."""

    def transform(z: Any) -> Any:
        n = z.shape[1]
        angles = sign * 2 * np.pi * T.outer(T.arange(n), T.arange(n)) / n
        re, im, C, S = z[:, :, 0], z[:, :, 1], T.cos(angles), T.sin(angles)
        return T.stack([T.dot(re, C) - T.dot(im, S), T.dot(re, S) + T.dot(im, C)], axis=-1)

    return transform


def _scan(fn: Any, **given: Any) -> Any:
    """Keeps the step that it is given."""
    steps.append(fn)
    return [T.tensor3(), T.vector(), T.vector()], {}


steps: list[Any] = []
fftconv = types.ModuleType("fftconv")
fftconv.cufft, fftconv.cuifft = _transformed(-1), _transformed(1)  # type: ignore[attr-defined]
pytensor.scan = _scan
sys.modules |= {"theano": pytensor, "theano.tensor": T, "cPickle": pickle, "fftconv": fftconv}
importable("amarshah/complex_RNN", "3537fbfcca49e087d836a62e0919ac70e75b992e")
import models


def run(case: Any) -> dict[str, np.ndarray] | None:
    """The matrix and the gradients of its parameters, or modReLU of complex numbers."""
    if case.kind == "parametrization" and case.config["parametrization"] == "structured_unitary":
        return _matrix(case.inputs)
    if case.kind == "activation" and case.config["activation"] == "modrelu" and case.config["complex"]:
        return None if case.config["kinks"] else _modrelu(case.inputs)  # at 0 it is off by its epsilon
    return None


def _step(n: int) -> tuple[Any, Any, Any]:
    """The step for n units, its reflections (2, 2 n), and its permutation of [Re | Im], to be written into."""
    models.complex_RNN(2 * n, n, 1, "real", True, "MSE")
    step = steps.pop()
    enclosed = dict(zip(step.__code__.co_freevars, (cell.cell_contents for cell in step.__closure__), strict=True))
    return step, enclosed["reflection"], enclosed["index_permute_long"]


def _after(step: Any, n: int, h: Any, x: Any, theta: Any, bias: Any) -> Any:
    """The new state [Re | Im]."""
    zero = T.constant(0.0)
    rows = T.zeros((h.shape[0], 1))
    return step(x, rows, h, zero, zero, theta, T.eye(2 * n), bias, T.zeros(1), T.zeros((2 * n, 1)))[0]


def _matrix(given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    dtype, n = given["dU"].dtype, len(given["dU"])
    step, reflection, permutation = _step(n)
    order = given["permutation"]
    permutation[:] = np.concatenate([order, order + n])
    reflection.set_value(np.stack([_side_by_side(given[f"params.v_{j}"]) for j in (1, 2)]).astype(np.float64))
    theta = T.matrix()
    h, none = T.constant(np.eye(n, 2 * n)), T.zeros((n, 2 * n))
    new = _after(step, n, h, none, theta, T.constant(np.full(n, 1e-5)))
    loss = (new * T.constant(_side_by_side(given["dU"].swapaxes(0, 1)).astype(np.float64))).sum()
    outputs = [new, *pytensor.grad(loss, [theta, reflection])]
    values = np.stack([given[f"params.w_{j}"] for j in (1, 2, 3)]).astype(np.float64)
    found, d_theta, d_reflection = pytensor.function([theta], outputs, mode="FAST_COMPILE")(values)
    result = {"U": _apart(found).swapaxes(0, 1)}
    result |= {f"d_params.w_{j + 1}": gradient for j, gradient in enumerate(d_theta)}
    result |= {f"d_params.v_{j + 1}": _apart(gradient) for j, gradient in enumerate(d_reflection)}
    return {name: array.astype(dtype) for name, array in result.items()}


def _modrelu(given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    dtype, n = given["a"].dtype, len(given["b"])
    step, _, _ = _step(n)
    x, bias = T.matrix(), T.vector()
    new = _after(step, n, T.zeros_like(x), x, T.zeros((3, n)), bias)
    gradients = pytensor.grad((new * T.constant(_side_by_side(given["dy"]).astype(np.float64))).sum(), [x, bias])
    compiled = pytensor.function([x, bias], [new, *gradients], mode="FAST_COMPILE")
    y, d_a, d_b = compiled(_side_by_side(given["a"]).astype(np.float64), given["b"].astype(np.float64))
    return {"y": _apart(y).astype(dtype), "d_a": _apart(d_a).astype(dtype), "d_b": d_b.astype(dtype)}


def _side_by_side(z: np.ndarray) -> np.ndarray:
    """(..., n, 2) -> [Re | Im], (..., 2 n)."""
    return np.concatenate([z[..., 0], z[..., 1]], axis=-1)


def _apart(z: np.ndarray) -> np.ndarray:
    """The inverse."""
    return np.stack(np.split(z, 2, axis=-1), axis=-1)
