"""What can be seen of wrong outputs without a name for what is wrong: which are right, and what of the others is so."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case, Vector
from ortho_ref.conformance.compare import Comparison, compare, tolerance
from ortho_ref.conformance.diagnosis import precision
from ortho_ref.conformance.report import shortened

#: Outputs by step or update, and the first entry that is computed.
_BY_STEP = {"h": 1, "c": 1, "o": 0, "A": 0, "A_tilde": 0, "U": 0, "parameter": 0}
#: Those of one step in the order in which they are computed.
_IN_ORDER = ("A", "A_tilde", "c", "h", "base", "U")
_SHOWN, _FEW = 3, 4
#: Errors that are told in numbers.
_LITTLE = 1e-2
Equal: TypeAlias = Callable[[np.ndarray], bool]
#: In words.
BESIDE = f"{precision.BESIDE:.0e}".replace("e-0", "e-")


def subject(case: Case) -> str:
    """What a case is of: its cell, recurrence, map, algorithm, optimizer, activation, loss or model."""
    config = case.config
    keys = ("cell", "recurrence", "parametrization", "algorithm", "activation", "loss", "model")
    name = next((config[key] for key in keys if key in config), "")
    return str(name or config["optimizer"]["name"])


def right_and_wrong(vector: Vector, given: Arrays, dtype: str, rounding: bool | None = None) -> str:
    """Which outputs are right and which wrong, and what can be said of the wrong ones, in one line; "" where none is.

    given can be compared; rounding is whether a small error is, where that is known.
    """
    compared = compare(vector, given, dtype)
    wrong = [name for name, comparison in compared.items() if not comparison.passed]
    if not wrong:
        return ""
    right = [name for name, comparison in compared.items() if comparison.passed]
    forward = [name for name in compared if not name.startswith("d_")]
    forward_wrong = sorted(name for name in forward if name in wrong)
    if not forward or len(forward) == len(compared):
        parts = [f"wrong: {shortened(wrong, compared)}" + (f"; right: {shortened(right, compared)}" if right else "")]
    elif forward_wrong:
        parts = [f"forward wrong: {', '.join(forward_wrong)}"]
    else:
        only = "only " if len(right) > len(forward) else ""
        parts = [f"forward right; {only}{shortened(wrong, compared)} wrong"]
    if by_differences(vector, given, dtype):
        return f"{parts[0]}; every gradient is off by little, as by differences"
    found, hints = {name: hint_of(name, vector, given, dtype) for name in wrong}, dict[str, list[str]]()
    for name in forward_wrong or wrong:
        if found[name]:
            hints.setdefault(found[name], []).append(name)
    if dtype == "float64" and not any(hint.startswith("not skew") for hint in found.values()):
        parts += _small(vector, given, {name: compared[name] for name in wrong}, rounding)
    parts += [f"{shortened(names, compared)}: {hint}" for hint, names in list(hints.items())[:_SHOWN]]
    if first := _first(vector, given, dtype):
        parts.append(first)
    if len(wrong) == 1 and not forward_wrong and forward:
        name = wrong[0].removeprefix("d_").rpartition(".")[2]
        parts.append(f"look at what multiplies {name} in backward")
    return "; ".join(parts)


def nearly_right(vector: Vector, wrong: dict[str, Comparison]) -> bool:
    """Whether the errors are so small that they might be those of single precision."""
    return all(c.error <= tolerance(vector.case.kind, "float32") for c in wrong.values())


def by_differences(vector: Vector, given: Arrays, dtype: str) -> bool:
    """Whether the forward pass is right, and all gradients are nearly so, most of them not quite."""
    compared = compare(vector, given, dtype)
    gradients = {name: c for name, c in compared.items() if name.startswith("d_")}
    wrong = {name: c for name, c in gradients.items() if not c.passed}
    if len(wrong) < 3 or 2 * len(wrong) <= len(gradients) or len(gradients) == len(compared):
        return False
    right = all(c.passed for name, c in compared.items() if name not in gradients)
    return right and nearly_right(vector, wrong) and not precision.in_float32(given, vector, wrong)


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
    """What a wrong output looks like: a factor, another order, another output, a limit, the first step that is off.

    Of a number the two; "" for nothing of these.
    """
    ours, theirs = vector.expected[name], given[name].astype(np.float64)

    def equal(array: np.ndarray) -> bool:
        return array.shape == ours.shape and compare(vector, {name: array}, dtype)[name].passed

    factor = float((ours * theirs).sum() / (ours * ours).sum()) if ours.any() else 0.0
    if theirs.size > 1 and theirs.any() and factor and abs(factor - 1) > 1e-3 and equal(theirs / factor):
        return f"{factor:.6g} times what is expected{_mean(name, factor, vector.case)}"
    if theirs.size == 1 and ours.size == 1:  # a number has a factor whatever is wrong with it
        return f"{theirs.item():.10g}, expected {ours.item():.10g}"
    begin = int(name in ("h", "c") and vector.case.kind == "cell")  # so many entries are given, not computed
    hint = _as_a_whole(name, vector.case, begin, ours, theirs, equal)
    return hint or _of_parts(name, vector, begin, ours, theirs, equal, dtype)


def _mean(name: str, factor: float, case: Case) -> str:
    """Whether a weight's gradient is a mean of what is to be summed; not by 1/2, which may be any other factor."""
    if case.kind not in ("cell", "layer") or not name.startswith("d_weights."):
        return ""
    sizes = case.inputs["x"].shape[:2]
    T, B = sizes[::-1] if case.config.get("batch_first") else sizes
    found = {k: words for k, words in ((T, "1/T"), (B, "1/B"), (T * B, "1/(T B)")) if abs(factor * k - 1) < 1e-3}
    return f", {found[max(found)]}: a mean where a sum is meant" if found and max(found) > 2 else ""


def _as_a_whole(name: str, case: Case, begin: int, ours: np.ndarray, theirs: np.ndarray, equal: Equal) -> str:
    """What every entry is."""
    if not theirs.any():
        return "all zeros"
    if begin and equal(only(theirs, ours, 0)):
        return f"right but for {name}[0], which is the {name}0 that was given"
    more = float((theirs - ours).mean())
    if abs(more) > _LITTLE * np.abs(ours).max(initial=0) and equal(theirs - more):
        return f"{abs(more):.6g} {'more' if more > 0 else 'less'} than what is expected, in every entry"
    if theirs.ndim == 2 and len(theirs) == len(theirs.T) and equal(theirs - (ours + ours.T) / 2 + ours):
        return "the symmetric part of what is expected"
    if theirs.shape[-1:] == (2,) and equal(theirs * [1, -1]):
        return "the conjugate of what is expected"
    hint = _of_other_steps(ours, theirs, begin, equal) if _steps(name, case) else ""
    return hint or _in_another_order(ours, theirs, equal)


def _of_parts(
    name: str, vector: Vector, begin: int, ours: np.ndarray, theirs: np.ndarray, equal: Equal, dtype: str
) -> str:
    """What some entries are, or which are right."""
    limit = tolerance("update", dtype)
    unskewed = (name == "A" or name.endswith(".A")) and _skew(ours, 0.0) and not _skew(theirs, limit)
    if unskewed and name != "A":
        return "not skew"
    if hint := _of_another(name, vector, theirs, dtype):
        return hint
    good = [equal(only(ours, theirs, i)) for i in range(len(ours))]
    hint = _clipped(ours, theirs, begin, good, equal)
    steps = _steps(name, vector.case)
    if not hint and steps and name != "y":
        hint = _by_step(name, ours, good)
    if unskewed:
        return f"not skew{hint and ', '}{hint}"
    return hint or _in_part(ours, theirs, int(steps), equal)


def _steps(name: str, case: Case) -> bool:
    """Whether an output has an entry for each step, or update."""
    stepping = case.kind in ("cell", "layer", "update", "optimizer", "linear") and not case.config.get("batch_first")
    return stepping and (name in ("d_x", "y") or name in _BY_STEP)


def is_seen(vector: Vector, given: Arrays, dtype: str) -> bool:
    """Whether every wrong output is another one in full that is expected, or has a factor."""
    wrong = (name for name, c in compare(vector, given, dtype).items() if not c.passed)
    return all((hint := hint_of(name, vector, given, dtype)) and is_whole(hint) for name in wrong)


def is_whole(hint: str) -> bool:
    """Whether a hint says what every entry is, not where one is wrong."""
    return not hint.startswith(("off from", "right ")) and ", expected " not in hint


def is_misplaced(hint: str) -> bool:
    """Whether a hint says that these are the right entries in wrong places."""
    return hint.startswith(("what is expected", "the transpose", "the right numbers"))


def _of_other_steps(ours: np.ndarray, theirs: np.ndarray, begin: int, equal: Equal) -> str:
    """That these are what is expected of other steps."""
    a, b = ours[begin:], theirs[begin:]
    if len(a) < 3 or np.allclose(a, a[:1]):
        return ""
    if (b == b[:1]).all():
        return "the same at every step"
    found = {
        "what is expected one step earlier": np.concatenate([b[1:], a[-1:]]),
        "what is expected one step later": np.concatenate([a[:1], b[:-1]]),
        "what is expected, the steps in reverse": b[::-1],
    }
    return next((says for says, own in found.items() if equal(np.concatenate([ours[:begin], own]))), "")


def _in_another_order(ours: np.ndarray, theirs: np.ndarray, equal: Equal) -> str:
    """That these are the right entries in other places: transposed, reshaped, rows exchanged."""
    if theirs.ndim >= 2 and equal(np.swapaxes(theirs, 0, 1)):
        return "the transpose of what is expected"
    if theirs.ndim == 3 and equal(np.swapaxes(theirs, 1, 2)):
        return "the transpose of what is expected, of each matrix"
    for i, j in combinations(range(theirs.ndim), 2):
        if equal(np.swapaxes(theirs.reshape(np.swapaxes(ours, i, j).shape), i, j)):
            return f"what is expected by a reshape in place of a transpose of axes {i} and {j}"
    placed = np.empty(ours.size)
    placed[np.argsort(ours, axis=None)] = np.sort(theirs, axis=None)
    if not equal(placed.reshape(ours.shape)):
        return ""
    for axis in range(ours.ndim):
        a, b = (np.moveaxis(array, axis, 0).reshape(ours.shape[axis], -1) for array in (ours, theirs))
        order = [int(np.abs(b - row).sum(axis=1).argmin()) for row in a]
        if equal(np.take(theirs, order, axis)):
            return f"what is expected along axis {axis} in another order: {_places(np.argsort(order))}"
    return "the right numbers in another order"


def _clipped(ours: np.ndarray, theirs: np.ndarray, begin: int, good: list[bool], equal: Equal) -> str:
    """That entries end at a limit: all, or those of the first step that is wrong, from which the others follow."""
    if all(good):
        return ""
    first, (low, high) = good.index(False), (theirs[begin:].min(), theirs[begin:].max())
    for part in (slice(begin, None), first):
        limits = [limit for limit, beyond in ((low, ours[part] < low), (high, ours[part] > high)) if beyond.sum() > 1]
        mixed = ours.copy()
        mixed[part] += theirs[part] - np.clip(ours[part], low, high)
        if limits and equal(mixed):
            return f"clipped at {' and '.join(f'{limit:.6g}' for limit in limits)}"
    return ""


def _in_part(ours: np.ndarray, theirs: np.ndarray, begin: int, equal: Equal) -> str:
    """The few places along one axis in which all that is wrong lies."""
    for axis in range(begin, ours.ndim):
        wrong = [i for i in range(ours.shape[axis]) if not equal(only(ours, theirs, i, axis))]
        if 0 < 2 * len(wrong) <= ours.shape[axis]:
            return f"right but for {_places(wrong)} along axis {axis}"
    return ""


def _places(places: Sequence[int] | np.ndarray) -> str:
    return ", ".join(map(str, places[:_FEW])) + (", ..." if len(places) > _FEW else "")


def _first(vector: Vector, given: Arrays, dtype: str) -> str:
    """The first quantity that is wrong, where one that is computed before it in the same step is right."""
    names = [name for name in _IN_ORDER if name in given and name in vector.expected]
    wrong = {}
    for name in names:
        ours, begin = vector.expected[name], _BY_STEP.get(name, 0) if vector.case.kind == "cell" else 0
        good = [
            compare(vector, {name: only(ours, given[name].astype(np.float64), i)}, dtype)[name].passed
            for i in range(begin, len(ours))
        ]
        if not all(good):
            wrong[name] = begin + good.index(False)
    if not wrong or vector.case.kind not in ("cell", "update"):
        return ""
    name = min(wrong, key=lambda name: (wrong[name], names.index(name)))
    before = [f"{own}[{wrong[name]}]" for own in names[: names.index(name)]]
    are = "is" if len(before) == 1 else "are"
    return f"{name}[{wrong[name]}] is wrong where {' and '.join(before)} {are} right" if before else ""


def _of_another(name: str, vector: Vector, theirs: np.ndarray, dtype: str) -> str:
    """That it is what another output should be; "" if it is not."""
    alike = {
        other: theirs
        for other, expected in vector.expected.items()
        if other != name and expected.shape == theirs.shape and expected.any()
    }
    found = compare(vector, alike, dtype)
    return next((f"what is expected of {other}" for other in alike if found[other].passed), "")


def _by_step(name: str, ours: np.ndarray, good: list[bool]) -> str:
    """The first step that is off, of d_x the last: `good` says of each entry alone whether it is right."""
    wrong = [i for i, right in enumerate(good) if not right]
    if not wrong:
        return ""
    if name == "d_x":
        return "" if wrong[-1] == len(ours) - 1 else f"right from entry {wrong[-1] + 1} on"
    return f"off from entry {wrong[0]} on" if wrong[0] > _BY_STEP[name] else ""


def _skew(A: np.ndarray, limit: float) -> bool:
    """Whether every matrix is skew to `limit` of the largest entry."""
    return bool(np.abs(A + np.swapaxes(A, -1, -2)).max(initial=0) <= limit * np.abs(A).max(initial=0))


def only(ours: np.ndarray, theirs: np.ndarray, i: int, axis: int = 0) -> np.ndarray:
    """The first, with entry i along an axis of the second."""
    mixed, where = ours.copy(), (slice(None),) * axis + (i,)
    mixed[where] = theirs[where]
    return mixed
