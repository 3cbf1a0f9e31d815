"""Files that are there whole or not at all, that are what they were when they are read, and folders one process holds.

A file is written under a temporary name, synced, renamed, and its folder synced: a process that is killed, or a machine
that stops, leaves the old file or the new one.

A sealed document is a JSON object that begins with its format, a name and a number, and ends with the SHA-256 of all
before.  It is read by `read_sealed` alone, which refuses one that differs by a bit from what was written, one of
another format, and one that does not fit its schema.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ortho_ref import schema
from ortho_ref.boundary import kind_of, short
from ortho_ref.terminal import shown

#: No document is nested deeper, has longer integers (the states of generators have 39 digits), or is larger.
DEPTH, DIGITS, LARGEST = 32, 40, 1 << 30


#: The reason of a damage where there is no file.
GONE = "gone"


class DamagedFile(ValueError):
    """A file that is not as it was written, or gone.

    Parameters
    ----------
    path : Path or str
        Which.
    reason : str
        What shows it.
    """

    def __init__(self, path: Path | str, reason: object) -> None:
        self.path, self.reason = Path(path), shown(reason)  # it may quote the file
        super().__init__(f"{path} is gone" if self.reason == GONE else f"{path} is damaged: {reason}")


def _path(path: Path | str) -> Path:
    """The path; TypeError for a number: `open` would take the file that has this descriptor, and close it."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path is {path!r}; allowed: a str or a Path")
    return Path(path)


def write(path: Path | str, data: bytes, old: Path | str | None = None) -> None:
    """Put `data` into the file `path`, whole or not at all; what was there before stays as the file `old`, if given.

    OSError, naming path, if that fails.
    """
    path = _path(path)
    old = None if old is None else _path(old)
    temporary = path.with_name(f"{path.name}.part")
    try:
        temporary.unlink(missing_ok=True)  # half of an older one; or a link, which is not to be written through
        with open(temporary, "xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if old is not None and path.exists():
            keep(path, old)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if error.errno is None:  # says all already
            raise
        raise type(error)(f"{path} cannot be written: {error.strerror}") from error


def keep(path: Path | str, other: Path | str) -> None:
    """Let the file `other` be what `path` is now; `path` stays.  OSError, naming other, if that fails."""
    path, other = _path(path), _path(other)
    temporary = other.with_name(f"{other.name}.part")
    try:
        temporary.unlink(missing_ok=True)
        try:
            os.link(path, temporary)
        except OSError:  # no second names on this file system
            write(other, read(path))
            return
        os.replace(temporary, other)
        temporary.unlink(missing_ok=True)  # where the two were one file already, the renaming has done nothing
    except OSError as error:
        if error.errno is None:  # says all already
            raise
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise type(error)(f"{other} cannot be written: {error.strerror}") from error


def read(path: Path | str) -> bytes:
    """What is in the file `path`.  OSError, naming path, if that cannot be read, and for a FIFO, a device, a folder."""
    path = _path(path)
    try:
        with open(path, "rb", opener=opened) as stream:
            return stream.read()
    except OSError as error:
        raise type(error)(f"{path} cannot be read: {error.strerror}") from error


def opened(path: str, flags: int) -> int:
    """The opener of a regular file, as `open` takes it; a FIFO that nobody writes to would be waited for.

    Parameters
    ----------
    path : str
        The file.
    flags : int
        As of `os.open`.

    Returns
    -------
    int
        A descriptor.

    Raises
    ------
    OSError
        It cannot be opened, or is a FIFO, a device, a socket or a folder.
    """
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
        raise OSError(errno.EINVAL, f"it is {kinds.get(stat.S_IFMT(mode), 'a device')}, not a file")
    return descriptor


def _opened_itself(path: str, flags: int) -> int:
    """As `opened`; not of the file that a link points to."""
    return opened(path, flags | getattr(os, "O_NOFOLLOW", 0))


def sync_folder(folder: Path | str) -> None:
    """Wait until the names of the folder are on the disk; only POSIX lets a folder be synced."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def locked(folder: Path | str) -> Iterator[Callable[[], None]]:
    """Hold the folder for this process and its children; the system lets go of it when they end, however they end.

    Yields a function that looks whether it is still held: OSError where the folder or its lock was removed meanwhile.
    BlockingIOError if another process holds it; OSError where its lock is no file of its own.  Linux and macOS.
    """
    folder = Path(folder)
    import fcntl

    path = folder / "lock"
    try:
        stream = open(path, "a+", opener=_opened_itself)  # noqa: SIM115  closed below
    except OSError as error:
        reason = "it is a link; remove it" if error.errno == errno.ELOOP else error.strerror
        raise type(error)(f"{path} cannot be held: {reason}") from error
    with stream:
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


class Sealed(NamedTuple):
    """A sealed document.

    Attributes
    ----------
    value : dict
        What is in it, without format and SHA-256.
    sha256 : str
        Its seal.
    """

    value: dict[str, Any]
    sha256: str


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON of a value; ValueError for numbers that are not finite, TypeError for what JSON has not."""
    return json.dumps(value, indent=indent, allow_nan=False)


def from_json(data: bytes) -> Any:
    """The value of JSON text in UTF-8.

    Parameters
    ----------
    data : bytes
        The text.

    Returns
    -------
    dict, list, str, int, float, bool or None
        The value.

    Raises
    ------
    ValueError
        It is no JSON, or has what nobody means: a name twice in one object, a number that is not finite, an integer of
        more than `DIGITS` digits, a nesting deeper than `DEPTH`.
    """
    if len(data) > LARGEST:
        raise ValueError(f"it has {len(data):,} bytes; allowed: {LARGEST:,}")
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_no_constant,
            parse_int=_integer,
            parse_float=_float,
        )
    except RecursionError:
        raise ValueError(f"it is nested deeper than {DEPTH} levels") from None
    check_depth(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i]))
        raise ValueError(f"it has {short(twice)} twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _integer(digits: str) -> int:
    if (count := len(digits.lstrip("-"))) > DIGITS:
        raise ValueError(f"it has an integer of {count:,} digits; allowed: {DIGITS}")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{short(digits)} is too large for a number")
    return number


def check_depth(value: Any, left: int = DEPTH) -> None:
    """ValueError unless a value of JSON is nested at most `DEPTH` levels deep."""
    if left < 0:
        raise ValueError(f"it is nested deeper than {DEPTH} levels")
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            check_depth(item, left - 1)


def check_number(value: float, where: str) -> None:
    """ValueError, naming where it is, for a number that JSON cannot hold, or `from_json` would not read."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value}; allowed: finite numbers")
    if isinstance(value, int) and abs(value) >= 10**DIGITS:
        raise ValueError(f"{where} is an integer of more than {DIGITS} digits")


def seal(value: dict[str, Any], format: str) -> tuple[bytes, str]:
    """A sealed document's text, and its seal.  TypeError, ValueError for what JSON has not."""
    if taken := sorted({"format", "sha256"} & value.keys()):
        raise ValueError(f"a document has its own {' and '.join(taken)}; name it otherwise")
    whole = {"format": format, **value}
    sha256 = hashlib.sha256(to_json(whole).encode()).hexdigest()
    return (to_json(whole | {"sha256": sha256}, 2) + "\n").encode(), sha256


def write_sealed(path: Path | str, format: str, value: dict[str, Any], form: schema.Schema) -> str:
    """Write a sealed document; its seal.  ValueError, naming path, where it does not fit its schema."""
    try:
        data, sha256 = seal(value, format)
        schema.check(from_json(data), sealed_form(format, form))
    except (ValueError, TypeError) as error:
        raise type(error)(f"{path} cannot hold this: {error}") from None
    write(path, data)
    return sha256


def read_sealed(path: Path | str, format: str, form: schema.Schema) -> Sealed:
    """Read a sealed document.

    Parameters
    ----------
    path : Path or str
        The file.
    format : str
        Which it has to be of.
    form : dict
        The schema of its value.

    Returns
    -------
    Sealed
        The value, and its seal.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is of another format.
    DamagedFile
        If it is not what was written, or does not fit the schema.
    """
    data = read(path)
    try:
        whole = from_json(data)
        if not isinstance(whole, dict):
            raise ValueError(f"it holds {kind_of(whole)}; expected an object")
    except ValueError as error:
        raise DamagedFile(path, error) from None
    if "format" in whole or "sha256" not in whole:
        check_format(path, whole.get("format"), format)
    try:
        value = {name: item for name, item in whole.items() if name not in ("format", "sha256")}
        data_again, sha256 = seal(value, format)
        if data_again != data:
            raise ValueError("its SHA-256 is not that of its text")
        schema.check(whole, sealed_form(format, form))
    except ValueError as error:
        raise DamagedFile(path, error) from None
    return Sealed(value, sha256)


def check_format(path: Path | str, found: object, format: str) -> None:
    """ValueError unless a file says that it is of this format."""
    if found != format:
        kind, _, _ = format.rpartition(" ")
        older = found is None or (isinstance(found, str) and found.startswith(f"{kind} "))
        why = f"written by another version of ortho_ref, which can go on with it; this one reads {format!r}"
        raise ValueError(f"{path} has the format {short(found)}: {why if older else f'not {format!r}'}")


def sealed_form(format: str, form: schema.Schema) -> schema.Schema:
    """The schema of a sealed document from that of its value."""
    own = {"format": schema.one_of(format), "sha256": schema.SHA256}
    return form | {
        "properties": own | form.get("properties", {}),
        "required": [*own, *form.get("required", ())],
    }
