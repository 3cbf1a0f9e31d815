"""The scalar gates of FastRNN and SGORNN, and their constraint."""

from dataclasses import replace
from typing import Any

from ortho_ref.conformance.case import Arrays, Case
from ortho_ref.conformance.mistake import Base, Family, Patch, configured, nothing, patched
from ortho_ref.conformance.mistakes.applies import sequence
from ortho_ref.conformance.private import private

fastrnn = private("ortho_ref.cells.fastrnn")

MISTAKES = Family()
M = MISTAKES.add


def _gates_free(case: Case) -> bool:
    return sequence("fastrnn")(case) and case.config["constraint"] is None


_RAW_GATES: tuple[Patch, ...] = (
    (fastrnn, "sigmoid", lambda _: lambda a: a),
    (fastrnn, "sigmoid_derivative", lambda _: lambda y: 1.0),
)


M("gates-raw", "alpha and beta used as they are, without the sigmoid", _gates_free, patched(*_RAW_GATES))


def _gates_swapped(case: Case, base: Base) -> Arrays:
    swapped = {"weights.alpha": case.inputs["weights.beta"], "weights.beta": case.inputs["weights.alpha"]}
    found = base(replace(case, inputs={**case.inputs, **swapped}))
    back = {"d_weights.alpha": "d_weights.beta", "d_weights.beta": "d_weights.alpha"}
    return {**found, **{name: found[other] for name, other in back.items()}}


M("alpha-beta-swapped", "alpha and beta exchanged", sequence("fastrnn"), _gates_swapped)


def _beta_is_rest(case: Case, base: Base) -> Arrays:
    """h = alpha f + (1 - alpha) h: one gate."""
    found = base(replace(case, inputs={**case.inputs, "weights.beta": -case.inputs["weights.alpha"]}))
    total = found["d_weights.alpha"] - found["d_weights.beta"]
    return {**found, "d_weights.alpha": total, "d_weights.beta": nothing(total)}


M("beta-is-rest", "beta = 1 - alpha, without a weight of its own", sequence("fastrnn"), _beta_is_rest)


def _constrained(case: Case) -> bool:
    return sequence("fastrnn")(case) and case.config["constraint"] is not None


M("no-constraint", "alpha and beta not clipped", _constrained, configured(constraint=None))


def _sgornn(case: Case) -> bool:
    return sequence("fastrnn")(case) and case.config["constraint"] == "sgornn"


M("constraint-as-printed", "beta clipped, but not alpha", _sgornn, configured(constraint="sgornn-as-printed"))


def _straight(own: Any) -> Any:
    """The gates' gradients as if nothing had been clipped."""

    def gates_pullback(self: Any, weights: Any, dalpha: Any, dbeta: Any) -> Any:
        return own(replace(self, constraint=None), weights, dalpha, dbeta)

    return gates_pullback


M(
    "clip-straight-through",
    "gradients of alpha and beta as if nothing were clipped",
    _constrained,
    patched((fastrnn.FastRNN, "gates_pullback", _straight)),
)


def _stopping(own: Any) -> Any:
    """No gradient to alpha through the bound of beta: dbeta is 0 there, and that is all."""

    def gates_pullback(self: Any, weights: Any, dalpha: Any, dbeta: Any) -> Any:
        free, clipped = replace(self, constraint=None), self.gates(weights)
        return {
            name: gradient * float(before == after)
            for (name, gradient), before, after in zip(
                own(free, weights, dalpha, dbeta).items(), free.gates(weights), clipped, strict=True
            )
        }

    return gates_pullback


M(
    "clip-stops",
    "no gradient to alpha through the bound of beta",
    _constrained,
    patched((fastrnn.FastRNN, "gates_pullback", _stopping)),
)
