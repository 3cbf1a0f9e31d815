"""How the tasks are laid out."""

from collections.abc import Callable

import numpy as np

from ortho_ref.conformance.case import Arrays, Case
from ortho_ref.conformance.mistake import Base, Family, Predicate, altered

MISTAKES = Family()
M = MISTAKES.add


def task(name: str, **config: object) -> Predicate:
    """A case of this task, with such a config."""
    return lambda case: (
        case.kind == "task"
        and case.config["task"] == name
        and all(case.config[key] == value for key, value in config.items())
    )


def _marker_moved(by: int) -> Callable[[Case, Base], Arrays]:
    def change(case: Case, found: Arrays) -> Arrays:
        x, marker = found["x"].copy(), found["x"].max()
        at = found["x"] == marker
        x[at] = 0
        x[np.roll(at, by, axis=0)] = marker
        return {"x": x}

    return altered(change)


M("copying-layout-A", "layout A, the recall one step after the marker", task("copying", layout="B"), _marker_moved(-1))
M("copying-layout-B", "layout B, the recall on the marker", task("copying", layout="A"), _marker_moved(1))


def _moved(by: int, output: str) -> Callable[[Case, Base], Arrays]:
    """An output some steps later; what is moved in is blank."""

    def change(case: Case, found: Arrays) -> Arrays:
        moved = np.roll(found[output], by, axis=0)
        moved[slice(0, by) if by > 0 else slice(by, None)] = 0
        return {output: moved}

    return altered(change)


M("copying-x-late", "the input one step late", task("copying"), _moved(1, "x"))
M("copying-recall-late", "the recall one step late", task("copying"), _moved(1, "y"))
M("copying-recall-early", "the recall one step early", task("copying"), _moved(-1, "y"))
M(
    "copying-marker-target",
    "the marker a target as well",
    task("copying"),
    altered(lambda case, found: {"y": np.where(found["x"] == 9, 9, found["y"])}),
)
M(
    "adding-value-first",
    "the value before the marker (released code)",
    task("adding"),
    altered(lambda case, found: {"x": found["x"][..., ::-1]}),
)
M("adding-mean", "the mean of the two values", task("adding"), altered(lambda case, found: {"y": found["y"] / 2}))
M(
    "denoise-marker-zero",
    "the marker read as noise",
    task("denoise", form="paper"),
    altered(lambda case, found: {"x": np.where(found["x"] == 10, 0, found["x"])}),
)
M("denoise-recall-late", "the recall one step late", task("denoise"), _moved(1, "y"))
M("parenthesis-before-token", "the counts before the token", task("parenthesis"), _moved(1, "y"))


def _counts(floor: bool, cap: bool) -> Callable[[Case, Base], Arrays]:
    """Open parentheses without the floor at 0, or without the cap."""

    def change(case: Case, found: Arrays) -> Arrays:
        types = found["y"].shape[-1]
        most = found["y"].max()
        tokens, count, y = case.inputs["tokens"], np.zeros(found["y"].shape[1:], np.int64), []
        for row in tokens:
            count = count + (row[:, None] == np.arange(types)) - (row[:, None] == np.arange(types) + types)
            count = np.maximum(count, 0) if floor else count
            count = np.minimum(count, most) if cap else count
            y.append(count)
        return {"y": np.array(y)}

    return altered(change)


M("parenthesis-no-floor", "counts below 0", task("parenthesis"), _counts(floor=False, cap=True))
M("parenthesis-no-cap", "counts without a cap", task("parenthesis"), _counts(floor=True, cap=False))
