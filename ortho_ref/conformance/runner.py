"""An implementation over the cases: a result for each.

Whatever an implementation does, short of ending the process, is a result of its case, never an error of the kit.
"""

import os
import sysconfig
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ortho_ref.backend import NOT_PLAIN
from ortho_ref.conformance import programs
from ortho_ref.conformance.case import DTYPES, Arrays, Case, Vector, select
from ortho_ref.conformance.compare import compare
from ortho_ref.conformance.implementation import Broken, Refused, Run, said
from ortho_ref.conformance.report import FAILED, PARTIAL, PASSED, UNSUPPORTED, Report, Result
from ortho_ref.terminal import cut

#: Files that stand between the kit's own call and what an implementation raises.
_OWN = (__file__, programs.__file__)
_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def check(
    run: Run,
    only: str | Sequence[str] | None = None,
    dtype: str = "float64",
    *,
    allow_partial: bool = False,
    progress: Callable[[Result], None] | None = None,
) -> Report:
    """Run an implementation over the cases and say what is right, what is wrong, and which mistake it looks like.

    Parameters
    ----------
    run : callable
        run(case) -> a dict of NumPy arrays, or None or NotImplemented where it does not support the `Case`.
    only : str or sequence of str, optional
        A pattern of case names, "cell/lstm*", or several; unless given, every case.
    dtype : str
        "float64" or "float32", of the inputs.
    allow_partial : bool
        Whether cases with outputs missing count as passed.
    progress : callable, optional
        Told each `Result` as it comes, undiagnosed.

    Returns
    -------
    Report
        `ok`, `results` with one `Result` a case, `counts`; printed it is a table. Whatever the implementation raises
        is a result of its case.

    Raises
    ------
    ValueError
        A pattern that fits nothing, another dtype, or files of cases that are not as the kit ships them.
    """
    return check_vectors(run, select(only), dtype, allow_partial=allow_partial, progress=progress)


def check_vectors(
    run: Run,
    chosen: Sequence[Vector],
    dtype: str,
    *,
    allow_partial: bool = False,
    progress: Callable[[Result], None] | None = None,
) -> Report:
    """`check` of these cases.

    Parameters
    ----------
    run : callable
        As for `check`, as are `dtype`, `allow_partial` and `progress`.
    chosen : sequence of Vector
        The cases with their answers.
    dtype : str
        "float64" or "float32".
    allow_partial : bool
        Whether cases with outputs missing count as passed.
    progress : callable, optional
        Told each `Result`, undiagnosed.

    Returns
    -------
    Report
        Its results in the order of the cases.

    Raises
    ------
    ValueError
        Another dtype.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype!r}; allowed: {', '.join(map(repr, DTYPES))}")
    # here, not above: it loads the mistakes and every model, which importing the kit need not wait for
    from ortho_ref.conformance.diagnosis import diagnose

    results, given = [], {}
    for vector in chosen:
        result, outputs = run_one(run, vector, dtype)
        if progress is not None:
            progress(result)
        results.append(result)
        given[vector.id] = outputs
    return Report(tuple(diagnose(chosen, results, given, dtype)), dtype, allow_partial)


def run_one(run: Run, vector: Vector, dtype: str) -> tuple[Result, Arrays]:
    """Run an implementation on one case.

    Parameters
    ----------
    run : callable
        As for `check`.
    vector : Vector
        The case with its answer.
    dtype : str
        "float64" or "float32".

    Returns
    -------
    Result
        Without a diagnosis.
    dict of str to array
        What of the case's outputs was given; empty of an invalid case.
    """
    if vector.case.kind == "invalid":
        return _run_invalid(run, vector, dtype), {}
    case, id = vector.given(dtype), vector.id
    try:
        outputs = _as_arrays(run(case))
    except KeyboardInterrupt:  # the user's
        raise
    except BaseException as error:
        return _raised(id, error), {}
    if outputs is None or outputs is NotImplemented:
        return Result(id, UNSUPPORTED), {}
    if problem := _unlike_outputs(outputs) or _modified(case, vector.given(dtype)):
        return Result(id, FAILED, message=problem), {}
    compared = compare(vector, outputs, dtype)
    plain = [name for name in compared if isinstance(outputs[name], np.ndarray | np.generic)]
    known = {name: np.asarray(outputs[name]) for name in plain if not isinstance(outputs[name], NOT_PLAIN)}
    missing = tuple(name for name in vector.expected if name not in outputs)
    others = [cut(str(name), 100) for name in outputs if name not in vector.expected]
    unknown = f"not outputs of this case: {', '.join(others[:5])}" if missing and others else ""
    if not compared:
        message = "; ".join(filter(None, ("gave none of the case's outputs", unknown)))
        return Result(id, FAILED, missing=missing, message=message), {}
    wrong = [name for name, comparison in compared.items() if not comparison.passed]
    return Result(id, FAILED if wrong else PARTIAL if missing else PASSED, compared, missing, unknown), known


def _run_invalid(run: Run, vector: Vector, dtype: str) -> Result:
    """Passed where the flawed inputs are refused and the mended ones are not."""
    id = vector.id
    try:
        outputs = _as_arrays(run(vector.given(dtype, control=True)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _raised(id, error, "refused the same inputs without the flaw: ")
    if outputs is None or outputs is NotImplemented:
        return Result(id, UNSUPPORTED)
    if problem := _unlike_outputs(outputs):
        return Result(id, FAILED, message=f"without the flaw: {problem}")
    try:
        outputs = run(vector.given(dtype))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, Exception) and not isinstance(error, Broken):
            return Result(id, PASSED)
        return _raised(id, error)
    if outputs is None or outputs is NotImplemented:
        return Result(id, UNSUPPORTED)
    return Result(id, FAILED, message=f"accepted what must be refused: {vector.why}")


def _raised(id: str, error: BaseException, before: str = "") -> Result:
    """A failed case: what was raised, and where in the implementation."""
    if isinstance(error, Broken | Refused):
        return Result(id, FAILED, message=before + said(error))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in _OWN]
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)] or frames
    place = f" ({Path(own[-1].filename).name}:{own[-1].lineno} in {own[-1].name})" if own else ""
    whole = "".join(traceback.format_exception(error))
    return Result(id, FAILED, message=f"{before}{said(error)}{place}", traceback=whole)


def _as_arrays(outputs: Any) -> Any:
    """A dict as a plain one: arrays without a class of their own, whose methods could say anything; numbers as 0-d."""
    if not isinstance(outputs, dict):
        return outputs
    return {str.__str__(name) if isinstance(name, str) else name: _array(value) for name, value in dict.items(outputs)}


def _array(value: Any) -> Any:
    if type(value) in (int, float):
        return _number(value)
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray | np.matrix):
        return np.ndarray.view(value, np.ndarray)
    return value


def _number(value: float) -> np.ndarray:
    try:
        return np.asarray(float(value))
    except OverflowError:
        return np.asarray(np.inf)


def _unlike_outputs(outputs: Any) -> str:
    if not isinstance(outputs, dict):
        return f"returned a {type(outputs).__name__}; expected a dict of arrays, or None"
    return "" if outputs else "returned an empty dict; None says that a case is not supported"


def _modified(case: Case, fresh: Case) -> str:
    def same(name: str) -> bool:
        a, b = case.inputs.get(name), fresh.inputs[name]
        return isinstance(a, np.ndarray) and a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()

    changed = [name for name in fresh.inputs if not same(name)] + [str(n) for n in case.inputs if n not in fresh.inputs]
    return f"modified its inputs: {', '.join(changed)}" if changed else ""
