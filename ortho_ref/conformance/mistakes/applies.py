"""To which cases a mistake applies."""

from ortho_ref.conformance.case import Case
from ortho_ref.conformance.mistake import Predicate

BEFORE = "gru_reset_before"
AFTER = "gru_reset_after"


def cell(case: Case) -> str:
    """The cell that a case is of, "" for none."""
    of_train = "gru_reset_before" if case.kind == "train" else ""
    return str(case.config.get("cell", of_train)) if case.kind in ("cell", "jacobian", "train") else ""


def phi(case: Case) -> str:
    """The activation that a case is of, "" for none."""
    if case.kind in ("cell", "jacobian", "activation"):
        return str(case.config.get("activation", ""))
    return "modrelu" if case.kind == "train" else ""


def is_complex(case: Case) -> bool:
    """Whether states are complex."""
    return bool(case.config.get("complex"))


def sequence(*cells: str) -> Predicate:
    """A case of kind cell, of one of these; of any without an argument."""
    return lambda case: case.kind == "cell" and (not cells or cell(case) in cells)


def step(*cells: str) -> Predicate:
    """A cell over a sequence, or its Jacobian."""
    return lambda case: case.kind in ("cell", "jacobian") and (not cells or cell(case) in cells)


def on(gate: str, *cells: str) -> Predicate:
    """A case, of kind cell or jacobian, of one of these cells, whose gate is on."""
    option = {"r": "reset_gate", "z": "update_gate"}.get(gate, "")
    return lambda case: step(*cells)(case) and bool(case.config.get(option, True))


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
    """Updates by one of these; training is by neumann_cayley."""

    def applies(case: Case) -> bool:
        own = {"update": case.config.get("algorithm"), "train": "neumann_cayley"}.get(case.kind)
        return own in algorithms

    return applies


def either(*predicates: Predicate) -> Predicate:
    """One of these at least."""
    return lambda case: any(applies(case) for applies in predicates)
