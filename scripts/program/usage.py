"""What a process has used, and the processor that it runs on."""

import platform
import re
import sys
from functools import cache
from pathlib import Path


def peak_memory() -> int:
    """The most bytes that this process has had in use; 0 where the system does not say: on Windows."""
    try:
        import resource
    except ModuleNotFoundError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB


@cache
def cpu_name() -> str:
    """The processor's, as the system has it: nothing that would tell a person's machine from another."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()
