"""Algorithm 1: the series, its resets and what is fed to it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import updates
from ortho_ref.conformance.mistakes.mistake import Base, Family, Outputs, around, configured, instead, patched
from ortho_ref.conformance.mistakes.private import private

neumann = private("ortho_ref.parametrizations.neumann")

MISTAKES = Family()
M, named = MISTAKES.add, MISTAKES.named

NEUMANN = updates("neumann_cayley")


def _series(wrong: Callable[..., Any]) -> Outputs:
    """Another series: wrong(A_tilde, P, order, right)."""
    return instead(neumann, "neumann_inverse")(lambda own, *arguments: wrong(*arguments, own))


for name, says, series in (
    ("neumann-sign", "the series in -A_tilde delta", lambda S, P, order, own: own(S, -P, order)),
    ("neumann-order-plus-one", "one power too many in the series", lambda S, P, order, own: own(S, P, order + 1)),
    ("neumann-order-minus-one", "one power too few in the series", lambda S, P, order, own: own(S, P, order - 1)),
    (
        "neumann-factors",
        "the series multiplied from the right, A_tilde (I + P + ...)",
        lambda S, P, order, own: own(S.T, P.T, order).T,
    ),
):
    M(name, says, NEUMANN, _series(series))
M(
    "neumann-delta-first",
    "the factors I + delta A_tilde + ... for I + A_tilde delta + ...",
    NEUMANN,
    instead(neumann, "matrix_of_series")(lambda own, A_tilde, delta: delta @ A_tilde),
)
M(
    "neumann-first-power-alone",
    "(I + P) in place of the whole series",
    lambda c: NEUMANN(c) and c.config["order"] > 1,
    configured(order=1),
)


def _own_step(case: Case) -> bool:
    """Where the optimizer's step is another than learning rate times gradient: any, but plain gradient descent."""
    if not NEUMANN(case):
        return False
    optimizer = case.config["optimizer"]
    return optimizer["name"] != "sgd" or bool(optimizer["momentum"] or optimizer["weight_decay"])


@named("neumann-sgd", "learning rate times gradient in the series, whatever moved A (NC-GRU's code)", _own_step)
def _sgd_in_the_series(case: Case, base: Base) -> Arrays:
    rate = case.config["optimizer"]["learning_rate"]
    seen: dict[int, Any] = {}

    def pullback(own: Any, self: Any, params: Any, buffers: Any, dU: Any) -> Any:
        gradient = own(self, params, buffers, dU)
        seen[id(params["A"])] = gradient["A"]
        return gradient

    def retract(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
        fed_delta = rate * seen[id(params["A"])]
        moved, after = own(self, params, buffers, delta)
        if self.reset_every is not None and after["step"] % self.reset_every == 0:
            return moved, after
        by_sgd = own(self, params, buffers, {"A": fed_delta})[1]["A_tilde"]
        return moved, {**after, "A_tilde": by_sgd, "U": by_sgd @ (np.eye(len(by_sgd)) - moved["A"]) * buffers["D"]}

    kind = neumann.NeumannCayley
    return patched(around(kind, "pullback", pullback), around(kind, "retract", retract))(case, base)


def _resets(case: Case) -> bool:
    every = case.config["reset_every"] if NEUMANN(case) else None
    return every is not None and 1 < every < len(case.inputs["dU"])


M("neumann-never-reset", "no resets", _resets, configured(reset_every=None))


def _not_exact(case: Case) -> bool:
    return NEUMANN(case) and case.config["reset_every"] != 1


M("neumann-always-exact", "the exact inverse at every update", _not_exact, configured(reset_every=1))


_retracting = instead(neumann.NeumannCayley, "retract")


def _counting(by: Callable[[int], int]) -> Outputs:
    """Resets as if so many more updates had been done."""

    def retract(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
        more = by(buffers["step"])
        moved, after = own(self, params, {**buffers, "step": buffers["step"] + more}, delta)
        return moved, {**after, "step": after["step"] - more}

    return _retracting(retract)


M("neumann-reset-early", "resets one update early", _resets, _counting(lambda step: 1))
M("neumann-reset-late", "resets one update late", _resets, _counting(lambda step: -min(step, 1)))
M(
    "neumann-reset-from-0",
    "updates counted from 0: resets after the first, and then one update late",
    _resets,
    _counting(lambda step: -1),  # 0 is a multiple
)


@named("neumann-reset-not-kept", "the inverse of a reset used for U, but not carried on", _resets, _retracting)
def _inverse_unused(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """The series goes on from the approximate one."""
    moved, after = own(self, params, buffers, delta)
    went_on = neumann.neumann_inverse(buffers["A_tilde"], after["P"], self.order)
    return moved, {**after, "A_tilde": went_on}


def _forced(case: Case) -> bool:
    """Where the kit has steps that force a reset."""
    return case.id in ("update/neumann_cayley/forced", "update/neumann_cayley/forced-and-due")


NORM = instead(neumann, "spectral_norm")
M("neumann-not-forced", "no reset where ||A_tilde delta|| is 1 or more", _forced, NORM(lambda own, M: 0.0))


@named("neumann-forced-by-frobenius", "forced resets by the Frobenius norm of A_tilde delta", _forced, NORM)
def _frobenius(own: Any, M: Any) -> float:
    return float(np.linalg.norm(M))


def _forced_and_due(case: Case) -> bool:
    return _forced(case) and case.config["reset_every"] is not None


@named("neumann-forced-restarts", "updates counted anew after a forced reset", _forced_and_due, _retracting)
def _restarted(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    moved, after = own(self, params, buffers, delta)
    return moved, {**after, "step": 0} if after["forced_resets"] > buffers["forced_resets"] else after


@named("neumann-old-A", "U from the A before the update", NEUMANN, _retracting)
def _old_A(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """In line 8."""
    moved, after = own(self, params, buffers, delta)
    return moved, {**after, "U": after["A_tilde"] @ (np.eye(len(params["A"])) - params["A"]) * buffers["D"]}
