"""What a mistake is: a departure from `reference` in one thing.  `ways` and `patched` have the few ways to make one.

A mistake takes the case and the right way to compute it, so that two can be combined: the one changes inputs or
outputs, or replaces a function for the time being, around the other.  All of it is computed in the kit's own instance
of the modules (`private`): what others compute meanwhile is as ever.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case, Departed, Vector
from ortho_ref.conformance.mistakes.private import LOCK, private

reference = private("ortho_ref.conformance.cases.reference")

Base: TypeAlias = Callable[[Case], Arrays]
Predicate: TypeAlias = Callable[[Case], bool]
Outputs: TypeAlias = Callable[[Case, Base], Arrays]


class Mistake(NamedTuple):
    """A wrong version, as a row of a family's table."""

    name: str
    says: str  # in words, after "equal the reference with"
    applies: Predicate  # applies(case) -> whether it is a mistake of this case
    outputs: Outputs  # outputs(case, base) -> its outputs, of a case and the right way to compute it, base(case)
    paired: bool = True  # looked for beside another: not one of many of a kind, whose pairs are too many to try


def table(*rows: tuple[Any, ...]) -> list[Mistake]:
    """Mistakes in the order in which they are listed: of each its name, its words, its cases and what is changed."""
    return [Mistake(*row) for row in rows]


def right(vector: Vector) -> Base:
    """The right way to compute a vector's case and changed forms of it: of a `Departed` one with what is assumed."""
    base: Base = reference.outputs
    return _with(vector.assumed, right(vector.whole)) if isinstance(vector, Departed) else base


def made(mistakes: Sequence[Mistake], vector: Vector) -> Arrays:
    """What an implementation with these mistakes gives, the first around the next; raises what they raise."""
    with LOCK, np.errstate(all="ignore"):
        return _with(mistakes, right(vector))(vector.case)


def _with(mistakes: Sequence[Mistake], run: Base) -> Base:
    return reduce(lambda base, mistake: lambda case: mistake.outputs(case, base), reversed(mistakes), run)


def given(case: Case, own: Arrays | None = None, **config: Any) -> Case:
    """The case with these inputs, and these values of its config, in place of its own."""
    return replace(case, inputs={**case.inputs, **(own or {})}, config={**case.config, **config})


def without(case: Case, *names: str) -> Case:
    """The case without these inputs."""
    return replace(case, inputs={name: a for name, a in case.inputs.items() if name not in names})
