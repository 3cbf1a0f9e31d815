"""Implementations and vectors that the tests of the conformance kit share."""

import numpy as np

from ortho_ref.backend import to_device, to_host
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.cases.case import Case, Vector, joined, parted
from ortho_ref.conformance.cases.case_files import vectors
from ortho_ref.trees import under

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


def cell_by(engine, case, device="cpu"):
    """A cell over a sequence, and its gradients, by an engine on a device."""
    cell, parts = reference.cell_of(case.config), reference.complex_inputs(case)
    inputs = to_device({name: joined(a) if name in parts else a for name, a in case.inputs.items()}, device)
    weights = under("weights.", inputs)
    h0, dh_T = (state_of(tuple(inputs[role.format(n)] for n in cell.states)) for role in ("{}0", "d{}_T"))
    states, tape = engine.forward(cell, weights, inputs["x"], h0)
    gradients = engine.backward(cell, weights, tape, inputs["dh"], dh_T)
    found = dict(zip(cell.states, parts_of(cell, states), strict=True))
    found |= {f"d_{n}0": part for n, part in zip(cell.states, parts_of(cell, gradients.h0), strict=True)}
    found |= {f"d_weights.{name}": gradient for name, gradient in gradients.weights.items()}
    found |= {} if gradients.x is None else {"d_x": gradients.x}
    return {name: parted(array) for name, array in to_host(found).items()}


def vector_of(expected, kind="cell", low=None, high=None):
    """A vector made up for a test, with these answers."""
    case = Case("made/up", kind, {}, {}, {name: array.shape for name, array in expected.items()})
    return Vector(case, expected, low or {}, high or {}, (), "made up", (), {})
