"""Optimizers: gradient -> delta, what is to be subtracted.  The only stateful objects of the reference.

Adam (Kingma and Ba 2015, Algorithm 1), element by element
    m <- b1 m + (1 - b1) g                                              [bp:opt/m]
    v <- b2 v + (1 - b2) g^2                                            [bp:opt/v]
    delta = rate * m / (1 - b1^k) / (sqrt(v / (1 - b2^k)) + epsilon)    [bp:opt/delta]

With epsilon > 0 and the same options for every entry, delta is the same odd function of each entry's gradients: a skew
gradient gives an exactly skew delta (E-ncgru-11).  A complex parameter's v is kept for real and imaginary part apart.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Protocol

from ortho_ref.backend import Array, xp_of


class Optimizer(Protocol):
    """Gradient -> delta, with all of the optimizer inside: learning rate, decay, moments."""

    def delta(self, name: str, parameter: Array, gradient: Array) -> Array:
        """What to subtract from the parameter called `name`; one call per update and name.  A fresh array."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything the next delta depends on: a dict of arrays, numbers and dicts of these."""
        ...

    def load(self, state: dict[str, Any]) -> None:
        """Take up a state that `state` gave."""
        ...


class Adam:
    """Adam with bias-corrected moments, epsilon outside the root (as PyTorch)."""

    def __init__(
        self, learning_rate: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8
    ) -> None:
        """ValueError for a learning rate that is negative, betas outside [0, 1), or epsilon not above 0."""
        if not 0 <= learning_rate < float("inf"):
            raise ValueError(f"learning_rate is {learning_rate}; allowed: a finite number >= 0")
        for argument, beta in (("beta1", beta1), ("beta2", beta2)):
            if not 0 <= beta < 1:
                raise ValueError(f"{argument} is {beta}; allowed: 0 <= {argument} < 1")
        if not epsilon > 0:
            raise ValueError(f"epsilon is {epsilon}; allowed: above 0 (with 0 the zero diagonal of A would give 0 / 0)")
        self.learning_rate, self.beta1, self.beta2, self.epsilon = learning_rate, beta1, beta2, epsilon
        self._m: dict[str, Array] = {}
        self._v: dict[str, Array] = {}
        self._step: dict[str, int] = {}

    def delta(self, name: str, parameter: Array, gradient: Array) -> Array:
        """The step to subtract, shaped like the parameter."""
        xp = xp_of(parameter, gradient)
        g = _real(gradient)
        if name not in self._m:
            if g.dtype.type(self.epsilon) == 0:
                raise ValueError(f"epsilon is {self.epsilon}, which is 0 in {g.dtype}, the precision of {name}")
            self._m[name], self._v[name], self._step[name] = xp.zeros_like(g), xp.zeros_like(g), 0
        m, v = self._m[name], self._v[name]
        self._step[name] += 1
        k = self._step[name]
        m *= self.beta1
        m += (1 - self.beta1) * g  # [bp:opt/m]
        v *= self.beta2
        v += (1 - self.beta2) * (g * g)  # [bp:opt/v]
        root = xp.sqrt(v / (1 - self.beta2**k))
        root += self.epsilon
        delta = m * (self.learning_rate / (1 - self.beta1**k))
        delta /= root  # [bp:opt/delta]
        return delta.view(gradient.dtype).reshape(gradient.shape)

    def state(self) -> dict[str, Any]:
        """Moments and step counts by parameter name (copies)."""
        return {
            "m": {name: m.copy() for name, m in self._m.items()},
            "v": {name: v.copy() for name, v in self._v.items()},
            "step": dict(self._step),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take up such a state."""
        self._m = {name: m.copy() for name, m in state["m"].items()}
        self._v = {name: v.copy() for name, v in state["v"].items()}
        self._step = dict(state["step"])


class ByName:
    """Name patterns -> optimizers; the first pattern that fits a parameter's name takes it ("*.A" before "*")."""

    def __init__(self, optimizers: Mapping[str, Optimizer]) -> None:
        self.optimizers = dict(optimizers)

    def optimizer(self, name: str) -> Optimizer:
        """The optimizer of the parameter called `name`.  KeyError if no pattern fits."""
        for pattern, optimizer in self.optimizers.items():
            if fnmatchcase(name, pattern):
                return optimizer
        raise KeyError(f"no pattern fits the parameter {name!r}: {', '.join(self.optimizers)}")

    def delta(self, name: str, parameter: Array, gradient: Array) -> Array:
        """The delta of that optimizer."""
        return self.optimizer(name).delta(name, parameter, gradient)

    def state(self) -> dict[str, Any]:
        """Pattern -> its optimizer's state."""
        return {pattern: optimizer.state() for pattern, optimizer in self.optimizers.items()}

    def load(self, state: dict[str, Any]) -> None:
        """Take up such a state."""
        for pattern, optimizer in self.optimizers.items():
            optimizer.load(state[pattern])


def _real(array: Array) -> Array:
    """A complex array as real ones (..., 2 in the last axis' length); a real array as it is."""
    if array.dtype.kind != "c":
        return array
    return xp_of(array).ascontiguousarray(array).reshape(-1).view(array.real.dtype)
