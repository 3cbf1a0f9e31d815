"""Numbers too small to be normal, counted as zero."""

import contextlib
import ctypes
import functools
import platform
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def subnormals_as_zero() -> Iterator[None]:
    """Within, numbers too small to be normal count as 0, in this thread and those it starts; also as a decorator.

    What decays over a thousand steps, a state whose candidate is 0 or a cotangent, ends in subnormal numbers, and an
    x86 processor computes with these many times slower.  Linux on x86-64; elsewhere it does nothing.
    """
    within = here()
    if within is not None:
        within[7] |= 1 << 15 | 1 << 6  # results (FTZ), operands (DAZ)
    with as_in(within):
        yield


def here() -> Any:
    """How this thread computes: C's fenv_t, whose last word is MXCSR; None where nothing is done."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    own = (ctypes.c_uint32 * 8)()
    _libm().fegetenv(own)
    return own


@contextlib.contextmanager
def as_in(environment: Any) -> Iterator[None]:
    """Within, this thread computes as that one, of which `here` told."""
    before = here()
    if before is None:
        yield
        return
    _libm().fesetenv(environment)
    try:
        yield
    finally:
        _libm().fesetenv(before)


@functools.cache  # loading it takes longer than all the rest
def _libm() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libm.so.6")
    except OSError:  # not glibc: then these are in the C library itself
        return ctypes.CDLL(None)
