"""Which cases of the conformance kit go through an equation, and which mistakes they show."""

from collections.abc import Iterable
from typing import NamedTuple

from ortho_ref.conformance.case import Vector
from scripts.equations.tags import id_of


class InKit(NamedTuple):
    """Of an equation: ids of cases, names of the mistakes that one of them shows."""

    cases: tuple[str, ...]
    mistakes: tuple[str, ...]


def in_kit(vectors: Iterable[Vector]) -> dict[str, InKit]:
    """For every id that a case names."""
    cases: dict[str, dict[str, tuple[str, ...]]] = {}
    for vector in vectors:
        for name in dict.fromkeys(map(id_of, vector.equations)):
            cases.setdefault(name, {})[vector.id] = vector.kills
    return {
        name: InKit(tuple(own), tuple(dict.fromkeys(mistake for kills in own.values() for mistake in kills)))
        for name, own in cases.items()
    }
