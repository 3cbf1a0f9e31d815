"""A map that is asked: one Q, one answer, whatever it does instead."""

from typing import NamedTuple

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.conformance.cases.case import Case
from ortho_ref.conformance.maps.adapter import KIND, MAP, PULLBACK
from ortho_ref.conformance.running.asking import ask
from ortho_ref.conformance.running.implementation import Broken, Raised, Run
from ortho_ref.conformance.running.outputs import NoArray

#: Unit roundoffs of what an answer may have been rounded to, the coarsest first: significant bits -> name.
_BITS = {8: "bfloat16", 11: "float16", 24: "float32"}


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
        U = self._answer(MAP, {"Q": Q}, "U")
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
        return self._answer(PULLBACK, {"Q": Q, "dU": dU}, "dQ")

    def _answer(self, asks: str, inputs: dict[str, Array], name: str) -> Array | None:
        single = inputs["Q"].ndim == 2 and self.batched
        own = {key: np.array(value[None] if single else value, order="C") for key, value in inputs.items()}
        shape = own["Q"].shape
        precision = {"f4": "float32", "c8": "float32"}.get(own["Q"].dtype.str[1:], "float64")
        self.calls += 1
        case = Case(f"{KIND}/{asks}", KIND, {"asks": asks}, own, {name: shape}, precision)
        found = self._given(case)
        if found is None:
            return None
        answer = found.get(name)
        if not isinstance(answer, np.ndarray):
            raise Refusal(f"gave a {name} that {answer.remark if isinstance(answer, NoArray) else 'is missing'}")
        if answer.shape != shape:
            raise Refusal(f"gave a {name} of shape {answer.shape}; expected that of Q, {shape}")
        if answer.dtype.kind == "c" and own["Q"].dtype.kind != "c":
            raise Refusal(f"gave a complex {name} for a real Q")
        return answer[0] if single else answer

    def _given(self, case: Case) -> dict[str, np.ndarray | NoArray] | None:
        try:
            return ask(self._run, case)
        except KeyboardInterrupt:  # the user's
            raise
        except BaseException as error:
            raised = Raised.of(error)
            raise Refusal(f"{raised.said}{raised.place}" if not isinstance(error, Broken) else str(error)) from None


class Precision(NamedTuple):
    """What numbers were rounded to."""

    name: str  # "float64", "float32", "float16" or "bfloat16"
    eps: float  # the distance from 1 to the next number


def precision_of(U: Array) -> Precision:
    """The coarsest format that holds every entry exactly: what it was computed in, or rounded to at the end.

    Of a few entries, or of small fractions, it says too little.
    """
    values = np.concatenate([U.real.ravel(), U.imag.ravel()]).astype(np.float64)
    significand = np.frexp(values[np.isfinite(values)])[0]
    for bits, name in _BITS.items():
        scaled = np.ldexp(significand, bits)
        if (scaled == np.rint(scaled)).all():
            return Precision(name, 2.0 ** (1 - bits))
    return Precision("float64", 2.0**-52)
