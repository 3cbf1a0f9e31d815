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
from math import inf
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.backend import Array

Point = Mapping[str, Array]

SMOOTH_STEP, UNKNOWN_STEP, COMPLEX_STEP = 2e-4, 2e-5, 1e-30


class NearKinkError(ValueError):
    """The point is so near a kink that differences across it would mean nothing."""


class Place(NamedTuple):
    """An entry or a direction: where, the gradient's number there and that of differences, and the latter's doubt."""

    where: str
    given: float
    expected: float
    doubt: float = 0.0


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


def moves(
    tensor: Array, gradient: Array, skew: bool, entries: float, directions: int, rng: np.random.Generator
) -> tuple[float | None, Iterator[tuple[str, Array, float]]]:
    """How a tensor moves, each with its label and with what the gradient says: Re sum(conj(gradient) * direction).

    In every free entry alone, those of a skew one above its diagonal; or, where these are more than `entries`, along
    random directions, before which the gradient's 2-norm over the free entries is given.
    """
    norm, found = None, _each_entry(tensor, skew)
    free = len(tensor) * (len(tensor) - 1) // 2 if skew else tensor.size
    if free * (2 if tensor.dtype.kind == "c" else 1) > entries:
        norm = float(np.linalg.norm(np.triu(gradient, 1) if skew else gradient))
        found = ((f"direction {k}", normal_like(tensor, rng)) for k in range(directions))

    def slopes() -> Iterator[tuple[str, Array, float]]:
        for where, own in found:
            direction = own - own.T if skew else own
            moving = (np.triu(direction, 1) if skew else direction) != 0  # the others say nothing, NaN included
            yield where, direction, float((gradient[moving].conj() * direction[moving]).real.sum())

    return norm, slopes()


def _each_entry(tensor: Array, skew: bool) -> Iterator[tuple[str, Array]]:
    """Labels of the free entries, and 1 or i in each."""
    units = (("Re ", 1.0), ("Im ", 1j)) if tensor.dtype.kind == "c" else (("", 1.0),)
    for index in np.ndindex(tensor.shape):
        for label, unit in units if not skew or index[0] < index[1] else ():
            direction = np.zeros_like(tensor)
            direction[index] = unit
            yield f"{label}{list(index)}", direction


def normal_like(tensor: Array, rng: np.random.Generator) -> Array:
    """Standard normal numbers in its shape, in both parts where it is complex."""
    values = rng.standard_normal(tensor.shape)
    return np.asarray(values + 1j * rng.standard_normal(tensor.shape) if tensor.dtype.kind == "c" else values)


def moved(point: Point, name: str, shift: Array) -> dict[str, Array]:
    """The point with the tensor of that name shifted; a 0-d one stays an array."""
    return {**point, name: np.asarray(point[name] + shift)}


def largest_error(places: list[Place], norm: float, least: float) -> tuple[Place, float]:
    """The worst place, and how far it is off: relative to the largest number there is, at least to norm and least."""
    scale = float(np.max([norm, least, *(abs(number) for place in places for number in place[1:3])]))  # NaN for one
    worst = max(places, key=lambda place: np.nan_to_num(abs(place.given - place.expected), nan=np.inf))
    return worst, abs(worst.given - worst.expected) / scale


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
    """Compare gradients of a scalar function with differences: a `Report` with one row for each name in `analytic`.

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

    NearKinkError below the margin; ValueError for other dtypes, unknown names and wrong shapes.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    h = UNKNOWN_STEP
    if kink_distance is not None:
        if not (distance := kink_distance(point)) >= margin:  # nor where it is NaN
            raise NearKinkError(f"kink_distance is {distance:.2e}; allowed: at least {margin:.0e}")
        h = min(SMOOTH_STEP, distance / 500)
    rounding = 0.0 if complex_step else 2 * float(np.finfo(np.float64).eps) * abs(float(f(point))) / h

    def derivative(name: str, direction: Array) -> float:
        if complex_step:
            return float(np.imag(f(moved(point, name, 1j * COMPLEX_STEP * direction))) / COMPLEX_STEP)
        far_left, left, right, far_right = (float(f(moved(point, name, s * direction))) for s in (-2 * h, -h, h, 2 * h))
        return (8 * (right - left) - (far_right - far_left)) / (12 * h)

    rows = []
    for name, gradient in analytic.items():
        if name not in point:
            raise ValueError(f"analytic names {name!r}; the point has {', '.join(point)}")
        if point[name].dtype not in (np.float64, np.complex128):
            raise ValueError(f"{name} is {point[name].dtype}; allowed: float64, complex128")
        if gradient.shape != point[name].shape:
            raise ValueError(f"the gradient of {name} has shape {gradient.shape}; expected {point[name].shape}")
        entries = inf if directions is None else -1
        norm, own = moves(point[name], gradient, name in skew, entries, directions or 0, rng)
        places = [Place(where, given, derivative(name, direction)) for where, direction, given in own]
        if not norm and not any(place.given or place.expected for place in places):
            vacuous = bool(places) and name not in may_vanish
            rows.append(Row(name, "everywhere", 0.0, 0.0, 0.0, len(places), vacuous))
            continue
        worst, error = largest_error(places, norm or 0.0, rounding / tolerance)
        rows.append(Row(name, worst.where, worst.given, worst.expected, error, len(places), False))
    return Report(rows, tolerance)
