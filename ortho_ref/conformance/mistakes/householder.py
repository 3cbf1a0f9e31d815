"""Householder reflections."""

from dataclasses import replace
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import of
from ortho_ref.conformance.mistakes.mistake import (
    Base,
    Family,
    fed,
    given,
    gradient_at,
    nothing,
    patched,
    through,
    transposed,
)
from ortho_ref.conformance.mistakes.private import private

householder = private("ortho_ref.parametrizations.householder")

MISTAKES = Family()
M, named = MISTAKES.add, MISTAKES.named


def _several_reflections(case: Case) -> bool:
    return of("householder")(case) and case.config["reflections"] > 1


M("householder-order", "H_m ... H_1 for H_1 ... H_m", _several_reflections, through(transposed, ("dU",), ("U",)))


def _unit_columns(array: np.ndarray) -> np.ndarray:
    return array / np.linalg.norm(array, axis=0)


M("householder-length", "the gradient by v / |v|, not by v", of("householder"), gradient_at(_unit_columns, "params.V"))


def _all_reflections(case: Case) -> bool:
    return of("householder")(case) and case.config["reflections"] == len(case.inputs["params.V"])


@named(
    "householder-last", "the last of n reflections as it is, without the sign that stands for it", _all_reflections, fed
)
def _last_is_reflection(case: Case) -> Arrays:
    V = case.inputs["params.V"].copy()
    V[-1, -1] = -abs(V[-1, -1])
    return {"params.V": V}


def _as_if_unit(own: Any) -> Any:
    """Y of H_j = I - 2 v_j v_j^T: S has 1/2 on its diagonal, whatever |v_j| is."""

    def solved(V: Any, right: Any, transposed: bool = False) -> Any:
        S = np.triu(V.T @ V, 1) + np.eye(V.shape[1]) / 2
        return np.linalg.solve(S.T if transposed else S, right)

    return staticmethod(solved)


M(
    "householder-not-normalised",
    "I - 2 v v^T, not divided by |v|^2",
    of("householder"),
    patched(
        (householder.Householder, "_solved", _as_if_unit), (householder, "_above", lambda _: lambda M: np.triu(M, 1))
    ),
)
M(
    "householder-factor-1",
    "I - v v^T / |v|^2, without the 2",
    of("householder"),
    patched((householder, "_above", lambda _: np.triu)),
)


def _fewer(case: Case) -> bool:
    """Where one reflection can be left out, and is one."""
    return _several_reflections(case) and not _all_reflections(case)


@named("householder-one-fewer", "one reflection too few", _fewer)
def _last_left_out(case: Case, base: Base) -> Arrays:
    """H_1 ... H_(m-1)."""
    V, m = case.inputs["params.V"], case.config["reflections"]
    fewer = replace(case, config={**case.config, "reflections": m - 1})
    found = base(given(fewer, {"params.V": V[:, :-1]}))
    return {**found, "d_params.V": np.concatenate([found["d_params.V"], nothing(V[:, -1:])], axis=1)}
