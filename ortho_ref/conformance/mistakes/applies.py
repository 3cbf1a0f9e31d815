"""To which cases a mistake applies."""

from functools import partial
from typing import Any

from ortho_ref.conformance.cases.case import Case
from ortho_ref.conformance.mistakes.mistake import Predicate

BEFORE = "gru_reset_before"
AFTER = "gru_reset_after"
#: Cell -> its gates, in the order of its products.
GATES = {BEFORE: "ruc", AFTER: "rzh", "lstm": "ifgo"}


def _of_kind(kind: str, key: str, *names: str, **options: Any) -> Predicate:
    """A case of a kind, of one of these names, of any unless given, whose config has these values."""

    def applies(case: Case) -> bool:
        if case.kind != kind or (names and case.config[key] not in names):
            return False
        return all(case.config.get(name) == value for name, value in options.items())

    return applies


#: A case of each kind: sequence("lstm"), of these cells; layer(bias=True), with these options; and so on.
sequence, layer = partial(_of_kind, "cell", "cell"), partial(_of_kind, "layer", "cell")
of, updates = partial(_of_kind, "parametrization", "parametrization"), partial(_of_kind, "update", "algorithm")
loss, linear = partial(_of_kind, "loss", "loss"), partial(_of_kind, "linear", "recurrence")


def phi(case: Case) -> str:
    """The activation that a case is of, "" for none."""
    return str(case.config.get("activation", "")) if case.kind in ("cell", "activation") else ""


def is_complex(case: Case) -> bool:
    """Whether states are complex."""
    return bool(case.config.get("complex"))


def longer(steps: int) -> Predicate:
    """A case of kind cell of more steps."""
    return both(sequence(), lambda case: len(case.inputs["x"]) > steps)


def on(gate: str, *cells: str) -> Predicate:
    """A case of kind cell, of one of these cells, whose gate is on."""
    option = {"r": "reset_gate", "z": "update_gate"}.get(gate, "")
    return both(sequence(*cells), lambda case: bool(case.config.get(option, True)))


def tokens(case: Case) -> bool:
    """Whether a case is of a sequence of tokens."""
    return case.kind == "cell" and case.inputs["x"].dtype.kind == "i"


def off_kinks(case: Case) -> bool:
    """Whether the inputs are off the kinks: on them a range of answers is right."""
    return not case.config.get("kinks")


def either(*predicates: Predicate) -> Predicate:
    """One of these at least."""
    return lambda case: any(applies(case) for applies in predicates)


def both(*predicates: Predicate) -> Predicate:
    """All of these."""
    return lambda case: all(applies(case) for applies in predicates)


def neither(*predicates: Predicate) -> Predicate:
    """None of these."""
    return lambda case: not any(applies(case) for applies in predicates)
