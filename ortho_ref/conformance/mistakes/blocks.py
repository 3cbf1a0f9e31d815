"""One gate's weights alone, and the blocks of two gates exchanged: stacked weights that are taken apart wrongly."""

from collections.abc import Iterator
from itertools import combinations

from ortho_ref.conformance.mistakes.applies import GATES, both, on, sequence
from ortho_ref.conformance.mistakes.changes import nothing, transposed
from ortho_ref.conformance.mistakes.gates import plus_one, two_biases
from ortho_ref.conformance.mistakes.mistake import Mistake, Predicate
from ortho_ref.conformance.mistakes.ways import exchanged, read_as

#: Exchanged with all their weights among `gates`, under names of their own.
_WHOLE = ("ru", "rz", "go", "fg", "if")


def _beside_others(gate: str) -> Predicate:
    """A case whose cell has this gate and others."""
    cells = [cell for cell, gates in GATES.items() if gate in gates]
    return both(on(gate, *cells), lambda case: sum(name.startswith("weights.U_") for name in case.inputs) > 1)


def _of_one() -> Iterator[Mistake]:
    for gate in dict.fromkeys("".join(GATES.values())):
        applies, b = _beside_others(gate), f"weights.b_{gate}"
        yield Mistake(f"bias-{gate}-missing", f"no b_{gate}", applies, read_as(nothing, b))
        if gate != "f":  # which is the forget gate, and among `gates`
            yield Mistake(f"bias-{gate}-plus-one", f"1 added to b_{gate}", applies, plus_one(b))
        U = read_as(transposed, f"weights.U_{gate}")
        yield Mistake(f"U_{gate}-transposed", f"U_{gate} transposed", applies, U)


def _of_two() -> Iterator[Mistake]:
    for a, b in dict.fromkeys(pair for gates in GATES.values() for pair in combinations(gates, 2)):
        applies, pair = both(_beside_others(a), _beside_others(b)), {a: b, b: a}
        if a + b not in _WHOLE:
            yield Mistake(f"{a}-{b}-swapped", f"the weights of {a} and {b} exchanged", applies, exchanged(**pair))
        for kind in "WUb":
            first, second, swap = f"{kind}_{a}", f"{kind}_{b}", exchanged(kind, **pair)
            yield Mistake(f"{first}-{second}-swapped", f"{first} and {second} exchanged", applies, swap, paired=False)


MISTAKES = [
    *_of_one(),
    Mistake("bias-plus-one", "1 added to the bias", sequence("elman", "fastrnn"), plus_one("weights.b")),
    *_of_two(),
    # Not in pairs: with b_hh outside as well, both biases are inside the reset, which nobody would know by these words.
    Mistake("b_h-b_hh-swapped", "b_h and b_hh exchanged", two_biases, exchanged("b", h="hh", hh="h"), paired=False),
]
