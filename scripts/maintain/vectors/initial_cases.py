"""The cases of kind `initial`: a model's initial values, from the papers and the code released with them."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Config
from scripts.maintain.vectors.spec import Spec

M, N, DRAWS = 6, 8, 100  # no two of m, n and m + n alike, so that no fan stands for another

Value = dict[str, Any]


def constant(value: float, *shape: int) -> Value:
    """Every entry the same."""
    return {"is": "constant", "shape": list(shape), "value": value}


def uniform(limit: float, *shape: int) -> Value:
    """Between -limit and limit."""
    return {"is": "uniform", "shape": list(shape), "low": -limit, "high": limit}


def normal(deviation: float, *shape: int) -> Value:
    """With mean 0."""
    return {"is": "normal", "shape": list(shape), "mean": 0.0, "deviation": deviation}


def orthogonal(*shape: int) -> Value:
    """Every draw of it."""
    return {"is": "orthogonal", "shape": list(shape)}


def _gates(gates: str, of: Callable[..., Value]) -> dict[str, Value]:
    return {f"W_{g}": of(N, M) for g in gates} | {f"U_{g}": of(N, N) for g in gates}


def _glorot(*shape: int) -> Value:
    return uniform(math.sqrt(6 / sum(shape)), *shape)


_small = partial(uniform, 0.01)
_he = partial(uniform, math.sqrt(6 / (M + N)))
_torch = partial(uniform, 1 / math.sqrt(N))
_tenth = partial(normal, 0.1)
CASES: dict[str, tuple[dict[str, Value], str]] = {
    "urnn": (
        {
            "W": uniform(math.sqrt(6 / (M + 2 * N)), N, M, 2),
            "U": orthogonal(N, N, 2),
            "b": constant(0.0, N),
            "h0": uniform(math.sqrt(3 / (2 * N)), N, 2),
        },
        "urnn:init: b = 0, E |h0|^2 = 1, U unitary",
    ),
    "goru": (
        _gates("rz", _small)
        | {"W_h": _small(N, M), "U_h": orthogonal(N, N)}
        | {"b_r": constant(2.0, N), "b_z": uniform(math.sqrt(3 / N), N), "b_h": constant(0.01, N)},
        "the released code: b_r = 2, so that the reset gate is open; matrices +-0.01",
    ),
    "nc-gru": (
        _gates("ru", _he) | {"W_c": _he(N, M), "U_c": orthogonal(N, N)} | {f"b_{g}": constant(0.0, N) for g in "ruc"},
        "the released cell: variance 2 / (m + n), biases 0, U_c orthogonal",
    ),
    "fastrnn": (
        {"W": _tenth(N, M), "U": _tenth(N, N), "b": constant(1.0, N), "alpha": constant(-3.0), "beta": constant(3.0)},
        "EdgeML: alpha = -3 and beta = 3 before the sigmoid, deviation 0.1, b = 1",
    ),
    "lstm": (
        _gates("ifgo", _glorot) | {f"b_{g}": constant(1.0 if g == "f" else 0.0, N) for g in "ifgo"},
        "forget bias 1, the others 0",
    ),
    "gru-cudnn": (
        _gates("rzh", _torch) | {f"b_{g}": _torch(N) for g in ("r", "z", "h", "hh")},
        "PyTorch: every weight uniform on +-1/sqrt(n), n the units",
    ),
    "scornn": ({"W": _small(N, M), "U": orthogonal(N, N), "b": constant(0.0, N)}, "W uniform on +-0.01, U orthogonal"),
    "exprnn": (
        {"W": normal(math.sqrt(2 / M), N, M), "U": orthogonal(N, N), "b": _small(N)},
        "W normal with variance 2 / m, b uniform on +-0.01",
    ),
    "sgornn": (
        {
            "W": _glorot(N, M),
            "U": orthogonal(N, N),
            "b": constant(0.0, N),
            "alpha": constant(-3.75),
            "beta": constant(3.0),
        },
        "alpha = -3.75 and beta = 3 before the sigmoid",
    ),
}


def _seed(rng: np.random.Generator) -> Arrays:
    return {"seed": np.asarray(rng.integers(0, 1 << 31))}


def initial_cases() -> Iterator[Spec]:
    """Kind initial."""
    for model, (values, why) in CASES.items():
        sizes = {"input_size": M, "hidden_size": N, "draws": DRAWS}
        config: Config = {"model": model, "options": {}, **sizes, "values": values}
        yield Spec(f"initial/{model}", "initial", config, _seed, (), why)
