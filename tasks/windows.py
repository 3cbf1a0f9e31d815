"""What language models share: tokens cut into windows, a state that is carried or not, all of a split evaluated.

    carried  Training: as many contiguous columns as the batch has rows, cut into windows in their order; the state goes
             on from window to window, and starts afresh with each pass.
    zero     Training: the windows of the text in a new order each pass; every window starts from the zero state.

Random windows, so that no token always stands at an edge, are AWD-LSTM's: with probability 0.95 about the length T
asked for, else about T / 2; about: normal, of deviation 5, rounded down, and 5 at least.

Target: the next token.  Evaluation drops nothing: every token but the first is predicted once, in columns whose last
is filled up with what a mask leaves out, or in windows from the zero state, of which the last is short.
"""

import io
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ortho_ref.training.examples import frequency_baseline, passes
from ortho_ref.training.task import Batch, Named, Tokens, check_choice, check_integer
from tasks.files import Folder, text_of
from tasks.parts import copy_without_baseline, part_of
from tasks.sets import DataSet

STATES, FORMS = ("carried", "zero"), ("fixed", "random")
#: Of random windows: how often they are half as long, the deviation of their lengths, and the least.
HALVED, DEVIATION, SHORTEST = 0.05, 5.0, 5
#: Columns of an evaluation whose state is carried; windows at a time of one whose state is not.
COLUMNS, CHUNK = 32, 32
#: Tokens that are counted at a time, and the largest table of counts.
_COUNTED, _TABLE = 1 << 20, 1 << 22


class Windows:
    """Predict the next token of a text, in windows of `length` steps, from tokens of any integer dtype.

    state: carried or zero, as above.  windows: fixed, or random: of lengths about that, the last of a pass what is
    left. where, unit: what the text is and its tokens are, for errors.  ValueError for an option that has no such
    value.
    """

    loss: ClassVar[str] = "cross_entropy"
    readout: ClassVar[str] = "every"

    def __init__(
        self,
        training: np.ndarray,
        held_out: np.ndarray,
        vocabulary: int,
        length: int,
        state: str,
        windows: str,
        where: str,
        unit: str,
    ) -> None:
        check_integer("length", length)
        check_choice("state", state, STATES)
        check_choice("windows", windows, FORMS)
        if (state, windows) == ("zero", "random"):
            raise ValueError("windows is 'random', but state is 'zero'; allowed: random windows of a carried state")
        self.windows = windows
        self.training, self.held_out, self.length, self.state = training, held_out, length, state
        self.input, self.output_size = Tokens(vocabulary), vocabulary
        self.where, self.unit = where, unit

    def batches(self, rng: np.random.Generator, batch_size: int) -> Iterator[Batch]:
        """Windows of the training part, over and over: x and y (length, B); random windows have other lengths.

        rng is drawn from for orders (state zero) and lengths (random windows) alone.  ValueError if the training part
        is too short for a batch.
        """
        tokens, T = self.training, self.length
        if len(tokens) // batch_size < T + 1:
            raise ValueError(
                f"{self.where} has {len(tokens)} {self.unit} to train on; batch {batch_size} and length {T} need "
                f"{batch_size * (T + 1)}"
            )
        steps = np.arange(T)[:, None]
        if self.state == "zero":
            for chosen in passes(rng, (len(tokens) - 1) // T, batch_size, "the windows to train on"):
                yield _batch(tokens, chosen * T + steps)
        rows = len(tokens) // batch_size
        begins = np.arange(batch_size) * rows
        while self.windows == "random":
            start = 0
            while start < rows - 1:
                stop = min(start + random_length(rng, T), rows - 1)
                yield _batch(tokens, begins + np.arange(start, stop)[:, None], carries_state=start > 0)
                start = stop
        while True:
            for start in range(0, rows - T, T):
                yield _batch(tokens, begins + start + steps, carries_state=start > 0)

    def evaluation(self) -> Iterator[Batch]:
        """The held-out part, every token but the first predicted once, 32 columns or windows at most at a time."""
        targets, T = len(self.held_out) - 1, self.length
        if self.state == "zero":
            for first in range(0, targets, CHUNK * T):
                begins = np.arange(first, min(first + CHUNK * T, targets), T)
                yield _batch(self.held_out, begins + np.arange(min(T, targets - first))[:, None])
            return
        rows = -(-targets // COLUMNS)
        begins = np.arange(0, targets, rows)
        for start in range(0, rows, T):
            steps = np.arange(start, min(start + T, rows))[:, None]
            yield _batch(self.held_out, begins + steps, carries_state=start > 0)


def random_length(rng: np.random.Generator, length: int) -> int:
    """The length of the next window about T; a run that goes on draws the same lengths again."""
    about = length / 2 if rng.random() < HALVED else length
    return max(SHORTEST, int(rng.normal(about, DEVIATION)))


def _batch(tokens: np.ndarray, places: np.ndarray, carries_state: bool = False) -> Batch:
    """The batch that reads the tokens at these places; those behind which there is none are masked."""
    there = places < len(tokens) - 1
    mask = None if there.all() else there
    places = np.minimum(places, len(tokens) - 2)
    return Batch(tokens[places].astype(np.intp), tokens[places + 1].astype(np.intp), mask, carries_state)


def bigram_baseline(training: np.ndarray, held_out: np.ndarray, vocabulary: int) -> float:
    """The held-out loss of a bigram model: counts of the training part, one added to each pair."""
    seen, counts = _pairs(training, vocabulary)
    asked, times = _pairs(held_out, vocabulary)
    place = np.minimum(np.searchsorted(seen, asked), len(seen) - 1)
    count = np.where(seen[place] == asked, counts[place], 0)
    begun = np.bincount(seen // vocabulary, counts, vocabulary)[asked // vocabulary]
    return float((times * -np.log((count + 1.0) / (begun + vocabulary))).sum() / times.sum())


def _pairs(tokens: np.ndarray, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of neighbours that are there, first * vocabulary + second, ascending, and how often each is."""
    # only those that are there: a text may have 20,000 kinds of characters
    seen, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
    table = np.zeros(vocabulary**2 if vocabulary**2 <= _TABLE else 0, np.int64)
    for start in range(0, len(tokens) - 1, _COUNTED):
        own = tokens[start : start + _COUNTED + 1].astype(np.int64)
        pairs = own[:-1] * vocabulary + own[1:]
        if len(table):
            table += np.bincount(pairs, minlength=len(table))
        else:
            both = (seen, *np.unique(pairs, return_counts=True))
            seen, where = np.unique(np.concatenate(both[:2]), return_inverse=True)
            counts = np.bincount(where, np.concatenate([counts, both[2]]), len(seen)).astype(np.int64)
    return (seen, counts) if not len(table) else (np.flatnonzero(table), table[table > 0])


class SplitText(Windows, ABC):
    """A text of a data set: what is trained on and what is held out are whole parts, train, valid or test.

    The vocabulary, by token, is of the two parts that are given, in code-point order.  length (70 are AWD-LSTM's),
    state and windows as of `Windows`; data, other_data and errors as of `stretches.Stretches`.  notes: what is in the
    files that may not be meant.
    """

    SET: ClassVar[DataSet]
    UNIT: ClassVar[str]
    PARTS: ClassVar[tuple[str, ...]] = ("train", "valid", "test")

    def __init__(
        self,
        data: Path | str | None = None,
        train_part: str = "train",
        eval_part: str = "valid",
        length: int = 70,
        state: str = "carried",
        windows: str = "fixed",
        other_data: bool = False,
    ) -> None:
        given = {"train_part": train_part, "eval_part": eval_part}
        parts = [part_of(text, self.PARTS, option, whole=True).name for option, text in given.items()]
        if parts[0] == parts[1]:
            raise ValueError(f"train_part and eval_part are both {parts[0]!r}; give them apart")
        self._folder = Folder(self.SET, data, other_data)
        self.notes: tuple[str, ...] = ()
        training, held_out = (self._symbols(part) for part in parts)
        self.vocabulary = sorted({*training, *held_out})
        self._tokens = {symbol: token for token, symbol in enumerate(self.vocabulary)}
        where = f"{self.SET.name}'s {parts[0]} in {self._folder.path}"
        tokens = (self._encoded(training, train_part), self._encoded(held_out, eval_part))
        super().__init__(*tokens, len(self.vocabulary), length, state, windows, where, self.UNIT)
        self.data: Named = self._folder.named

    @abstractmethod
    def _symbols(self, part: str) -> list[str]:
        """The symbols of a part in their order."""

    def _text(self, name: str) -> str:
        """The text of a file; what may not be meant is noted."""
        text = text_of(self._folder.read(name), name)
        by_words = self.UNIT == "words"
        learned = "the beginning of the first word" if by_words else "a character"
        returns = 0 if by_words else text.count("\r\n") + text.count("\r \n")  # of words, and of characters
        found = notes_of(str(self._folder.place_of(name)), text, returns, learned)
        self.notes = tuple(dict.fromkeys((*self.notes, *found)))
        return text

    def _encoded(self, symbols: list[str], part: str) -> np.ndarray:
        """Their tokens; ValueError where one has none, or there are none to predict."""
        if len(symbols) < 2:
            raise ValueError(f"{self._folder.path}: {part} has {len(symbols)} {self.UNIT}; expected at least 2")
        dtype: Any = np.min_scalar_type(len(self.vocabulary))
        try:
            return np.fromiter(map(self._tokens.__getitem__, symbols), dtype, len(symbols))
        except KeyError:
            new = sorted(set(symbols) - self._tokens.keys())
            raise ValueError(
                f"{self._folder.path}: {part} has {len(new)} {self.UNIT} that the run does not know, {new[0]!r} among "
                f"them; allowed: its {len(self.vocabulary)}"
            ) from None

    @cached_property
    def baseline(self) -> float:
        """The loss of a predictor that knows how often each symbol is."""
        return frequency_baseline(self.training, self.held_out[1:], self.output_size)

    def on(self, part: str) -> "SplitText":
        """The same task and vocabulary, with another part held out; OSError and ValueError as above."""
        name = part_of(part, self.PARTS, "part", whole=True).name
        other = copy_without_baseline(self)
        other.held_out = self._encoded(self._symbols(name), name)
        other.data = self._folder.named
        return other


def notes_of(where: str, text: str, returns: int, learned: str = "a character") -> Iterator[str]:
    """Notes on what is in a text that may not be meant; returns: how many of its line ends are of two characters.

    text: its beginning; learned: what a byte order mark is learned as.
    """
    if text.startswith("\ufeff"):
        yield f"{where} begins with a byte order mark, which is learned as {learned}"
    if returns:
        yield f"{where} has {returns:,} line ends of two characters, \\r\\n, which are learned as two"


def words_of(text: str) -> list[str]:
    """The words of a text in order, separated by blanks, with <eos> at the end of each line."""
    found: list[str] = []
    for line in io.StringIO(text, newline=None):  # `splitlines` cuts at form feeds and U+2028 too
        found += line.split()
        found.append("<eos>")
    return found
