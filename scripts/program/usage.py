"""What a process has used."""

import resource
import sys


def peak_memory() -> int:
    """The most bytes that this process has had in use."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB
