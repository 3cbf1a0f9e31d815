"""Initial values: draws of a model's weights, judged by range and by moments.

A config's "values" says of every weight what it is:

    constant    every entry is `value`
    uniform     between `low` and `high`: none beyond; mean and variance; the range is used to its ends
    normal      `mean` and `deviation`; mean, variance and kurtosis
    orthogonal  every draw M has M^T M = I; of a complex one, with a last axis of 2, M^H M = I

Moments are at most `ERRORS` standard errors off: of 10^9 right ones, two fail.  What is random differs between draws.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, joined

ERRORS = 6.0


def expected_of(config: Mapping[str, Any]) -> Arrays:
    """Zeros of the shapes that are wanted, (draws, ...): they take no memory."""
    shapes = {name: (config["draws"], *entry["shape"]) for name, entry in config["values"].items()}
    return {name: np.broadcast_to(0.0, shape) for name, shape in shapes.items()}


def judged(entry: Mapping[str, Any], given: np.ndarray, exact: float) -> tuple[float, str]:
    """How far draws of a weight (draws, ...), finite numbers, are from what they should be; what is wrong, in words.

    At most 1 and "" where they are right; entry: of the weight, from the config's "values"; exact: how far off what is
    no chance may be.
    """
    values, kind = given.astype(np.float64), entry["is"]
    if kind == "constant":
        off = float(np.abs(values - entry["value"]).max()) / max(abs(entry["value"]), 1.0) / exact
        word = f"is {_range(values)}; expected {entry['value']:g}"
    elif kind == "orthogonal":
        M = joined(values) if len(entry["shape"]) == 3 else values
        off = float(np.abs(np.swapaxes(M.conj(), -1, -2) @ M - np.eye(M.shape[-1])).max()) / exact
        word = f"is not orthogonal, by {off * exact:.1e}"
    elif kind == "uniform":
        off, word = _uniform(values, entry["low"], entry["high"], exact)
    else:
        off, word = _normal(values, entry["mean"], entry["deviation"])
    if off <= 1 and kind != "constant" and len(values) > 1 and (values[0] == values[1]).all():
        return math.inf, "is the same in every draw"
    return off, word if off > 1 else ""


def _range(values: np.ndarray) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:g}" if low == high else f"{low:.4g} to {high:.4g}"


def _uniform(values: np.ndarray, low: float, high: float, exact: float) -> tuple[float, str]:
    size, width = values.size, high - low
    deviation = width / math.sqrt(12)
    beyond = max(low - float(values.min()), float(values.max()) - high, 0.0) / width / exact
    used = float(np.ptp(values)) / width
    unused = (1 - used) / (40 / size)  # of N uniform ones 20 / N is left at an end with a chance of e^-20
    mean, variance = _moments(values, (low + high) / 2, deviation, math.sqrt(0.8))
    word = f"is {_range(values)} with deviation {float(values.std()):.4g}"
    return max(beyond, unused, mean, variance), f"{word}; expected uniform on {low:.4g} to {high:.4g}, {deviation:.4g}"


def _normal(values: np.ndarray, mean: float, deviation: float) -> tuple[float, str]:
    z = (values - mean) / deviation
    first, second = _moments(values, mean, deviation, math.sqrt(2))
    fourth = abs(float((z**4).mean()) - 3) / math.sqrt(96 / z.size) / ERRORS
    centred = values - values.mean()
    kurtosis = float((centred**4).mean() / max(float((centred**2).mean()) ** 2, 1e-300))
    word = f"has mean {float(values.mean()):.4g}, deviation {float(values.std()):.4g}, kurtosis {kurtosis:.3g}"
    return max(first, second, fourth), f"{word}; expected normal, {mean:g}, {deviation:.4g}, 3"


def _moments(values: np.ndarray, mean: float, deviation: float, spread: float) -> tuple[float, float]:
    """Mean and variance, in multiples of `ERRORS` standard errors; spread: sqrt(E z^4 - 1) of what it should be."""
    root, z = math.sqrt(values.size), (values - mean) / deviation
    return abs(float(z.mean())) * root / ERRORS, abs(float((z**2).mean()) - 1) * root / spread / ERRORS
