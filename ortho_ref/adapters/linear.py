"""A case of kind `linear` by a forward pass over the whole sequence; the framework takes the gradients."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ortho_ref.adapters.sequence import left_out
from ortho_ref.boundary import kind_of
from ortho_ref.conformance.linear.table import RECURRENCES
from ortho_ref.conformance.running.implementation import OfCell

#: forward(x, config) -> {"o": ..., "S_T": ...}, or None for a case that it does not support.
Forward: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], Mapping[str, Any] | None]
#: taken(forward, inputs, upstream, wanted) -> what forward gave, and the gradients by the wanted inputs, in NumPy.
Taken: TypeAlias = Callable[..., tuple[Mapping[str, Any], Mapping[str, Any]] | None]


def is_recurrence(cell: Any) -> bool:
    """Whether it is the name of a recurrence of the kind `linear`."""
    return isinstance(cell, str) and cell in RECURRENCES


def linear_adapter(forward: Forward, cell: str, taken: Taken, **given: Any) -> OfCell:
    """The adapter of a framework, for one recurrence: None for another kind or recurrence.

    x of forward(x, config) has the case's inputs by name, time first, complex ones with a last axis of 2, without the
    upstream gradients; the gradients are those of L = sum(do * o) + sum(dS_T * S_T).  TypeError for what else is given,
    and for what is no function.
    """
    left_out("a linear recurrence is a function (x, config)", **given)
    if isinstance(forward, type) or not callable(forward):
        raise TypeError(f"target is {forward!r}; allowed for a linear recurrence: a function (x, config)")

    def run(case: Any) -> dict[str, np.ndarray] | None:
        """The outputs; None for another kind or recurrence, or where forward gives None."""
        if case.kind != "linear" or case.config["recurrence"] != cell:
            return None
        wanted = [name.removeprefix("d_") for name in case.outputs if name.startswith("d_")]
        upstream = {name: case.inputs[f"d{name}"] for name in case.outputs if not name.startswith("d_")}
        inputs = {name: a for name, a in case.inputs.items() if name.removeprefix("d") not in upstream}

        def own(x: dict[str, Any]) -> Mapping[str, Any] | None:
            found = forward(x, case.config)
            if found is None or (isinstance(found, Mapping) and found and set(found) <= set(upstream)):
                return found
            given = ", ".join(map(str, found)) if isinstance(found, Mapping) and found else kind_of(found)
            raise ValueError(f"the forward pass returned {given}; expected a dict of {', '.join(upstream)}")

        found = taken(own, inputs, upstream, wanted)
        if found is None:
            return None
        outputs, gradients = found
        return {**outputs, **{f"d_{name}": a for name, a in gradients.items()}}

    return OfCell(run, cell)
