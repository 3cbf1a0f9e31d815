"""What a mistake is: a departure from `reference` in one thing, and the few ways to make one.

A mistake takes the case and the right way to compute it, so that two can be combined: the one changes inputs or
outputs, or replaces a function for the time being, around the other.  All of it is computed in the kit's own instance
of the modules (`private`): what others compute meanwhile is as ever.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case, Departed, Vector
from ortho_ref.conformance.mistakes.private import LOCK, is_private, private

reference = private("ortho_ref.conformance.cases.reference")

Base: TypeAlias = Callable[[Case], Arrays]
Predicate: TypeAlias = Callable[[Case], bool]
Outputs: TypeAlias = Callable[[Case, Base], Arrays]
Patch: TypeAlias = tuple[Any, str, Callable[[Any], Any]]  # private owner, name, what is there -> what is to be there


class Mistake(NamedTuple):
    """A wrong version, as a row of a family's table."""

    name: str
    says: str  # in words, after "equal the reference with"
    applies: Predicate  # applies(case) -> whether it is a mistake of this case
    outputs: Outputs  # outputs(case, base) -> its outputs, of a case and the right way to compute it, base(case)
    paired: bool = True  # looked for beside another: not one of many of a kind, whose pairs are too many to try


def table(*rows: tuple[Any, ...]) -> list[Mistake]:
    """Mistakes in the order in which they are listed: of each its name, its words, its cases and what is changed."""
    return [Mistake(*row) for row in rows]


def right(vector: Vector) -> Base:
    """The right way to compute a vector's case and changed forms of it: of a `Departed` one with what is assumed."""
    base: Base = reference.outputs
    return _with(vector.assumed, right(vector.whole)) if isinstance(vector, Departed) else base


def made(mistakes: Sequence[Mistake], vector: Vector) -> Arrays:
    """What an implementation with these mistakes gives, the first around the next; raises what they raise."""
    with LOCK, np.errstate(all="ignore"):
        return _with(mistakes, right(vector))(vector.case)


def _with(mistakes: Sequence[Mistake], run: Base) -> Base:
    for mistake in reversed(mistakes):
        run = partial(_around, mistake, run)
    return run


def _around(mistake: Mistake, base: Base, case: Case) -> Arrays:
    return mistake.outputs(case, base)


def given(case: Case, own: Arrays) -> Case:
    """The case with these inputs in place of its own."""
    return replace(case, inputs={**case.inputs, **own})


# The ways: each gives what stands in `outputs`.


def configured(**changes: Any) -> Outputs:
    """Another config."""
    return lambda case, base: base(replace(case, config={**case.config, **changes}))


def fed(change: Callable[[Case], Arrays]) -> Outputs:
    """Other inputs: `change` gives those that differ."""
    return lambda case, base: base(given(case, change(case)))


def altered(change: Callable[[Case, Arrays], Arrays]) -> Outputs:
    """Other outputs: `change` gives those that differ."""

    def outputs(case: Case, base: Base) -> Arrays:
        found = base(case)
        return {**found, **change(case, found)}

    return outputs


def scaled(factor: Callable[[Case], float], *names: str) -> Outputs:
    """These outputs times factor(case); a * in a name stands for anything."""
    return altered(lambda case, found: {n: a * factor(case) for n, a in found.items() if fits(n, names)})


Change: TypeAlias = Callable[[np.ndarray], np.ndarray]


def read_as(change: Change, *names: str, adjoint: Change | None = None) -> Outputs:
    """Inputs read in another way, forward and backward; a * in a name stands for anything.

    The gradients are those of the wrong forward pass, as an automatic differentiation of it gives them: from the
    gradient by an input as it was read, which is change(input), `adjoint`, `change` itself unless given, makes that by
    the input as it was given.
    """
    back = adjoint or change

    def outputs(case: Case, base: Base) -> Arrays:
        own = [name for name in case.inputs if fits(name, names)]
        found = base(given(case, {name: change(case.inputs[name]) for name in own}))
        return {**found, **{f"d_{name}": back(found[f"d_{name}"]) for name in own if f"d_{name}" in found}}

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

    def outputs(case: Case, base: Base) -> Arrays:
        places = dict.fromkeys(name.rpartition(".")[0] for name in case.inputs if name.startswith("weights."))
        names = {f"{place}.{k}_{g}": f"{place}.{k}_{o}" for place in places for k in kinds for g, o in gates.items()}
        return taken(names)(case, base)

    return outputs


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


class Patched:
    """Functions replaced while the case is computed, as by `replaced`."""

    def __init__(self, *patches: Patch) -> None:
        self.patches = patches

    def __call__(self, case: Case, base: Base) -> Arrays:
        """The outputs of a mistake."""
        with replaced(*self.patches):
            return base(case)

    def places(self) -> set[tuple[int, str]]:
        """What is replaced."""
        return {(id(owner), name) for owner, name, _ in self.patches}


def around(owner: Any, name: str, change: Callable[..., Any]) -> Patch:
    """change(right, *arguments) in place of a function or a method right(*arguments)."""
    return owner, name, lambda own: lambda *arguments: change(own, *arguments)


def instead(owner: Any, name: str) -> Callable[[Callable[..., Any]], Outputs]:
    """The way of one function or method: of change(right, *arguments) in its place."""
    return lambda change: Patched(around(owner, name, change))


def in_either_order(a: Mistake, b: Mistake) -> bool:
    """Whether a around b is b around a: they replace different functions, and nothing else."""
    if not (isinstance(a.outputs, Patched) and isinstance(b.outputs, Patched)):
        return False
    return a.outputs.places().isdisjoint(b.outputs.places())


@contextlib.contextmanager
def replaced(*patches: Patch) -> Iterator[None]:
    """Attributes of private modules and their classes, or entries of their dicts, replaced within; no others'."""
    with LOCK, contextlib.ExitStack() as stack:
        for owner, name, make in patches:
            if not is_private(owner):
                raise ValueError(f"{name} is to be replaced in {owner!r}, which is not private to the kit")
            if isinstance(owner, dict):
                stack.callback(owner.__setitem__, name, owner[name])
                owner[name] = make(owner[name])
            else:
                stack.callback(setattr, owner, name, vars(owner)[name])
                setattr(owner, name, make(vars(owner)[name]))
        yield


def fits(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a name is one of these; a * in one stands for anything."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


#: Changes: zeros in place of an array, its negative.
nothing, negative = np.zeros_like, np.negative


def same(array: np.ndarray) -> np.ndarray:
    """The array as it is."""
    return array


def times(factor: float) -> Change:
    """A change: the array times a factor."""
    return lambda array: array * factor


def transposed(array: np.ndarray) -> np.ndarray:
    """The first two axes exchanged; a last axis of real and imaginary part stays."""
    return np.swapaxes(array, 0, 1)


def conjugate(array: np.ndarray) -> np.ndarray:
    """The conjugate, of an array with a last axis of real and imaginary part."""
    return array * [1, -1]
