"""A failing case, with what was given for it: which mistakes it can have, and whose outputs it has.

Every output is judged apart: one that is missing, of another shape, or not finite silences no other.  So is h[0], which
is h_0 and says nothing of the steps.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case, Vector
from ortho_ref.conformance.compare import Matcher, fits
from ortho_ref.conformance.diagnosis.seen import is_seen
from ortho_ref.conformance.mistakes.mistake import Combination, Mistake, tried


class Partly(NamedTuple):
    """Mistakes that explain most of the outputs."""

    combination: Combination  # which
    but: tuple[str, ...]  # the outputs that they do not explain
    outputs: Arrays  # those of an implementation with these mistakes


class Failure:
    """A failing case, with the outputs that were given for it, and the mistakes to be tried, where they apply."""

    def __init__(self, vector: Vector, given: Arrays, dtype: str, mistakes: Iterable[Mistake]) -> None:
        self.vector, self.dtype = vector, dtype
        #: Of the given outputs those that can be compared; and these once more, h[0] apart from h.
        self.usable = {name: a for name, a in given.items() if comparable(a, vector.expected[name])}
        self.given = parted(self.usable, vector.case)
        self._parts = replace(vector, expected=parted(vector.expected, vector.case))
        self.applicable: list[Mistake] = []  # those that apply
        self.add(mistakes)
        self._made: dict[tuple[str, ...], Arrays | None] = {}

    def add(self, mistakes: Iterable[Mistake]) -> None:
        """Mistakes to be tried, where they apply."""
        assumed, case = {m.name for m in self.vector.assumed}, (self.vector.whole or self.vector).case
        self.applicable += [m for m in mistakes if m.name not in assumed and m.applies(case)]
        self.__dict__.pop("singles", None)

    @property
    def id(self) -> str:
        """The case's name."""
        return self.vector.id

    @property
    def answer(self) -> Arrays:
        """The right outputs, h[0] apart."""
        return self._parts.expected

    @property
    def degenerate(self) -> bool:
        """Whether much that is wrong is alike here: one step alone."""
        steps = self.vector.case.inputs.get({"cell": "x", "linear": "do"}.get(self.vector.case.kind, ""))
        return steps is not None and len(steps) == 1

    @cached_property
    def _matcher(self) -> Matcher:
        return self.matcher(self.given)

    @cached_property
    def seen(self) -> bool:
        """Whether anybody can see what every wrong output is: it is told, where no one mistake has these outputs."""
        return is_seen(self.vector, self.usable, self.dtype)

    @property
    def wrong(self) -> frozenset[str]:
        """The outputs that are wrong, "h[0]" apart."""
        return self._matcher.wrong

    @property
    def forward(self) -> Arrays:
        """What was given that is no gradient."""
        return {name: array for name, array in self.given.items() if not name.startswith("d_")}

    def matcher(self, given: Arrays) -> Matcher:
        """Some of the parts of `given`, or of other outputs, to be held against those of mistakes."""
        return Matcher(given, self._parts, self.dtype)

    def outputs(self, combination: Combination) -> Arrays | None:
        """The outputs with these mistakes, h[0] apart; None where they do not go together.  Of one they are kept."""
        key = tuple(mistake.name for mistake in combination)
        if key in self._made:
            return self._made[key]
        found = _tried_parts(combination, self.vector)
        if len(key) == 1:
            self._made[key] = found
        return found

    @cached_property
    def singles(self) -> list[Combination]:
        """Mistakes whose outputs these are."""
        return [(m,) for m in self.applicable if self.explained_by((m,))] if self.given else []

    def explained_by(self, combination: Combination) -> bool:
        """Whether these are the outputs of mistakes, all of which apply; around what is assumed, or within it."""
        if not all(mistake in self.applicable for mistake in combination):
            return False
        outputs = self.outputs(combination)
        if outputs is not None and self._matcher.matches(outputs):
            return True
        return self._departs((*self.vector.assumed, *combination))

    def _departs(self, combination: Combination) -> bool:
        """Whether something is assumed, and the outputs are those of these departures from the kit's own answer."""
        outputs = None if self.vector.whole is None else _tried_parts(combination, self.vector.whole)
        return outputs is not None and self._matcher.matches(outputs)

    def without(self) -> Combination:
        """Assumed departures that the outputs do not have; () where it is not that."""
        every = self.vector.assumed
        ways = (missing for count in range(1, len(every) + 1) for missing in combinations(every, count))
        return next((own for own in ways if self._departs(tuple(m for m in every if m not in own))), ())

    def partly(self, ways: Iterable[Combination]) -> list[Partly]:
        """The mistakes that fit best, where none fits every output: those that leave the fewest.

        All wrong outputs of the forward pass are theirs, where there are any; of the rest they have more wrong ones
        than they leave, or the forward pass is wrong.
        """
        found = []
        for combination in ways:
            own = all(mistake in self.applicable for mistake in combination)
            if not own or (outputs := self.outputs(combination)) is None:
                continue
            but = tuple(self._matcher.unmatched(outputs))
            if but and self._most(frozenset(but)):  # none is left: then it had too little evidence
                found.append(Partly(combination, but, outputs))
        fewest = min((len(one.but) for one in found), default=0)
        return [one for one in found if len(one.but) == fewest]

    def _most(self, but: frozenset[str]) -> bool:
        """Whether what is left over is little enough for a name."""
        explained, computed = self.wrong - but, self.forward.keys() - {"h[0]", "c[0]"}
        if not explained:
            return False
        if self.wrong & computed:
            return not but & computed
        return len(but) <= max(1, len(self.given) // 4) and len(explained) > len(but)


def parted(outputs: Arrays, case: Case) -> Arrays:
    """Outputs with h[0] and c[0] apart from what is computed."""
    found: Arrays = {}
    for name, array in outputs.items():
        if case.kind == "cell" and name in ("h", "c") and array.ndim and len(array) > 1:
            found |= {name: array[1:], f"{name}[0]": array[0]}
        else:
            found[name] = array
    return found


def _tried_parts(combination: Combination, vector: Vector) -> Arrays | None:
    outputs = tried(combination, vector)
    return None if outputs is None else parted(outputs, vector.case)


def comparable(given: np.ndarray, expected: np.ndarray) -> bool:
    """Whether an output can be held against the right one."""
    return given.shape == expected.shape and fits(given.dtype, expected.dtype) and bool(np.isfinite(given).all())
