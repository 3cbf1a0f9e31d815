"""Complex states and weights."""

from typing import Any

from ortho_ref.conformance.case import Arrays, Case
from ortho_ref.conformance.mistake import Family, altered, conjugate, read_as
from ortho_ref.conformance.mistakes.applies import is_complex, off_kinks, sequence
from ortho_ref.conformance.mistakes.through_time import stepping

MISTAKES = Family()
M = MISTAKES.add


def _complex_case(case: Case) -> bool:
    return is_complex(case) and (case.kind == "cell" or (case.kind == "activation" and off_kinks(case)))


def _conjugated(case: Case, found: Arrays) -> Arrays:
    complex_ones = ("d_h0", "d_weights.W", "d_weights.U", "d_a")
    return {name: found[name] * [1, -1] for name in complex_ones if name in found}


M("gradient-conjugated", "gradients of complex arrays conjugated (JAX, autograd)", _complex_case, altered(_conjugated))


def _not_conjugated(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    """U^T in place of U^H."""
    dx, _, dweights = own(w, dh, cache)
    return dx, own({**w, "U": w["U"].conj()}, dh, cache)[1], dweights


M(
    "U^T-for-U^H",
    "U^T in place of U^H on the way back",
    lambda case: sequence("elman")(case) and is_complex(case),
    stepping(_not_conjugated),
)
M(
    "U-conjugated",
    "U conjugated",
    lambda case: sequence("elman")(case) and is_complex(case),
    read_as(conjugate, conjugate, "weights.U"),
)
