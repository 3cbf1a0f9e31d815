"""A Python that has what Windows has: for processes with this folder in PYTHONPATH.

No module and no name of Unix's alone, no folder that can be opened, no file by its name in one, and msvcrt's lock in
place of flock's.
"""

import errno
import fcntl
import os
import signal
import subprocess  # noqa: F401  it asks for msvcrt once, before there is one
import sys
from functools import wraps
from types import ModuleType

LOCK_BEYOND = 1 << 20


def locking(descriptor, mode, count):
    """One byte held until the file is closed; PermissionError where another process holds it."""
    assert (mode, count) == (2, 1)
    assert os.lseek(descriptor, 0, os.SEEK_CUR) > LOCK_BEYOND, "it would hide the file's text"
    try:
        flock(descriptor, LOCK)
    except BlockingIOError as error:
        raise PermissionError(*error.args) from None


flock, LOCK = fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB
sys.modules["msvcrt"] = ModuleType("msvcrt")
vars(sys.modules["msvcrt"]).update(locking=locking, LK_NBLCK=2)
for name in ("fcntl", "resource", "pwd", "grp", "termios", "pty"):
    sys.modules[name] = None


def without_folders(name):
    """os.<name>, which knows no folder's descriptor."""
    own = getattr(os, name)

    @wraps(own)
    def function(path, *values, **options):
        if any(options.get(way) is not None for way in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
            raise NotImplementedError(f"{name}: dir_fd unavailable on this platform")
        if name in ("link", "utime") and not options.get("follow_symlinks", True):
            raise NotImplementedError(f"{name}: follow_symlinks unavailable on this platform")
        if name == "open" and os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return own(path, *values, **options)

    setattr(os, name, function)


for name in ("open", "stat", "mkdir", "unlink", "replace", "link", "utime"):
    without_folders(name)
os.supports_dir_fd = set()
for name in ("O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "O_CLOEXEC"):
    delattr(os, name)
for name in ("killpg", "sysconf", "getuid", "sched_getaffinity", "setsid"):
    delattr(os, name)
for name in ("SIGHUP", "SIGUSR1", "SIGUSR2"):
    delattr(signal, name)
