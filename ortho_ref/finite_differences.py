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
    """The worst place of one tensor: an index or a direction's number, the two numbers there, |difference| / scale.

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
    """What `compare_gradients` found, a row for each tensor; printed it is one line a tensor."""

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
    """Every free entry: its label, and the direction in which it alone moves; of A = -A^T, A_ij and A_ji for i < j."""
    units = (("Re ", 1.0), ("Im ", 1j)) if tensor.dtype.kind == "c" else (("", 1.0),)
    for index in np.ndindex(tensor.shape):
        if skew and index[0] >= index[1]:
            continue
        for label, unit in units:
            direction = np.zeros_like(tensor)
            direction[index] = unit
            yield f"{label}{list(index)}", direction - direction.T if skew else direction


def random_directions(tensor: Array, skew: bool, count: int, rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Random directions of standard normal entries, skew ones for a skew tensor, and their numbers."""
    for k in range(count):
        direction = rng.standard_normal(tensor.shape)
        if tensor.dtype.kind == "c":
            direction = direction + 1j * rng.standard_normal(tensor.shape)
        yield f"direction {k}", direction - direction.T if skew else direction


def slope_along(gradient: Array, direction: Array, skew: bool) -> float:
    """Re sum(conj(gradient) * direction), over the entries that move; of skew ones those above the diagonal."""
    if skew:
        gradient, direction = np.triu(gradient, 1), np.triu(direction, 1)
    moved = direction != 0  # entries that do not move say nothing, NaN included
    return float((gradient[moved].conj() * direction[moved]).real.sum())


def norm_of(gradient: Array, skew: bool) -> float:
    """The 2-norm over the free entries."""
    return float(np.linalg.norm(np.triu(gradient, 1) if skew else gradient))


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
    """Compare gradients of a scalar function with differences.

    Parameters
    ----------
    f : callable
        f(point) -> a scalar. For the complex step holomorphic, and given complex arrays.
    point : mapping of str to array
        Where: host arrays in float64 or complex128.
    analytic : mapping of str to array
        The gradients of those to be checked, of their shapes.
    tolerance : float
        The largest error that passes. An entry's is relative to the largest entry of its tensor's gradient, a
        direction's to the gradient's 2-norm. It is to neither where these are so small that rounding of f, 2 eps |f| /
        step of a difference, would be more than the tolerance: then that passes.
    directions : int, optional
        How many random directions of each tensor to check. Unless given, every entry is checked.
    rng : numpy.random.Generator, optional
        What they are drawn from; default_rng(0) unless given.
    complex_step : bool
        Whether to take the complex step in place of central differences.
    skew : collection of str
        Names of tensors that stay skew.
    may_vanish : collection of str
        Names whose gradient is allowed to be 0 throughout.
    kink_distance : callable, optional
        kink_distance(point) -> how far the point is from the nearest kink of f; infinite for a smooth f. The step is
        1/500 of it, at most 2e-4; 2e-5 where it is not given.
    margin : float
        The least distance that is allowed.

    Returns
    -------
    Report
        One row for each name in `analytic`.

    Raises
    ------
    NearKinkError
        The nearest kink is nearer than `margin`.
    ValueError
        Other dtypes, unknown names, wrong shapes.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    h: float | None = UNKNOWN_STEP
    if kink_distance is not None:
        distance = kink_distance(point)
        if not distance >= margin:
            raise NearKinkError(f"the nearest kink is {distance:.2e} away; allowed: at least {margin:.0e}")
        h = min(SMOOTH_STEP, distance / 500)
    if complex_step:
        h = None
    rounding = 0.0 if h is None else 2 * float(np.finfo(np.float64).eps) * abs(float(f(point))) / h
    least = rounding / tolerance
    rows = []
    for name, gradient in analytic.items():
        _check(point, name, gradient)
        is_skew, tensor = name in skew, point[name]
        moves = (
            each_entry(tensor, is_skew) if directions is None else random_directions(tensor, is_skew, directions, rng)
        )
        pairs = [
            (where, slope_along(gradient, direction, is_skew), _derivative(f, point, name, direction, h))
            for where, direction in moves
        ]
        norm = 0.0 if directions is None else norm_of(gradient, is_skew)
        rows.append(_worst(name, pairs, norm, least, name in may_vanish))
    return Report(rows, tolerance)


def _check(point: Point, name: str, gradient: Array) -> None:
    """ValueError for a name that the point does not have, another dtype, and a wrong shape."""
    if name not in point:
        raise ValueError(f"analytic names {name!r}; the point has {', '.join(point)}")
    if point[name].dtype not in (np.float64, np.complex128):
        raise ValueError(f"{name} is {point[name].dtype}; allowed: float64, complex128")
    if gradient.shape != point[name].shape:
        raise ValueError(f"the gradient of {name} has shape {gradient.shape}; expected {point[name].shape}")


def _worst(name: str, pairs: list[tuple[str, float, float]], norm: float, least: float, may_vanish: bool) -> Row:
    """The row of one tensor, from (where, analytic, numeric).

    norm: of its gradient, 0 where places are entries; least: what an error is relative to at least.
    """
    scale = float(np.max([norm, *(abs(number) for _, *both in pairs for number in both)]))  # NaN where one is
    if scale == 0:
        return Row(name, "everywhere", 0.0, 0.0, 0.0, len(pairs), bool(pairs) and not may_vanish)
    where, a, n = max(pairs, key=lambda pair: np.nan_to_num(abs(pair[1] - pair[2]), nan=np.inf))
    return Row(name, where, a, n, abs(a - n) / max(scale, least), len(pairs), False)
