"""The way of functions: replaced while a case is computed, in the kit's own instance of the modules alone."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.mistake import Base, Mistake, Outputs
from ortho_ref.conformance.mistakes.private import LOCK, is_private

Patch: TypeAlias = tuple[Any, str, Callable[[Any], Any]]  # private owner, name, what is there -> what is to be there


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
