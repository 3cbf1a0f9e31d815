"""Answer a question about a story (goru:task-babi): the 20 bAbI tasks of Weston et al., en-10k.

Input: two texts of words, the story and the question; all statements of the story that stand before the question, in
one text, none of its earlier questions.  Target, at the end only: the answer, of as many classes as there are words.
Loss: cross-entropy.

The files: a line is a number, a blank and a statement, or a question, its answer and the numbers of the statements that
support it, by tabs.  Numbers begin at 1 with each story and go up by 1.  Which statements support an answer is not
used.

As in public code (Keras's examples on this set): words and punctuation marks are tokens, in their own case; one
vocabulary of all words and answers in a task's training and test file.  An answer is one class: of several words, in
tasks 8 and 19, "apple,football" or "n,w" as it stands.

As in the paper a task is learned by itself, from the first 8,000 of its 10,000 questions; the other 2,000 are held out;
1,000 are its test part.  "joint" is ours: one network on all 20, each cut so.  The paper stops when the held-out loss
has not fallen for five passes; a run keeps the weights that were best there.
"""

import re
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from ortho_ref.training.examples import Examples, frequency_baseline
from ortho_ref.training.task import JOINS, Batch, Named, Padded, StoryAndQuestion, check_choice
from tasks.files import Folder, text_of
from tasks.parts import Part, check_apart, copy_without_baseline, part_of
from tasks.sets import BABI, BABI_FILES, BABI_TASKS

#: Part -> how many questions of a task it has as published.
PARTS = {"train": 10_000, "test": 1_000}
JOINT = "joint"
#: --qa
TASKS = (*map(str, range(1, len(BABI_TASKS) + 1)), JOINT)


class Questions(NamedTuple):
    """Questions, the stories they are about, and the answers.

    words: every word and answer, which all else names by its place here.  stories (N, 2): where in statements the story
    of each begins and ends; questions (N, 2): where in asked each begins and ends; answers (N,).
    """

    words: list[str]
    statements: np.ndarray
    stories: np.ndarray
    asked: np.ndarray
    questions: np.ndarray
    answers: np.ndarray

    def stretch(self, start: int, stop: int) -> "Questions":
        """The questions `start` to `stop` - 1."""
        own = slice(start, stop)
        return self._replace(stories=self.stories[own], questions=self.questions[own], answers=self.answers[own])

    def in_words(self, vocabulary: list[str]) -> "Questions":
        """The same by the places in another list, which has all these words."""
        places = {word: i for i, word in enumerate(vocabulary)}
        new = np.array([places[word] for word in self.words], np.intp)
        return self._replace(
            words=vocabulary, statements=new[self.statements], asked=new[self.asked], answers=new[self.answers]
        )


def words_of(text: str) -> list[str]:
    """The words and marks of a text, in their own case: of "Where is Mary?" they are Where, is, Mary and ?."""
    return [token for part in re.findall(r"\w+|\W+", text) if (token := part.strip())]


def read_questions(data: bytes, where: str) -> Questions:
    """What a file in bAbI's format asks, in its order; words in the order in which they come.

    ValueError, naming the line, for one that is not as above, and for a file that asks nothing.
    """
    reading = _Reading()
    for i, line in enumerate(text_of(data, where).splitlines(), 1):
        try:
            reading.take(line)
        except ValueError as error:
            raise ValueError(f"{where}, line {i}, {error}") from None
    if not reading.answers:
        raise ValueError(f"{where} asks nothing; expected lines with question, answer and supporting facts")
    return reading.questions


class _Reading:
    """What has been read of a file."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self._places: dict[str, int] = {}
        self._known: dict[str, list[int]] = {}
        self._statements: list[int] = []
        self._asked: list[int] = []
        self._stories: list[tuple[int, int]] = []
        self._bounds: list[tuple[int, int]] = []
        self._begin = self._number = 0

    @property
    def questions(self) -> Questions:
        parts = (self._statements, self._stories, self._asked, self._bounds, self.answers)
        return Questions(list(self._places), *(np.array(part, np.intp) for part in parts))

    def take(self, line: str) -> None:
        """A line more; ValueError for one that is not as it should be."""
        number, _, rest = line.strip(" \r").partition(" ")
        if not _is_number(number, 1, self._number + 1) or int(number) not in (1, self._number + 1):
            allowed = f"1 or {self._number + 1}" if self._number else "1"
            raise ValueError(f"begins with {number[:20]!r}; expected the number {allowed}")
        self._number = int(number)
        if self._number == 1:
            self._begin = len(self._statements)
        text, *fields = rest.split("\t")
        own = self._codes(text)
        if not own:
            raise ValueError("has no words; expected a statement or a question")
        if fields:
            self._ask(own, fields)
        else:
            self._statements += own

    def _ask(self, question: list[int], fields: list[str]) -> None:
        if len(fields) != 2:
            raise ValueError(f"has {len(fields)} tabs; expected none, or question, answer and supporting facts by 2")
        answer = fields[0].strip()
        if not answer:
            raise ValueError("has no answer between its tabs")
        for fact in fields[1].split():
            if not _is_number(fact, 1, self._number - 1):
                raise ValueError(f"has the supporting fact {fact[:20]!r}; expected numbers of lines before it")
        if self._begin == len(self._statements):
            raise ValueError("asks before its story has a statement")
        self._stories.append((self._begin, len(self._statements)))
        self._bounds.append((len(self._asked), len(self._asked) + len(question)))
        self._asked += question
        self.answers.append(self._places.setdefault(answer, len(self._places)))

    def _codes(self, text: str) -> list[int]:
        """The places of its words; most sentences come again and again."""
        if text not in self._known:
            self._known[text] = [self._places.setdefault(word, len(self._places)) for word in words_of(text)]
        return self._known[text]


def _is_number(text: str, least: int, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most


class Babi(Examples):
    """Answer a question about a story; options and errors as of `Stretches`, parts being of each task.

    qa: 1 to 20, or joint, all of them.  join: once or steps, how a `Reader` puts story and question together.
    vocabulary: words and answers, in order, which tokens and classes name.
    """

    name: ClassVar[str] = "babi"
    loss: ClassVar[str] = "cross_entropy"
    metric: ClassVar[str] = "accuracy"
    readout: ClassVar[str] = "last"

    def __init__(
        self,
        data: Path | str | None = None,
        train_part: str = "train:0-8000",
        eval_part: str = "train:8000-10000",
        qa: str = "1",
        join: str = "once",
        other_data: bool = False,
    ) -> None:
        check_choice("qa", qa, TASKS)
        check_choice("join", join, JOINS)
        self.qa, self.join = qa, join
        train, held_out = part_of(train_part, PARTS, "train_part"), part_of(eval_part, PARTS, "eval_part")
        folder = Folder(BABI, data, other_data)
        chosen = [int(qa)] if qa != JOINT else range(1, len(BABI_TASKS) + 1)
        parts = {part: [_read(folder, BABI_FILES[i, part], part) for i in chosen] for part in PARTS}
        self.vocabulary = sorted({word for part in parts.values() for own in part for word in own.words})
        self._parts = {part: [own.in_words(self.vocabulary) for own in read] for part, read in parts.items()}
        self._training = self._stretch(train, "train_part")
        self._held_out = self._stretch(held_out, "eval_part")
        for own in self._parts[train.name]:
            check_apart(train, held_out, len(own.answers))
        self.data: Named = folder.named

    def _stretch(self, part: Part, option: str) -> Questions:
        """A stretch of each task's part."""
        read = self._parts[part.name]
        return _one_after_the_other([own.stretch(*part.bounds(len(own.answers), option)) for own in read])

    @property
    def input(self) -> StoryAndQuestion:
        """Of one vocabulary."""
        return StoryAndQuestion(len(self.vocabulary), self.join)

    @property
    def output_size(self) -> int:
        """One class for each word."""
        return len(self.vocabulary)

    @property
    def sizes(self) -> tuple[int, int]:
        """Questions that are trained on, and held out."""
        return len(self._training.answers), len(self._held_out.answers)

    @cached_property
    def baseline(self) -> float:
        """The loss of a predictor that knows how often each answer is."""
        return frequency_baseline(self._training.answers, self._held_out.answers, self.output_size)

    @property
    def most_frequent(self) -> tuple[str, float]:
        """The answer that is most frequent among those trained on, and the share of those held out that it is."""
        ((answer, _),) = Counter(self._training.answers.tolist()).most_common(1)
        return self.vocabulary[answer], float((self._held_out.answers == answer).mean())

    @property
    def notes(self) -> list[str]:
        """How far one gets without reading."""
        answer, share = self.most_frequent
        return [f"the most frequent answer, {answer!r}, is right for {share:.1%} of the questions held out"]

    def batch(self, chosen: np.ndarray, held_out: bool = False) -> Batch:
        """The batch of some questions (B,).

        x: story and question, each tokens (T, B), filled up at the end to its longest, and lengths (B,); y (B,).
        """
        own = self._held_out if held_out else self._training
        texts = _padded(own.statements, own.stories[chosen]), _padded(own.asked, own.questions[chosen])
        return Batch(texts, own.answers[chosen])

    def on(self, part: str) -> "Babi":
        """The same task with another part held out; ValueError as above."""
        other = copy_without_baseline(self)
        other._held_out = self._stretch(part_of(part, PARTS, "part"), "part")
        return other


def _read(folder: Folder, name: str, part: str) -> Questions:
    """A file of the set."""
    where = f"{folder.path}: {name}"
    found = read_questions(folder.read(name), where)
    if len(found.answers) != PARTS[part]:
        folder.refuse(f"{where} has {len(found.answers):,} questions; the published {name} has {PARTS[part]:,}")
    return found


def _one_after_the_other(parts: list[Questions]) -> Questions:
    """Questions of the same vocabulary as one."""

    def moved(texts: str, bounds: str) -> np.ndarray:
        lengths = [len(getattr(own, texts)) for own in parts]
        before = np.cumsum([0, *lengths[:-1]])
        return np.concatenate([getattr(own, bounds) + offset for own, offset in zip(parts, before, strict=True)])

    return Questions(
        parts[0].words,
        np.concatenate([own.statements for own in parts]),
        moved("statements", "stories"),
        np.concatenate([own.asked for own in parts]),
        moved("asked", "questions"),
        np.concatenate([own.answers for own in parts]),
    )


def _padded(words: np.ndarray, bounds: np.ndarray) -> Padded:
    """Stretches of words, filled up at the end by token 0."""
    lengths = bounds[:, 1] - bounds[:, 0]
    steps = np.arange(lengths.max())[:, None]
    there = steps < lengths
    return Padded(np.where(there, words[np.where(there, bounds[:, 0] + steps, 0)], 0), lengths)
