"""torch.compile's contender: the step of the eager cell with hoisted input products, compiled; the loop is Python's.

A whole loop would be unrolled, and compiled for minutes.  Compilation is ended after some seconds.
"""

import contextlib
import importlib.util
import signal
import threading
import warnings
from collections.abc import Iterator
from types import FrameType

from scripts.maintain.timing.peers_torch import Eager, Hoisted, contender_of
from scripts.maintain.timing.steps import CellProblem, Contender


class NotCompiledError(Exception):
    """Why there is no compiled step."""


def compiled(own: CellProblem, seconds: float) -> Contender:
    """The contender, compiled already, its gradients included.  NotCompiledError with the reason where it is not."""
    import torch

    if own.cell.complex:
        raise NotCompiledError("torch.compile generates no code for complex numbers")
    if seconds == 0 or not importlib.util.find_spec("torch._inductor"):
        raise NotCompiledError("not asked for" if seconds == 0 else "this PyTorch has no compiler")
    import torch._inductor.config as inductor

    inductor.compile_threads = 1  # no pool of processes beside what is timed
    torch._dynamo.reset()
    cell = Eager(own, Hoisted)
    body = torch.compile(cell.body, dynamic=False, fullgraph=True)
    contender = contender_of(own, cell, body)
    first = contender_of(own._replace(x=own.x[:1], dh=own.dh[:1]), cell, body)
    try:
        with _no_longer_than(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first.step()
    except TimeoutError:
        raise NotCompiledError(f"not compiled within {seconds:g} s") from None
    except Exception as error:
        raise NotCompiledError(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}") from None
    return contender


@contextlib.contextmanager
def _no_longer_than(seconds: float) -> Iterator[None]:
    """TimeoutError then, where there are alarms, and in the main thread, which alone hears them."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
