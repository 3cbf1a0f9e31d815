"""What an implementation changes of the process that it runs in, and ought to leave alone: put back after it.

Standard output and standard error that were replaced or closed are complaints as well: whoever reads them reads
something else.  The rest is put back without a word.
"""

import contextlib
import locale
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

_STREAMS = {"stdout": 1, "stderr": 2}
_HIGH = 200
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP") if hasattr(signal, name)]


@contextlib.contextmanager
def kept_streams() -> Iterator[list[str]]:
    """Put standard output and standard error back; what was done to them is in the list that this yields, afterwards.

    Yields
    ------
    list of str
        "replaced sys.stdout", "closed sys.stderr", "closed file descriptor 1"; empty until then.
    """
    complaints: list[str] = []
    before = {name: (getattr(sys, name), _Copy(number)) for name, number in _STREAMS.items()}
    try:
        yield complaints
    finally:
        for name, (stream, copy) in before.items():
            complaints += _put_back(name, stream, copy)
            copy.close()


class _Copy:
    """A standard descriptor as it is now, and a second one on the same, high up: some close all the low ones."""

    def __init__(self, number: int) -> None:
        self.number, self.copy = number, -1
        self.was: os.stat_result | None = None
        with contextlib.suppress(OSError):
            self.was = os.fstat(number)
            self.copy = _high_copy(number)

    def is_there(self) -> bool:
        """Whether the standard descriptor is what it was."""
        if self.was is None:
            return True
        try:
            return os.path.samestat(os.fstat(self.number), self.was)
        except OSError:
            return False

    def put_back(self) -> None:
        """Open the standard descriptor on it again."""
        with contextlib.suppress(OSError):
            os.dup2(self.copy, self.number)

    def close(self) -> None:
        """Close the second one."""
        if self.copy >= 0:
            with contextlib.suppress(OSError):
                os.close(self.copy)


def _high_copy(number: int) -> int:
    try:
        import fcntl

        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    except (ImportError, OSError):  # not POSIX; no descriptors so high
        return os.dup(number)


def _put_back(name: str, stream: Any, copy: _Copy) -> list[str]:
    complaints, now = [], getattr(sys, name, None)
    if now is not stream:
        complaints.append(f"replaced sys.{name}")
        setattr(sys, name, stream)
    elif getattr(stream, "closed", False) is True:
        complaints.append(f"closed sys.{name}")
    if not copy.is_there():
        if not complaints:
            complaints.append(f"closed or replaced file descriptor {copy.number}, sys.{name}")
        copy.put_back()
    if getattr(stream, "closed", False) is True:
        opened = open(copy.number, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, name, opened)
        if getattr(sys, f"__{name}__", None) is stream:
            setattr(sys, f"__{name}__", opened)
    return complaints


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Put back what else others in this process rely on.

    NumPy's error handling, printing and global random numbers; warning filters; the working directory; environment;
    locale; handlers of SIGINT, SIGTERM, SIGALRM, SIGHUP; limit of recursion; trace and profile functions.
    """
    state = np.random.get_state()  # noqa: NPY002  others may use it
    environment, place = dict(os.environ), locale.setlocale(locale.LC_ALL)
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    depth, traced, profiled = sys.getrecursionlimit(), sys.gettrace(), sys.getprofile()
    folder = _folder()
    try:
        with warnings.catch_warnings(), np.errstate(), np.printoptions():
            yield
    finally:
        sys.setrecursionlimit(depth)
        if sys.gettrace() is not traced:
            sys.settrace(traced)
        if sys.getprofile() is not profiled:
            sys.setprofile(profiled)
        np.random.set_state(state)  # noqa: NPY002
        _put_back_environment(environment)
        if folder and _folder() != folder:
            with contextlib.suppress(OSError):
                os.chdir(folder)
        with contextlib.suppress(locale.Error):
            if locale.setlocale(locale.LC_ALL) != place:
                locale.setlocale(locale.LC_ALL, place)
        for number, handler in handlers.items():
            with contextlib.suppress(ValueError, TypeError):  # not in the main thread; one not set from Python
                if signal.getsignal(number) is not handler:
                    signal.signal(number, handler)


def _folder() -> str:
    """The working directory; "" where it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _put_back_environment(before: dict[str, str]) -> None:
    now = dict(os.environ)
    for name in now.keys() - before.keys():
        del os.environ[name]
    for name, value in before.items():
        if now.get(name) != value:
            os.environ[name] = value
