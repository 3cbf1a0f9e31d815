"""Which mistakes a case shows."""

from ortho_ref.conformance.case import Arrays, Case, Vector
from ortho_ref.conformance.mistake import Mistake, made
from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.conformance.report import FAILED, PARTIAL
from ortho_ref.conformance.runner import run_one


def kills(vector: Vector) -> list[str]:
    """The names of the mistakes that do not pass it."""
    return [mistake.name for mistake in MISTAKES if mistake.applies(vector.case) and killed(mistake, vector)]


def killed(mistake: Mistake, vector: Vector, dtype: str = "float64") -> bool:
    """Whether an implementation with this mistake fails."""

    def run(case: Case) -> Arrays:
        from dataclasses import replace

        return made(mistake, replace(vector, case=case))

    return run_one(run, vector, dtype)[0].status in (FAILED, PARTIAL)
