"""A map from outside: an adapter's file with `map(Q)`, and perhaps `pullback(Q, dU)`; it is asked one Q at a time."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.boundary import short
from ortho_ref.conformance.cases.case import Case
from ortho_ref.conformance.running.adapters import load_module
from ortho_ref.conformance.running.implementation import Raised, Run
from ortho_ref.conformance.running.outputs import NoArray, given

#: Unit roundoffs of what an answer may have been rounded to, the coarsest first: significant bits -> name.
_BITS = {8: "bfloat16", 11: "float16", 24: "float32"}


def as_run(map: Callable[[Any], Any], pullback: Callable[[Any, Any], Any] | None = None) -> Run:
    """A map and its pullback as run(case) -> {"U": U} or {"dQ": dL/dQ}; None for what is not there."""
    if not callable(map):
        raise TypeError(f"map is {short(map)}; allowed: a function of Q")
    if pullback is not None and not callable(pullback):
        raise TypeError(f"pullback is {short(pullback)}; allowed: a function of Q and dU, or None")

    def run(case: Case) -> Any:
        """U, or dQ."""
        if case.config["asks"] == "map":
            U = map(case.inputs["Q"])
            return None if U is None else {"U": U}
        dQ = None if pullback is None else pullback(case.inputs["Q"], case.inputs["dU"])
        return None if dQ is None else {"dQ": dQ}

    return run


def load_map(name: str) -> Run:
    """The map of FILE.py or of a module.  ValueError where there is none, or no function under these names."""
    module = load_module(name)
    if not hasattr(module, "map"):
        raise ValueError(f"adapter is {name}, which has no function map(Q)")
    try:
        return as_run(module.map, getattr(module, "pullback", None))
    except TypeError as error:
        raise ValueError(f"adapter is {name}: {error}") from None


class Refusal(Exception):
    """A map gave no U, or no gradient, of the right shape: what it did instead, in one line."""


class Map:
    """A map from outside, in this process or in another: run is what `as_run` makes."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.calls = 0
        self.batched = False

    def __call__(self, Q: Array) -> Array:
        """U of Q.  `Refusal` where there is none."""
        U = self._answer("map", {"Q": Q}, "U")
        if U is None:
            raise Refusal("returned None: not supported")
        return U

    def or_none(self, Q: Array) -> Array | None:
        """U of Q; None where there is none."""
        try:
            return self(Q)
        except Refusal:
            return None

    def pullback(self, Q: Array, dU: Array) -> Array | None:
        """dL/dQ; None where the adapter has no pullback.  `Refusal` where it gave something else."""
        return self._answer("pullback", {"Q": Q, "dU": dU}, "dQ")

    def _answer(self, asks: str, inputs: dict[str, Array], name: str) -> Array | None:
        single = inputs["Q"].ndim == 2 and self.batched
        own = {key: np.array(value[None] if single else value, order="C") for key, value in inputs.items()}
        Q = own["Q"]
        self.calls += 1
        precision = np.finfo(Q.dtype).dtype.name
        found = given(self._run, Case(f"map/{asks}", "map", {"asks": asks}, own, {name: Q.shape}, precision))
        if found is None:
            return None
        if isinstance(found, Raised):
            raise Refusal(f"{found.said}{found.place}")
        answer = found.get(name)
        if not isinstance(answer, np.ndarray):
            raise Refusal(f"gave a {name} that {answer.remark if isinstance(answer, NoArray) else 'is missing'}")
        if answer.shape != Q.shape:
            raise Refusal(f"gave a {name} of shape {answer.shape}; expected that of Q, {Q.shape}")
        if answer.dtype.kind == "c" and Q.dtype.kind != "c":
            raise Refusal(f"gave a complex {name} for a real Q")
        return answer[0] if single else answer


class Precision(NamedTuple):
    """What numbers were rounded to."""

    name: str = "float64"  # or "float32", "float16", "bfloat16"
    eps: float = 2.0**-52  # the distance from 1 to the next number


def precision_of(U: Array) -> Precision:
    """The coarsest format that holds every entry exactly: what it was computed in, or rounded to at the end.

    Of a few entries, or of small fractions, it says too little.
    """
    values = np.concatenate([U.real.ravel(), U.imag.ravel()]).astype(np.float64)
    significand = np.frexp(values[np.isfinite(values)])[0]
    if not significand.any():  # there are none, or zeros, which any format holds
        return Precision()
    for bits, name in _BITS.items():
        scaled = np.ldexp(significand, bits)
        if (scaled == np.rint(scaled)).all():
            return Precision(name, 2.0 ** (1 - bits))
    return Precision()
