"""What a program asks of the C library's allocator: to keep what was freed.

An update frees what the next one needs again.  glibc gives large arrays back to the system when they are freed, and the
next update pays for new pages, each zeroed by the kernel at its first touch.  A program that trains or measures may
hold on to them; a library may not decide that for the process it is in, so that nothing of `ortho_ref` calls this.
"""

import ctypes
import os

# malloc.h; an int each
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
NEVER = -1  # of M_TRIM_THRESHOLD: as a size it is larger than any heap

_kept = False


def keep_freed_memory() -> bool:
    """Let this process keep the memory that it frees, for what it allocates next.

    No array is a mapping of its own any more (M_MMAP_MAX: M_MMAP_THRESHOLD ends at 32 MiB in glibc before 2.35), and
    the end of the heap is not given back.  The process holds on to the most that it ever had.  It is for every
    allocation of the process, whoever asks: NumPy, PyTorch, JAX.
    """
    global _kept
    if not is_glibc():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    _kept = bool(mallopt(M_TRIM_THRESHOLD, NEVER)) and bool(mallopt(M_MMAP_MAX, 0))
    return _kept


def keeps_freed_memory() -> bool:
    """Whether this process was told to, by `keep_freed_memory`, and does."""
    return _kept


def is_glibc() -> bool:
    """Whether the C library is glibc; another's mallopt, where it has one, need not know these settings."""
    if "CS_GNU_LIBC_VERSION" not in getattr(os, "confstr_names", ()):
        return False
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        return False
    return version.startswith("glibc")
