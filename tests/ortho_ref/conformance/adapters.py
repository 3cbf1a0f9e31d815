"""Implementations and vectors that the tests of the conformance kit share."""

import numpy as np

from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.cases.case import Case, Vector
from ortho_ref.conformance.cases.case_files import vectors

BY_ID = {vector.id: vector for vector in vectors()}


def tried():
    """The cases that every mistake is tried on: all that were written, and of the drawn ones a seeded few.

    Each cell, each shape and each mistake is among those; one step alone is no evidence of a mistake. `make_vectors
    --check` tries every mistake on all of them.
    """
    found = {id for id, vector in BY_ID.items() if not vector.drawn}
    seen = {name for id in found for name in BY_ID[id].kills}
    for id in np.random.default_rng(0).permutation([id for id, vector in BY_ID.items() if vector.drawn]):
        cell, _, name = id.rpartition("/")
        new = {cell, name.rpartition("-")[2]} | (set() if "step" in name else {*BY_ID[str(id)].kills})
        found |= set() if new <= seen else {str(id)}
        seen |= new
    return {id: vector for id, vector in BY_ID.items() if id in found}


TRIED = tried()


def right(case):
    """Everything right: the stored answers, and `reference` for initial values, which are drawn."""
    if case.kind == "initial":
        return reference.outputs(case)
    return {name: array.copy() for name, array in BY_ID[case.id].expected.items()}


def answering(change):
    """An adapter whose outputs are the right ones, changed: `change` takes and gives a dict."""
    return lambda case: change(right(case))


def vector_of(expected, kind="cell", low=None, high=None):
    """A vector made up for a test, with these answers."""
    case = Case("made/up", kind, {}, {}, {name: array.shape for name, array in expected.items()})
    return Vector(case, expected, low or {}, high or {}, (), "made up", (), {})
