"""One question to an implementation: a case, and what it gives for it."""

from ortho_ref.conformance.cases.case import Case
from ortho_ref.conformance.running.implementation import Broken, Elsewhere, Run
from ortho_ref.conformance.running.outputs import Outputs, modified, outputs_of


def ask(run: Run, case: Case) -> Outputs | None:
    """What an implementation gives for a case.

    Parameters
    ----------
    run : callable
        The implementation.
    case : Case
        A copy of its own, which it may change.

    Returns
    -------
    dict of str to array or NoArray
        The outputs; None where the case is not supported.

    Raises
    ------
    BaseException
        What it raises, and `Broken` for what it does instead of giving outputs.
    """
    fresh = {} if isinstance(run, Elsewhere) else {name: array.copy() for name, array in case.inputs.items()}
    outputs = outputs_of(run(case), dict(case.outputs))
    if outputs is not None and fresh and (problem := modified(case.inputs, fresh)):
        raise Broken(problem)
    return outputs
