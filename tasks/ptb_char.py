"""Penn Treebank by characters (ncgru:task-lm, goru:task-char): the next of 50 symbols; bits per character = CE / ln 2.

Symbols: the 49 of the files, "_" for the space among them, and the end of a line.  The files ptb.char.*.txt are read
where they are; else they are made from the words, ptb.*.txt, from which they follow to the byte: of each line without
the spaces around it every space becomes "_", and the characters are written with a space between them.

NC-GRU 4.5: windows of 100, 32 at a time; GORU 4.5: windows of 50, the state carried from one to the next.  The baseline
is a bigram model.
"""

import hashlib
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from tasks.sets import PTB, DataSet
from tasks.windows import SplitText, bigram_baseline


def characters_file(words: str) -> bytes:
    """The file of characters that follows from a file of words."""
    lines = [" ".join(line.strip(" ").replace(" ", "_")) for line in words.split("\n")]
    return " \n ".join(lines).encode()


class PtbChar(SplitText):
    """Predict the next character of the Penn Treebank; the parameters are `SplitText`'s."""

    SET: ClassVar[DataSet] = PTB
    name: ClassVar[str] = "ptb-char"
    metric: ClassVar[str] = "bits_per_character"
    UNIT: ClassVar[str] = "characters"

    def __init__(
        self,
        data: Path | str | None = None,
        train_part: str = "train",
        eval_part: str = "valid",
        length: int = 100,
        state: str = "carried",
        windows: str = "fixed",
        other_data: bool = False,
    ) -> None:
        super().__init__(data, train_part, eval_part, length, state, windows, other_data)

    def _symbols(self, part: str) -> list[str]:
        name = f"ptb.char.{part}.txt"
        if self._folder.place_of(name) is None and self._folder.place_of(f"ptb.{part}.txt") is not None:
            data = characters_file(self._text(f"ptb.{part}.txt"))
            text = data.decode()
            self._folder.sha256[name] = hashlib.sha256(data).hexdigest()
            del self._folder.sha256[f"ptb.{part}.txt"]  # the contents count, not what they were made from
        else:
            text = self._text(name)
            data = text.encode()
        symbols = ["<eos>" if c == "\n" else c for c in text if c != " "]
        if characters_file(text.replace(" ", "").replace("_", " ")) != data:
            raise ValueError(f"{self._folder.path}: {name} is not of characters with one space between them")
        return symbols

    @cached_property
    def baseline(self) -> float:
        """The held-out loss of a bigram model: counts of the training part, one added to each pair."""
        return bigram_baseline(self.training, self.held_out, self.output_size)
