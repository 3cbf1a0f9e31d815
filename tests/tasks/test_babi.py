"""The bAbI tasks, from files made in their format [goru:task-babi]."""

import itertools
import math
import re
import shutil
from collections import Counter

import numpy as np
import pytest

from ortho_ref.losses import LOSSES, METRICS
from tasks.babi import Babi, read_questions, words_of
from tasks.sets import BABI_FILES
from tests.tasks import made

PARTS = {"train_part": "train:10-60", "eval_part": "train:0-10", "other_data": True}
NAME = BABI_FILES[1, "train"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All forty files, and what was written: 60 and 30 questions each."""
    place = tmp_path_factory.mktemp("babi")
    return place, made.babi(place)


def plainly(text):
    """(story, question, answer) of every question of a file, in words, line by line."""
    found, story = [], []
    for line in text.splitlines():
        number, rest = line.split(" ", 1)
        if number == "1":
            story = []
        if "\t" in rest:
            question, answer, _ = rest.split("\t")
            found.append((list(story), [*question.strip()[:-1].split(), "?"], answer))
        else:
            story += [*rest[:-1].split(), "."]
    return found


def decoded(task, batch):
    """(story, question, answer) of each row of a batch; what is behind a text is token 0."""
    rows = []
    for b, y in enumerate(batch.y):
        texts = []
        for text in batch.x:
            own = text.tokens[:, b]
            assert not own[text.lengths[b] :].any()
            texts.append([task.vocabulary[token] for token in own[: text.lengths[b]]])
        rows.append((*texts, task.vocabulary[y]))
    return rows


def rows_of(task, batches):
    return [row for batch in batches for row in decoded(task, batch)]


def test_the_papers_example():
    """[goru:task-babi] "Mary went to the bathroom. John moved to the hallway. Mary traveled to the office. Where is
    Mary? Answer: office."  A question is no part of the story; the next story begins with nothing."""
    text = (
        "1 Mary went to the bathroom.\n2 John moved to the hallway.\n3 Where is John? \thallway\t2\n"
        "4 Mary traveled to the office.\n5 Where is Mary? \toffice\t4\n1 Mary took the milk.\n"
        "2 What is Mary carrying? \tmilk,apple\t1\n"
    )
    read = read_questions(text.encode(), "x")
    stories = [" ".join(read.words[i] for i in read.statements[slice(*bounds)]) for bounds in read.stories]
    assert stories == [
        "Mary went to the bathroom . John moved to the hallway .",
        "Mary went to the bathroom . John moved to the hallway . Mary traveled to the office .",
        "Mary took the milk .",
    ]
    questions = [" ".join(read.words[i] for i in read.asked[slice(*bounds)]) for bounds in read.questions]
    assert questions == ["Where is John ?", "Where is Mary ?", "What is Mary carrying ?"]
    assert [read.words[i] for i in read.answers] == ["hallway", "office", "milk,apple"]


@pytest.mark.parametrize("qa", ["1", "8", "joint"])
def test_every_question_word_by_word(folder, qa):
    """As plain code reads the files, whatever the batch: held-out ones in their order, of joint task by task; those
    trained on once a pass.  An answer of several words is one class."""
    place, written = folder
    task = Babi(place, **PARTS, qa=qa)
    read = [plainly(written[i, "train"]) for i in (range(1, 21) if qa == "joint" else [int(qa)])]
    assert rows_of(task, task.evaluation()) == [row for own in read for row in own[:10]]
    trained = [row for own in read for row in own[10:]]
    assert task.sizes == (len(trained), 10 * len(read))
    batches = list(itertools.islice(task.batches(np.random.default_rng(0), 5), len(trained) // 5))
    assert Counter(map(str, rows_of(task, batches))) == Counter(map(str, trained))
    for batch in batches:
        assert [text.tokens.shape for text in batch.x] == [(text.lengths.max(), 5) for text in batch.x]
        assert {array.dtype for array in (*batch.x[0], *batch.x[1], batch.y)} == {np.dtype(np.intp)}
    answers = {answer for _, _, answer in trained}
    assert any("," in answer for answer in answers) == (qa != "1")
    assert ("nothing" in answers) == (qa != "1")


def test_the_vocabulary_is_of_both_files(folder):
    """Words and answers, each once, in order; another part has the same."""
    place, written = folder
    task = Babi(place, **PARTS, qa="8")
    rows = [row for part in ("train", "test") for row in plainly(written[8, part])]
    assert task.vocabulary == sorted({word for story, asked, answer in rows for word in (*story, *asked, answer)})
    assert (task.output_size, task.input.size, task.input.join) == (len(task.vocabulary), len(task.vocabulary), "once")
    test = task.on("test:5-20")
    assert rows_of(test, test.evaluation()) == plainly(written[8, "test"])[5:20]
    assert test.vocabulary == task.vocabulary


def test_words():
    """Marks are words of their own, letters keep their case."""
    assert words_of(" Where is sumit? ") == ["Where", "is", "sumit", "?"]
    assert words_of("Sumit, who is 3, is-") == ["Sumit", ",", "who", "is", "3", ",", "is", "-"]


def test_a_solver(folder):
    """Where somebody went last is what is right: logits of it lose nothing; of somebody else's place they do."""
    place, _ = folder
    task = Babi(place, **PARTS)
    for batch in task.evaluation():
        places = []
        for story, question, _ in decoded(task, batch):
            sentences = " ".join(story).split(" .")
            places.append(next(own.split()[-1] for own in reversed(sentences) if question[2] in own.split()))
        logits = 200.0 * np.eye(task.output_size)[[task.vocabulary.index(where) for where in places]]
        assert LOSSES[task.loss](logits, batch.y, None)[0] < 1e-80
        assert METRICS[task.metric](0.0, logits, batch.y, None) == 1
        assert METRICS[task.metric](0.0, np.roll(logits, 1, axis=1), batch.y, None) == 0


def test_baselines(folder):
    """-log of each held-out answer's share of those trained on, one added to each word's count; and the most frequent
    answer's share of those held out, which a note tells."""
    place, written = folder
    task = Babi(place, **PARTS, qa="8")
    answers = [answer for _, _, answer in plainly(written[8, "train"])]
    counts, K = Counter(answers[10:]), len(task.vocabulary)
    losses = [-math.log((counts[answer] + 1) / (50 + K)) for answer in answers[:10]]
    assert math.isclose(task.baseline, sum(losses) / 10, rel_tol=1e-12)
    ((answer, _),) = counts.most_common(1)
    share = answers[:10].count(answer) / 10
    assert task.most_frequent == (answer, share)
    assert task.notes == [f"the most frequent answer, {answer!r}, is right for {share:.1%} of the questions held out"]


def test_as_the_archive_unpacks(folder, tmp_path):
    """The folder above en-10k does as well; fewer questions than were published are refused unless that is said; as
    many are taken, and nobody has said what they hash to."""
    place, _ = folder
    shutil.copytree(place, tmp_path / "tasks_1-20_v1-2/en-10k")
    with pytest.raises(ValueError, match=r"_train\.txt has 60 questions; the published .*_train\.txt has 10,000; get "):
        Babi(tmp_path)
    assert Babi(tmp_path, **PARTS).data == Babi(place, **PARTS).data
    rng = np.random.default_rng(1)
    for part, count in (("train", 10_000), ("test", 1_000)):
        (tmp_path / BABI_FILES[2, part]).write_text(made.lists(rng, count))
    task = Babi(tmp_path, qa="2")
    assert task.data.published is None
    assert task.sizes == (8_000, 2_000)
    assert sum(len(batch.y) for batch in task.on("test").evaluation()) == 1_000


STORY = "1 Mary went to the office.\n2 John went home.\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Mary went home.\n", "line 1, begins with 'Mary'; expected the number 1"),
        ("2 Mary went home.\n", "line 1, begins with '2'; expected the number 1"),
        (f"{STORY}4 Where is Mary?\toffice\t1\n", "line 3, begins with '4'; expected the number 1 or 3"),
        (f"{STORY}\n", "line 3, begins with ''; expected the number 1 or 3"),
        (f"{STORY}٣ x.\n", "line 3, begins with '٣'; expected the number 1 or 3"),
        (f"{STORY}3 \n", "line 3, has no words; expected a statement or a question"),
        (f"{STORY}3 \toffice\t1\n", "line 3, has no words; expected a statement or a question"),
        (f"{STORY}3 Where is Mary?\toffice\n", "line 3, has 1 tabs; expected none, or question, answer and supporting"),
        (f"{STORY}3 Where is Mary?\ta\t1\t2\n", "line 3, has 3 tabs; expected none, or question, answer and"),
        (f"{STORY}3 Where is Mary?\t \t1\n", "line 3, has no answer between its tabs"),
        (f"{STORY}3 Where is Mary?\toffice\t1 3\n", "line 3, has the supporting fact '3'; expected numbers of lines"),
        (f"{STORY}3 Where is Mary?\toffice\tone\n", "line 3, has the supporting fact 'one'; expected numbers of lines"),
        ("1 Where is Mary?\toffice\t\n", "line 1, asks before its story has a statement"),
        (f"{STORY}3 Where is Mary?\toffice\t1\n1 Where?\thome\t\n", "line 4, asks before its story has a statement"),
        (STORY, "asks nothing; expected lines with question, answer and supporting facts"),
        ("1 caf\0\n", "is binary: byte 5 is NUL; expected UTF-8 text"),
    ],
)
def test_files_that_ask_nothing_that_can_be_read(folder, tmp_path, text, message):
    """One line that names the file and the line, and what was expected there."""
    for part in ("train", "test"):
        shutil.copy(folder[0] / BABI_FILES[1, part], tmp_path)
    (tmp_path / NAME).write_text(text)
    with pytest.raises(ValueError, match=rf"^{re.escape(f'{tmp_path}: {NAME}')},? {re.escape(message)}") as error:
        Babi(tmp_path, **PARTS)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"qa": "21"}, "qa is '21'; allowed: '1', '2'"),
        ({"qa": 1}, "qa is 1; allowed: '1', '2'"),
        ({"join": "twice"}, "join is 'twice'; allowed: 'once', 'steps'"),
        ({"train_part": "train:0-20"}, "train_part and eval_part are both of train, and share examples 0 to 9; give"),
    ],
)
def test_what_cannot_be(folder, options, message):
    """The error names the option, what was given and what is allowed."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        Babi(folder[0], **PARTS | options)
