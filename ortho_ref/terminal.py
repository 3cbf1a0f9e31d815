"""What goes to a terminal: text that cannot command it, and streams that may be gone.

Text that was read or received (a file's, a path, an exception's message, what another program said) may hold escape
sequences, and may be of any length.  `shown` and `shown_lines` are what every program passes it through.  Whoever reads
what a program says may stop (`| head`), its disk may be full, or nobody may listen (`2>&-`): what a `Stream` cannot
write is dropped, and ends nothing.

Python alone: programs import it before anything is there.
"""

import contextlib
import io
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO, cast

#: Characters of a message, unless said otherwise: two screens.
LIMIT = 2000
_NOTE = 60  # room for the words that say how much is left out


def shown(text: object, limit: int | None = LIMIT) -> str:
    """Anything that `str` takes, of any length, on one line for a terminal: `limit` characters at most; None: all.

    Every run of spaces and line ends is one space; other characters that are not printable (controls, changes of
    direction, lone surrogates) are as Python's repr has them.  It is cut in the middle, as the end of a message often
    says what is allowed.
    """
    return _cut(" ".join(str(text).split()), limit, _visible)


def shown_lines(text: object) -> str:
    r"""A text of many lines, for a terminal: all of it, as by `shown`, but that spaces, "\n" and "\t" stay."""
    return "".join(c if c in "\n\t" else _visible(c) for c in str(text))


def cut(text: str, limit: int = LIMIT) -> str:
    """A text of any length as it is but for lone surrogates, cut in the middle to at most `limit` characters.

    It has the number of those left out; lone surrogates, which no UTF-8 has, are as Python's repr has them.
    """
    return _cut(text, limit, lambda c: _visible(c) if "\ud800" <= c <= "\udfff" else c)


def _visible(character: str) -> str:
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return repr(character)[1:-1]


def _cut(text: str, limit: int | None, how: Callable[[str], str]) -> str:
    if limit is None or len(text) <= limit:
        whole = text if text.isprintable() else "".join(map(how, text))
        if limit is None or len(whole) <= limit:
            return whole
    half = max(0, limit - _NOTE) // 2
    first, last = list(_within(map(how, text), half)), list(_within(map(how, reversed(text)), half))
    left = len(text) - len(first) - len(last)
    return f"{''.join(first)} ... {left:,} characters left out ... {''.join(reversed(last))}"


def _within(pieces: Iterable[str], room: int) -> Iterator[str]:
    """The first of the pieces, as many as there is room for."""
    for piece in pieces:
        room -= len(piece)
        if room < 0:
            return
        yield piece


class Stream(io.TextIOBase):
    """Standard output or standard error, whichever `sys` has at the time; what cannot be written is dropped.

    `name` is "stdout" or "stderr".  `error` is the OSError for which something was dropped, the first time; None where
    all was written, or nobody was to read it any more.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.error: OSError | None = None

    @property
    def file(self) -> TextIO:
        """Itself, for what asks for an open file."""
        return cast(TextIO, self)

    def write(self, text: str) -> int:
        """Write a text, or drop it; characters that the stream cannot encode are escaped."""
        with self._dropping() as stream:
            if stream is not None:
                try:
                    stream.write(text)
                except UnicodeEncodeError:
                    stream.write(text.encode(stream.encoding, "backslashreplace").decode(stream.encoding))
        return len(text)

    def flush(self) -> None:
        """Write what is buffered, or drop it."""
        with self._dropping() as stream:
            if stream is not None:
                stream.flush()

    def say(self, text: str) -> None:
        """Write a text and a line end, at once."""
        self.write(f"{text}\n")
        self.flush()

    def give(self, text: str) -> None:
        """`say` what a program is there for, and `check`."""
        self.error = None
        self.say(text)
        self.check()

    def check(self) -> None:
        """OSError where something could not be written, and not because its reader is gone: the disk is full."""
        if self.error is not None:
            raise OSError(f"standard output cannot be written: {self.error.strerror}")

    def isatty(self) -> bool:
        """Whether a terminal is there."""
        with self._dropping() as stream:
            return stream is not None and stream.isatty()
        return False

    def fileno(self) -> int:
        """The descriptor.  OSError where there is none."""
        if (stream := self._now()) is None:
            raise OSError(f"{self.name} is closed")
        return stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Of what is there now."""
        return getattr(self._now(), "encoding", None) or "utf-8"

    def _now(self) -> "io.TextIOBase | None":
        stream = getattr(sys, self.name)
        return getattr(stream, "rich_proxied_file", stream)  # under a progress bar rich stands before it

    @contextlib.contextmanager
    def _dropping(self) -> Iterator["io.TextIOBase | None"]:
        stream = self._now()
        try:
            yield stream
        except (OSError, ValueError) as error:  # ValueError: it was closed meanwhile
            if isinstance(error, OSError) and not isinstance(error, BrokenPipeError) and self.error is None:
                self.error = error
            _to_nowhere(stream)


def _to_nowhere(stream: "io.TextIOBase | None") -> None:
    """What is buffered and what comes goes nowhere: Python would try again at its end, and exit with 120."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())  # type: ignore[union-attr]
        finally:
            os.close(nowhere)


STDOUT, STDERR = Stream("stdout"), Stream("stderr")


def open_standard_streams() -> None:
    """Open what is closed of descriptors 0, 1 and 2 on nothing.

    Or the next file that is opened would have the number of standard error, and what a library writes there would go
    into it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
