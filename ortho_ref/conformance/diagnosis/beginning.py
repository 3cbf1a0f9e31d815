"""What mistakes give for a case, and for its beginning alone, which is quick to compute: a try that fails there ends.

The first two updates, or the first step of the first sequence; other kinds have no beginning.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case, Vector
from ortho_ref.conformance.compare import Matcher
from ortho_ref.conformance.diagnosis.switches import shortest
from ortho_ref.conformance.mistakes.mistake import Mistake, made

Combination: TypeAlias = tuple[Mistake, ...]  # one, or several: the first around the next

#: Outputs of a cell, of which entry 0 is what was given, not computed.
_STATES = ("h", "c")
#: How far outputs of the beginning may be from the beginning of the outputs.
_SAME = 1e-12


class Beginning:
    """The beginning of a case, with what was given for it; answer and outputs are `parted`, also those of `whole`.

    Of a cell nothing is said of a mistake that computes the beginning of the whole case otherwise: one that reads x
    from its end, or mixes sequences.  Updates follow from those before.
    """

    def __init__(
        self, vector: Vector, given: Arrays, dtype: str, whole: Callable[[Combination], Arrays | None]
    ) -> None:
        self._kind, self._whole = vector.case.kind, whole
        self._begins: dict[str, bool] = {}
        self._matcher: Matcher | None = None
        if self._kind in _BEGINNING:
            case, expected = _BEGINNING[self._kind](vector.case), self._first(vector.expected)
            self._vector = replace(vector, case=case, expected=expected, low={}, high={})
            self._matcher = Matcher(self._first(given), self._vector, dtype) if self._first(given) else None

    def may_be(self, combination: Combination) -> bool:
        """Whether what was given can be of these mistakes, as far as the beginning tells."""
        if self._matcher is None or not all(self._tells(mistake) for mistake in combination):
            return True
        outputs = tried_parts(combination, self._vector)
        return outputs is None or self._matcher.matches(outputs)

    def _tells(self, mistake: Mistake) -> bool:
        """Whether its outputs begin as those of the beginning alone do."""
        if self._kind != "cell":
            return True
        if mistake.name not in self._begins:
            whole, alone = self._whole((mistake,)), tried_parts((mistake,), self._vector)
            self._begins[mistake.name] = (whole is not None and alone is not None) and all(
                n in alone and alone[n].shape == a.shape and np.allclose(alone[n], a, rtol=_SAME, atol=_SAME)
                for n, a in self._first(whole).items()
            )
        return self._begins[mistake.name]

    def _first(self, arrays: Arrays) -> Arrays:
        """Of outputs those that the beginning has, as far as it goes."""
        if self._kind == "cell":
            return {name: arrays[name][:1, :1] for name in _STATES if name in arrays}
        return {name: array[:2] for name, array in arrays.items()}


def _two_updates(case: Case) -> Case:
    own = {name: case.inputs[name][:2] for name in ("dU", "gradient") if name in case.inputs}
    return replace(case, inputs=case.inputs | own)


#: The beginning of a case, of the kinds that have one.
_BEGINNING: dict[str, Callable[[Case], Case]] = {
    "cell": shortest,
    "update": _two_updates,
    "optimizer": _two_updates,
}


def parted(outputs: Arrays, case: Case) -> Arrays:
    """Outputs with h[0] and c[0] apart from what is computed."""
    found: Arrays = {}
    for name, array in outputs.items():
        if case.kind == "cell" and name in _STATES and array.ndim and len(array) > 1:
            found |= {name: array[1:], f"{name}[0]": array[0]}
        else:
            found[name] = array
    return found


def tried(combination: Combination, vector: Vector) -> Arrays | None:
    """The outputs with these mistakes; None where they do not go together."""
    try:
        return made(combination, vector)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, np.linalg.LinAlgError):
        return None


def tried_parts(combination: Combination, vector: Vector) -> Arrays | None:
    """The same, `parted`."""
    outputs = tried(combination, vector)
    return None if outputs is None else parted(outputs, vector.case)
