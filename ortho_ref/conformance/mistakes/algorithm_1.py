"""Algorithm 1: the series, its resets and what is fed to it; updates with what was right one update before."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import both, neither, updates
from ortho_ref.conformance.mistakes.cayley import OF_A, cayley, neumann
from ortho_ref.conformance.mistakes.changes import nothing
from ortho_ref.conformance.mistakes.mistake import Base, Outputs, table
from ortho_ref.conformance.mistakes.optimizers import optimizing
from ortho_ref.conformance.mistakes.patched import Patch, Patched, around, instead
from ortho_ref.conformance.mistakes.ways import configured

NEUMANN = updates("neumann_cayley")


def _series(wrong: Callable[..., Any]) -> Outputs:
    """Another series: wrong(A_tilde, P, order, right)."""
    return instead(neumann, "neumann_inverse")(lambda own, *arguments: wrong(*arguments, own))


#: Where the optimizer's step is learning rate times gradient.
_plain = optimizing("sgd", lambda own: not (own["momentum"] or own["weight_decay"]))


def _sgd_in_the_series(case: Case, base: Base) -> Arrays:
    rate = case.config["optimizer"]["learning_rate"]
    last: list[Any] = []  # the gradients of this update

    def pullback(own: Any, *rest: Any) -> Any:
        last[:] = [own(*rest)]
        return last[0]

    def matrix(own: Any, A_tilde: Any, delta: Any) -> Any:
        return own(A_tilde, rate * last[0]["A"])

    patches = around(neumann.NeumannCayley, "pullback", pullback), around(neumann, "matrix_of_series", matrix)
    return Patched(*patches)(case, base)


def _resets(case: Case) -> bool:
    every = case.config["reset_every"] if NEUMANN(case) else None
    return every is not None and 1 < every < len(case.inputs["dU"])


_retracting = instead(neumann.NeumannCayley, "retract")
_norm = instead(neumann, "spectral_norm")


def _counting(by: Callable[[int], int]) -> Outputs:
    """Resets as if so many more updates had been done."""

    def retract(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
        more = by(buffers["step"])
        moved, after = own(self, params, {**buffers, "step": buffers["step"] + more}, delta)
        return moved, {**after, "step": after["step"] - more}

    return _retracting(retract)


def _inverse_unused(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """The series goes on from the approximate one."""
    moved, after = own(self, params, buffers, delta)
    went_on = neumann.neumann_inverse(buffers["A_tilde"], after["P"], self.order)
    return moved, {**after, "A_tilde": went_on}


def _forced(case: Case) -> bool:
    """Where the kit has steps that force a reset."""
    return case.id in ("update/neumann_cayley/forced", "update/neumann_cayley/forced-and-due")


def _restarted(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    moved, after = own(self, params, buffers, delta)
    return moved, {**after, "step": 0} if after["forced_resets"] > buffers["forced_resets"] else after


def _old_A_in_line_8(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    moved, after = own(self, params, buffers, delta)
    return moved, {**after, "U": after["A_tilde"] @ (np.eye(len(params["A"])) - params["A"]) * buffers["D"]}


def _both(name: str, change: Callable[..., Any]) -> list[Patch]:
    """A method of both maps."""
    return [around(kind, name, change) for kind in (cayley.ScaledCayley, neumann.NeumannCayley)]


def _keeping(own: Any, self: Any, params: Any, buffers: Any, *rest: Any) -> Any:
    """The update notes what U and A_tilde were."""
    moved, after = own(self, params, buffers, *rest)
    return moved, {**after, "before": {name: buffers[name] for name in ("U", "A_tilde")}}


def _with_old(name: str) -> Outputs:
    """V with the U or the A_tilde from before the last update."""

    def pullback(own: Any, self: Any, params: Any, buffers: Any, dU: Any) -> Any:
        return own(self, params, {**buffers, name: buffers.get("before", buffers)[name]}, dU)

    return Patched(*_both("pullback", pullback), *_both("retract", _keeping))


def _one_late(case: Case, base: Base) -> Arrays:
    waiting: dict[int, tuple[Any, Any]] = {}  # by the matrix's own D, which stays the same array

    def pullback(own: Any, self: Any, params: Any, buffers: Any, dU: Any) -> Any:
        gradient, D = own(self, params, buffers, dU), buffers["D"]
        _, before = waiting.get(id(D), (D, {"A": nothing(gradient["A"])}))
        waiting[id(D)] = D, gradient
        return before

    return Patched(*_both("pullback", pullback))(case, base)


def _old_A(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    return own(self, params, buffers, delta)[0], self.rebuild(params, buffers)


MISTAKES = table(
    ("neumann-sign", "the series in -A_tilde delta", NEUMANN, _series(lambda S, P, order, own: own(S, -P, order))),
    ("neumann-order-plus-one", "one power too many in the series",
     NEUMANN, _series(lambda S, P, order, own: own(S, P, order + 1))),
    ("neumann-order-minus-one", "one power too few in the series",
     NEUMANN, _series(lambda S, P, order, own: own(S, P, order - 1))),
    ("neumann-factors", "the series multiplied from the right, A_tilde (I + P + ...)",
     NEUMANN, _series(lambda S, P, order, own: own(S.T, P.T, order).T)),
    ("neumann-delta-first", "the factors I + delta A_tilde + ... for I + A_tilde delta + ...",
     NEUMANN, instead(neumann, "matrix_of_series")(lambda own, A_tilde, delta: delta @ A_tilde)),
    ("neumann-first-power-alone", "(I + P) in place of the whole series",
     both(NEUMANN, lambda case: case.config["order"] > 1), configured(order=1)),
    ("neumann-sgd", "learning rate times gradient in the series, whatever moved A (NC-GRU's code)",
     both(NEUMANN, neither(_plain)), _sgd_in_the_series),
    ("neumann-never-reset", "no resets", _resets, configured(reset_every=None)),
    ("neumann-always-exact", "the exact inverse at every update",
     both(NEUMANN, lambda case: case.config["reset_every"] != 1), configured(reset_every=1)),
    ("neumann-reset-early", "resets one update early", _resets, _counting(lambda step: 1)),
    ("neumann-reset-late", "resets one update late", _resets, _counting(lambda step: -min(step, 1))),
    ("neumann-reset-from-0", "updates counted from 0: resets after the first, and then one update late",
     _resets, _counting(lambda step: -1)),  # 0 is a multiple
    ("neumann-reset-not-kept", "the inverse of a reset used for U, but not carried on",
     _resets, _retracting(_inverse_unused)),
    ("neumann-not-forced", "no reset where ||A_tilde delta|| is 1 or more", _forced, _norm(lambda own, M: 0.0)),
    ("neumann-forced-by-frobenius", "forced resets by the Frobenius norm of A_tilde delta",
     _forced, _norm(lambda own, M: float(np.linalg.norm(M)))),
    ("neumann-forced-restarts", "updates counted anew after a forced reset",
     both(_forced, lambda case: case.config["reset_every"] is not None), _retracting(_restarted)),
    ("neumann-old-A", "U from the A before the update", NEUMANN, _retracting(_old_A_in_line_8)),
    ("V-old-U", "V with the U from before the last update", OF_A, _with_old("U")),
    ("V-old-A_tilde", "V with the (I + A)^-1 from before the last update", OF_A, _with_old("A_tilde")),
    ("V-late", "V^T - V of the update before, 0 at the first", OF_A, _one_late),
    ("cayley-old-A", "U from the A before the update",
     updates("scaled_cayley"), instead(cayley.ScaledCayley, "retract")(_old_A)),
)  # fmt: skip
