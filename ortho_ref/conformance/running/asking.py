"""One question to an implementation: a case, and what it gives for it."""

from ortho_ref.conformance.cases.case import Case
from ortho_ref.conformance.running.implementation import Broken, Elsewhere, Run
from ortho_ref.conformance.running.outputs import Outputs, modified, outputs_of


def ask(run: Run, case: Case) -> Outputs | None:
    """The outputs of an implementation for a case, of which it gets a copy; None where it does not support it.

    Whatever it raises is raised, and `Broken` for what it does instead of giving outputs.
    """
    fresh = {} if isinstance(run, Elsewhere) else {name: array.copy() for name, array in case.inputs.items()}
    outputs = outputs_of(run(case), dict(case.outputs))
    if outputs is not None and fresh and (problem := modified(case.inputs, fresh)):
        raise Broken(problem)
    return outputs
