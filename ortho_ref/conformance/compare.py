"""How close is close: every output on its own scale.

    error = max |given - expected| / scale;  passed: error <= tolerance(kind, dtype)
    scale = max |expected|, or what the vector says; of an output that is 0 throughout, the largest of the case

So a small gradient beside large ones has to be right too, and 0 does not pass for it.  `MINIMUM` keeps vectors away
whose answers are near noise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ortho_ref.backend import NOT_PLAIN
from ortho_ref.conformance.case import Arrays, Vector
from ortho_ref.conformance.outputs import NoArray
from ortho_ref.terminal import cut

MINIMUM = 1e-3
NEARLY = 1e-6
_NAME = 200  # characters of a type: one of many fields has more
_TOLERANCE = {"float64": 1e-9, "float32": 5e-5}
_OWN = {  # what compounds over updates
    ("update", "float64"): 1e-8,
    ("update", "float32"): 5e-4,
    ("train", "float64"): 1e-8,
    ("train", "float32"): 5e-4,
}


@dataclass(frozen=True)
class Comparison:
    """How far one output is off.

    Attributes
    ----------
    error : float
        Relative to the output's scale; infinite where it cannot be compared.
    tolerance : float
        The largest error that passes.
    remark : str
        What else to say.
    """

    error: float
    tolerance: float
    remark: str = ""

    @property
    def passed(self) -> bool:
        """Within tolerance."""
        return self.error <= self.tolerance


def tolerance(kind: str, dtype: str) -> float:
    """The largest relative error that passes, of a kind of case in "float64" or "float32"."""
    return _OWN.get((kind, dtype), _TOLERANCE[dtype])


def scales(expected: Arrays, own: dict[str, float]) -> dict[str, float]:
    """The scale of every output.

    Parameters
    ----------
    expected : dict of str to array
        The outputs that are right.
    own : dict of str to float
        Scales that are given, as of a `Vector`.

    Returns
    -------
    dict of str to float
        The output's own scale, or its largest entry; where that is 0 the largest of all, and 1 where all are 0.
    """
    return {name: _scale(name, expected, own) for name in expected}


def _scale(name: str, expected: Arrays, own: dict[str, float]) -> float:
    """The scale of one output; the largest of all is looked for only where its own is 0."""
    return own.get(name) or _largest(expected[name]) or max(map(_largest, expected.values())) or 1.0


def _largest(array: np.ndarray) -> float:
    return float(np.abs(array).max(initial=0))


def compare(vector: Vector, given: Mapping[str, np.ndarray | NoArray], dtype: str) -> dict[str, Comparison]:
    """Outputs beside the right ones, each on its own scale.

    Parameters
    ----------
    vector : Vector
        The case with its answer.
    given : dict of str to array or NoArray
        Outputs by name; others than the case's are ignored. What is no array is compared as infinitely far off.
    dtype : str
        "float64" or "float32", of the inputs that they were computed from.

    Returns
    -------
    dict of str to Comparison
        Of the outputs that were given.
    """
    limit, size = tolerance(vector.case.kind, dtype), scales(vector.expected, vector.scales)
    with np.errstate(all="ignore"):
        return {
            name: _compared(given[name], expected, size[name], limit, vector.low.get(name), vector.high.get(name))
            for name, expected in vector.expected.items()
            if name in given
        }


def _compared(
    given: np.ndarray | NoArray,
    expected: np.ndarray,
    scale: float,
    limit: float,
    low: np.ndarray | None,
    high: np.ndarray | None,
) -> Comparison:
    if isinstance(given, NoArray):
        return Comparison(np.inf, limit, given.remark)
    if isinstance(given, NOT_PLAIN) or not isinstance(given, np.ndarray | np.generic):
        return Comparison(np.inf, limit, f"is a {cut(type(given).__name__, _NAME)}; expected a NumPy array")
    if given.dtype.kind not in "fiub":
        advice = "; a complex array is a last axis of 2" if given.dtype.kind == "c" else ""
        return Comparison(np.inf, limit, f"is {cut(str(given.dtype), _NAME)}; expected real numbers{advice}")
    if not fits(given.dtype, expected.dtype):
        return Comparison(np.inf, limit, f"is {given.dtype}; expected float64 or float32")
    if given.shape != expected.shape:
        return Comparison(np.inf, limit, f"has shape {given.shape}; expected {expected.shape}")
    given_dtype, given = given.dtype, given.astype(np.float64)
    if not np.isfinite(given).all():
        return Comparison(np.inf, limit, "is not finite")
    error = float(np.abs(given - expected).max(initial=0)) / scale
    if error > limit and low is not None and high is not None:
        outside = float(np.maximum(low - given, given - high).max(initial=0)) / scale
        if outside <= limit:
            return Comparison(max(outside, 0.0), limit, "differs from the reference at a kink: acceptable")
    single = given_dtype == np.float32 and error > limit and limit < 1e-6
    return Comparison(error, limit, "is float32 for inputs in float64" if single else "")


def fits(given: np.dtype, expected: np.dtype) -> bool:
    """Whether numbers of a type can be compared: real ones, and where floats are expected those of 4 bytes or more."""
    return given.kind in "fiub" and (expected.kind != "f" or (given.kind == "f" and given.itemsize >= 4))


def matches(given: Arrays, other: Arrays, vector: Vector, dtype: str) -> bool:
    """Whether outputs are those of a mistake.

    Every one that was given, and at least one, has to be `other`'s: within tolerance, or, at most `NEARLY` away, within
    a thousandth of how far it is from the answer.  So a mistake is found in code that rounds as well.

    Parameters
    ----------
    given : dict of str to array
        The outputs that were given.
    other : dict of str to array
        Those of the mistake.
    vector : Vector
        The case with its answer.
    dtype : str
        "float64" or "float32".

    Returns
    -------
    bool
        False where nothing was given.
    """
    return matching(given, vector, dtype)(other)


def matching(given: Arrays, vector: Vector, dtype: str) -> Callable[[Arrays], bool]:
    """`matches` of the same outputs with those of many mistakes: how far they are off is computed once.

    Parameters
    ----------
    given : dict of str to array
        As for `matches`, as are `vector` and `dtype`.
    vector : Vector
        The case with its answer.
    dtype : str
        "float64" or "float32".

    Returns
    -------
    callable
        matches(other) -> bool.
    """
    limit, off = tolerance(vector.case.kind, dtype), compare(vector, given, dtype)
    near = {name: max(limit, min(NEARLY, comparison.error / 1000)) for name, comparison in off.items()}

    def are(other: Arrays) -> bool:
        def equal(name: str) -> bool:
            if name not in other:
                return False
            size = _scale(name, other, vector.scales)
            return _compared(np.asarray(given[name]), other[name], size, near[name], None, None).passed

        return bool(near) and all(map(equal, near))

    return are
