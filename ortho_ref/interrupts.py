"""An interrupt while a program is still being loaded.

Libraries are half imported then, and Python would show where, or NumPy say that its import failed.  A package that is
imported first calls `until_loaded`, and the program, once it runs, `loaded`.  Python alone.
"""

import contextlib
import os
import signal
import sys
from types import FrameType


def until_loaded(program: str) -> None:
    """End the process at SIGINT, with one line and exit code 130, if it was started as that program.

    Nothing where the package is imported by anybody else, or where SIGINT is ignored or somebody handles it.
    `program` is as after python -m; of a package, every program in it.
    """
    name = started()
    if f"{name}.".startswith(f"{program}."):
        with contextlib.suppress(ValueError):  # not in the main thread
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, _end)


def loaded() -> None:
    """From here on SIGINT is a KeyboardInterrupt again."""
    with contextlib.suppress(ValueError):
        if signal.getsignal(signal.SIGINT) is _end:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def started() -> str | None:
    """NAME, while Python looks for the NAME of python -m NAME; None at any other time."""
    if getattr(sys, "argv", [""])[:1] != ["-m"]:  # so it is then, and never again
        return None
    given = sys.orig_argv[len(sys.orig_argv) - len(sys.argv)]
    return given if not given.startswith("-") else given.partition("m")[2]  # -mNAME, -ImNAME


def _end(number: int, frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(130)
