"""Initial values: another range, another fan, a bias that is not there."""

from collections.abc import Callable

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.changes import nothing, times
from ortho_ref.conformance.mistakes.mistake import Outputs, Predicate, table
from ortho_ref.conformance.mistakes.ways import altered


def _chosen(case: Case, kind: str, names: tuple[str, ...], value: float | None = None) -> list[str]:
    return [
        name
        for name, entry in case.config["values"].items()
        if entry["is"] == kind and (not names or name in names) and (value is None or entry["value"] == value)
    ]


def of(kind: str, *names: str, value: float | None = None) -> Predicate:
    """A case that has a value of this kind, under one of these names, and, of a constant one, this value."""
    return lambda case: case.kind == "initial" and bool(_chosen(case, kind, names, value))


def each(change: Callable[[np.ndarray], np.ndarray], kind: str, *names: str) -> Outputs:
    """The values of this kind, under one of these names, changed."""
    return altered(lambda case, found: {name: change(found[name]) for name in _chosen(case, kind, names)})


def _cut(case: Case, found: Arrays) -> Arrays:
    values = case.config["values"]
    limits = {name: 2 * values[name]["deviation"] for name in _chosen(case, "normal", ())}
    return {name: np.clip(found[name], -limit, limit) for name, limit in limits.items()}


CONSTANT, UNIFORM, NORMAL, ORTHOGONAL = "constant", "uniform", "normal", "orthogonal"

MISTAKES = table(
    ("init-forget-bias-0", "a forget bias of 0", of(CONSTANT, "b_f"), each(nothing, CONSTANT, "b_f")),
    ("init-reset-bias-0", "a reset bias of 0", of(CONSTANT, "b_r", value=2.0), each(nothing, CONSTANT, "b_r")),
    ("init-alpha-beta-exchanged", "alpha and beta exchanged",
     of(CONSTANT, "alpha"), altered(lambda case, found: {"alpha": found["beta"], "beta": found["alpha"]})),
    ("init-gates-after-sigmoid", "alpha and beta as they are after the sigmoid",
     of(CONSTANT, "alpha"), each(lambda a: 1 / (1 + np.exp(-a)), CONSTANT, "alpha", "beta")),
    ("init-bias-0", "biases of 0 where they are drawn",
     of(UNIFORM, "b_z", "b_h"), each(nothing, UNIFORM, "b_z", "b_h")),
    ("init-limit-as-deviation", "the limit of the uniform distribution taken for its deviation",
     of(UNIFORM), each(times(np.sqrt(3)), UNIFORM)),
    ("init-cut-at-0.1", "normal values cut off at 0.1", of(NORMAL), each(lambda a: np.clip(a, -0.1, 0.1), NORMAL)),
    ("init-truncated", "normal values cut off at two deviations", of(NORMAL), altered(_cut)),
    ("init-twice-the-variance", "twice the variance", of(NORMAL), each(times(np.sqrt(2)), NORMAL)),
    ("init-one-sided", "uniform values from 0 on", of(UNIFORM), each(np.abs, UNIFORM)),
    ("init-same-every-time", "the same values in every draw", of(UNIFORM), each(lambda a: 0 * a + a[:1], UNIFORM)),
    ("init-not-orthogonal", "a recurrent weight 0.1 % too large to be orthogonal",
     of(ORTHOGONAL), each(times(1.001), ORTHOGONAL)),
)  # fmt: skip
