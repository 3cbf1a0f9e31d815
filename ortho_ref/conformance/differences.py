"""Finite differences: is a gradient right, and if not, where and by how much.

    f'(x) = (8 (f(x + h) - f(x - h)) - (f(x + 2h) - f(x - 2h))) / 12 h + O(h^4)         central, fourth order
    f'(x) = Im f(x + i h) / h + O(h^2), h tiny: no cancellation, exact to rounding       complex step

Central differences take any smooth f in float64; the complex step takes an f that is holomorphic and accepts complex
arrays.  A tensor is checked entry by entry, or, where it is large, along seeded random directions.

A skew matrix moves in its free entries, A_ij and A_ji = -A_ij together; its gradient's entry (i, j) is the derivative
by a_ij (E-ncgru-09).  A complex tensor moves in real and imaginary part; its gradient is dL/dRe + i dL/dIm.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.backend import Array

Point = Mapping[str, Array]

SMOOTH_STEP, UNKNOWN_STEP, COMPLEX_STEP = 2e-4, 2e-5, 1e-30


class NearKinkError(ValueError):
    """The point is so near a kink that differences across it would mean nothing."""


class Row(NamedTuple):
    """The worst place of one tensor.

    tensor: its name.  where: an index, or a direction's number.  analytic, numeric: the two numbers there.
    error: |analytic - numeric| over the tensor's scale.  checked: how many entries or directions were.
    vacuous: analytic and numeric gradient are both 0 throughout, so that nothing was checked.
    """

    tensor: str
    where: str
    analytic: float
    numeric: float
    error: float
    checked: int
    vacuous: bool


@dataclass(frozen=True)
class Report:
    """One row a tensor."""

    rows: list[Row]
    tolerance: float

    @property
    def largest(self) -> float:
        """The largest relative error."""
        return max(row.error for row in self.rows)

    @property
    def failures(self) -> list[Row]:
        """Rows above the tolerance (not a number counts as above), and vacuous rows."""
        return [row for row in self.rows if not row.error <= self.tolerance or row.vacuous]

    @property
    def passed(self) -> bool:
        """No row failed."""
        return not self.failures

    def __str__(self) -> str:
        lines = []
        for row in self.rows:
            verdict = "nothing to check, both are 0" if row.vacuous else f"relative error {row.error:.2e}"
            lines.append(
                f"{'FAIL' if row in self.failures else 'ok':4} {row.tensor} at {row.where} ({row.checked} checked): "
                f"analytic {row.analytic:+.12e}, numeric {row.numeric:+.12e}, {verdict}"
            )
        return "\n".join(lines)


def _move(point: Point, name: str, shift: Array) -> dict[str, Array]:
    return {**point, name: np.asarray(point[name] + shift)}  # 0-d stays an array


def _derivative(f: Callable[[Point], Any], point: Point, name: str, direction: Array, h: float | None) -> float:
    """d/ds f(point with point[name] + s direction) at s = 0, by central differences; by the complex step for h None."""
    if h is None:
        return float(np.imag(f(_move(point, name, 1j * COMPLEX_STEP * direction))) / COMPLEX_STEP)

    def at(s: float) -> float:
        return float(f(_move(point, name, s * direction)))

    return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)


def each_entry(tensor: Array, skew: bool) -> Iterator[tuple[str, Array]]:
    """Every free entry: its label, and the direction in which it alone moves."""
    units = (("Re ", 1.0), ("Im ", 1j)) if tensor.dtype.kind == "c" else (("", 1.0),)
    for index in np.ndindex(tensor.shape):
        if skew and index[0] >= index[1]:
            continue
        for label, unit in units:
            direction = np.zeros_like(tensor)
            direction[index] = unit
            yield f"{label}{list(index)}", direction - direction.T if skew else direction


def random_directions(tensor: Array, skew: bool, count: int, rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Random directions of standard normal entries."""
    for k in range(count):
        direction = rng.standard_normal(tensor.shape)
        if tensor.dtype.kind == "c":
            direction = direction + 1j * rng.standard_normal(tensor.shape)
        yield f"direction {k}", direction - direction.T if skew else direction


def slope_along(gradient: Array, direction: Array, skew: bool) -> float:
    """What the gradient says the derivative along the direction is."""
    if skew:
        gradient, direction = np.triu(gradient, 1), np.triu(direction, 1)
    moved = direction != 0  # entries that do not move say nothing, NaN included
    return float((gradient[moved].conj() * direction[moved]).real.sum())


def compare_gradients(
    f: Callable[[Point], Any],
    point: Point,
    analytic: Mapping[str, Array],
    *,
    tolerance: float = 1e-7,
    directions: int | None = None,
    rng: np.random.Generator | None = None,
    complex_step: bool = False,
    skew: Collection[str] = (),
    may_vanish: Collection[str] = (),
    kink_distance: Callable[[Point], float] | None = None,
    margin: float = 1e-3,
) -> Report:
    """Compare `analytic`, the gradient of the scalar function f at `point`, with differences.

    point: name -> host array in float64 or complex128; analytic: the gradients of those to be checked.
    directions: None checks every entry; a number checks that many random directions of each tensor, drawn from rng.
    skew: names of tensors that stay skew.  may_vanish: names whose gradient is allowed to be 0 throughout.
    kink_distance: how far the point is from the nearest kink of f; infinite for a smooth f.  The step is 1/500 of it,
    at most 2e-4; 2e-5 where it is not given.

    An entry's error is relative to the largest entry of its tensor's gradient, a direction's to the gradient's 2-norm.
    Raises NearKinkError below `margin`; ValueError for other dtypes, unknown names and wrong shapes.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    for name, gradient in analytic.items():
        if name not in point:
            raise ValueError(f"analytic names {name!r}; the point has {', '.join(point)}")
        if point[name].dtype not in (np.float64, np.complex128):
            raise ValueError(f"{name} is {point[name].dtype}; allowed: float64, complex128")
        if gradient.shape != point[name].shape:
            raise ValueError(f"the gradient of {name} has shape {gradient.shape}; expected {point[name].shape}")
    h: float | None = UNKNOWN_STEP
    if kink_distance is not None:
        distance = kink_distance(point)
        if not distance >= margin:
            raise NearKinkError(f"the nearest kink is {distance:.2e} away; allowed: at least {margin:.0e}")
        h = min(SMOOTH_STEP, distance / 500)
    if complex_step:
        h = None
    rows = []
    for name, gradient in analytic.items():
        is_skew, tensor = name in skew, point[name]
        moves = (
            each_entry(tensor, is_skew) if directions is None else random_directions(tensor, is_skew, directions, rng)
        )
        pairs = [
            (where, slope_along(gradient, direction, is_skew), _derivative(f, point, name, direction, h))
            for where, direction in moves
        ]
        scale = max((max(abs(a), abs(n)) for _, a, n in pairs), default=0.0)
        if directions is not None:
            free = np.triu(gradient, 1) if is_skew else gradient
            scale = max(scale, float(np.linalg.norm(free)))
        if scale == 0:
            rows.append(Row(name, "everywhere", 0.0, 0.0, 0.0, len(pairs), bool(pairs) and name not in may_vanish))
            continue
        where, a, n = max(pairs, key=lambda pair: np.nan_to_num(abs(pair[1] - pair[2]), nan=np.inf))
        rows.append(Row(name, where, a, n, abs(a - n) / scale, len(pairs), False))
    return Report(rows, tolerance)
