"""Penn Treebank by words (ncgru:task-lm, sgornn:hyper): the next of 10,000 words; perplexity = exp(CE).

Words: those of the files, which are 9,999 with <unk>, and <eos> at the end of every line.  Nothing is changed; SGORNN's
code lower-cases and strips punctuation, so that its perplexities are of another text.

NC-GRU 4.6 gives no window; SGORNN 3.3 has windows of 300, and in its code each starts from the zero state.  The
baseline is a predictor that knows how often each word is, one added to each count.
"""

from typing import ClassVar

from tasks.sets import PTB, DataSet
from tasks.windows import SplitText, words_of


class PtbWord(SplitText):
    """Predict the next word of the Penn Treebank; the parameters are `SplitText`'s."""

    SET: ClassVar[DataSet] = PTB
    name: ClassVar[str] = "ptb-word"
    metric: ClassVar[str] = "perplexity"
    UNIT: ClassVar[str] = "words"

    def _symbols(self, part: str) -> list[str]:
        return words_of(self._text(f"ptb.{part}.txt"))
