"""The ways of inputs and outputs: each gives what stands in `outputs` of a mistake."""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ortho_ref.activations import sigmoid
from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.changes import Change, nothing, sigmoid_slope
from ortho_ref.conformance.mistakes.mistake import Base, Outputs, by_case, given


def configured(**changes: Any) -> Outputs:
    """Another config."""
    return lambda case, base: base(given(case, **changes))


def fed(change: Callable[[Case], Arrays]) -> Outputs:
    """Other inputs: `change` gives those that differ."""
    return lambda case, base: base(given(case, change(case)))


def altered(change: Callable[[Case, Arrays], Arrays]) -> Outputs:
    """Other outputs: `change` gives those that differ."""

    def outputs(case: Case, base: Base) -> Arrays:
        found = base(case)
        return {**found, **change(case, found)}

    return outputs


def scaled(factor: float | Callable[[Case], float], *names: str) -> Outputs:
    """These outputs times a factor, or factor(case); a * in a name stands for anything."""

    def change(case: Case, found: Arrays) -> Arrays:
        by = factor(case) if callable(factor) else factor
        return {name: a * by for name, a in found.items() if fits(name, names)}

    return altered(change)


def read_as(change: Change, *names: str, adjoint: Change | None = None) -> Outputs:
    """Inputs read in another way, forward and backward; a * in a name stands for anything.

    The gradients are those of the wrong forward pass, as an automatic differentiation of it gives them: from the
    gradient by an input as it was read, which is change(input), `adjoint`, `change` itself unless given, makes that by
    the input as it was given.
    """
    back = adjoint or change
    return _read(change, lambda array, gradient: back(gradient), names)


def read_through(function: Change, derivative: Change, *names: str) -> Outputs:
    """As `read_as`, through a function of each entry whose derivative is derivative(input)."""
    return _read(function, lambda array, gradient: gradient * derivative(array), names)


def squashed(*names: str) -> Outputs:
    """As `read_as`, through a sigmoid."""
    return read_through(sigmoid, sigmoid_slope, *names)


def _read(change: Change, back: Callable[[np.ndarray, np.ndarray], np.ndarray], names: tuple[str, ...]) -> Outputs:
    def outputs(case: Case, base: Base) -> Arrays:
        own = {name: a for name, a in case.inputs.items() if fits(name, names)}
        found = base(given(case, {name: change(a) for name, a in own.items()}))
        return found | {f"d_{name}": back(a, found[f"d_{name}"]) for name, a in own.items() if f"d_{name}" in found}

    return outputs


def through(change: Change, read: tuple[str, ...], gives: tuple[str, ...]) -> Outputs:
    """Inputs read and outputs given through a change that is its own inverse and its own adjoint."""

    def outputs(case: Case, base: Base) -> Arrays:
        found = base(given(case, {name: change(case.inputs[name]) for name in read if name in case.inputs}))
        return {**found, **{name: change(found[name]) for name in gives if name in found}}

    return outputs


def taken(names: Mapping[str, str]) -> Outputs:
    """Inputs taken for others, with their gradients: input -> the one that stands in its place, and is one of them."""

    def outputs(case: Case, base: Base) -> Arrays:
        own = {name: other for name, other in names.items() if name in case.inputs}
        found = base(given(case, {name: case.inputs[other] for name, other in own.items()}))
        back = {f"d_{other}": found[f"d_{name}"] for name, other in own.items() if f"d_{name}" in found}
        return {**found, **back}

    return outputs


def exchanged(kinds: str = "WUb", /, **gates: str) -> Outputs:
    """The weights of a gate, those of `kinds`, taken for another's: gate=the one whose weights stand in its place.

    In every layer and direction.
    """

    def names(case: Case) -> dict[str, str]:
        places = dict.fromkeys(name.rpartition(".")[0] for name in case.inputs if name.startswith("weights."))
        return {f"{place}.{k}_{g}": f"{place}.{k}_{o}" for place in places for k in kinds for g, o in gates.items()}

    return by_case(lambda case: taken(names(case)))


def swapped(first: str, second: str) -> Outputs:
    """Two inputs exchanged, and their gradients."""
    return taken({first: second, second: first})


def tied(names: Mapping[str, str], sign: int = 1) -> Outputs:
    """Weights that are others, times a sign: input -> the one that stands in its place, and has both gradients."""

    def outputs(case: Case, base: Base) -> Arrays:
        found = base(given(case, {name: sign * case.inputs[other] for name, other in names.items()}))
        sums = {f"d_{other}": found[f"d_{other}"] + sign * found[f"d_{name}"] for name, other in names.items()}
        return {**found, **sums, **{f"d_{name}": nothing(found[f"d_{name}"]) for name in names}}

    return outputs


def gradient_at(change: Change, *names: str) -> Outputs:
    """The gradients by these inputs taken at change(input); all else at the inputs as they were given."""

    def outputs(case: Case, base: Base) -> Arrays:
        found = base(given(case, {name: change(case.inputs[name]) for name in names}))
        return {**base(case), **{f"d_{name}": found[f"d_{name}"] for name in names}}

    return outputs


def fits(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a name is one of these; a * in one stands for anything."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
