"""The scalar gates of FastRNN and SGORNN, and their constraint."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ortho_ref.conformance.cases.case import Case
from ortho_ref.conformance.mistakes.applies import sequence
from ortho_ref.conformance.mistakes.mistake import Family, Outputs, around, configured, patched, swapped, tied
from ortho_ref.conformance.mistakes.private import private

fastrnn = private("ortho_ref.cells.fastrnn")

MISTAKES = Family()
M, named = MISTAKES.add, MISTAKES.named


FASTRNN = sequence("fastrnn")


def _gates_free(case: Case) -> bool:
    return FASTRNN(case) and case.config["constraint"] is None


M(
    "gates-raw",
    "alpha and beta used as they are, without the sigmoid",
    _gates_free,
    patched((fastrnn, "sigmoid", lambda _: lambda a: a), (fastrnn, "sigmoid_derivative", lambda _: lambda y: 1.0)),
)
M("alpha-beta-swapped", "alpha and beta exchanged", FASTRNN, swapped("weights.alpha", "weights.beta"))
M(
    "beta-is-rest",
    "beta = 1 - alpha, without a weight of its own",
    FASTRNN,
    tied({"weights.beta": "weights.alpha"}, sign=-1),
)


def _constrained(case: Case) -> bool:
    return FASTRNN(case) and case.config["constraint"] is not None


M("no-constraint", "alpha and beta not clipped", _constrained, configured(constraint=None))


def _sgornn(case: Case) -> bool:
    return FASTRNN(case) and case.config["constraint"] == "sgornn"


M("constraint-as-printed", "beta clipped, but not alpha", _sgornn, configured(constraint="sgornn-as-printed"))


def _gates_pullback(change: Callable[..., Any]) -> Outputs:
    """Another one: change(right, cell without its constraint, cell, weights, dalpha, dbeta)."""

    def gates_pullback(own: Any, self: Any, *rest: Any) -> Any:
        return change(own, replace(self, constraint=None), self, *rest)

    return patched(around(fastrnn.FastRNN, "gates_pullback", gates_pullback))


M(
    "clip-straight-through",
    "gradients of alpha and beta as if nothing were clipped",
    _constrained,
    _gates_pullback(lambda own, free, self, *rest: own(free, *rest)),
)


@named("clip-stops", "no gradient to alpha through the bound of beta", _constrained, _gates_pullback)
def _stopping(own: Any, free: Any, self: Any, weights: Any, *rest: Any) -> Any:
    """dbeta is 0 there, and that is all."""
    gates = zip(free.gates(weights), self.gates(weights), strict=True)
    gradients = own(free, weights, *rest).items()
    return {n: gradient * float(a == b) for (n, gradient), (a, b) in zip(gradients, gates, strict=True)}
