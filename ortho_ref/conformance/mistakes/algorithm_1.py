"""Algorithm 1: the series, its resets and what is fed to it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ortho_ref.conformance.case import Arrays, Case
from ortho_ref.conformance.mistake import Base, Family, configured, patched
from ortho_ref.conformance.mistakes.applies import updates
from ortho_ref.conformance.private import private

neumann = private("ortho_ref.parametrizations.neumann")

MISTAKES = Family()
M = MISTAKES.add

NEUMANN = updates("neumann_cayley")


def _series(wrong: Callable[[Any, Any, int, Any], Any]) -> Callable[[Case, Base], Arrays]:
    """Another series: wrong(A_tilde, P, order, right)."""
    return patched((neumann, "neumann_inverse", lambda own: lambda A_tilde, P, order: wrong(A_tilde, P, order, own)))


M("neumann-sign", "the series in -A_tilde delta", NEUMANN, _series(lambda S, P, order, own: own(S, -P, order)))
M(
    "neumann-order-plus-one",
    "one power too many in the series",
    NEUMANN,
    _series(lambda S, P, order, own: own(S, P, order + 1)),
)
M(
    "neumann-order-minus-one",
    "one power too few in the series",
    NEUMANN,
    _series(lambda S, P, order, own: own(S, P, order - 1)),
)
M(
    "neumann-factors",
    "the series multiplied from the right, A_tilde (I + P + ...)",
    NEUMANN,
    _series(lambda S, P, order, own: own(S.T, P.T, order).T),
)


M(
    "neumann-delta-first",
    "the factors I + delta A_tilde + ... for I + A_tilde delta + ...",
    NEUMANN,
    patched((neumann, "matrix_of_series", lambda own: lambda A_tilde, delta: delta @ A_tilde)),
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


def _sgd_in_the_series(case: Case, base: Base) -> Arrays:
    """The series is fed learning rate * gradient, whatever moved A (NC-GRU's code)."""
    optimizer = case.config["optimizer"]
    seen: dict[int, Any] = {}

    def pullback(own: Any) -> Any:
        def outputs(self: Any, params: Any, buffers: Any, dU: Any) -> Any:
            gradient = own(self, params, buffers, dU)
            seen[id(params["A"])] = gradient["A"]
            return gradient

        return outputs

    def retract(own: Any) -> Any:
        def outputs(self: Any, params: Any, buffers: Any, delta: Any) -> Any:
            fed_delta = optimizer["learning_rate"] * seen[id(params["A"])]
            moved, after = own(self, params, buffers, delta)
            if self.reset_every is not None and after["step"] % self.reset_every == 0:
                return moved, after
            by_sgd = own(self, params, buffers, {"A": fed_delta})[1]["A_tilde"]
            return moved, {**after, "A_tilde": by_sgd, "U": by_sgd @ (np.eye(len(by_sgd)) - moved["A"]) * buffers["D"]}

        return outputs

    return patched((neumann.NeumannCayley, "pullback", pullback), (neumann.NeumannCayley, "retract", retract))(
        case, base
    )


M(
    "neumann-sgd",
    "learning rate times gradient in the series, whatever moved A (NC-GRU's code)",
    _own_step,
    _sgd_in_the_series,
)


def _resets(case: Case) -> bool:
    every = case.config["reset_every"] if NEUMANN(case) else None
    return every is not None and 1 < every < len(case.inputs["dU"])


M("neumann-never-reset", "no resets", _resets, configured(reset_every=None))


def _not_exact(case: Case) -> bool:
    return NEUMANN(case) and case.config["reset_every"] != 1


M("neumann-always-exact", "the exact inverse at every update", _not_exact, configured(reset_every=1))


def _retracting(change: Callable[..., Any]) -> Callable[[Case, Base], Arrays]:
    """Another update: change(right, parametrization, params, buffers, delta)."""

    def make(own: Any) -> Any:
        def retract(self: Any, params: Any, buffers: Any, delta: Any) -> Any:
            return change(lambda *arguments: own(self, *arguments), self, params, buffers, delta)

        return retract

    return patched((neumann.NeumannCayley, "retract", make))


def _early(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """The reset comes one update early: the counter starts at 1."""
    moved, after = own(params, {**buffers, "step": buffers["step"] + 1}, delta)
    return moved, {**after, "step": after["step"] - 1}


M("neumann-reset-early", "resets one update early", _resets, _retracting(_early))


def _late(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """The reset comes one update late."""
    late = min(buffers["step"], 1)
    moved, after = own(params, {**buffers, "step": buffers["step"] - late}, delta)
    return moved, {**after, "step": after["step"] + late}


M("neumann-reset-late", "resets one update late", _resets, _retracting(_late))


def _from_zero(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """Updates are counted from 0, and 0 is a multiple."""
    moved, after = own(params, {**buffers, "step": buffers["step"] - 1}, delta)
    return moved, {**after, "step": after["step"] + 1}


M(
    "neumann-reset-from-0",
    "updates counted from 0: resets after the first, and then one update late",
    _resets,
    _retracting(_from_zero),
)


def _inverse_unused(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """The exact A_tilde of a reset is used for U, but the series goes on from the approximate one."""
    moved, after = own(params, buffers, delta)
    went_on = neumann.neumann_inverse(buffers["A_tilde"], after["P"], self.order)
    return moved, {**after, "A_tilde": went_on}


M(
    "neumann-reset-not-kept",
    "the inverse of a reset used for U, but not carried on",
    _resets,
    _retracting(_inverse_unused),
)


def _forced(case: Case) -> bool:
    """Where the kit has steps that force a reset."""
    return case.id in ("update/neumann_cayley/forced", "update/neumann_cayley/forced-and-due")


M(
    "neumann-not-forced",
    "no reset where ||A_tilde delta|| is 1 or more",
    _forced,
    patched((neumann, "spectral_norm", lambda own: lambda M: 0.0)),
)
M(
    "neumann-forced-by-frobenius",
    "forced resets by the Frobenius norm of A_tilde delta",
    _forced,
    patched((neumann, "spectral_norm", lambda own: lambda M: float(np.linalg.norm(M)))),
)


def _forced_and_due(case: Case) -> bool:
    return _forced(case) and case.config["reset_every"] is not None


def _restarted(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """A forced reset counts as the one that is due."""
    moved, after = own(params, buffers, delta)
    return moved, {**after, "step": 0} if after["forced_resets"] > buffers["forced_resets"] else after


M("neumann-forced-restarts", "updates counted anew after a forced reset", _forced_and_due, _retracting(_restarted))


def _old_A(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """Line 8 with the A from before the update."""
    moved, after = own(params, buffers, delta)
    return moved, {**after, "U": after["A_tilde"] @ (np.eye(len(params["A"])) - params["A"]) * buffers["D"]}


M("neumann-old-A", "U from the A before the update", NEUMANN, _retracting(_old_A))
