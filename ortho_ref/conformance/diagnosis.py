"""What is wrong: the mistake, or the two, whose outputs are those given; else which outputs are right and which wrong.

Of mistakes whose outputs are the same on a case those come first that explain most of the failing cases of the same
cell, map or optimizer.  Pairs are tried where no single one fits: on two such cases, and what is found on the others;
not for `train`, where each try is ten updates.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from ortho_ref.conformance.case import Arrays, Case, Vector
from ortho_ref.conformance.compare import compare, fits, matches, matching, tolerance
from ortho_ref.conformance.mistake import STORED, Mistake, made
from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.conformance.report import FAILED, Result, shortened

Combination: TypeAlias = tuple[Mistake, ...]  # one, or two: the outer and the inner

#: Outputs with one entry for each update, and the inputs they are made from.
_BY_UPDATE = {"update": ("dU",), "optimizer": ("gradient",)}
#: Outputs by step or update, and the first entry that is computed.
_BY_STEP = {"h": 1, "c": 1, "A": 0, "A_tilde": 0, "U": 0, "parameter": 0, "loss": 0}
_TRIED, _SHOWN = 2, 3


class _Failure:
    """A failing case, with the outputs that were given for it."""

    def __init__(self, vector: Vector, given: Arrays, dtype: str) -> None:
        self.vector, self.dtype = vector, dtype
        self.given = {name: array for name, array in given.items() if name not in STORED}
        self.applicable = [mistake for mistake in MISTAKES if mistake.applies(vector.case)]
        self.made: dict[str, Arrays] = {}
        for mistake in self.applicable:
            if (outputs := _tried((mistake,), vector)) is not None:
                self.made[mistake.name] = outputs

    @cached_property
    def singles(self) -> list[Combination]:
        """Mistakes whose outputs these are."""
        return [(m,) for m in self.applicable if m.name in self.made and self._are(self.made[m.name])]

    @cached_property
    def _are(self) -> Callable[[Arrays], bool]:
        return matching(self.given, self.vector, self.dtype)

    @cached_property
    def of_forward(self) -> list[Combination]:
        """Mistakes whose forward outputs these are, where those are wrong and there are gradients as well."""
        forward = {name: array for name, array in self.given.items() if not name.startswith("d_")}
        compared = compare(self.vector, forward, self.dtype)
        if len(forward) == len(self.given) or all(comparison.passed for comparison in compared.values()):
            return []
        named = [m for m in self.applicable if m.name in self.made]
        return [(m,) for m in named if matches(forward, self.made[m.name], self.vector, self.dtype)]

    def explained_by(self, combination: Combination) -> bool:
        """Whether these are the outputs of two mistakes."""
        outputs = _tried(combination, self.vector)
        return outputs is not None and self._are(outputs)

    def pairs(self) -> list[Combination]:
        """Pairs of mistakes whose outputs these are."""
        short = _Short(self)
        return [pair for pair in self._candidates() if short.explained_by(pair) and self.explained_by(pair)]

    def _candidates(self) -> Iterable[Combination]:
        """Pairs that can be: of one that changes the forward pass and one that does not, the first has to fit it."""
        known = [mistake for mistake in self.applicable if mistake.name in self.made]
        if self.vector.case.kind in _BY_UPDATE:
            return [(a, b) for a in known for b in known if a is not b]
        forward = {name for name in self.given if not name.startswith("d_")}
        seen = {name: self.given[name] for name in forward}

        def has(outputs: Arrays, like: Arrays) -> bool:
            return not forward or matches({n: like[n] for n in forward}, outputs, self.vector, self.dtype)

        backward = [m for m in known if has(self.made[m.name], self.vector.expected)]
        changing = [m for m in known if m not in backward]
        if not forward or has(self.vector.expected, seen):
            return [(a, b) for a in backward for b in backward if a is not b]
        fitting = [m for m in changing if has(self.made[m.name], seen)]
        mixed = [pair for a in fitting for b in backward for pair in ((a, b), (b, a))]
        return mixed + [(a, b) for a in changing for b in changing if a is not b]


class _Short(_Failure):
    """The first two updates alone, which are quick to compute; other cases as they are."""

    def __init__(self, whole: _Failure) -> None:
        self.vector, self.given, self.dtype = whole.vector, whole.given, whole.dtype
        by_update = _BY_UPDATE.get(whole.vector.case.kind)
        if by_update is not None:
            case = whole.vector.case
            inputs = case.inputs | {name: case.inputs[name][:2] for name in by_update}
            expected = {name: array[:2] for name, array in whole.vector.expected.items()}
            self.vector = replace(whole.vector, case=replace(case, inputs=inputs), expected=expected)
            self.given = {name: array[:2] for name, array in whole.given.items()}


def _tried(combination: Combination, vector: Vector) -> Arrays | None:
    """The outputs with these mistakes; None where they do not go together."""
    try:
        return made(combination, vector)
    except (ValueError, KeyError, TypeError, IndexError, ArithmeticError, np.linalg.LinAlgError):
        return None


def diagnose(chosen: Sequence[Vector], results: Sequence[Result], given: dict[str, Arrays], dtype: str) -> list[Result]:
    """Say of every failed case what is wrong.

    Parameters
    ----------
    chosen : sequence of Vector
        The cases that were run.
    results : sequence of Result
        What was found, in the same order.
    given : dict of str to dict of str to array
        The outputs that were given, by the case's name.
    dtype : str
        "float64" or "float32".

    Returns
    -------
    list of Result
        The results, those that failed with outputs with a diagnosis.
    """
    with np.errstate(all="ignore"):
        return _diagnoses(chosen, results, given, dtype)


def _diagnoses(
    chosen: Sequence[Vector], results: Sequence[Result], given: dict[str, Arrays], dtype: str
) -> list[Result]:
    failures = {
        vector.id: _Failure(vector, _of_right_shape(vector, given[vector.id]), dtype)
        for vector, result in zip(chosen, results, strict=True)
        if result.status == FAILED and _of_right_shape(vector, given[vector.id])
    }
    found: dict[str, list[Combination]] = {}
    for group in _by_subject(failures.values()):
        found |= _explanations(group)
    return [
        _diagnosed(result, failures[result.id], given[result.id], found[result.id]) if result.id in failures else result
        for result in results
    ]


def _of_right_shape(vector: Vector, given: Arrays) -> Arrays:
    """What can be compared: all of the given outputs, or none where one is not of its shape and type."""
    good = all(
        a.shape == vector.expected[name].shape and fits(a.dtype, vector.expected[name].dtype) and np.isfinite(a).all()
        for name, a in given.items()
    )
    return given if good else {}


def _by_subject(failures: Iterable[_Failure]) -> list[list[_Failure]]:
    groups: dict[tuple[str, str], list[_Failure]] = {}
    for failure in failures:
        case = failure.vector.case
        groups.setdefault((case.kind, subject(case)), []).append(failure)
    return list(groups.values())


def _explanations(group: list[_Failure]) -> dict[str, list[Combination]]:
    """Case -> the combinations that explain it, those first that explain most of the group."""
    found = {failure.vector.id: list(failure.singles) for failure in group}
    open_ones = [failure for failure in group if not failure.singles and failure.vector.case.kind != "train"]
    pairs: list[Combination] = []
    for failure in sorted(open_ones, key=_size)[:_TRIED]:
        if not any(failure.explained_by(pair) for pair in pairs):
            pairs += failure.pairs()
    for failure in open_ones:
        found[failure.vector.id] = [pair for pair in pairs if failure.explained_by(pair)]
    counts = Counter(_names(c) for combinations in found.values() for c in combinations)
    return {id: _most(combinations, counts) for id, combinations in found.items()}


def _size(failure: _Failure) -> int:
    return sum(array.size for array in failure.vector.case.inputs.values())


def _names(combination: Combination) -> tuple[str, ...]:
    return tuple(sorted(mistake.name for mistake in combination))


def _most(combinations: list[Combination], counts: Counter[tuple[str, ...]]) -> list[Combination]:
    """Those with the highest count, one of each order."""
    highest = max((counts[_names(c)] for c in combinations), default=0)
    return list({_names(c): c for c in reversed(combinations) if counts[_names(c)] == highest}.values())[::-1]


def subject(case: Case) -> str:
    """What a case is of: its cell, map, algorithm, optimizer, activation, loss or task."""
    config = case.config
    if case.kind == "train":
        return "the training of NC-GRU"
    name = next(
        (
            config[key]
            for key in ("cell", "parametrization", "algorithm", "activation", "loss", "task")
            if key in config
        ),
        "",
    )
    return str(name or config["optimizer"]["name"])


def _diagnosed(result: Result, failure: _Failure, given: Arrays, combinations: list[Combination]) -> Result:
    if not (combinations or failure.of_forward):
        return replace(result, diagnosis=right_and_wrong(failure.vector, given, failure.dtype))
    own, what, end = combinations, "your outputs equal", ""
    if not combinations:
        own, what, end = failure.of_forward, "your forward outputs equal", "; your gradients do not"
    says = [" and with ".join(mistake.says for mistake in c) for c in own[:_SHOWN]]
    more = f", or {len(own) - _SHOWN} more" if len(own) > _SHOWN else ""
    names = tuple(tuple(mistake.name for mistake in c) for c in own)
    text = f"{what} {subject(failure.vector.case)} with {'; or with '.join(says)}{more}{end}"
    return replace(result, mistakes=names, diagnosis=text)


def right_and_wrong(vector: Vector, given: Arrays, dtype: str) -> str:
    """Which outputs are right and which wrong, and what can be said of the wrong ones.

    Parameters
    ----------
    vector : Vector
        The case with its answer.
    given : dict of str to array
        The outputs that were given, at least one of them wrong.
    dtype : str
        "float64" or "float32".

    Returns
    -------
    str
        In one line.
    """
    compared = compare(vector, given, dtype)
    wrong = [name for name, comparison in compared.items() if not comparison.passed]
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
    skewed = any(_hint(name, vector, given, dtype) == "not skew" for name in wrong)
    if (
        dtype == "float64"
        and not skewed
        and all(compared[name].error <= tolerance(vector.case.kind, "float32") for name in wrong)
    ):
        parts.append("right to single precision: something is computed in float32")
    hints: dict[str, list[str]] = {}
    for name in forward_wrong or wrong:
        if hint := _hint(name, vector, given, dtype):
            hints.setdefault(hint, []).append(name)
    parts += [f"{shortened(names, compared)}: {hint}" for hint, names in list(hints.items())[:_SHOWN]]
    if len(wrong) == 1 and not forward_wrong and forward:
        name = wrong[0].removeprefix("d_").rpartition(".")[2]
        parts.append(f"look at what multiplies {name} in backward")
    return "; ".join(parts)


def _hint(name: str, vector: Vector, given: Arrays, dtype: str) -> str:
    """A factor, a transpose, a conjugate, or the first step that is off."""
    ours, theirs = vector.expected[name], given[name].astype(np.float64)

    def equal(array: np.ndarray) -> bool:
        return array.shape == ours.shape and compare(vector, {name: array}, dtype)[name].passed

    factor = float((ours * theirs).sum() / (ours * ours).sum()) if ours.any() else 0.0
    if theirs.any() and factor and abs(factor - 1) > 1e-3 and equal(theirs / factor):
        return f"{factor:.6g} times what is expected"
    if not theirs.any():
        return "all zeros"
    if name.endswith(".A") and _skew(ours, 0.0) and not _skew(theirs, tolerance("parametrization", dtype)):
        return "not skew"
    if theirs.ndim >= 2 and equal(np.swapaxes(theirs, 0, 1)):
        return "the transpose of what is expected"
    if theirs.shape[-1:] == (2,) and equal(theirs * [1, -1]):
        return "the conjugate of what is expected"
    if name == "d_x" and equal(_only(ours, theirs, -1)):
        last = max(i for i in range(len(ours)) if not equal(_only(ours, theirs, i)))
        return f"right from entry {last + 1} on"
    if name in _BY_STEP and theirs.ndim and vector.case.kind not in ("parametrization", "loss"):
        first = next(i for i in range(len(ours)) if not equal(_only(ours, theirs, i)))
        return f"off from entry {first} on" if first > _BY_STEP[name] else ""
    return ""


def _skew(A: np.ndarray, limit: float) -> bool:
    """Whether matrices, one or one for each update, are skew to `limit` of the largest entry."""
    return bool(np.abs(A + np.swapaxes(A, -1, -2)).max(initial=0) <= limit * np.abs(A).max(initial=0))


def _only(ours: np.ndarray, theirs: np.ndarray, i: int) -> np.ndarray:
    """What is expected, with entry i as it was given."""
    mixed = ours.copy()
    mixed[i] = theirs[i]
    return mixed
