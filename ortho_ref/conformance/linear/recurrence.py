"""What a recurrence of the kind `linear` is: a step with its adjoint, its inputs and states."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ortho_ref.conformance.cases.case import Arrays

State: TypeAlias = tuple[np.ndarray, ...]
Back: TypeAlias = Callable[[np.ndarray, State], tuple[Arrays, State]]  # do, ds_t -> dx_t, ds_{t-1}
Step: TypeAlias = Callable[..., tuple[np.ndarray, State, Back]]  # config, x_t, s_{t-1} -> o_t, s_t, its adjoint


class Input(NamedTuple):
    """Axes, by letter, and between which numbers it is drawn.

    T is time, B batch, H heads, K a key, V a value, N the writes of a step, D the units of a diagonal state.
    """

    axes: str
    low: float = -1.0
    high: float = 1.0


@dataclass(frozen=True)
class Recurrence:
    """A recurrence of the kind `linear`."""

    name: str  # in a config
    step: Step  # step(config, x, state, **parts) -> o, the new state, its adjoint back(do, dstate) -> dx, dstate before
    inputs: Mapping[str, Input]
    states: Mapping[str, Input]  # what it takes, and what it keeps; an input without T is a weight
    output: str  # axes of o
    decay: str  # the input that makes it forget
    slow: Mapping[str, tuple[float, float]]
    strong: Mapping[str, tuple[float, float]]  # ranges with hardly any forgetting, and with nearly all
    options: Mapping[str, Any] = field(default_factory=dict)  # keys of a config with their usual values
    complex: Collection[str] = ()  # inputs and states that are complex; empty, or all but weights
    empty: Mapping[str, float] = field(default_factory=dict)  # entries of a state at the start, where they are not 0
    parts: Mapping[str, Any] = field(default_factory=dict)  # of the step, in place of its own, by `mistakes`
    kept: Callable[[np.ndarray], np.ndarray] = lambda entries: entries  # of a state between two steps

    def at(self, inputs: Arrays, t: int) -> Arrays:
        """The inputs of step t, and weights."""
        own = {name: axes for name, (axes, *_) in self.inputs.items() if name in inputs}
        return {name: inputs[name][t] if axes[0] == "T" else inputs[name] for name, axes in own.items()}

    def first(self, inputs: Arrays) -> State:
        """The state at the start: what is given, else `empty`."""
        given = [(own.axes, inputs[name]) for name, own in self.inputs.items() if name in inputs]
        sizes = {letter: n for axes, a in given for letter, n in zip(axes, a.shape, strict=True)}
        dtype = given[0][1].dtype  # weights may be real where the rest is complex

        def begin(name: str, axes: str) -> np.ndarray:
            return np.full([sizes[letter] for letter in axes], self.empty.get(name, 0.0), dtype)

        return tuple(inputs.get(f"{name}0", begin(name, own.axes)) for name, own in self.states.items())
