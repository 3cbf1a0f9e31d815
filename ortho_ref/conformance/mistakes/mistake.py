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

from ortho_ref.conformance.cases.case import Arrays, Case, Vector
from ortho_ref.conformance.mistakes.private import LOCK, private

reference = private("ortho_ref.conformance.cases.reference")

Base: TypeAlias = Callable[[Case], Arrays]
Predicate: TypeAlias = Callable[[Case], bool]
Outputs: TypeAlias = Callable[[Case, Base], Arrays]
Combination: TypeAlias = tuple["Mistake", ...]  # one, or several: the first around the next


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


def made(mistakes: Sequence[Mistake], vector: Vector) -> Arrays:
    """What an implementation with these mistakes gives, the first around the next and all around what is assumed.

    Raises what they raise.
    """
    ways = [mistake.outputs for mistake in (*mistakes, *vector.assumed)]
    with LOCK, np.errstate(all="ignore"):
        return chained(*ways)(vector.case, reference.outputs)


def tried(mistakes: Combination, vector: Vector) -> Arrays | None:
    """The same; None where they do not go together."""
    try:
        return made(mistakes, vector)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
        return None


def chained(*ways: Outputs) -> Outputs:
    """The first around the next."""

    def outputs(case: Case, base: Base) -> Arrays:
        return reduce(lambda run, way: lambda own: way(own, run), reversed(ways), base)(case)

    return outputs


def by_case(make: Callable[[Case], Outputs]) -> Outputs:
    """The way that make(case) is."""
    return lambda case, base: make(case)(case, base)


def given(case: Case, own: Arrays | None = None, **config: Any) -> Case:
    """The case with these inputs, and these values of its config, in place of its own."""
    return replace(case, inputs={**case.inputs, **(own or {})}, config={**case.config, **config})


def without(case: Case, *names: str) -> Case:
    """The case without these inputs."""
    return replace(case, inputs={name: a for name, a in case.inputs.items() if name not in names})
