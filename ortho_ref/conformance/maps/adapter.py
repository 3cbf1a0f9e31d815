"""An adapter of a map: a file with `map(Q)`, and perhaps `pullback(Q, dU)`, as what is asked cases."""

from collections.abc import Callable
from typing import Any

from ortho_ref.conformance.cases.case import Case
from ortho_ref.conformance.running.adapters import load_module
from ortho_ref.conformance.running.implementation import Run

#: Of the cases that a map is asked, and what is asked of it.
KIND, MAP, PULLBACK = "map", "map", "pullback"


def as_run(map: Callable[[Any], Any], pullback: Callable[[Any, Any], Any] | None = None) -> Run:
    """A map and its pullback as run(case) -> {"U": U} or {"dQ": dL/dQ}; None for what is not there."""
    if not callable(map):
        raise TypeError(f"map is {map!r}; allowed: a function of Q")
    if pullback is not None and not callable(pullback):
        raise TypeError(f"pullback is {pullback!r}; allowed: a function of Q and dU, or None")

    def run(case: Case) -> Any:
        """U, or dQ."""
        if case.config["asks"] == MAP:
            U = map(case.inputs["Q"])
            return None if U is None else {"U": U}
        dQ = None if pullback is None else pullback(case.inputs["Q"], case.inputs["dU"])
        return None if dQ is None else {"dQ": dQ}

    return run


def load_map(name: str) -> Run:
    """The map of FILE.py or of a module.  ValueError where there is none, or no function under these names."""
    module = load_module(name)
    map, pullback = getattr(module, "map", None), getattr(module, "pullback", None)
    if not callable(map):
        raise ValueError(f"adapter is {name}, which has no function map(Q)")
    if pullback is not None and not callable(pullback):
        raise ValueError(f"adapter is {name}, whose pullback is no function pullback(Q, dU)")
    return as_run(map, pullback)
