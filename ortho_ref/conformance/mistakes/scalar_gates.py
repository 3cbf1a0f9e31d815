"""The scalar gates of FastRNN and SGORNN, and their constraint."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ortho_ref.conformance.mistakes.applies import both, sequence
from ortho_ref.conformance.mistakes.mistake import Outputs, table
from ortho_ref.conformance.mistakes.patched import Patched, around
from ortho_ref.conformance.mistakes.private import private
from ortho_ref.conformance.mistakes.ways import configured, swapped, tied

fastrnn = private("ortho_ref.cells.fastrnn")

FASTRNN = sequence("fastrnn")


_constrained = both(FASTRNN, lambda case: case.config["constraint"] is not None)


def _gates_pullback(change: Callable[..., Any]) -> Outputs:
    """Another one: change(right, cell without its constraint, cell, weights, dalpha, dbeta)."""

    def gates_pullback(own: Any, self: Any, *rest: Any) -> Any:
        return change(own, replace(self, constraint=None), self, *rest)

    return Patched(around(fastrnn.FastRNN, "gates_pullback", gates_pullback))


def _stopping(own: Any, free: Any, self: Any, weights: Any, *rest: Any) -> Any:
    """dbeta is 0 there, and that is all."""
    gates = zip(free.gates(weights), self.gates(weights), strict=True)
    gradients = own(free, weights, *rest).items()
    return {n: gradient * float(a == b) for (n, gradient), (a, b) in zip(gradients, gates, strict=True)}


MISTAKES = table(
    ("gates-raw", "alpha and beta used as they are, without the sigmoid", sequence("fastrnn", constraint=None),
     Patched((fastrnn, "sigmoid", lambda _: lambda a: a), (fastrnn, "sigmoid_derivative", lambda _: lambda y: 1.0))),
    ("alpha-beta-swapped", "alpha and beta exchanged", FASTRNN, swapped("weights.alpha", "weights.beta")),
    ("beta-is-rest", "beta = 1 - alpha, without a weight of its own",
     FASTRNN, tied({"weights.beta": "weights.alpha"}, sign=-1)),
    ("no-constraint", "alpha and beta not clipped", _constrained, configured(constraint=None)),
    ("constraint-as-printed", "beta clipped, but not alpha",
     sequence("fastrnn", constraint="sgornn"), configured(constraint="sgornn-as-printed")),
    ("clip-straight-through", "gradients of alpha and beta as if nothing were clipped",
     _constrained, _gates_pullback(lambda own, free, self, *rest: own(free, *rest))),
    ("clip-stops", "no gradient to alpha through the bound of beta", _constrained, _gates_pullback(_stopping)),
)  # fmt: skip
