"""Section of `scripts.gpu_check`: persistent kernels, many times over.

What only a device can tell of them: whether what a block writes is there for another behind a barrier of the grid, and
whether all blocks are there at once.  A wrong order of memory shows now and then: every form, at the papers' sizes, has
to give the same bits each time, and `fused`'s numbers.
"""

from typing import Any

from gradients.problem import relative_error
from ortho_ref import fused
from ortho_ref.backend import Array, library_of, to_device, to_host
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.fused import persistent as engine
from ortho_ref.fused.persistent import launch
from ortho_ref.fused.persistent.plan import FORMS
from ortho_ref.training.trainer import Record
from scripts.gpu.sections import PERSISTENT, TOLERANCE_SINGLE, Settings
from scripts.gpu.timing import milliseconds
from scripts.maintain.timing.steps import CellProblem, problem
from scripts.program import one_line

MODELS = ("nc-gru", "gru-cudnn", "lstm", "scornn", "urnn", "sgornn")


def persistent(own: Settings, figures: Record) -> list[str]:
    """Each cell in each form, at each size and between, own.repeats times: the same bits, and `fused`'s numbers."""
    failed: list[str] = []
    if PERSISTENT not in own.engines:
        figures["not_run"] = f"device {own.device!r} has no persistent kernels"
        return failed
    rows: list[Record] = figures.setdefault("rows", [])
    for name, size in (own.timing_sizes | own.form_sizes).items():
        for model in MODELS:
            try:
                ours = problem(size, model)
                theirs = _course(fused, ours, own.device)
            except Exception as error:
                failed.append(f"{model}, {name}: {type(error).__name__}: {one_line(error)}")
                continue
            for form in FORMS:
                row: Record = {"size": name, "model": model, "form": form}
                try:
                    with launch.using(form):
                        row |= _repeated(own, ours, theirs)
                except ValueError as error:
                    if "does not fit" not in str(error):  # which says that the form does not take this n
                        failed.append(f"{model}, {name}, {form}: {one_line(error)}")
                    continue
                except Exception as error:
                    failed.append(f"{model}, {name}, {form}: {type(error).__name__}: {one_line(error)}")
                    continue
                rows.append(row)
                if row["runs that differ"] or not row["against fused"] <= TOLERANCE_SINGLE:
                    failed.append(f"{model}, {name}, {form}: {row}")
    return failed


def _course(by: Any, ours: CellProblem, device: str) -> list[Array]:
    """What the kernels write: the states and what the tape has beside them, and the gradient by the first state."""
    weights, x, h0, dh = to_device((ours.weights, ours.x, state_of(ours.h0), ours.dh), device)
    h, tape = by.forward(ours.cell, weights, x, h0)
    gradients = by.backward(ours.cell, weights, tape, dh)
    taped = [array for array in (tape.gates, tape.y) if array is not None]
    return [*parts_of(ours.cell, h), *taped, *parts_of(ours.cell, gradients.h0)]


def _repeated(own: Settings, ours: CellProblem, theirs: list[Array]) -> Record:
    first = _course(engine, ours, own.device)
    xp = library_of(*first).xp
    differ = sum(
        any(not bool(xp.array_equal(a, b)) for a, b in zip(first, _course(engine, ours, own.device), strict=True))
        for _ in range(own.repeats)
    )
    errors = (relative_error(*to_host((a, b))) for a, b in zip(first, theirs, strict=True))
    took = milliseconds(lambda: _course(engine, ours, own.device), 3, own.device)
    return {"runs": own.repeats, "runs that differ": differ, "against fused": max(errors), "ms": took}
