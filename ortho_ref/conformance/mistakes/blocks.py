"""One gate's weights alone, and the blocks of two gates exchanged: stacked weights that are taken apart wrongly."""

from collections.abc import Callable
from itertools import combinations

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import AFTER, BEFORE, on, sequence
from ortho_ref.conformance.mistakes.mistake import Family, Predicate, exchanged, fed, nothing, read_as, transposed

MISTAKES = Family()
M = MISTAKES.add

GATES = {BEFORE: "ruc", AFTER: "rzh", "lstm": "ifgo"}
#: Exchanged with all their weights among `gates`, under names of their own.
_WHOLE = ("ru", "rz", "go", "fg", "if")


def _beside_others(gate: str) -> Predicate:
    """A case whose cell has this gate and others."""
    cells = [cell for cell, gates in GATES.items() if gate in gates]
    return lambda case: on(gate, *cells)(case) and sum(name.startswith("weights.U_") for name in case.inputs) > 1


def plus(number: float, name: str) -> Callable[[Case], Arrays]:
    """A number added to a weight."""
    return lambda case: {name: case.inputs[name] + number}


for gate in dict.fromkeys("".join(GATES.values())):
    applies, b = _beside_others(gate), f"weights.b_{gate}"
    M(f"bias-{gate}-missing", f"no b_{gate}", applies, read_as(nothing, nothing, b))
    if gate != "f":  # which is the forget gate, and among `gates`
        M(f"bias-{gate}-plus-one", f"1 added to b_{gate}", applies, fed(plus(1, b)))
    M(f"U_{gate}-transposed", f"U_{gate} transposed", applies, read_as(transposed, transposed, f"weights.U_{gate}"))
M("bias-plus-one", "1 added to the bias", sequence("elman", "fastrnn"), fed(plus(1, "weights.b")))


def _has(first: str, second: str) -> Predicate:
    return lambda case: _beside_others(first)(case) and _beside_others(second)(case)


for first, second in dict.fromkeys(pair for gates in GATES.values() for pair in combinations(gates, 2)):
    both = {first: second, second: first}
    if first + second not in _WHOLE:
        M(
            f"{first}-{second}-swapped",
            f"the weights of {first} and {second} exchanged",
            _has(first, second),
            exchanged(both),
        )
    for kind in "WUb":
        M(
            f"{kind}_{first}-{kind}_{second}-swapped",
            f"{kind}_{first} and {kind}_{second} exchanged",
            _has(first, second),
            exchanged(both, kind),
            paired=False,
        )


def _two_biases(case: Case) -> bool:
    return sequence(AFTER)(case) and bool(case.config["recurrent_bias"])


# Not in pairs: with b_hh outside as well, both biases are inside the reset, which nobody would know by these words.
M("b_h-b_hh-swapped", "b_h and b_hh exchanged", _two_biases, exchanged({"h": "hh", "hh": "h"}, "b"), paired=False)
