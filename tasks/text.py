"""Language modelling by characters of any UTF-8 text file (ncgru:task-lm).

The first nine tenths of the text train, the last tenth is held out.  Either is cut into windows (`tasks.windows`); the
state is carried from window to window.
Target: the next character.  Loss: cross-entropy; in bits per character it is divided by ln 2.

The file is read in pieces, twice: once for its alphabet, once for its tokens, of one byte each up to 256 kinds of
characters, of two up to 65,536.
"""

import codecs
import hashlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ortho_ref.training.task import Named, check_integer, opened
from tasks.files import not_text, refuse_binary
from tasks.windows import COLUMNS, Windows, bigram_baseline, notes_of

_PIECE = 1 << 20
_POINTS = 0x110000


def _pieces(file: Path, sha256: Any) -> Iterator[np.ndarray]:
    """Code points of a file, in pieces; sha256 takes in its bytes.  OSError and ValueError as of `Text`."""
    decoder, done = codecs.getincrementaldecoder("utf-8")(), 0
    try:
        with open(file, "rb", opener=opened) as stream:
            while True:
                piece = stream.read(_PIECE)
                sha256.update(piece)
                yield np.frombuffer(_decoded(decoder, piece, str(file), done).encode("utf-32-le"), "<u4")
                done += len(piece)
                if not piece:
                    return
    except OSError as error:
        raise type(error)(f"data is {file}: {error.strerror}") from error


def _decoded(decoder: codecs.IncrementalDecoder, piece: bytes, where: str, done: int) -> str:
    refuse_binary(piece, where, done)
    kept = decoder.getstate()[0]
    try:
        return decoder.decode(piece, final=not piece)
    except UnicodeDecodeError as error:
        at, byte = done - len(kept) + error.start, (kept + piece)[error.start]
        raise not_text(where, error.reason, at, byte) from None


class Text(Windows):
    """Predict the next character of a text in UTF-8, in windows; length and windows as of `Windows`.

    The alphabet, code points by token, is every character of the whole file, in code-point order; training and held_out
    are tokens; data is the SHA-256 of the file's bytes, notes what is in it that may not be meant.  OSError if the file
    cannot be read; ValueError if it is not UTF-8 text, or too short.
    """

    name: ClassVar[str] = "text"
    metric: ClassVar[str] = "bits_per_character"

    def __init__(self, data: Path | str, length: int = 100, windows: str = "fixed") -> None:
        data = Path(data)
        check_integer("length", length)  # before the file is read
        self.alphabet, tokens, sha256, returns = self._read(data)
        self.data = Named("text", None, {"text": sha256})
        self.notes = tuple(notes_of(str(data), chr(self.alphabet[tokens[0]]), returns))
        cut = len(tokens) * 9 // 10
        parts = tokens[:cut], tokens[cut:]
        super().__init__(*parts, len(self.alphabet), length, "carried", windows, str(data), "characters")

    def _read(self, data: Path) -> tuple[np.ndarray, np.ndarray, str, int]:
        """Alphabet, tokens, SHA-256, and how many line ends are of two characters."""
        seen, count, returns, last = np.zeros(_POINTS, bool), 0, 0, 0
        first, again = hashlib.sha256(), hashlib.sha256()
        for points in _pieces(data, first):
            if len(points):
                seen[points] = True
                returns += int(((points[:-1] == 13) & (points[1:] == 10)).sum()) + (last == 13 and points[0] == 10)
                count, last = count + len(points), int(points[-1])
        if count < 20 * COLUMNS:
            raise ValueError(f"{data} has {count} characters; expected at least {20 * COLUMNS}")
        alphabet = np.flatnonzero(seen)
        dtype: Any = np.min_scalar_type(len(alphabet) - 1)
        table = np.zeros(_POINTS, dtype)
        table[alphabet] = np.arange(len(alphabet))
        tokens, done = np.empty(count, dtype), 0
        for points in _pieces(data, again):
            own = table[points][: count - done]
            tokens[done : done + len(own)] = own
            done += len(own)
        if again.digest() != first.digest():
            raise ValueError(f"{data} was changed while it was read")
        return alphabet, tokens, first.hexdigest(), returns

    @cached_property
    def baseline(self) -> float:
        """The held-out loss of a bigram model: counts of the training part, one added to each pair."""
        return bigram_baseline(self.training, self.held_out, self.output_size)
