"""To which cases a mistake applies."""

from typing import Any

from ortho_ref.conformance.cases.case import Case
from ortho_ref.conformance.mistakes.mistake import Predicate

BEFORE = "gru_reset_before"
AFTER = "gru_reset_after"
#: Cell -> its gates, in the order of its products.
GATES = {BEFORE: "ruc", AFTER: "rzh", "lstm": "ifgo"}


def cell(case: Case) -> str:
    """The cell that a case is of, "" for none."""
    return str(case.config["cell"]) if case.kind == "cell" else ""


def phi(case: Case) -> str:
    """The activation that a case is of, "" for none."""
    return str(case.config.get("activation", "")) if case.kind in ("cell", "activation") else ""


def is_complex(case: Case) -> bool:
    """Whether states are complex."""
    return bool(case.config.get("complex"))


def sequence(*cells: str) -> Predicate:
    """A case of kind cell, of one of these; of any without an argument."""
    return lambda case: case.kind == "cell" and (not cells or cell(case) in cells)


def longer(steps: int) -> Predicate:
    """A case of kind cell of more steps."""
    return lambda case: case.kind == "cell" and len(case.inputs["x"]) > steps


def layer(**options: Any) -> Predicate:
    """A case of kind layer whose config has these values."""
    return lambda case: case.kind == "layer" and all(case.config.get(name) == value for name, value in options.items())


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


def carries(case: Case) -> bool:
    """Whether a case is of a cell that keeps of its old state."""
    return cell(case) in ("gru_reset_before", "gru_reset_after", "lstm", "fastrnn")


def of(*names: str) -> Predicate:
    """A case of kind parametrization, of one of these."""
    return lambda case: case.kind == "parametrization" and case.config["parametrization"] in names


def updates(*algorithms: str) -> Predicate:
    """Updates by one of these."""
    return lambda case: case.kind == "update" and case.config["algorithm"] in algorithms


def either(*predicates: Predicate) -> Predicate:
    """One of these at least."""
    return lambda case: any(applies(case) for applies in predicates)


def both(*predicates: Predicate) -> Predicate:
    """All of these."""
    return lambda case: all(applies(case) for applies in predicates)
