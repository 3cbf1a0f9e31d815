"""Implementations and vectors that the tests of the conformance kit share."""

from ortho_ref.conformance import reference
from ortho_ref.conformance.case import Case, Vector
from ortho_ref.conformance.case_files import vectors

BY_ID = {vector.id: vector for vector in vectors()}


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
