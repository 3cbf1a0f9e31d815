"""Is a backward pass right?  Anybody's function beside differences, from random upstream gradients.

L = Re sum(conj(upstream) * outputs), the upstream gradients standard normal numbers.  Along a direction, with f(s) = L:

    D(s) = (f(s) - f(-s)) / 2s    E(s) = (4 D(s) - D(2s)) / 3 = f'(0) + O(s^4)
    S(s) = (f(s) - 2 f(0) + f(-s)) / s, the slope on the right minus that on the left
    doubt(h) = the largest of |E(h) - E(h/2)|, |S(2h) - 2 S(h)|, |S(h) - 2 S(h/2)|

The doubt is O(h^3) of a smooth function, and of the size of the jump where the slope jumps within 2h.  Where it
is too large h becomes ten times smaller, three times over; then the place is left out, as near a kink.  What backward
gave has no part in it, so that no wrong gradient is left out.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, ClassVar, TypeAlias

import numpy as np

import ortho_ref
from ortho_ref.backend import NOT_PLAIN
from ortho_ref.boundary import check_array, check_finite, check_integer, check_number, kind_of
from ortho_ref.conformance.cases.case import Arrays
from ortho_ref.conformance.report import FAILED, PASSED, Printed
from ortho_ref.finite_differences import Place, largest_error, moved, moves, normal_like

Forward: TypeAlias = Callable[[Arrays], Any]
Backward: TypeAlias = Callable[[Arrays, Any], Mapping[str, Any]]
_Move: TypeAlias = tuple[str, np.ndarray, float]  # its label, the direction, what backward says

_STEPS = (1e-3, 1e-4, 1e-5, 1e-6)
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class InputResult:
    """One input's gradient, by its worst place."""

    name: str
    status: str
    error: float | None = None  # relative to the largest entry, of directions to the norm; None: nothing to compare
    where: str = ""
    given: float = 0.0  # what backward gave there
    expected: float = 0.0  # what differences say
    checked: int = 0  # so many places
    skipped: int = 0  # so many, as near a kink
    unit: str = "entries"  # what places are, or "directions"
    message: str = ""

    @property
    def remarks(self) -> str:
        """Everything there is to say, in one line."""
        parts = [self.message] if self.message else []
        if self.status == FAILED and self.where:
            parts.append(f"at {self.where} {self.given:.6g}, by differences {self.expected:.6g}")
        if self.checked or self.skipped:
            near = f", {self.skipped} near a kink" if self.skipped else ""
            parts.append(f"{self.checked} {self.unit}{near}")
        return "; ".join(parts)


@dataclass(frozen=True)
class FunctionReport(Printed):
    """What `check_function` found: a result for each input, and by which tolerance and seed."""

    what: ClassVar[str] = "gradient of"
    results: tuple[InputResult, ...]
    tolerance: float
    seed: int

    @property
    def ok(self) -> bool:
        """Every gradient is right."""
        return all(result.status == PASSED for result in self.results)

    @property
    def largest(self) -> float:
        """The largest error of what could be compared."""
        return max((result.error for result in self.results if result.error is not None), default=float("inf"))

    @property
    def checked(self) -> int:
        """Places compared."""
        return sum(result.checked for result in self.results)

    @property
    def skipped(self) -> int:
        """Places left out as near a kink."""
        return sum(result.skipped for result in self.results)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """One an input."""
        return [(r.name, r.status, "" if r.error is None else f"{r.error:.1e}", r.remarks) for r in self.results]

    def summary(self) -> str:
        """The counts in one line."""
        failed = sum(result.status == FAILED for result in self.results)
        kinks = f", {self.skipped} near a kink" if self.skipped else ""
        return (
            f"{len(self.results) - failed} passed, {failed} failed; {self.checked} derivatives{kinks}; "
            f"tolerance {self.tolerance:.0e}, seed {self.seed}, ortho_ref {ortho_ref.__version__}."
        )


def check_function(
    forward: Forward,
    backward: Backward,
    inputs: Mapping[str, np.ndarray],
    *,
    fixed: Collection[str] = (),
    skew: Collection[str] = (),
    may_vanish: Collection[str] = (),
    entries: int = 400,
    directions: int = 10,
    tolerance: float = 1e-7,
    seed: int = 0,
) -> FunctionReport:
    """Compare the gradients of a function of your own with differences: docs/check/functions.md has an example.

    Parameters
    ----------
    forward : callable
        forward(inputs) -> a NumPy array, or a dict of them by name. It gets a fresh dict of fresh arrays.
    backward : callable
        backward(inputs, upstream) -> a dict with dL/dinput, of the input's shape, under every input's name. upstream
        is dL/doutput: an array where forward gives an array, a dict where it gives a dict. Outputs that are integers
        or bool have none.
    inputs : mapping of str to array
        Where to check: float64 or complex128; best random numbers. Integer and bool arrays are passed on as they are,
        and no gradient of them is asked for. Single precision is refused: differences would see its rounding alone.
    fixed : collection of str
        Names of further inputs that have no gradient.
    skew : collection of str
        Names of square inputs A = -A^T: A_ij and A_ji = -A_ij move together, and the gradient's entry (i, j) is the
        derivative by that free entry.
    may_vanish : collection of str
        Names whose gradient may be 0 throughout. Of any other that is a failure: nothing would have been checked.
    entries : int
        Inputs with at most so many entries are checked in every one of them, in real and imaginary part; larger ones
        along random directions.
    directions : int
        How many of these.
    tolerance : float
        The largest error that passes, relative to the largest entry of an input's gradient, of a direction to the
        gradient's norm. A difference below the rounding of the outputs is no error.
    seed : int
        Of the upstream gradients and the directions.

    Returns
    -------
    FunctionReport
        `ok`, `results` with one `InputResult` an input, `largest`, `checked`, `skipped`; printed it is a table. A
        gradient fails that is off, missing, of a wrong shape or type, not finite, 0 throughout, or of which more places
        are near a kink than not; so do names that are no inputs, and inputs that forward or backward modified. Complex
        gradients are dL/dRe + i dL/dIm, as PyTorch's; L is Re sum(conj(upstream) * output).

    Raises
    ------
    ValueError
        Inputs or options that are not allowed; outputs that are not finite, not in double precision, or other ones
        when forward is called again.
    TypeError
        Outputs or gradients that are no arrays by name.
    """
    point = _checked_inputs(inputs)
    free = [name for name, array in point.items() if array.dtype.kind in "fc" and name not in fixed]
    _check_names(point, free, {"fixed": fixed, "skew": skew, "may_vanish": may_vanish})
    check_integer("entries", entries, 0)
    check_integer("directions", directions)
    check_integer("seed", seed, 0)
    check_number("tolerance", tolerance, lambda number: 0 < number < 1, "above 0, below 1")
    rng = np.random.default_rng([seed, 1])  # not the numbers of a caller who draws inputs from default_rng(seed)
    loss = _Loss(forward, point, rng)
    gradients = loss.gradients(backward)
    results = []
    for name, array in point.items():
        try:
            if name in loss.modified:
                raise ValueError(f"was modified by {loss.modified[name]}")
            gradient = _gradient(name, array, gradients) if name in free else None
        except (TypeError, ValueError) as error:
            results.append(InputResult(name, FAILED, message=str(error)))
            continue
        if gradient is not None:
            norm, own = moves(array, gradient, name in skew, entries, directions, rng)
            results.append(_judged(loss, name, norm, list(own), tolerance, name in may_vanish))
    others = [name for name in gradients if name not in point]
    results += [InputResult(str(name), FAILED, message="is the name of no input") for name in others]
    return FunctionReport(tuple(results), tolerance, seed)


class _Loss:
    """L, and its change along a direction: the outputs' differences are weighed, so that few digits cancel."""

    def __init__(self, forward: Forward, point: Arrays, rng: np.random.Generator) -> None:
        self.forward, self.point = forward, point
        #: Inputs that a function wrote into, and which one.
        self.modified: dict[str, str] = {}
        outputs = self._outputs(point)
        self.shapes = {name: array.shape for name, array in outputs.items() if array.dtype.kind in "fc"}
        if not self.shapes:
            raise ValueError("forward's outputs are all integers; at least one has to be float64 or complex128")
        for name in self.shapes:
            check_finite(_called(name), outputs[name])
        self.upstream = {name: normal_like(outputs[name], rng) for name in self.shapes}
        self.weights = np.concatenate([u.ravel() for u in self.upstream.values()])
        self.start = self._flat(outputs)
        #: What rounding of the outputs alone can do to a derivative.
        self.rounding = _ROUNDING * float(np.linalg.norm(self.weights * self.start)) / _STEPS[0]
        off = float(np.abs(self._flat(self._outputs(point)) - self.start).max(initial=0))
        if off > 1e-10 * np.abs(self.start).max(initial=0):
            raise ValueError(
                f"forward gives other outputs when it is called again, {off:.1e} away; allowed: the same, so that what "
                "it draws at random has to be an input"
            )

    def _call(self, who: str, function: Callable[..., Any], point: Arrays, *more: Any) -> Any:
        given = {name: array.copy() for name, array in point.items()}
        found = function(given, *more)
        for name, array in point.items():
            if name not in given or not np.array_equal(given[name], array):
                self.modified.setdefault(name, who)
        return found

    def _outputs(self, point: Arrays) -> Arrays:
        """By name; that of an array alone is ""."""
        found = self._call("forward", self.forward, point)
        named = found if isinstance(found, Mapping) else {"": found}
        return {name: _array(_called(name), value, "a NumPy array, or a dict of them") for name, value in named.items()}

    def _flat(self, outputs: Arrays) -> np.ndarray:
        for name, shape in self.shapes.items():
            if name not in outputs or outputs[name].shape != shape:
                raise ValueError(f"{_called(name)} has shape {shape} at one point and not at another near it")
        return np.concatenate([outputs[name].ravel() for name in self.shapes])

    def gradients(self, backward: Backward) -> Mapping[str, Any]:
        """What backward gives."""
        upstream = {name: array.copy() for name, array in self.upstream.items()}
        found = self._call("backward", backward, self.point, upstream.get("", upstream))
        if not isinstance(found, Mapping):
            raise TypeError(f"backward gives {kind_of(found)}; allowed: a dict of arrays by the inputs' names")
        return found

    def along(self, name: str, direction: np.ndarray, h: float) -> tuple[float, float]:
        """The derivative, and the doubt about it."""

        def at(s: float) -> np.ndarray:
            return self._flat(self._outputs(moved(self.point, name, s * direction)))

        def weighed(change: np.ndarray) -> float:
            return float((self.weights.conj() * change).real.sum())

        D, S = {}, {}
        with np.errstate(all="ignore"):
            for s in (h / 2, h, 2 * h):
                right, left = at(s), at(-s)
                D[s] = weighed(right - left) / (2 * s)
                S[s] = weighed((right - self.start) + (left - self.start)) / s
            fine, coarse = (4 * D[h / 2] - D[h]) / 3, (4 * D[h] - D[2 * h]) / 3
            return fine, float(np.max([abs(fine - coarse), abs(S[2 * h] - 2 * S[h]), abs(S[h] - 2 * S[h / 2])]))


def _judged(
    loss: _Loss, name: str, norm: float | None, own: list[_Move], tolerance: float, may_vanish: bool
) -> InputResult:
    """One input by the worst of its places, as `moves` gives them, without those near a kink."""
    places, unit = _certain(loss, name, own, tolerance), "entries" if norm is None else "directions"
    skipped = len(own) - len(places)
    found = partial(InputResult, name, checked=len(places), skipped=skipped, unit=unit)
    if not own:
        return found(PASSED, 0.0, message="has no entry that is free")
    if len(places) < skipped:
        return found(FAILED, message="too many places near a kink; or forward is not exact to double precision")
    size = max(norm or 0.0, *(max(abs(place.given), abs(place.expected)) for place in places))
    if size <= loss.rounding:
        message = "nothing to check, all are 0, or below the rounding of the outputs"
        return found(PASSED if may_vanish else FAILED, 0.0, message=message)
    worst, error = largest_error(places, norm or 0.0, loss.rounding / tolerance)
    status = PASSED if error <= tolerance else FAILED
    message = _hint(places, tolerance) if status == FAILED and norm is None else ""
    if status == PASSED and loss.rounding > tolerance * size:
        message = f"checked to {loss.rounding / size:.0e} only: the outputs are so large that rounding hides the rest"
    return found(status, error, worst.where, worst.given, worst.expected, message=message)


def _certain(loss: _Loss, name: str, moves: list[_Move], tolerance: float) -> list[Place]:
    """The places, each by the first step that leaves little doubt, without those where none does."""
    size = max(1.0, float(np.abs(loss.point[name]).max(initial=0)))
    places = [Place(where, given, np.nan, inf) for where, _, given in moves]
    limit = 0.0
    for step in _STEPS:
        for i, (where, direction, given) in enumerate(moves):
            if not places[i].doubt <= limit:
                again = Place(where, given, *loss.along(name, direction, step * size))
                places[i] = min(places[i], again, key=lambda place: np.nan_to_num(place.doubt, nan=inf))
        # A quarter of what passes, on the scale of places of which a hundredth is certain.
        # A jump of twice the rounding moves the slope by the rounding at most, which is no error.
        settled = (abs(place.expected) for place in places if place.doubt <= 0.01 * abs(place.expected))
        limit = max(tolerance * max(settled, default=0.0) / 4, 2 * loss.rounding)
    return [place for place in places if place.doubt <= limit]


def _hint(places: list[Place], tolerance: float) -> str:
    """All zeros, or a factor."""
    given, expected = (np.array(side) for side in list(zip(*places, strict=True))[1:3])
    if not given.any():
        return "all zeros"
    factor = float(given @ expected / (expected @ expected)) if expected.any() else 0.0
    if factor and np.abs(given / factor - expected).max() <= tolerance * np.abs([given, expected]).max():
        return f"{factor:.9g} times what it should be"
    return ""


def _checked_inputs(inputs: Mapping[str, Any]) -> Arrays:
    """Copies of the inputs."""
    if not isinstance(inputs, Mapping):
        raise TypeError(f"inputs is {kind_of(inputs)}; allowed: a dict of NumPy arrays by name")
    point = {}
    for name, value in inputs.items():
        argument = f"inputs[{name!r}]"
        if not isinstance(value, np.ndarray):  # a Python number either: the function would get an array in its place
            raise TypeError(f"{argument} is {kind_of(value)}; allowed: a NumPy array")
        point[name] = _array(argument, value)
        check_finite(argument, point[name])
    return point


def _array(argument: str, value: Any, allowed: str = "a NumPy array") -> np.ndarray:
    """A copy of an array or number in double precision, or of integers.  TypeError or ValueError for anything else."""
    if not isinstance(value, np.ndarray | np.generic | float | int) or isinstance(value, NOT_PLAIN):
        raise TypeError(f"{argument} is {kind_of(value)}; allowed: {allowed}")
    array = np.array(value)
    if array.dtype not in (np.float64, np.complex128) and array.dtype.kind not in "iub":
        raise ValueError(f"{argument} is {array.dtype}; allowed: float64, complex128, integers, bool")
    return array


def _gradient(name: str, array: np.ndarray, gradients: Mapping[str, Any]) -> np.ndarray:
    """The gradient by one input, in its dtype.  TypeError or ValueError for what cannot be compared."""
    argument = f"dL/d{name}"
    if name not in gradients:
        raise ValueError(f"{argument} is missing")
    value = _array(argument, gradients[name])
    if np.can_cast(value.dtype, array.dtype):  # integers, and real ones of a complex input
        value = value.astype(array.dtype)
    check_array(argument, value, array.shape, array.dtype)
    check_finite(argument, value)
    return value


def _check_names(point: Arrays, free: list[str], named: dict[str, Collection[str]]) -> None:
    for option, names in named.items():
        allowed = list(point) if option == "fixed" else free
        if isinstance(names, str) or any(name not in allowed for name in names):
            raise ValueError(f"{option} is {names!r}; allowed: a list of names out of {', '.join(map(repr, allowed))}")
    if not free:
        raise ValueError("inputs has nothing to differentiate by; allowed: at least one in float64 or complex128")
    for name in named["skew"]:
        A = point[name]
        if A.ndim != 2 or A.shape[0] != A.shape[1] or not np.array_equal(A, -A.T):
            raise ValueError(f"skew names {name!r}, which is not A = -A^T; allowed: square matrices that are")


def _called(output: str) -> str:
    return f"forward's output {output!r}" if output != "" else "forward's output"
