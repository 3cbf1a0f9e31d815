"""The lists that a person writes for the kit: on each line a name or a pattern, then what is said of it.

A line that begins with # is not read.
"""

from collections.abc import Iterator
from pathlib import Path

from ortho_ref import files


def read_lines(path: Path | str) -> Iterator[tuple[int, str, str]]:
    """What a list says.

    Parameters
    ----------
    path : Path or str
        The file, UTF-8, with a byte-order mark or without.

    Yields
    ------
    number : int
        The line's, from 1 on.
    name : str
        The line's first word.
    rest : str
        What follows it, "" for nothing.

    Raises
    ------
    ValueError
        It is no text.
    OSError
        It cannot be read.
    """
    try:
        text = files.read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8: {error.reason} at byte {error.start}") from None
    for number, line in enumerate(text.split("\n"), 1):
        name, *rest = line.split(maxsplit=1) or [""]
        if name and not name.startswith("#"):
            yield number, name, rest[0].strip() if rest else ""
