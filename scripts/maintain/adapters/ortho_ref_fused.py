"""ortho_ref's own fused engine: every case is to pass.

python -m ortho_ref.conformance run --adapter scripts/maintain/adapters/ortho_ref_fused.py
"""

from types import ModuleType

from ortho_ref import fused
from ortho_ref.backend import to_device, to_host
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.conformance import Case
from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.cases.case import Arrays, joined, parted
from ortho_ref.trees import under


def run(case: Case) -> Arrays:
    """Every output of every kind."""
    return cell(case) if case.kind == "cell" else reference.outputs(case)


def cell(case: Case, engine: ModuleType = fused, device: str = "cpu") -> Arrays:
    """By an engine, on a device."""
    own, parts = reference.cell_of(case.config), reference.complex_inputs(case)
    inputs = to_device({name: joined(a) if name in parts else a for name, a in case.inputs.items()}, device)
    weights = under("weights.", inputs)
    h0, dh_T = (state_of(tuple(inputs[role.format(n)] for n in own.states)) for role in ("{}0", "d{}_T"))
    states, tape = engine.forward(own, weights, inputs["x"], h0)
    gradients = engine.backward(own, weights, tape, inputs["dh"], dh_T)
    found = dict(zip(own.states, parts_of(own, states), strict=True))
    found |= {f"d_{n}0": part for n, part in zip(own.states, parts_of(own, gradients.h0), strict=True)}
    found |= {f"d_weights.{name}": gradient for name, gradient in gradients.weights.items()}
    found |= {} if gradients.x is None else {"d_x": gradients.x}
    return {name: parted(array) for name, array in to_host(found).items()}
