"""Files that are there whole or not at all, and folders that one process holds.

A file is written under a temporary name, synced, renamed, and its folder synced: a process that is killed, or a machine
that stops, leaves the old file or the new one.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path


def write(path: Path, data: bytes) -> None:
    """Put `data` into the file `path`, whole or not at all.  OSError, naming path, if that fails."""
    temporary = path.with_name(f"{path.name}.part")
    try:
        with open(temporary, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise type(error)(f"{path} cannot be written: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Wait until the names of the folder are on the disk; only POSIX lets a folder be synced."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[Callable[[], None]]:
    """Hold the folder for this process and its children; the system lets go of it when they end, however they end.

    Yields a function that looks whether it is still held: OSError where the folder or its lock was removed meanwhile.
    BlockingIOError if another process holds it.  Linux and macOS.
    """
    import fcntl

    path = folder / "lock"
    with open(path, "a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            stream.seek(0)
            raise BlockingIOError(f"out is {folder}, which process {stream.read() or '?'} is using") from error
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()

        def still_held() -> None:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(stream.fileno()), os.stat(path)):
                    return
            raise OSError(f"out is {folder}, which was removed or taken over while this process used it")

        still_held()
        yield still_held
