"""The forward pass alone, for inference engines: in float64 and float32, and in float16 and bfloat16.

In half precision the inputs are rounded first, and the reference answers for the rounded ones, in float64: what is left
is the implementation's own rounding.  Cases of more than `SHORT` steps are left out there, where a state that moves by
less than its own rounding stands still, those on kinks, and those whose weights a map makes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ortho_ref.conformance.cases.case import HALF, Vector, in_precision
from ortho_ref.conformance.compare import SHORT

#: Kinds that have outputs which are no gradients; in half precision those that frameworks have in it.
KINDS = ("cell", "layer", "parametrization", "activation", "loss", "linear")
IN_HALF = ("cell", "layer", "activation", "loss")


def forward_of(chosen: Sequence[Vector], dtype: str) -> list[Vector]:
    """The cases that can be judged by their forward pass, with its outputs alone.  ValueError where there is none."""
    kept = [vector for vector in chosen if has_forward(vector, dtype)]
    if not kept:
        raise ValueError(f"no case that was chosen has a forward pass to judge in {dtype}")
    return [_alone(_rounded(vector, dtype) if dtype in HALF else vector) for vector in kept]


def has_forward(vector: Vector, dtype: str) -> bool:
    """Whether a case can be judged by its forward pass in a precision."""
    case = vector.case
    if dtype not in HALF:
        return case.kind in KINDS
    if case.kind not in IN_HALF or case.config.get("kinks", False) or case.config.get("parametrized") is not None:
        return False
    steps = max(case.inputs["x"].shape[:2]) if case.kind in ("cell", "layer") else 1
    drawn = vector.drawn or {"arrays": {}}
    scaled = any(own.get("power") for own in drawn["arrays"].values())  # beyond what float16 has
    return steps <= SHORT and not scaled


def _alone(vector: Vector) -> Vector:
    def own(named: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in named.items() if not name.startswith("d_")}

    case = replace(vector.case, outputs=own(vector.case.outputs))
    return replace(vector, case=case, expected=own(vector.expected), low=own(vector.low), high=own(vector.high))


def _rounded(vector: Vector, dtype: str) -> Vector:
    # here, not above: importing the kit need not wait for every model
    from ortho_ref.conformance.cases import reference

    inputs = {
        name: in_precision(a, dtype).astype("float64") if a.dtype.kind == "f" else a
        for name, a in vector.case.inputs.items()
    }
    case = replace(vector.case, inputs=inputs)
    return replace(vector, case=case, expected=reference.outputs(case))
