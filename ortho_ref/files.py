"""Files that are there whole or not at all, and that are files: no link is followed, no FIFO waited for.

A file is written under a temporary name, synced, renamed, and its folder synced: a process that is killed, or a machine
that stops, leaves the old file or the new one.  With `folder`, a descriptor, a file is opened by its name in that
folder, whatever stands at its path meanwhile.  Windows opens no folder: there `folder` is None, and the path counts.
"""

import contextlib
import errno
import importlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from ortho_ref import formats
from ortho_ref.terminal import shown

#: Whether the system opens a folder, and then files by their names in it: POSIX does.
FOLDERS_OPEN = os.open in os.supports_dir_fd
#: Where Windows holds a lock: it lets nobody read the bytes of a lock, so they are none of the file's own.
_BEYOND = 1 << 30
#: The reason of a damage where there is no file.
GONE = "gone"


class DamagedFile(ValueError):
    """The file `path` is not as it was written, or gone; `reason` is what shows it."""

    def __init__(self, path: Path | str, reason: object) -> None:
        self.path, self.reason = Path(path), shown(reason)  # it may quote the file
        super().__init__(f"{path} is gone" if self.reason == GONE else f"{path} is damaged: {reason}")


def _path(path: Path | str) -> Path:
    """The path; TypeError for a number: `open` would take the file that has this descriptor, and close it."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path is {path!r}; allowed: a str or a Path")
    return Path(path)


def _name(path: Path | str, folder: int | None) -> Path | str:
    """What the system is told: the path, or the name in an open folder."""
    return path if folder is None else Path(path).name


def raise_naming(error: OSError, path: Path, what: str) -> NoReturn:
    """The same error, naming the file; one that says all already stays as it is."""
    if error.errno is None:
        raise error
    reason = "it is a link; remove it" if error.errno == errno.ELOOP else error.strerror
    raise type(error)(f"{path} cannot be {what}: {reason}") from error


def write(path: Path | str, data: bytes, old: Path | str | None = None, folder: int | None = None) -> None:
    """Put `data` into the file `path`, whole or not at all; what was there before stays as the file `old`, if given.

    OSError, naming path, if that fails.
    """
    path = _path(path)
    if not path.name:  # "." and "/"
        raise IsADirectoryError(f"{path} cannot be written: it is a folder, not a file")
    temporary = path.with_name(f"{path.name}.part")
    try:
        if folder is None and path.exists() and not path.is_dir():
            _check_file(os.stat(path).st_mode)  # /dev/null is not to be replaced, nor /dev/stdout
        remove(temporary, folder)  # half of an older one; or a link, which is not to be written through
        with open(opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, folder), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if old is not None and exists(path, folder):
            keep(path, old, folder)
        os.replace(_name(temporary, folder), _name(path, folder), src_dir_fd=folder, dst_dir_fd=folder)
        sync_folder(path.parent if folder is None else folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            remove(temporary, folder)
        raise_naming(error, path, "written")


def keep(path: Path | str, other: Path | str, folder: int | None = None) -> None:
    """Let the file `other` be what `path` is now; `path` stays.  OSError, naming other, if that fails."""
    path, other = _path(path), _path(other)
    temporary = other.with_name(f"{other.name}.part")
    own: dict[str, Any] = {"src_dir_fd": folder, "dst_dir_fd": folder}
    try:
        remove(temporary, folder)
        try:
            os.link(_name(path, folder), _name(temporary, folder), follow_symlinks=False, **own)
        except (OSError, NotImplementedError):  # no second names on this file system
            write(other, read(path, folder), folder=folder)
            return
        os.replace(_name(temporary, folder), _name(other, folder), **own)
        remove(temporary, folder)  # where the two were one file already, the renaming has done nothing
    except OSError as error:
        with contextlib.suppress(OSError):
            remove(temporary, folder)
        raise_naming(error, other, "written")


def remove(path: Path, folder: int | None = None) -> None:
    """Remove a file, or the link that is there, if there is one."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_name(path, folder), dir_fd=folder)


def exists(path: Path, folder: int | None = None) -> bool:
    """Whether something has this name; a link has, wherever it leads."""
    try:
        os.stat(_name(path, folder), dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def read(path: Path | str, folder: int | None = None) -> bytes:
    """What is in the file `path`.  OSError, naming path, if that cannot be read, and for a FIFO, a device, a folder."""
    path = _path(path)
    try:
        with open(opened(path, os.O_RDONLY, folder), "rb") as stream:
            return stream.read()
    except OSError as error:
        raise_naming(error, path, "read")


def opened(path: Path | str, flags: int, folder: int | None = None) -> int:
    """A regular file's descriptor, to be closed, as an opener of `open`; of one in an open folder, not through a link.

    `flags` are as of `os.open`, `folder` is the folder's descriptor.  OSError where the file cannot be opened, or is a
    FIFO, which nobody may ever write to, a device, a socket or a folder.
    """
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    if folder is not None:
        flags |= os.O_NOFOLLOW
    elif not FOLDERS_OPEN and Path(path).is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file")
    found = os.open(_name(path, folder), flags, 0o666, dir_fd=folder)
    try:
        _check_file(os.fstat(found).st_mode)
    except OSError:
        os.close(found)
        raise
    return found


def _check_file(mode: int) -> None:
    """OSError for what is no regular file."""
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
        raise OSError(errno.EINVAL, f"it is {kinds.get(stat.S_IFMT(mode), 'a device')}, not a file")


def open_folder(path: Path) -> int | None:
    """A folder's descriptor, to be closed; None where the system opens no folder.  OSError where it is not there."""
    if FOLDERS_OPEN:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    if not stat.S_ISDIR(os.stat(path).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return None


def touch(path: Path, folder: int | None = None) -> None:
    """Its time is now, a link's own where the system can."""
    os.utime(_name(path, folder), dir_fd=folder, follow_symlinks=folder is None)


def make_folder(path: Path, folder: int | None = None) -> None:
    """A folder, where it is not there.  OSError, naming path, for a link or a file in its place."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(_name(path, folder), dir_fd=folder)
    if not stat.S_ISDIR(os.stat(_name(path, folder), dir_fd=folder, follow_symlinks=False).st_mode):
        raise OSError(f"{path} is no folder; remove it")


def sync_folder(folder: Path | str | int | None) -> None:
    """Wait until the names of the folder are on the disk; only POSIX lets a folder be synced, and None is none."""
    if FOLDERS_OPEN and folder is not None:
        own = folder if isinstance(folder, int) else os.open(folder, os.O_RDONLY)
        try:
            os.fsync(own)
        finally:
            if not isinstance(folder, int):
                os.close(own)


@contextlib.contextmanager
def locked(path: Path, folder: int | None = None) -> Iterator[Callable[[], None]]:
    """Hold a folder, an open one by its descriptor, for this process and its children.

    The system lets go of it when they end, however they end.  Yields a function that looks whether it is still held:
    OSError where the folder or its lock was removed meanwhile.  BlockingIOError if another process holds it; OSError
    where its lock is no file of its own.
    """
    lock = path / "lock"
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        stream = open(opened(lock, flags, folder), "a+", encoding="ascii")  # noqa: SIM115  closed below
    except OSError as error:
        raise_naming(error, lock, "held")
    with stream:
        try:
            _lock(stream.fileno())
        except BlockingIOError as error:
            stream.seek(0)
            raise BlockingIOError(f"out is {path}, which process {stream.read() or '?'} is using") from error
        try:
            os.ftruncate(stream.fileno(), 0)
            os.write(stream.fileno(), str(os.getpid()).encode())
        except OSError as error:
            raise_naming(error, lock, "written")

        def still_held() -> None:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if os.path.samestat(os.fstat(stream.fileno()), os.stat(lock)):
                    return
            raise OSError(f"out is {path}, which was removed or taken over while this process used it")

        still_held()
        yield still_held


def _lock(descriptor: int, shared: bool = False) -> None:
    """Lock a file until it is closed, shared where the system can; BlockingIOError where another process has it."""
    try:
        import fcntl
    except ImportError:
        msvcrt: Any = importlib.import_module("msvcrt")  # which type checkers know on Windows alone
        os.lseek(descriptor, _BEYOND, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(*error.args) from None
    else:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def is_held(path: Path, folder: int | None = None) -> bool:
    """Whether another process holds a folder; nothing is written into its lock."""
    try:
        with open(opened(path / "lock", os.O_RDONLY, folder), "rb") as stream:
            _lock(stream.fileno(), shared=True)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def write_sealed(
    path: Path | str, format: str, value: dict[str, Any], form: Any, folder: int | None = None, indent: int = 2
) -> str:
    """Write a sealed document; its seal.  ValueError, naming path, where it does not fit its form."""
    try:
        data, sha256 = formats.seal(value, format, indent)
        formats.open_sealed(data, format, form)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{path} cannot hold this: {error}") from None
    write(path, data, folder=folder)
    return sha256


def read_sealed(path: Path | str, format: str, form: Any, folder: int | None = None) -> formats.Sealed:
    """Read a sealed document.

    OSError if it cannot be read; OtherFormat, naming path, if it is of another format; DamagedFile if it is not what
    was written, or does not fit its form.
    """
    data = read(path, folder)
    try:
        return formats.open_sealed(data, format, form)
    except formats.OtherFormat as error:
        raise formats.OtherFormat(f"{path} {error}") from None
    except ValueError as error:
        raise DamagedFile(path, error) from None
