"""Making kernels of stages, and launching them."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

from ortho_ref.backend import Array, ArrayLibrary

_allowed = os.environ.get("ORTHO_REF_KERNELS", "1") != "0"
_made: list[Callable[..., None]] = []


def are_on() -> bool:
    """Whether devices may have kernels: not with ORTHO_REF_KERNELS=0, nor within `without_kernels()`."""
    return _allowed


def launches(library: ArrayLibrary) -> bool:
    """Whether the loops of this folder run: on devices whose library makes kernels, unless switched off."""
    return _allowed and library.fuse is not None


@contextlib.contextmanager
def without_kernels() -> Iterator[None]:
    """Within, in every thread, the host's loops run on devices too, as with ORTHO_REF_KERNELS=0."""
    global _allowed
    before, _allowed = _allowed, False
    try:
        yield
    finally:
        _allowed = before


@functools.cache
def kernel(library: ArrayLibrary, stage: Callable[..., None], *options: Any) -> Callable[..., None]:
    """A stage(xp, *options, *arrays) as one kernel of the arrays, made once.

    What a stage writes has the shape that all arguments broadcast to, and shares memory with no other argument.
    """
    assert library.fuse is not None

    def call(*arrays: Array) -> None:
        stage(library.xp, *options, *arrays)

    call.__name__ = call.__qualname__ = f"{stage.__module__.rpartition('.')[2]}_{stage.__name__}"
    _made.append(library.fuse(call))
    return _made[-1]


def fallen_back() -> list[str]:
    """Names of stages that are not one kernel each: where one raises, cupy.fuse goes another way, silently."""
    return sorted({own.__name__ for own in _made if getattr(own, "new_fusion", None) is not None})


class Backwards:
    """A backward loop's kernels where no product stands between a step's last stage and the first of the one before.

    The two are one kernel; by itself is the first `meet`, meet(xp, g, *own), in which step t takes g up, and after the
    loop, by `last`, a `carry`, carry(xp, g, *carried), in which step t + 1 hands it on.
    """

    def __init__(self, library: ArrayLibrary, carry: Callable[..., None], meet: Callable[..., None]) -> None:
        self._launch, self._last = kernel(library, meet), kernel(library, carry)
        self._both = functools.partial(kernel, library, carry_and_meet, carry, meet)
        self._carried: tuple[Array, ...] = ()

    def step(self, g: Array, own: tuple[Array, ...], carried: tuple[Array, ...]) -> None:
        """`carry` with what the last call left, and `meet` with its own; g (B, n) is carried on in place."""
        self._launch(g, *self._carried, *own)
        if not self._carried:
            self._launch = self._both(len(carried))
        self._carried = carried

    def last(self, g: Array) -> None:
        """`carry` with what the last call of `step` left."""
        self._last(g, *self._carried)


def carry_and_meet(
    xp: Any, carry: Callable[..., None], meet: Callable[..., None], count: int, g: Array, *arrays: Array
) -> None:
    """Two stages of `Backwards` as one: `carry` takes the first `count` arrays, `meet` the others."""
    carry(xp, g, *arrays[:count])
    meet(xp, g, *arrays[count:])
