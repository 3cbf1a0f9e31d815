"""Which mistakes a case shows."""

from ortho_ref.backend import NotFiniteError
from ortho_ref.conformance.cases.case import Vector
from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.conformance.mistakes.mistake import Mistake, made
from ortho_ref.conformance.report import FAILED, PARTIAL
from ortho_ref.conformance.running.runner import run_one


def kills(vector: Vector) -> list[str]:
    """The names of the mistakes that do not pass a case."""
    return [mistake.name for mistake in MISTAKES if mistake.applies(vector.case) and killed(mistake, vector)]


def killed(mistake: Mistake, vector: Vector) -> bool:
    """Whether an implementation with a mistake fails, as where its numbers blow up; what else it raises is raised."""
    try:
        outputs = made((mistake,), vector)
    except NotFiniteError:
        return True
    return run_one(lambda case: outputs, vector, "float64")[0].status in (FAILED, PARTIAL)
