"""An implementation over the cases: a result for each.

Whatever an implementation does, short of ending the process or never coming back, is a result of its case, never an
error of the kit.  `apart` runs it in a process of its own, where these are results too.

Each case runs twice: an implementation that keeps something from one call to the next gives other outputs.  Not those
of initial values, which are random.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ortho_ref.boundary import not_among
from ortho_ref.conformance.cases.case import DTYPES, HALF, Arrays, Vector
from ortho_ref.conformance.cases.case_files import select, vectors
from ortho_ref.conformance.cases.forward import forward_of, has_forward
from ortho_ref.conformance.compare import compare
from ortho_ref.conformance.entries import wrong_entries
from ortho_ref.conformance.findings import Assume
from ortho_ref.conformance.report import FAILED, PARTIAL, PASSED, UNSUPPORTED, Covered, Report, Result, shortened
from ortho_ref.conformance.running.implementation import Elsewhere, Raised, Run, Telling, check_run
from ortho_ref.conformance.running.origin import Origin
from ortho_ref.conformance.running.outputs import NoArray, Outputs, given
from ortho_ref.conformance.running.sizes import sizes_told


def check(
    run: Run,
    only: str | Sequence[str] | None = None,
    dtype: str = "float64",
    *,
    allow_partial: bool = False,
    forward: bool = False,
    progress: Callable[[Result], None] | None = None,
    assume: Assume = None,
) -> Report:
    """Run an implementation over the cases and say what is right, what is wrong, and which mistake it looks like.

    Parameters
    ----------
    run : callable
        run(case) -> a dict of NumPy arrays, or None or NotImplemented where it does not support the `Case`.
    only : str or sequence of str, optional
        A pattern of case names, "cell/lstm*", or several; unless given, every case.
    dtype : str
        "float64" or "float32", of the inputs; with `forward` also "float16" or "bfloat16".
    allow_partial : bool
        Whether cases with outputs missing count as passed.
    forward : bool
        Whether the forward pass alone is judged: no gradients, and no cases that are of nothing else.
    progress : callable, optional
        Told each `Result` as it comes, undiagnosed.
    assume : str, sequence of str or mapping of str to str, optional
        Departures that are known: names of mistakes, "u-keeps,reset-after", a file of them with reasons, or names with
        reasons. The implementation is held to the reference with these.

    Returns
    -------
    Report
        `ok`, `results` with one `Result` a case, `counts`; printed it is a table. Whatever the implementation raises
        is a result of its case.

    Raises
    ------
    TypeError
        An implementation that is no function, a pattern that is no text, departures that are neither text nor a list.
    ValueError
        A pattern that fits nothing, another dtype, files of cases that are not as the kit ships them, or departures
        that are none, or do not go together.
    """
    chosen = select(only)
    return check_vectors(
        run, chosen, dtype, allow_partial=allow_partial, forward=forward, progress=progress, assume=assume
    )


def check_vectors(
    run: Run,
    chosen: Sequence[Vector],
    dtype: str,
    *,
    allow_partial: bool = False,
    forward: bool = False,
    progress: Callable[[Result], None] | None = None,
    assume: Assume = None,
) -> Report:
    """`check` of these cases, with its results in their order."""
    check_run(run)
    allowed = (*DTYPES, *HALF) if forward else DTYPES
    if dtype not in allowed:
        more = "" if forward or dtype not in HALF else "; of the forward pass alone this one too"
        raise ValueError(f"{not_among('dtype', dtype, allowed)}{more}")
    if forward:
        chosen = forward_of(chosen, dtype)
    # here: it loads the mistakes and every model, which importing the kit need not wait for
    from ortho_ref.conformance.diagnosis import diagnose
    from ortho_ref.conformance.running.assumptions import held

    chosen, assumed = held(chosen, assume, run.assumes if isinstance(run, Telling) else ())
    results, known, origin = [], {}, Origin.begun(run)
    for vector in chosen:
        before = time.perf_counter()
        result, outputs = run_one(run, vector, dtype)
        result = replace(result, seconds=time.perf_counter() - before)
        if progress is not None:
            progress(result)
        results.append(result)
        known[vector.id] = outputs
    diagnosed = tuple(diagnose(chosen, results, known, dtype, run))
    covered, ended = _covered(chosen, diagnosed, forward, dtype), origin.until_now()
    return Report(diagnosed, dtype, allow_partial, forward=forward, assumed=assumed, origin=ended, covered=covered)


def _covered(chosen: Sequence[Vector], results: Sequence[Result], forward: bool, dtype: str) -> tuple[Covered, ...]:
    """What of the kit the supported cases are of, group by group."""
    status = {result.id: result.status for result in results}
    supported = dict.fromkeys(group_of(vector) for vector in chosen if status[vector.id] != UNSUPPORTED)
    passed = Counter(group_of(vector) for vector in chosen if status[vector.id] == PASSED)
    asked = Counter(map(group_of, chosen))
    there = Counter(group_of(vector) for vector in vectors() if not forward or has_forward(vector, dtype))
    return tuple(Covered(name, passed[name], asked[name], there[name]) for name in supported)


def group_of(vector: Vector) -> str:
    """What a case is of: a cell with its activation, "gru_reset_before, tanh", in a stack "lstm, layers 2" too.

    A module is one or the other, and draws its own dropout or is given it: it cannot answer both.  Else the case's name
    without what varies.
    """
    config = vector.case.config
    if "cell" not in config:
        return "/".join(vector.id.split("/")[:2])
    parts = [config["cell"], config.get("activation"), "complex" if config.get("complex") else None]
    parts += [config.get("constraint"), f"layers {config['layers']}" if config.get("layers", 1) > 1 else None]
    parts += [option for option in ("bidirectional", "dropout") if config.get(option)]
    return ", ".join(filter(None, parts))


def run_one(run: Run, vector: Vector, dtype: str) -> tuple[Result, Arrays]:
    """An implementation on one case: its result, without a diagnosis, and what of the case's outputs was given."""
    outputs = given(run, vector.given(dtype))
    if isinstance(outputs, Raised):
        return Result(vector.id, FAILED, message=_told(outputs, vector), traceback=outputs.traceback), {}
    if outputs is None:
        asked = vector.case.config.get("cell") or vector.case.config.get("recurrence")
        own = run.cell if isinstance(run, Telling) and asked else ""
        return Result(vector.id, UNSUPPORTED, message=f"it is {own}" if own not in ("", asked) else ""), {}
    result, known = _compared(vector, outputs, dtype)
    if not result.outputs or (isinstance(run, Elsewhere) and run.fresh) or vector.case.kind == "initial":
        return result, known
    return _run_again(run, vector, dtype, result, outputs, known)


def _compared(vector: Vector, outputs: Outputs, dtype: str) -> tuple[Result, Arrays]:
    compared = compare(vector, outputs, dtype)
    known = {name: value for name in compared if not isinstance(value := outputs[name], NoArray)}
    missing = tuple(name for name in vector.expected if name not in outputs)
    others = [name for name in outputs if name not in vector.expected]
    unknown = f"not outputs of this case: {', '.join(others)}" if missing and others else ""
    if not compared:
        message = "; ".join(filter(None, ("gave none of the case's outputs", unknown)))
        return Result(vector.id, FAILED, missing=missing, message=message), {}
    wrong = [name for name, comparison in compared.items() if not comparison.passed]
    if not set(wrong) & set(known):  # what is wrong is no array: numbers that are right say nothing of it
        known = {} if wrong else known
    status = FAILED if wrong else PARTIAL if missing else PASSED
    entries = wrong_entries(vector, outputs, compared)
    return Result(vector.id, status, compared, missing, unknown, wrong=entries), known


def _run_again(
    run: Run, vector: Vector, dtype: str, first: Result, outputs: Outputs, known: Arrays
) -> tuple[Result, Arrays]:
    """The same case once more: the outputs have to be the same, but for rounding."""
    again = given(run, vector.given(dtype))
    if isinstance(again, Raised):
        message = f"run a second time on the same case it {_told(again, vector)}"
        return _joined(first, FAILED, message, again.traceback), {}
    if again is None:
        return _joined(first, FAILED, "run a second time on the same case it gave None; it keeps state"), {}
    names = [name for name in vector.expected if not _same(outputs.get(name), again.get(name))]
    if not names:
        return first, known
    second, _ = _compared(vector, again, dtype)
    listed = shortened(names, vector.expected)
    both_right = first.status != FAILED and second.status == first.status
    if both_right or (first.status == FAILED and not _far(vector, outputs, again, names, dtype)):
        return _joined(first, first.status, f"a second run on the same case differs within tolerance: {listed}"), known
    message = f"a second run on the same case gave other outputs: {listed}; it keeps state, or is random"
    if first.status == FAILED:
        return _joined(first, FAILED, message), known
    worse = {
        name: max(own, second.outputs.get(name, own), key=lambda c: c.error) for name, own in first.outputs.items()
    }
    return _joined(replace(first, outputs=worse), FAILED, message), {}


def _far(vector: Vector, first: Outputs, second: Outputs, names: Sequence[str], dtype: str) -> bool:
    """Whether one of these outputs differs by more than rounding."""
    arrays = {name: value for name in names if isinstance(value := first.get(name), np.ndarray)}
    if len(arrays) < len(names):
        return True
    compared = compare(replace(vector, expected=arrays, low={}, high={}), second, dtype)
    return len(compared) < len(names) or not all(comparison.passed for comparison in compared.values())


def _same(a: np.ndarray | NoArray | None, b: np.ndarray | NoArray | None) -> bool:
    """To the bit; what is not a number is not looked into."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        return a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=True)
    return a == b if isinstance(a, NoArray) and isinstance(b, NoArray) else a is b


def _joined(result: Result, status: str, message: str, traceback: str = "") -> Result:
    whole = "; ".join(filter(None, (result.message, message)))
    return replace(result, status=status, message=whole, traceback=traceback or result.traceback)


def _told(raised: Raised, vector: Vector) -> str:
    """What was raised, where in the implementation, and which of the case's sizes it speaks of."""
    return f"{raised.said}{raised.place}{sizes_told(raised.said, vector.case)}"
