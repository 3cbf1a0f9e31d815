"""Calls on threads, which compute as the caller does.

Numbers too small to be normal are 0 to all of them, or to none, and NumPy warns of what it does for the caller.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np

from ortho_ref.boundary import check_integer
from ortho_ref.subnormals import as_in, here

Result = TypeVar("Result")

#: Where NumPy computes a thread gets so many rows at least, as its calls hold each other up; there are so many shares.
ROWS, SHARES = 4096, 8

_most: int | None = None
_pool: ThreadPoolExecutor | None = None


def threads() -> int:
    """How many threads the engine "compiled" has in this process: as many as `cores`, unless set."""
    return _most or cores()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_threads(most: int | None) -> None:
    """Let the engine "compiled" have so many threads in this process; None: all cores.  No bit depends on it."""
    global _most
    if most is not None:
        check_integer("threads", most)
    _most = most
    _forget()


def _forget() -> None:
    """Begin the threads anew when they are needed: their number was set, or a fork has none of its parent's."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def on_threads(own: Callable[..., Result], arguments: Sequence[tuple[Any, ...]]) -> list[Result]:
    """What a function gives for each of several arguments, in their order."""
    global _pool
    most = threads()
    if most == 1 or len(arguments) == 1:
        return [own(*each) for each in arguments]
    if _pool is None:
        _pool = ThreadPoolExecutor(most, "ortho_ref")
    environment, errors = here(), np.geterr()
    found: list[Any] = [None] * len(arguments)
    left = iter(range(len(arguments)))  # from which one thread at a time takes

    def work() -> None:
        with as_in(environment), np.errstate(**errors):
            for i in left:
                found[i] = own(*arguments[i])

    others = [_pool.submit(work) for _ in range(min(most, len(arguments)) - 1)]
    try:
        work()  # this thread is one of them
    finally:
        wait(others)
    for other in others:
        other.result()
    return found


def each(own: Callable[[Any], Result], parts: Iterable[Any]) -> list[Result]:
    """As `map`."""
    return on_threads(own, [(part,) for part in parts])


def share(rows: int) -> int:
    """How many of so many rows a thread is given at a time where NumPy computes; it depends on their number alone."""
    return max(ROWS, -(-rows // SHARES))
