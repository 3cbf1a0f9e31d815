"""The files that a command writes, beside what it says: refused before the work where that can be known, and whole."""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

from ortho_ref import files


def check_places(places: Mapping[str, Path | None]) -> None:
    """Refuse, before the work, files that cannot be written, and one for two options; None: not given."""
    given = {option: path for option, path in places.items() if path is not None}
    for option, path in given.items():
        try:
            if not path.resolve().parent.is_dir():
                raise ValueError(f"{option} is {path}, whose folder does not exist")
            if path.is_dir():
                raise ValueError(f"{option} is {path}, which is a directory")
        except OSError as error:  # a name that is too long
            raise type(error)(f"{option} is {path}, which cannot be written: {error.strerror}") from None
    for (one, path), (other, same) in combinations(given.items(), 2):
        if path.resolve() == same.resolve():
            raise ValueError(f"{one} and {other} are both {path}")


def write(option: str, path: Path, text: str) -> OSError | None:
    """Write a file, over an older one; gives what went wrong, for who has more to say first."""
    try:
        if path.exists() and not path.is_file():  # a pipe, /dev/null: nothing takes its place
            path.write_text(text, encoding="utf-8")
        else:
            files.write(path.resolve(), text.encode())
    except OSError as error:
        return type(error)(f"{option} is {path}, which cannot be written: {error}")
    return None
