"""Updates with what was right one update before: A, U, (I + A)^-1, or the gradient."""

from collections.abc import Callable
from typing import Any

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import updates
from ortho_ref.conformance.mistakes.mistake import Base, Family, Outputs, Patch, around, instead, nothing, patched
from ortho_ref.conformance.mistakes.private import private

cayley = private("ortho_ref.parametrizations.cayley")
neumann = private("ortho_ref.parametrizations.neumann")

MISTAKES = Family()
M, named = MISTAKES.add, MISTAKES.named

OF_A = updates("scaled_cayley", "neumann_cayley")


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

    return patched(*_both("pullback", pullback), *_both("retract", _keeping))


M("V-old-U", "V with the U from before the last update", OF_A, _with_old("U"))
M("V-old-A_tilde", "V with the (I + A)^-1 from before the last update", OF_A, _with_old("A_tilde"))


@named("V-late", "V^T - V of the update before, 0 at the first", OF_A)
def _one_late(case: Case, base: Base) -> Arrays:
    waiting: dict[int, tuple[Any, Any]] = {}  # by the matrix's own D, which stays the same array

    def pullback(own: Any, self: Any, params: Any, buffers: Any, dU: Any) -> Any:
        gradient, D = own(self, params, buffers, dU), buffers["D"]
        _, before = waiting.get(id(D), (D, {"A": nothing(gradient["A"])}))
        waiting[id(D)] = D, gradient
        return before

    return patched(*_both("pullback", pullback))(case, base)


@named(
    "cayley-old-A", "U from the A before the update", updates("scaled_cayley"), instead(cayley.ScaledCayley, "retract")
)
def _old_A(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    return own(self, params, buffers, delta)[0], self.rebuild(params, buffers)
