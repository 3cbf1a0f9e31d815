"""Complex states and weights."""

from typing import Any

from ortho_ref.conformance.cases.case import Case
from ortho_ref.conformance.mistakes.applies import is_complex, off_kinks, sequence
from ortho_ref.conformance.mistakes.mistake import Family, conjugate, read_as, through
from ortho_ref.conformance.mistakes.through_time import stepping

MISTAKES = Family()
M, named = MISTAKES.add, MISTAKES.named


def _complex_case(case: Case) -> bool:
    return is_complex(case) and (case.kind == "cell" or (case.kind == "activation" and off_kinks(case)))


COMPLEX_ONES = ("d_h0", "d_weights.W", "d_weights.U", "d_a")
M(
    "gradient-conjugated",
    "gradients of complex arrays conjugated (JAX, autograd)",
    _complex_case,
    through(conjugate, (), COMPLEX_ONES),
)


def _complex_elman(case: Case) -> bool:
    return sequence("elman")(case) and is_complex(case)


@named("U^T-for-U^H", "U^T in place of U^H on the way back", _complex_elman, stepping)
def _not_conjugated(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    dx, _, dweights = own(w, dh, cache)
    return dx, own({**w, "U": w["U"].conj()}, dh, cache)[1], dweights


M("U-conjugated", "U conjugated", _complex_elman, read_as(conjugate, conjugate, "weights.U"))
