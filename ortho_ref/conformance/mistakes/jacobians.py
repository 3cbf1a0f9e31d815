"""The Jacobian of one step."""

from typing import Any

from ortho_ref.conformance.mistake import Family, altered, nothing
from ortho_ref.conformance.mistakes.applies import carries
from ortho_ref.conformance.mistakes.through_time import stepping

MISTAKES = Family()
M = MISTAKES.add


M(
    "J-transposed",
    "J transposed: columns by h_t",
    lambda case: case.kind == "jacobian",
    altered(lambda case, found: {"J": found["J"].T}),
)


def _carry_alone(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    dx, _, dweights = own(w, dh, cache)
    return dx, own({name: nothing(a) if name[0] == "U" else a for name, a in w.items()}, dh, cache)[1], dweights


M(
    "J-carried-alone",
    "the part of J through what is kept, alone",
    lambda case: case.kind == "jacobian" and carries(case),
    stepping(_carry_alone),
)
