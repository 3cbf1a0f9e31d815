"""Numbers too small to be normal, counted as zero."""

import contextlib
import ctypes
import functools
import platform
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def subnormals_as_zero() -> Iterator[None]:
    """Within, numbers too small to be normal count as 0, in this thread and those it starts; also as a decorator.

    What decays over a thousand steps, a state whose candidate is 0 or a cotangent, ends in subnormal numbers, and an
    x86 processor computes with these many times slower.  Linux on x86-64; elsewhere it does nothing.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        yield
        return
    libm = _libm()
    before, within = (ctypes.c_uint32 * 8)(), (ctypes.c_uint32 * 8)()  # C's fenv_t; its last word is MXCSR
    libm.fegetenv(before)
    ctypes.memmove(within, before, ctypes.sizeof(before))
    within[7] |= 1 << 15 | 1 << 6  # results (FTZ), operands (DAZ)
    libm.fesetenv(within)
    try:
        yield
    finally:
        libm.fesetenv(before)


@functools.cache  # loading it takes longer than all the rest
def _libm() -> ctypes.CDLL:
    return ctypes.CDLL("libm.so.6")
