"""Updates with what was right one update before: A, U, (I + A)^-1, or the gradient."""

from collections.abc import Callable
from typing import Any

from ortho_ref.conformance.case import Arrays, Case
from ortho_ref.conformance.mistake import Base, Family, nothing, patched
from ortho_ref.conformance.mistakes.applies import updates
from ortho_ref.conformance.private import private

cayley = private("ortho_ref.parametrizations.cayley")
neumann = private("ortho_ref.parametrizations.neumann")

MISTAKES = Family()
M = MISTAKES.add

KINDS = (cayley.ScaledCayley, neumann.NeumannCayley)
OF_A = updates("scaled_cayley", "neumann_cayley")


def _keeping(own: Any) -> Any:
    """The update notes what U and A_tilde were."""

    def finished(self: Any, params: Any, buffers: Any, *rest: Any) -> Any:
        moved, after = own(self, params, buffers, *rest)
        return moved, {**after, "before": {name: buffers[name] for name in ("U", "A_tilde")}}

    return finished


def _with_old(name: str) -> Callable[[Case, Base], Arrays]:
    """V with the U or the A_tilde from before the last update."""

    def old(own: Any) -> Any:
        def pullback(self: Any, params: Any, buffers: Any, dU: Any) -> Any:
            before = buffers.get("before", buffers)
            return own(self, params, {**buffers, name: before[name]}, dU)

        return pullback

    moving = ((cayley.ScaledCayley, "retract", _keeping), (neumann.NeumannCayley, "retract", _keeping))
    return patched(*((kind, "pullback", old) for kind in KINDS), *moving)


M("V-old-U", "V with the U from before the last update", OF_A, _with_old("U"))
M("V-old-A_tilde", "V with the (I + A)^-1 from before the last update", OF_A, _with_old("A_tilde"))


def _one_late(case: Case, base: Base) -> Arrays:
    """Each gradient is used one update late, and 0 at the first."""
    waiting: dict[int, tuple[Any, Any]] = {}  # by the matrix's own D, which stays the same array

    def late(own: Any) -> Any:
        def pullback(self: Any, params: Any, buffers: Any, dU: Any) -> Any:
            gradient, D = own(self, params, buffers, dU), buffers["D"]
            _, before = waiting.get(id(D), (D, {"A": nothing(gradient["A"])}))
            waiting[id(D)] = D, gradient
            return before

        return pullback

    return patched(*((kind, "pullback", late) for kind in KINDS))(case, base)


M("V-late", "V^T - V of the update before, 0 at the first", OF_A, _one_late)


def _old_A(own: Any) -> Any:
    def retract(self: Any, params: Any, buffers: Any, delta: Any) -> Any:
        return own(self, params, buffers, delta)[0], self.rebuild(params, buffers)

    return retract


M(
    "cayley-old-A",
    "U from the A before the update",
    updates("scaled_cayley"),
    patched((cayley.ScaledCayley, "retract", _old_A)),
)
