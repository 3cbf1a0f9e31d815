"""WikiText-2 by words (ncgru:task-lm, version 2, section 4.7): the next of 33,278 words; perplexity = exp(CE).

Words: those of the files, <unk> among them, and <eos> at the end of every line, of empty ones too, as in AWD-LSTM's
code.  The paper gives batch 80 and 100 epochs, and no window: 70 steps are AWD-LSTM's.  The baseline is a predictor
that knows how often each word is, one added to each count.
"""

from typing import ClassVar

from tasks.sets import WIKITEXT_2, DataSet
from tasks.windows import SplitText, words_of


class Wikitext2(SplitText):
    """Predict the next word of WikiText-2; the parameters are `SplitText`'s."""

    SET: ClassVar[DataSet] = WIKITEXT_2
    name: ClassVar[str] = "wikitext-2"
    metric: ClassVar[str] = "perplexity"
    UNIT: ClassVar[str] = "words"

    def _symbols(self, part: str) -> list[str]:
        return words_of(self._text(f"wiki.{part}.tokens"))
