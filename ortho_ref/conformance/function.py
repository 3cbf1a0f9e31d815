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
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

import ortho_ref
from ortho_ref.backend import NOT_PLAIN
from ortho_ref.boundary import is_integer, kind_of
from ortho_ref.conformance.case import Arrays
from ortho_ref.conformance.report import FAILED, PASSED, Printed
from ortho_ref.finite_differences import NearKinkError, each_entry, norm_of, random_directions, slope_along

Forward: TypeAlias = Callable[[Arrays], Any]
Backward: TypeAlias = Callable[[Arrays, Any], Mapping[str, Any]]

_STEPS = (1e-3, 1e-4, 1e-5, 1e-6)
_MARGIN = 1e-3
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class InputResult:
    """One input's gradient.

    Attributes
    ----------
    name : str
        The input's.
    status : str
        "passed" or "failed".
    error : float or None
        The largest, relative to the gradient's largest entry, of directions to its norm; None where it could not be
        compared.
    where : str
        The place of that error.
    given, expected : float
        What backward gave there, and what differences say.
    checked, skipped : int
        Places compared, and left out as near a kink.
    unit : str
        What a place is: "entries" or "directions".
    message : str
        What else to say.
    """

    name: str
    status: str
    error: float | None = None
    where: str = ""
    given: float = 0.0
    expected: float = 0.0
    checked: int = 0
    skipped: int = 0
    unit: str = "entries"
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
    """What `check_function` found.

    Attributes
    ----------
    results : tuple of InputResult
        One an input.
    tolerance : float
        The largest error that passes.
    seed : int
        Of the upstream gradients and the directions.
    """

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
    kink_distance: float | None = None,
    entries: int = 400,
    directions: int = 10,
    tolerance: float = 1e-7,
    seed: int = 0,
) -> FunctionReport:
    """Compare the gradients of a function of your own with differences, from random upstream gradients.

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
    kink_distance : float, optional
        How far the inputs are from the nearest kink, if you know: no step is longer than 1/500 of it, and nothing is
        left out. Unless given, kinks are found by the differences themselves, and places near one left out.
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
    NearKinkError
        A `kink_distance` below 1e-3.

    Examples
    --------
    >>> import numpy as np
    >>> from ortho_ref.conformance import check_function
    >>> forward = lambda inputs: np.tanh(inputs["W"] @ inputs["x"])
    >>> def backward(inputs, upstream):
    ...     da = upstream * (1 - forward(inputs) ** 2)
    ...     return {"W": np.outer(da, inputs["x"]), "x": inputs["W"].T @ da}
    >>> rng = np.random.default_rng(0)
    >>> check_function(forward, backward, {"W": rng.standard_normal((3, 4)), "x": rng.standard_normal(4)}).ok
    True
    """
    point = _checked_inputs(inputs)
    free = [name for name, array in point.items() if array.dtype.kind in "fc" and name not in fixed]
    numbers = {"entries": entries, "directions": directions, "seed": seed, "tolerance": tolerance}
    named = {"fixed": fixed, "skew": skew, "may_vanish": may_vanish}
    _check_options(point, free, named, numbers | {"kink_distance": kink_distance})
    rng = np.random.default_rng(seed)
    loss = _Loss(forward, point, rng)
    gradients, faults = loss.gradients(backward)
    results = []
    for name in free:
        gradient, fault = _gradient(name, point[name], gradients)
        if complaint := "; ".join(filter(None, (faults.pop(name, ""), fault))):
            results.append(InputResult(name, FAILED, message=complaint))
            continue
        is_skew, norm = name in skew, None
        moves = each_entry(point[name], is_skew)
        if _size(point[name], is_skew) > entries:
            moves = random_directions(point[name], is_skew, directions, rng)
            norm = norm_of(gradient, is_skew)
        counted = _places(loss, name, gradient, list(moves), is_skew, tolerance, kink_distance)
        vanishes = {"tolerance": tolerance, "may_vanish": name in may_vanish}
        results.append(_result(loss, name, gradient, norm, counted, **vanishes))
    results += [InputResult(name, FAILED, message=message) for name, message in faults.items()]
    others = [name for name in gradients if name not in point]
    results += [InputResult(str(name), FAILED, message="is the name of no input") for name in others]
    return FunctionReport(tuple(results), tolerance, seed)


class _Loss:
    """L, and its change along a direction: the outputs' differences are weighed, so that few digits cancel."""

    def __init__(self, forward: Forward, point: Arrays, rng: np.random.Generator) -> None:
        self.forward, self.point = forward, point
        outputs, self.alone, self.modified = self._outputs(point)
        self.shapes = {name: array.shape for name, array in outputs.items() if array.dtype.kind in "fc"}
        if not self.shapes:
            raise ValueError("forward's outputs are all integers; at least one has to be float64 or complex128")
        for name in self.shapes:
            if not np.isfinite(outputs[name]).all():
                raise ValueError(f"{_called(name)} is not finite at these inputs")
        self.upstream = {name: _normal(outputs[name], rng) for name in self.shapes}
        self.weights = np.concatenate([u.ravel() for u in self.upstream.values()])
        self.start = self._flat(outputs)
        #: What rounding of the outputs alone can do to a derivative.
        self.rounding = _ROUNDING * float(np.linalg.norm(self.weights * self.start)) / _STEPS[0]
        off = float(np.abs(self._flat(self._outputs(point)[0]) - self.start).max(initial=0))
        if off > 1e-10 * np.abs(self.start).max(initial=0):
            raise ValueError(
                f"forward gives other outputs when it is called again, {off:.1e} away; allowed: the same, so that what "
                "it draws at random has to be an input"
            )

    def _outputs(self, point: Arrays) -> tuple[Arrays, bool, list[str]]:
        """The outputs by name, that of an array alone ""; whether it is alone; the inputs that forward modified."""
        given = {name: array.copy() for name, array in point.items()}
        found = self.forward(given)
        alone = not isinstance(found, Mapping)
        outputs = {}
        for name, value in ({"": found} if alone else found).items():
            if not isinstance(value, np.ndarray | np.generic | float | int) or isinstance(value, NOT_PLAIN):
                raise TypeError(f"{_called(name)} is {kind_of(value)}; allowed: a NumPy array, or a dict of them")
            outputs[name] = np.array(value)
            if outputs[name].dtype not in (np.float64, np.complex128) and outputs[name].dtype.kind not in "iub":
                raise ValueError(f"{_called(name)} is {outputs[name].dtype}; allowed: float64, complex128, integers")
        return outputs, alone, _modified(given, point)

    def _flat(self, outputs: Arrays) -> np.ndarray:
        for name, shape in self.shapes.items():
            if name not in outputs or outputs[name].shape != shape:
                raise ValueError(f"{_called(name)} has shape {shape} at one point and not at another near it")
        return np.concatenate([outputs[name].ravel() for name in self.shapes])

    def gradients(self, backward: Backward) -> tuple[Mapping[str, Any], dict[str, str]]:
        """What backward gives, and what there is to say of inputs that were modified."""
        given = {name: array.copy() for name, array in self.point.items()}
        upstream = {name: array.copy() for name, array in self.upstream.items()}
        found = backward(given, upstream[""] if self.alone else upstream)
        if not isinstance(found, Mapping):
            raise TypeError(f"backward gives {kind_of(found)}; allowed: a dict of arrays by the inputs' names")
        faults = dict.fromkeys(_modified(given, self.point), "was modified by backward")
        return found, faults | dict.fromkeys(self.modified, "was modified by forward")

    def along(self, name: str, direction: np.ndarray, h: float) -> tuple[float, float]:
        """The derivative, and the doubt about it."""

        def at(s: float) -> np.ndarray:
            moved = self.point | {name: np.asarray(self.point[name] + s * direction)}
            return self._flat(self._outputs(moved)[0])

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


class _Place(NamedTuple):
    """An entry or a direction: where, what backward and what differences say, and the doubt about the latter."""

    where: str
    given: float
    expected: float
    doubt: float


def _places(
    loss: _Loss,
    name: str,
    gradient: np.ndarray,
    moves: list[tuple[str, np.ndarray]],
    skew: bool,
    tolerance: float,
    kink_distance: float | None,
) -> tuple[list[_Place], list[bool]]:
    """Every place, and whether it counts: the first step that leaves little doubt, or else none."""
    size = max(1.0, float(np.abs(loss.point[name]).max(initial=0)))
    steps = [step * size for step in _STEPS]
    if kink_distance is not None:
        steps = [min(step, kink_distance / 500) for step in steps]

    def measured(h: float, places: list[_Place], limit: float) -> list[_Place]:
        found = []
        for place, (_, d) in zip(places, moves, strict=True):
            if not place.doubt <= limit:
                again = _Place(place.where, place.given, *loss.along(name, d, h))
                place = place if place.doubt <= again.doubt else again
            found.append(place)
        return found

    places = [_Place(where, slope_along(gradient, d, skew), np.nan, np.inf) for where, d in moves]
    limit = 0.0
    for h in steps:
        places = measured(h, places, limit)
        limit = _limit(places, tolerance, loss.rounding)
    return places, [kink_distance is not None or place.doubt <= limit for place in places]


def _limit(places: list[_Place], tolerance: float, rounding: float) -> float:
    """The doubt that is little: a quarter of what passes, on the scale of places of which a hundredth is certain."""
    settled = (abs(place.expected) for place in places if place.doubt <= 0.01 * abs(place.expected))
    return max(tolerance * max(settled, default=0.0), rounding) / 4


def _result(
    loss: _Loss,
    name: str,
    gradient: np.ndarray,
    norm: float | None,
    counted: tuple[list[_Place], list[bool]],
    **how: Any,
) -> InputResult:
    """The worst place of one input.  norm: of the whole gradient, where the places are directions."""
    places, good = counted
    tolerance, may_vanish = how["tolerance"], how["may_vanish"]
    own = [place for place, is_good in zip(places, good, strict=True) if is_good]
    counts: dict[str, Any] = {"checked": len(own), "skipped": len(places) - len(own)}
    counts["unit"] = "entries" if norm is None else "directions"
    if not places:
        return InputResult(name, PASSED, 0.0, message="has no entry that is free", **counts)
    if 2 * len(own) < len(places):
        message = "too many places near a kink; or forward is not exact to double precision"
        return InputResult(name, FAILED, message=message, **counts)
    sizes = [max(abs(place.given), abs(place.expected)) for place in own]
    scale = max(*sizes, norm or 0.0, loss.rounding / tolerance)
    if max(*sizes, norm or 0.0) <= loss.rounding:
        message = "nothing to check, all are 0"
        return InputResult(name, PASSED if may_vanish else FAILED, 0.0, message=message, **counts)
    worst = max(own, key=lambda place: abs(place.given - place.expected))
    error = abs(worst.given - worst.expected) / scale
    status = PASSED if error <= tolerance else FAILED
    message = _hint(gradient, own, tolerance * scale) if status == FAILED and norm is None else ""
    return InputResult(name, status, error, worst.where, worst.given, worst.expected, **counts, message=message)


def _hint(gradient: np.ndarray, places: list[_Place], limit: float) -> str:
    """All zeros, or a factor."""
    given, expected = (np.array([getattr(place, side) for place in places]) for side in ("given", "expected"))
    if not gradient.any():
        return "all zeros"
    factor = float(given @ expected / (expected @ expected)) if expected.any() else 0.0
    if factor and np.abs(given / factor - expected).max() <= limit:
        return f"{factor:.6g} times what it should be"
    return ""


def _gradient(name: str, array: np.ndarray, gradients: Mapping[str, Any]) -> tuple[np.ndarray, str]:
    """The gradient by one input, and what is wrong with it before any comparison."""
    value = gradients.get(name)
    if value is None:
        return array, "is missing" if name not in gradients else "is None; expected a NumPy array"
    if not isinstance(value, np.ndarray | np.generic | float | int) or isinstance(value, NOT_PLAIN):
        return array, f"is {kind_of(value)}; expected a NumPy array"
    value = np.asarray(value)
    allowed = ("float64", "complex128") if array.dtype.kind == "c" else ("float64",)
    if value.dtype.name not in allowed and value.dtype.kind not in "iub":
        return array, f"is {value.dtype}; expected {' or '.join(allowed)}"
    if value.shape != array.shape:
        return array, f"has shape {value.shape}; expected {array.shape}"
    if not np.isfinite(value).all():
        return array, "is not finite"
    return value.astype(array.dtype), ""


def _checked_inputs(inputs: Mapping[str, Any]) -> Arrays:
    """Copies of the inputs.  TypeError or ValueError for what is not allowed."""
    if not isinstance(inputs, Mapping):
        raise TypeError(f"inputs is {kind_of(inputs)}; allowed: a dict of NumPy arrays by name")
    for name, array in inputs.items():
        if not isinstance(array, np.ndarray) or isinstance(array, NOT_PLAIN):
            raise TypeError(f"inputs[{name!r}] is {kind_of(array)}; allowed: a NumPy array")
        if array.dtype not in (np.float64, np.complex128) and array.dtype.kind not in "iub":
            raise ValueError(f"inputs[{name!r}] is {array.dtype}; allowed: float64, complex128, integers, bool")
        if not np.isfinite(array).all():
            raise ValueError(f"inputs[{name!r}] is not finite; allowed: numbers")
    return {name: array.copy() for name, array in inputs.items()}


def _check_options(point: Arrays, free: list[str], named: dict[str, Collection[str]], numbers: dict[str, Any]) -> None:
    _check_names(point, free, named)
    _check_numbers(numbers)
    if not free:
        raise ValueError("inputs has nothing to differentiate by; allowed: at least one in float64 or complex128")


def _check_names(point: Arrays, free: list[str], named: dict[str, Collection[str]]) -> None:
    for option, names in named.items():
        for name in [names] if isinstance(names, str) else names:
            allowed = point if option == "fixed" else free
            if isinstance(names, str) or name not in allowed:
                raise ValueError(
                    f"{option} is {names!r}; allowed: a list of names out of {', '.join(map(repr, allowed))}"
                )
    for name in named["skew"]:
        A = point[name]
        if A.ndim != 2 or A.shape[0] != A.shape[1] or not np.array_equal(A, -A.T):
            raise ValueError(f"skew names {name!r}, which is not A = -A^T; allowed: square matrices that are")


def _check_numbers(numbers: dict[str, Any]) -> None:
    for option, least in (("entries", 0), ("directions", 1), ("seed", 0)):
        if not is_integer(numbers[option]) or numbers[option] < least:
            raise ValueError(f"{option} is {numbers[option]!r}; allowed: an integer from {least} on")
    if not 0 < numbers["tolerance"] < 1:
        raise ValueError(f"tolerance is {numbers['tolerance']!r}; allowed: above 0, below 1")
    distance = numbers["kink_distance"]
    if distance is not None and not distance >= _MARGIN:
        raise NearKinkError(f"kink_distance is {distance:.2e}; allowed: at least {_MARGIN:.0e}, or None")


def _called(output: str) -> str:
    return f"forward's output {output!r}" if output != "" else "forward's output"


def _modified(given: Arrays, point: Arrays) -> list[str]:
    return [name for name, array in point.items() if name not in given or not np.array_equal(given[name], array)]


def _normal(like: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    values = rng.standard_normal(like.shape)
    return np.asarray(values + 1j * rng.standard_normal(like.shape) if like.dtype.kind == "c" else values)


def _size(array: np.ndarray, skew: bool) -> int:
    """How many entries are free."""
    n = len(array) if skew else 0
    return (n * (n - 1) // 2 if skew else array.size) * (2 if array.dtype.kind == "c" else 1)
