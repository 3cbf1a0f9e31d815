"""How close is close: every output on its own scale.

    error = max |given - expected| / scale;  passed: error <= tolerance(kind, dtype)
    scale = max |expected|; of an output that is 0 throughout, the largest of the case

So a small gradient beside large ones has to be right too, and 0 does not pass for it.  `MINIMUM` keeps vectors away
whose answers are near noise.

An optimizer is judged by how far it has moved its parameter as well, update by update, beyond what rounding the
parameter itself explains:

    error = max(|given - expected| - k eps max |expected|, 0) / max |expected - parameter0|, after k updates

What passes further off than `BEYOND` times what correct code shows (`rounding`) passes, and is told so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ortho_ref.conformance.cases import initial
from ortho_ref.conformance.cases.case import DTYPES, HALF, Arrays, Case, Config, Vector
from ortho_ref.conformance.running.outputs import NoArray

MINIMUM = 1e-3
NEARLY = 1e-6
_TOLERANCE = {"float64": 1e-9, "float32": 5e-5, "float16": 2e-2, "bfloat16": 1e-1}
_OWN = {("update", "float64"): 1e-8, ("update", "float32"): 5e-4}  # what compounds over updates

#: The largest error of correct code in float32 and in float64, measured over scripts/maintain/adapters and the
#: second route.  Of sequences, of up to `SHORT` steps; it grows with them.
_ROUNDING = {
    "cell": (2e-6, 5e-15),
    "layer": (2e-6, 5e-15),
    "parametrization": (2e-6, 2e-14),
    "update": (5e-7, 2e-15),
    "optimizer": (1.5e-7, 4e-16),
    "activation": (2e-7, 4e-16),
    "loss": (2e-7, 4e-16),
}
SHORT = 20
BEYOND = 10.0


@dataclass(frozen=True)
class Comparison:
    """How far one output is off."""

    error: float  # relative to the output's scale; infinite where it cannot be compared
    tolerance: float  # the largest error that passes
    remark: str = ""  # what else to say
    #: Of what passes further off than correct code does, how many times what rounding explains; else 0.
    times: float = 0.0

    @property
    def passed(self) -> bool:
        """Within tolerance."""
        return self.error <= self.tolerance


def tolerance(kind: str, dtype: str) -> float:
    """The largest relative error that passes, of a kind of case in a precision, "float64" to "bfloat16"."""
    return _OWN.get((kind, dtype), _TOLERANCE[dtype])


def rounding(case: Case, dtype: str) -> float:
    """The largest relative error that correct code shows on a case, in "float64" or "float32"; 0 where not known."""
    if dtype not in DTYPES:
        return 0.0
    single, double = _ROUNDING.get(case.kind, (0.0, 0.0))
    x = case.inputs.get("x") if case.kind in ("cell", "layer") else None
    long = 1.0 if x is None else max(1.0, max(x.shape[:2]) / SHORT)
    return long * (single if dtype == "float32" else double)


def scales(expected: Arrays) -> dict[str, float]:
    """The scale of every output, from the right ones: its largest entry.

    Where that is 0 the largest of all outputs, and 1 where all are 0.
    """
    return {name: _scale(name, expected) for name in expected}


def scales_of(vector: Vector) -> dict[str, float]:
    """Those that a case's outputs are judged on.

    Where departures are assumed, which may leave answers near noise, the larger of both answers' scales.
    """
    size = scales(vector.expected)
    if vector.whole is None:
        return size
    whole = scales(vector.whole.expected)
    return {name: max(own, whole.get(name, own)) for name, own in size.items()}


def _scale(name: str, expected: Arrays) -> float:
    """The scale of one output; the largest of all is looked for only where its own is 0."""
    return largest(expected[name]) or max(map(largest, expected.values())) or 1.0


def largest(array: np.ndarray) -> float:
    """The modulus of the largest entry; 0 of none."""
    return float(np.abs(array).max(initial=0))


def compare(vector: Vector, given: Mapping[str, np.ndarray | NoArray], dtype: str) -> dict[str, Comparison]:
    """The outputs that were given beside the right ones, each on its own scale; others than the case's are ignored.

    dtype is that of the inputs; what is no array is infinitely far off.
    """
    case, size, explained, found = vector.case, scales_of(vector), rounding(vector.case, dtype), {}
    for name in (name for name in vector.expected if name in given):
        with np.errstate(all="ignore"):
            one = _compared(vector, name, given[name], size[name], tolerance(case.kind, dtype))
            if case.kind == "initial" and "values" in case.config:
                one = _as_drawn(one, case.config, name, given[name])
            if case.kind == "optimizer" and "parameter0" in case.inputs:
                one = _as_moved(one, vector, given[name], dtype)
        beyond = one.passed and not one.remark and 0 < explained * BEYOND < one.error
        found[name] = replace(one, times=one.error / explained) if beyond else one
    return found


def _as_drawn(found: Comparison, config: Config, name: str, given: np.ndarray | NoArray) -> Comparison:
    """Draws of initial values, by range and moments; what is no array of the right shape stays as it is."""
    if isinstance(given, NoArray) or (found.remark and found.error == np.inf):
        return found
    off, remark = initial.judged(config["values"][name], np.asarray(given), found.tolerance)
    return replace(found, error=off * found.tolerance if off <= 1 else off, remark=remark)  # never nearly right


def _as_moved(found: Comparison, vector: Vector, given: np.ndarray | NoArray, dtype: str) -> Comparison:
    """An optimizer's parameter on the scale of its movement, where that shows more."""
    if not found.passed or isinstance(given, NoArray):
        return found
    expected, first = vector.expected["parameter"], vector.case.inputs["parameter0"]
    worst = 0.0
    for k, (ours, theirs) in enumerate(zip(expected, given, strict=True), 1):
        slack = k * float(np.finfo(dtype).eps) * largest(ours)
        off = largest(theirs.astype(np.float64) - ours) - slack
        moved = largest(ours - first)
        worst = max(worst, off / moved if moved else 0.0)
    if worst <= found.tolerance:
        return found
    return replace(found, error=worst, remark="is off on the scale of how far the parameter has moved")


def _compared(vector: Vector, name: str, given: np.ndarray | NoArray, scale: float, limit: float) -> Comparison:
    """One output on its scale; at a kink between low and high."""
    expected = vector.expected[name]
    if isinstance(given, NoArray):
        return Comparison(np.inf, limit, given.remark)
    if given.dtype.kind == "c":
        said = f"is {given.dtype}; expected real numbers; a complex array is a last axis of 2"
        return Comparison(np.inf, limit, said)
    half = given.dtype.kind == "f" and given.dtype.itemsize == 2 and limit >= _TOLERANCE[HALF[0]]
    if not (half or fits(given.dtype, expected.dtype)):
        return Comparison(np.inf, limit, f"is {given.dtype}; expected float64 or float32")
    if given.shape != expected.shape:
        said = f"has shape {given.shape}; expected {expected.shape}{_missed(name, given.shape, expected.shape)}"
        return Comparison(np.inf, limit, said)
    given_dtype, given = given.dtype, given.astype(np.float64)
    if not np.isfinite(given).all():
        return Comparison(np.inf, limit, "is not finite")
    error = largest(given - expected) / scale
    if error > limit and name in vector.low and name in vector.high:
        outside = float(np.maximum(vector.low[name] - given, given - vector.high[name]).max(initial=0)) / scale
        if outside <= limit:
            return Comparison(max(outside, 0.0), limit, "differs from the reference at a kink: acceptable")
    single = given_dtype == np.float32 and error > limit and limit < 1e-6
    return Comparison(error, limit, "is float32 for inputs in float64" if single else "")


def _missed(name: str, given: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """What is most often amiss with a shape: the first state left out, the batch before time."""
    if name in ("h", "c") and expected and given == (expected[0] - 1, *expected[1:]):
        return f": {name}[0] is the first state, {name}0"
    return ": its first two axes are exchanged" if given == (*expected[1::-1], *expected[2:]) else ""


def fits(given: np.dtype, expected: np.dtype) -> bool:
    """Whether numbers of a type can be compared: real ones, and where floats are expected those of 4 bytes or more."""
    return given.kind in "fiub" and (expected.kind != "f" or (given.kind == "f" and given.itemsize >= 4))


class Matcher:
    """Given outputs, finite, of the right shapes, to be held against many mistakes: how far off is computed once.

    An output is a mistake's where it is within tolerance of it, or, at most `NEARLY` away, within a thousandth of how
    far it is from the answer: so a mistake is found in code that rounds as well.  What is wrong has to be four times
    nearer to the mistake than to the answer: between the two it is neither.
    """

    def __init__(self, given: Arrays, vector: Vector, dtype: str) -> None:
        limit, off = tolerance(vector.case.kind, dtype), compare(vector, given, dtype)
        self._given = {name: np.asarray(array, dtype=np.float64) for name, array in given.items()}
        #: The outputs that are not the answer's.
        self.wrong = frozenset(name for name, comparison in off.items() if not comparison.passed)
        self._near = {name: max(limit, min(NEARLY, comparison.error / 1000)) for name, comparison in off.items()}
        for name in self.wrong:
            self._near[name] = min(self._near[name], off[name].error / 4)

    def matches(self, other: Arrays) -> bool:
        """Whether every output that was given, and at least one, is `other`'s."""
        return bool(self._near) and all(self._equal(name, other) for name in self._near)

    def unmatched(self, other: Arrays) -> list[str]:
        """The outputs that were given and are not `other`'s."""
        return [name for name in self._near if not self._equal(name, other)]

    def _equal(self, name: str, other: Arrays) -> bool:
        given = self._given[name]
        if name not in other or other[name].shape != given.shape:
            return False
        off = np.abs(given - other[name]).max(initial=0) / _scale(name, other)
        return bool(off <= self._near[name])
