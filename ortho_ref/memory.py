"""Memory of a process and of this machine, in bytes, as Linux tells them; a container's, where this runs in one."""

import os
import re
from pathlib import Path

#: Where a container says what it may use, what it uses, and of what; version 2 of control groups and version 1.
_GROUP = Path("/sys/fs/cgroup")
_FILES = (
    ("memory.max", "memory.current", "memory.stat"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)


def resident(pid: int) -> int:
    """What a process has in use; 0 where the system does not say it as Linux does."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def free_memory() -> int | None:
    """What the machine, or the container, can still give to programs; None where it does not tell."""
    try:
        available = re.search(r"^MemAvailable: *(\d+) kB$", Path("/proc/meminfo").read_text("ascii"), re.MULTILINE)
    except OSError:
        return None
    if available is None:
        return None
    return min([int(available[1]) * 1024, *(max(limit - used, 0) for limit, used in _containers())])


def _containers() -> list[tuple[int, int]]:
    """Limit, and what is in use without the files that the system would drop; empty where there is no limit."""
    found = []
    for names in _FILES:
        limit, used, droppable = map(_read, names)
        if limit is not None and used is not None:
            found.append((limit, used - (droppable or 0)))
    return found


def _read(name: str) -> int | None:
    """The number that a file has, or its line on inactive files; None where it has none: "max", or no such file."""
    try:
        found = re.search(r"^(?:inactive_file )?(\d+)$", (_GROUP / name).read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None
