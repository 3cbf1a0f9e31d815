"""What can be seen of wrong outputs without a name for what is wrong: which are right, and what of the others is so."""

import numpy as np

from ortho_ref.conformance.case import Arrays, Case, Vector
from ortho_ref.conformance.compare import Comparison, compare, tolerance
from ortho_ref.conformance.diagnosis import precision
from ortho_ref.conformance.report import shortened

#: Outputs by step or update, and the first entry that is computed.
_BY_STEP = {"h": 1, "c": 1, "o": 0, "A": 0, "A_tilde": 0, "U": 0, "parameter": 0}
_SHOWN = 3
#: Errors that are told in numbers.
_LITTLE = 1e-2
#: In words.
BESIDE = f"{precision.BESIDE:.0e}".replace("e-0", "e-")


def subject(case: Case) -> str:
    """What a case is of: its cell, recurrence, map, algorithm, optimizer, activation, loss or model."""
    config = case.config
    keys = ("cell", "recurrence", "parametrization", "algorithm", "activation", "loss", "model")
    name = next((config[key] for key in keys if key in config), "")
    return str(name or config["optimizer"]["name"])


def right_and_wrong(vector: Vector, given: Arrays, dtype: str, rounding: bool | None = None) -> str:
    """Which outputs are right and which wrong, and what can be said of the wrong ones.

    Parameters
    ----------
    vector : Vector
        The case with its answer.
    given : dict of str to array
        The outputs that were given and can be compared; where none is wrong there is nothing to say.
    dtype : str
        "float64" or "float32".
    rounding : bool, optional
        Whether a small error is rounding, where that is known.

    Returns
    -------
    str
        In one line.
    """
    compared = compare(vector, given, dtype)
    wrong = [name for name, comparison in compared.items() if not comparison.passed]
    if not wrong:
        return ""
    right = [name for name, comparison in compared.items() if comparison.passed]
    forward = [name for name in compared if not name.startswith("d_")]
    forward_wrong = [name for name in forward if name in wrong]
    if not forward or len(forward) == len(compared):
        parts = [f"wrong: {shortened(wrong, compared)}" + (f"; right: {shortened(right, compared)}" if right else "")]
    elif forward_wrong:
        parts = [f"forward wrong: {', '.join(forward_wrong)}"]
    else:
        only = "only " if len(right) > len(forward) else ""
        parts = [f"forward right; {only}{shortened(wrong, compared)} wrong"]
    hints: dict[str, list[str]] = {}
    for name in forward_wrong or wrong:
        if hint := hint_of(name, vector, given, dtype):
            hints.setdefault(hint, []).append(name)
    skewed = any(hint_of(name, vector, given, dtype) == "not skew" for name in wrong)
    if dtype == "float64" and not skewed:
        parts += _small(vector, given, {name: compared[name] for name in wrong}, rounding)
    parts += [f"{shortened(names, compared)}: {hint}" for hint, names in list(hints.items())[:_SHOWN]]
    if len(wrong) == 1 and not forward_wrong and forward:
        name = wrong[0].removeprefix("d_").rpartition(".")[2]
        parts.append(f"look at what multiplies {name} in backward")
    return "; ".join(parts)


def nearly_right(vector: Vector, wrong: dict[str, Comparison]) -> bool:
    """Whether the errors are so small that they might be those of single precision."""
    return all(c.error <= tolerance(vector.case.kind, "float32") for c in wrong.values())


def _small(vector: Vector, given: Arrays, wrong: dict[str, Comparison], rounding: bool | None) -> list[str]:
    """How large a small error is, and whether it is float32's."""
    if nearly_right(vector, wrong) and precision.in_float32(given, vector, wrong):
        return ["right to single precision: something is computed in float32"]
    largest = max(comparison.error for comparison in wrong.values())
    if largest > _LITTLE:
        return []
    off = f"off by {largest:.1e} of the largest entry"
    if rounding:
        return [f"{off}, and by something else for inputs {BESIDE} away: something is computed in float32"]
    return [off if rounding is None else f"{off}, and by the same for inputs {BESIDE} away: no rounding"]


def hint_of(name: str, vector: Vector, given: Arrays, dtype: str) -> str:
    """What a wrong output looks like.

    Parameters
    ----------
    name : str
        The output's.
    vector : Vector
        The case with its answer.
    given : dict of str to array
        The outputs that were given.
    dtype : str
        "float64" or "float32".

    Returns
    -------
    str
        A factor, a transpose, a conjugate, another output, the first step that is off; of a number the two; "" for
        nothing of these.
    """
    ours, theirs = vector.expected[name], given[name].astype(np.float64)

    def equal(array: np.ndarray) -> bool:
        return array.shape == ours.shape and compare(vector, {name: array}, dtype)[name].passed

    factor = float((ours * theirs).sum() / (ours * ours).sum()) if ours.any() else 0.0
    if theirs.size > 1 and theirs.any() and factor and abs(factor - 1) > 1e-3 and equal(theirs / factor):
        return f"{factor:.6g} times what is expected"
    if theirs.size == 1 and ours.size == 1:  # a number has a factor whatever is wrong with it
        return f"{theirs.item():.10g}, expected {ours.item():.10g}"
    if not theirs.any():
        return "all zeros"
    if name in ("h", "c") and vector.case.kind == "cell" and equal(only(theirs, ours, 0)):
        return f"right but for {name}[0], which is the {name}0 that was given"
    if name.endswith(".A") and _skew(ours, 0.0) and not _skew(theirs, tolerance("parametrization", dtype)):
        return "not skew"
    if theirs.ndim >= 2 and equal(np.swapaxes(theirs, 0, 1)):
        return "the transpose of what is expected"
    if theirs.shape[-1:] == (2,) and equal(theirs * [1, -1]):
        return "the conjugate of what is expected"
    anothers = _of_another(name, vector, theirs, dtype)
    if not anothers and (name == "d_x" or name in _BY_STEP):
        return _by_step(name, vector.case.kind, ours, [equal(only(ours, theirs, i)) for i in range(len(ours))])
    return anothers


def _of_another(name: str, vector: Vector, theirs: np.ndarray, dtype: str) -> str:
    """That it is what another output should be; "" if it is not."""
    alike = {
        other: theirs
        for other, expected in vector.expected.items()
        if other != name and expected.shape == theirs.shape and expected.any()
    }
    found = compare(vector, alike, dtype)
    return next((f"what is expected of {other}" for other in alike if found[other].passed), "")


def _by_step(name: str, kind: str, ours: np.ndarray, good: list[bool]) -> str:
    """The first step that is off, of d_x the last: `good` says of each entry alone whether it is right."""
    wrong = [i for i, right in enumerate(good) if not right]
    if not wrong:
        return ""
    if name == "d_x":
        return "" if wrong[-1] == len(ours) - 1 else f"right from entry {wrong[-1] + 1} on"
    computed = wrong[0] > _BY_STEP[name] and kind != "parametrization"
    return f"off from entry {wrong[0]} on" if computed else ""


def _skew(A: np.ndarray, limit: float) -> bool:
    """Whether a matrix is skew to `limit` of the largest entry."""
    return bool(np.abs(A + A.T).max(initial=0) <= limit * np.abs(A).max(initial=0))


def only(ours: np.ndarray, theirs: np.ndarray, i: int) -> np.ndarray:
    """The first, with entry i of the second."""
    mixed = ours.copy()
    mixed[i] = theirs[i]
    return mixed
