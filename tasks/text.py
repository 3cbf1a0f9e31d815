"""Language modelling by characters of any UTF-8 text file (ncgru:task-lm).

The first nine tenths of the text train, the last tenth is held out.  Either part is cut into as many contiguous columns
as the batch has rows, and these into windows; the state is carried from window to window.
Target: the next character.  Loss: cross-entropy; in bits per character it is divided by ln 2.
"""

import hashlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from ortho_ref.task import Batch, Tokens, check_integer

_EVALUATION_COLUMNS = 32


def _decode(data: bytes, file: Path) -> str:
    """The text of a file's bytes; ValueError for what is no text, or only the beginning of one."""
    # NUL is UTF-8, but no text has it; binary files and UTF-16 do
    if (nul := data.find(0)) >= 0:
        raise ValueError(f"{file} is binary: byte {nul} is NUL; expected UTF-8 text")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            raise ValueError(
                f"{file} is cut short: its last character, at byte {error.start}, is incomplete; expected UTF-8 text"
            ) from None
        raise ValueError(f"{file} is not UTF-8 text: byte {error.start} is {data[error.start]:#04x}") from None


class Text:
    """Predict the next character of a text, in windows.

    The alphabet is every character of the whole file, in code-point order.

    Parameters
    ----------
    file : Path
        The text, in UTF-8.
    length : int
        Steps of a window.

    Attributes
    ----------
    sha256 : str
        Of the file's bytes, in hex.
    alphabet : ndarray
        Code points, by token.
    training, held_out : ndarray
        Tokens of the two parts.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is not UTF-8 text, or too short.
    """

    name: ClassVar[str] = "text"
    loss: ClassVar[str] = "cross_entropy"
    metric: ClassVar[str] = "bits_per_character"
    readout: ClassVar[str] = "every"

    def __init__(self, file: Path, length: int = 100) -> None:
        """Raises OSError if the file cannot be read; ValueError if it is not UTF-8 text, or too short."""
        check_integer("length", length)
        self.file, self.length = file, length
        try:
            # as bytes: the file's own line ends stay, every character counts
            data = Path(file).read_bytes()
        except OSError as error:
            raise type(error)(f"file is {file}: {error.strerror}") from error
        self.sha256 = hashlib.sha256(data).hexdigest()
        points = np.frombuffer(_decode(data, file).encode("utf-32-le"), "<u4")
        self.alphabet, tokens = np.unique(points, return_inverse=True)
        cut = len(tokens) * 9 // 10
        self.training, self.held_out = tokens[:cut], tokens[cut:]
        self.input = Tokens(len(self.alphabet))
        self.output_size = len(self.alphabet)
        if len(tokens) < 20 * _EVALUATION_COLUMNS:
            raise ValueError(f"{file} has {len(tokens)} characters; expected at least {20 * _EVALUATION_COLUMNS}")

    @cached_property
    def baseline(self) -> float:
        """The held-out loss of a bigram model: counts of the training part, one added to each pair."""
        K = self.output_size
        # only the pairs that are there: a text may have 20,000 kinds of characters
        pairs, counts = np.unique(self.training[:-1] * K + self.training[1:], return_counts=True)
        begun = np.bincount(self.training[:-1], minlength=K)
        first, asked = self.held_out[:-1], self.held_out[:-1] * K + self.held_out[1:]
        place = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
        count = np.where(pairs[place] == asked, counts[place], 0)
        return float(-np.log((count + 1.0) / (begun[first] + float(K))).mean())

    def batches(self, rng: np.random.Generator, batch_size: int) -> Iterator[Batch]:
        """Windows of the training part in order, over and over; the state starts afresh with each pass.

        Parameters
        ----------
        rng : numpy.random.Generator
            Not drawn from.
        batch_size : int
            B.

        Yields
        ------
        Batch
            x and y, both (length, B).

        Raises
        ------
        ValueError
            If the training part is too short for a window.
        """
        if len(self.training) // batch_size < self.length + 1:
            raise ValueError(
                f"{self.file} has {len(self.training)} characters to train on; batch {batch_size} and length "
                f"{self.length} need {batch_size * (self.length + 1)}"
            )
        while True:
            for batch in self._windows(self.training, batch_size):
                if len(batch.x) == self.length:
                    yield batch

    def evaluation(self) -> Iterator[Batch]:
        """The held-out part in order.

        Returns
        -------
        iterator of Batch
            x and y of 32 columns; the last window may be shorter.
        """
        return self._windows(self.held_out, _EVALUATION_COLUMNS)

    def _windows(self, tokens: np.ndarray, columns: int) -> Iterator[Batch]:
        rows = len(tokens) // columns
        table = np.ascontiguousarray(tokens[: rows * columns].reshape(columns, rows).T)
        for start in range(0, rows - 1, self.length):
            stop = min(start + self.length, rows - 1)
            yield Batch(table[start:stop], table[start + 1 : stop + 1], carries_state=start > 0)
