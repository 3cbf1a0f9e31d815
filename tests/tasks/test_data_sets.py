"""Tasks on data sets, read from small files in each set's format."""

import gzip
import itertools
import math
import random
import re
from collections import Counter

import numpy as np
import pytest

from ortho_ref.losses import LOSSES, METRICS
from tasks import by_name
from tasks.har import Har, numbers
from tasks.mnist import Mnist
from tasks.permuted_mnist import PERMUTATIONS, PermutedMnist
from tasks.ptb_char import PtbChar, characters_file
from tasks.ptb_word import PtbWord
from tasks.sets import HAR_CHANNELS
from tasks.wikitext_2 import Wikitext2
from tasks.windows import words_of
from tests.tasks import made

NAMES = list(made.MAKE)
SIGNAL = "train/Inertial Signals/body_acc_x_train.txt"


@pytest.fixture(params=NAMES)
def task(request, tmp_path):
    """Each task on made files."""
    made.MAKE[request.param](tmp_path)
    return by_name.make(request.param, data=tmp_path, **made.OPTIONS[request.param])


def test_every_task_on_a_set_is_made():
    """This file's list is the list's."""
    assert set(NAMES) == set(by_name.takers_of("train_part"))


# Of all of them


def test_what_was_read_is_named(task):
    """By its contents, and as what was not published; of recordings nobody has said what that hashes to."""
    assert task.data.published is (None if task.name == "speech" else False)
    assert len(task.data.sha256) >= 2


def test_another_part(task):
    """The held-out set is another, all else as it was; a part that is none is refused."""
    other = task.on("test")
    assert other.data.sha256.items() >= task.data.sha256.items()
    assert (other.output_size, other.loss) == (task.output_size, task.loss)
    ours, theirs = (sum(b.y.size for b in own.evaluation()) for own in (other, task))
    assert ours != theirs or task.name in ("har", "speech")
    assert next(iter(other.evaluation())).y.dtype == (np.float32 if task.name == "speech" else np.intp)
    assert math.isfinite(other.baseline)
    with pytest.raises(ValueError, match=r"^part is 'tests'; allowed: "):
        task.on("tests")


def test_a_batch_costs_little(tmp_path):
    """Of a large set no more than the batch is touched: its memory is not copied."""
    made.mnist(tmp_path, (2000, 10))
    task = Mnist(tmp_path, "train:0-1990", "test", other_data=True)
    assert task._training[0].base is not None
    batch = next(task.batches(np.random.default_rng(0), 4))
    assert batch.x.nbytes == 784 * 4 * 4


# Digits


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("rows", ["top", "bottom"])
def test_mnist_pixel_by_pixel(tmp_path, zipped, rows):
    """[urnn:task-mnist] Every pixel / 255 at its step, row by row from the top or the bottom, and the digit; every
    image of a pass once, held-out ones in their order."""
    own = made.mnist(tmp_path, zipped=zipped)
    task = Mnist(tmp_path, "train:10-60", "train:0-10", rows, other_data=True)
    images, digits = own["train"]
    for batch in task.evaluation():
        assert (batch.x.dtype, batch.x.shape, batch.mask) == (np.float32, (784, 10, 1), None)
        for i, t in itertools.product(range(10), range(784)):
            row, column = divmod(t, 28)
            row = row if rows == "top" else 27 - row
            assert batch.x[t, i, 0] == np.float32(images[i, row, column]) / np.float32(255)
        assert batch.y.tolist() == digits[:10].tolist()
    seen = Counter()
    known = {images[i].astype(np.uint8).tobytes(): i for i in range(10, 60)}
    for batch in itertools.islice(task.batches(np.random.default_rng(0), 5), 10):
        for b in range(5):
            pixels = np.rint(batch.x[np.argsort(task.order), b, 0] * 255).astype(np.uint8)
            seen[known[pixels.tobytes()]] += 1
            assert digits[known[pixels.tobytes()]] == batch.y[b]
    assert seen == Counter(range(10, 60))


def test_permutations():
    """Each is one of 0..783, no two alike; their first entries, by NumPy's legacy stream and Python's; the default is
    RandomState(92916)."""
    orders = {name: make(784) for name, make in PERMUTATIONS.items()}
    for order in orders.values():
        assert sorted(order) == list(range(784))
    assert len({tuple(order) for order in orders.values()}) == 4
    np.testing.assert_array_equal(orders["full-urnn"], np.random.RandomState(92916).permutation(784))
    shuffled = list(range(784))
    random.seed(2017)
    random.shuffle(shuffled)
    assert orders["eunn"].tolist() == shuffled
    assert next(iter(PERMUTATIONS)) == by_name.options_of("permuted-mnist")["permutation"] == "full-urnn"


def test_permuted_mnist(tmp_path):
    """[urnn:task-mnist] The same images, step t shows pixel order[t]."""
    made.mnist(tmp_path)
    arguments = (tmp_path, "train:10-60", "train:0-10")
    plain, own = Mnist(*arguments, other_data=True), PermutedMnist(*arguments, "eunn", other_data=True)
    for one, other in zip(plain.evaluation(), own.evaluation(), strict=True):
        np.testing.assert_array_equal(one.x[PERMUTATIONS["eunn"](784)], other.x)
        np.testing.assert_array_equal(one.y, other.y)


def test_images_as_7_zip_unpacks_them(tmp_path):
    """train-images.idx3-ubyte is train-images-idx3-ubyte; the config has it under the published name."""
    made.mnist(tmp_path)
    before = Mnist(tmp_path, other_data=True, train_part="train:0-20", eval_part="train:20-30").data
    for path in list(tmp_path.glob("*-idx*")):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        path.with_name(path.name.removesuffix(".gz").replace("-idx", ".idx")).write_bytes(content)
        path.unlink()
    assert Mnist(tmp_path, other_data=True, train_part="train:0-20", eval_part="train:20-30").data == before


def test_the_test_images_alone(tmp_path):
    """A folder that has them only is enough for a run that says so; what is trained on is not held out."""
    made.mnist(tmp_path)
    for path in tmp_path.glob("train*"):
        path.unlink()
    task = Mnist(tmp_path, "test:0-20", "test:20-30", other_data=True)
    assert task.sizes == (20, 10)
    assert set(task.data.sha256) == {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}
    with pytest.raises(FileNotFoundError, match=r"has no train-images-idx3-ubyte; it has t10k-images-idx3-ubyte\.gz"):
        Mnist(tmp_path, other_data=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_part": "train:0-20", "eval_part": "train:19-30"}, "both of train, and share examples 19 to 19; give"),
        ({"train_part": "train", "eval_part": "train:0-5"}, "both of train, and share examples 0 to 4"),
        ({"train_part": "train:0-61", "eval_part": "test"}, "train_part is train:0-61; train has 60 examples here"),
        ({"train_part": "train:5-5", "eval_part": "test"}, "train_part is train:5-5; train has 60 examples here"),
        ({"train_part": "train", "eval_part": "test:30-"}, "eval_part is test:30-; test has 30 examples here"),
        ({"train_part": "training", "eval_part": "test"}, "train_part is 'training'; allowed: train, test, or a "),
        ({"train_part": "train:a-b", "eval_part": "test"}, "train_part is 'train:a-b'; allowed: train, test, or a"),
        ({"train_part": "train", "eval_part": "test", "rows": "left"}, "rows is 'left'; allowed: 'top', 'bottom'"),
    ],
)
def test_parts_that_cannot_be(tmp_path, options, message):
    """The error names the option, what was given and what there is."""
    made.mnist(tmp_path)
    with pytest.raises(ValueError, match=re.escape(message)):
        Mnist(tmp_path, other_data=True, **options)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("images-idx3", b"\0\0\x08\x01" + bytes(12), "begins with 00 00 08 01; expected an IDX file, which"),
        ("images-idx3", b"\0\0\x08\x03", "begins with 00 00 08 03; expected an IDX file"),
        ("images-idx3", made.idx(np.zeros((60, 28, 28)))[:-1], "has 47,055 bytes; its header says 47,056"),
        ("images-idx3", np.array([0x0803, 0, 9, 9], ">u4").tobytes(), "is empty: its header says (0, 9, 9)"),
        ("images-idx3", made.idx(np.zeros((60, 28, 27))), "has images of (28, 27) pixels; expected (28, 28)"),
        ("images-idx3", made.idx(np.zeros((59, 28, 28))), "has 60 labels for 59 images"),
        ("labels-idx1", made.idx(np.full(60, 10)), "has the label 10; expected 0 to 9"),
        ("labels-idx1", b"PNG", "begins with 50 4e 47; expected an IDX file, which begins with 00000801"),
    ],
)
def test_files_that_are_no_digits(tmp_path, name, data, message):
    """One line that names the file and what was expected."""
    made.mnist(tmp_path, zipped=False)
    (tmp_path / f"train-{name}-ubyte").write_bytes(data)
    with pytest.raises(ValueError, match=re.escape(message)):
        Mnist(tmp_path, "train:0-20", "train:20-60", other_data=True)


def test_baselines_of_classes(tmp_path):
    """-log of each held-out class's share of the trained ones, one added to each count, in plain Python."""
    own = made.mnist(tmp_path / "mnist")
    made.har(tmp_path / "har")
    task = Mnist(tmp_path / "mnist", "train", "test", other_data=True)
    counts, digits = Counter(own["train"][1].tolist()), own["test"][1].tolist()
    losses = [-math.log((counts[digit] + 1) / (60 + 10)) for digit in digits]
    assert math.isclose(task.baseline, sum(losses) / len(losses), rel_tol=1e-12)
    for classes in (2, 6):
        task = Har(tmp_path / "har", classes=classes, other_data=True)
        (first,) = task.evaluation()
        y = [int(value) for b in itertools.islice(task.batches(np.random.default_rng(0), 40), 1) for value in b.y]
        losses = [-math.log((Counter(y)[int(k)] + 1) / (40 + classes)) for k in first.y]
        assert math.isclose(task.baseline, sum(losses) / len(losses), rel_tol=1e-12)


# Activities


@pytest.mark.parametrize("classes", [2, 6])
def test_har_number_by_number(tmp_path, classes):
    """[sgornn:hyper] Nine channels in the documented order, standardised by what is trained on; labels 2, 4, 6 are 0
    and 1, 3, 5 are 1, or all six."""
    own = made.har(tmp_path)
    task = Har(tmp_path, "train:0-30", "test", classes, other_data=True)
    assert HAR_CHANNELS[:4] == ("body_acc_x", "body_acc_y", "body_acc_z", "body_gyro_x")
    trained, labels = own["train"][0][:30], own["test"][1]
    (batch,) = task.evaluation()
    assert (batch.x.shape, batch.x.dtype) == ((128, 20, 9), np.float32)
    for channel in range(9):
        values = trained[:, :, channel].ravel().tolist()
        mean = math.fsum(values) / len(values)
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
        expected = (own["test"][0][:, :, channel].T - mean) / deviation
        np.testing.assert_allclose(batch.x[:, :, channel], expected, rtol=1e-5, atol=1e-6)
    merged = {2: 0, 4: 0, 6: 0, 1: 1, 3: 1, 5: 1}
    assert batch.y.tolist() == [merged[label] if classes == 2 else label - 1 for label in labels.tolist()]
    x = np.concatenate([b.x for b in itertools.islice(task.batches(np.random.default_rng(0), 10), 3)], axis=1)
    np.testing.assert_allclose(x.mean(axis=(0, 1)), 0, atol=1e-5)
    np.testing.assert_allclose(x.std(axis=(0, 1)), 1, atol=1e-5)


@pytest.mark.parametrize("classes", [2, 6])
def test_a_solver_of_har(tmp_path, classes):
    """Logits of the right class: loss 0 and all right; of the wrong one not."""
    made.har(tmp_path)
    task = Har(tmp_path, classes=classes, other_data=True)
    (batch,) = task.evaluation()
    right = 200.0 * (2 * batch.y[:, None] - 1) if classes == 2 else 200 * np.eye(6)[batch.y]
    assert right.shape == (20, task.output_size)
    assert LOSSES[task.loss](right, batch.y, None)[0] < 1e-80
    assert METRICS[task.metric](0.0, right, batch.y, None) == 1
    assert LOSSES[task.loss](-right, batch.y, None)[0] > 1
    assert METRICS[task.metric](0.0, -right, batch.y, None) == 0


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("train/y_train.txt", "7\n" * 40, "train/y_train.txt has another label than 1 to 6, one a line"),
        ("train/y_train.txt", "1\n" * 39, "body_acc_x_train.txt has 40 windows of 128 steps; expected 39 of 128"),
        ("train/y_train.txt", "walking\n" * 40, "train/y_train.txt has something that is no number"),
        ("train/y_train.txt", "1 2\n" * 40, "has another label"),
        (SIGNAL, "1 2\n3\n", "has lines of different lengths; expected 2 numbers"),
        (SIGNAL, "1 nan\n", "has a number that is not finite"),
        (SIGNAL, ("0 " * 128 + "\n") * 40, "body_acc_x never changes in train"),
    ],
)
def test_files_that_are_no_activities(tmp_path, file, text, message):
    """One line that names the file and what was expected."""
    made.har(tmp_path)
    (tmp_path / file).write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        Har(tmp_path, other_data=True)


def test_numbers():
    """Any blanks; text that is none is refused, in another encoding too."""
    assert numbers(b" 1.5  -2e-3\n 3 4 \n", "a").tolist() == [[1.5, -2e-3], [3, 4]]
    with pytest.raises(ValueError, match="a is binary"):
        numbers("1 2\n".encode("utf-16"), "a")


def test_a_part_of_har_is_not_the_set(tmp_path):
    """Fewer windows than were published are refused unless that is said."""
    made.har(tmp_path)
    with pytest.raises(ValueError, match=r"y_train\.txt has 40 lines; the published train/y_train\.txt has 7,352"):
        Har(tmp_path)
    assert Har(tmp_path, other_data=True).data.published is False
    with pytest.raises(ValueError, match=r"^classes is 3; allowed: 2, 6$"):
        Har(tmp_path, classes=3)


# Words and characters

TEXTS = {
    "ptb-char": lambda text: [
        *(c for line in text.split("\n")[:-1] for c in [*line.strip().replace(" ", "_"), "<eos>"])
    ],
    "ptb-word": lambda text: text.replace("\n", "<eos>").split(),
    "wikitext-2": lambda text: (" \n = A = \n \n" + text).replace("\n", "<eos>").split(),
}


def decoded(task, tokens):
    """The symbols of tokens."""
    return [task.vocabulary[token] for token in tokens]


@pytest.mark.parametrize("state", ["carried", "zero"])
@pytest.mark.parametrize("name", TEXTS)
def test_all_of_a_split_is_evaluated(tmp_path, name, state):
    """[ncgru:task-lm] [goru:task-char] Every symbol of the file but the first is predicted once, after the one before
    it; the vocabulary is that of both parts."""
    made.MAKE[name](tmp_path)
    for length in (1, 5, 7, 1000):
        options = {"length": length, "state": state, "other_data": True}
        task = by_name.make(name, data=tmp_path, **options)
        symbols = TEXTS[name](made.WORDS["valid"])
        assert task.vocabulary == sorted({*symbols, *TEXTS[name](made.WORDS["train"])})
        pairs = []
        for batch in task.evaluation():
            there = np.ones(batch.x.shape, bool) if batch.mask is None else batch.mask
            assert len(batch.x) <= length
            pairs += zip(decoded(task, batch.x[there]), decoded(task, batch.y[there]), strict=True)
        assert Counter(pairs) == Counter(itertools.pairwise(symbols))


@pytest.mark.parametrize("name", TEXTS)
def test_training_windows_from_the_zero_state(tmp_path, name):
    """[sgornn:hyper] No state is carried; every whole window of the text once a pass, in another order each time."""
    made.MAKE[name](tmp_path)
    task = by_name.make(name, data=tmp_path, length=7, state="zero", other_data=True)
    symbols = TEXTS[name](made.WORDS["train"])
    windows = [tuple(symbols[i : i + 8]) for i in range(0, len(symbols) - 7, 7)]
    stream, orders = task.batches(np.random.default_rng(0), 1), []
    for _ in range(2):
        own = [next(stream) for _ in windows]
        assert not any(b.carries_state for b in own)
        orders.append([(*decoded(task, b.x[:, 0]), task.vocabulary[b.y[-1, 0]]) for b in own])
        assert Counter(orders[-1]) == Counter(windows)
    assert orders[0] != orders[1] != windows


def test_baselines_of_texts(tmp_path):
    """Words: -log of each one's share of the trained ones; characters: of each one's share after the one before it; one
    added to each count, in plain Python."""
    made.ptb(tmp_path)
    trained, held_out = (TEXTS["ptb-word"](made.WORDS[part]) for part in ("train", "valid"))
    task, counts = PtbWord(tmp_path, other_data=True), Counter(trained)
    K = len(task.vocabulary)
    losses = [-math.log((counts[word] + 1) / (len(trained) + K)) for word in held_out[1:]]
    assert math.isclose(task.baseline, sum(losses) / len(losses), rel_tol=1e-12)
    trained, held_out = (TEXTS["ptb-char"](made.WORDS[part]) for part in ("train", "valid"))
    task = PtbChar(tmp_path, other_data=True)
    pairs, firsts, K = Counter(itertools.pairwise(trained)), Counter(trained[:-1]), len(task.vocabulary)
    losses = [-math.log((pairs[pair] + 1) / (firsts[pair[0]] + K)) for pair in itertools.pairwise(held_out)]
    assert math.isclose(task.baseline, sum(losses) / len(losses), rel_tol=1e-12)


def test_characters_follow_from_words(tmp_path):
    """From either file the same tokens, and the same hash; a file of characters with other gaps is refused."""
    made.ptb(tmp_path / "words")
    (tmp_path / "characters").mkdir()
    assert characters_file(" a <unk> b \n c \n") == b"a _ < u n k > _ b \n c \n "
    for part, text in made.WORDS.items():
        (tmp_path / f"characters/ptb.char.{part}.txt").write_bytes(characters_file(text))
    words, characters = (PtbChar(tmp_path / name, other_data=True) for name in ("words", "characters"))
    np.testing.assert_array_equal(words.training, characters.training)
    assert words.data == characters.data
    (tmp_path / "characters/ptb.char.train.txt").write_bytes(
        characters_file(made.WORDS["train"]).replace(b"s a", b"sa")
    )
    with pytest.raises(ValueError, match=r"ptb\.char\.train\.txt is not of characters with one space between them"):
        PtbChar(tmp_path / "characters", other_data=True)


def test_notes_on_other_texts(tmp_path):
    """A byte order mark and line ends of two characters that are learned are told, as of any text; by words the latter
    are not, and of the files as they were published there is nothing to tell."""
    made.ptb(tmp_path)
    assert PtbWord(tmp_path, other_data=True).notes == PtbChar(tmp_path, other_data=True).notes == ()
    valid, train = tmp_path / "ptb.valid.txt", tmp_path / "ptb.train.txt"
    valid.write_bytes(valid.read_bytes().replace(b"\n", b"\r\n"))
    train.write_bytes("\ufeff".encode() + train.read_bytes())
    mark = f"{train} begins with a byte order mark, which is learned as"
    count = made.WORDS["valid"].count("\n")
    ends = f"{valid} has {count:,} line ends of two characters, \\r\\n, which are learned as two"
    words, characters = PtbWord(tmp_path, other_data=True), PtbChar(tmp_path, other_data=True)
    assert words.notes == (f"{mark} the beginning of the first word",)
    assert "\r" not in "".join(words.vocabulary)
    assert characters.notes == (f"{mark} a character", ends)
    for own in (train, valid):
        other = tmp_path / own.name.replace("ptb.", "ptb.char.")
        other.write_bytes(characters_file(own.read_bytes().decode()))
    assert PtbChar(tmp_path, other_data=True).notes == tuple(
        note.replace("ptb.", "ptb.char.") for note in characters.notes
    )


def test_only_line_ends_end_lines():
    """Of three kinds, and the last line has one too; what else Python's `splitlines` cuts at is a space."""
    text = "a\u2028b\fc\x85d\r\ne\rf\n\n g"
    assert words_of(text) == ["a", "b", "c", "d", "<eos>", "e", "<eos>", "f", "<eos>", "<eos>", "g", "<eos>"]


def test_words_that_the_run_does_not_know(tmp_path):
    """A part with others than the two that the vocabulary is of: named, with how many."""
    made.ptb(tmp_path)
    task = PtbWord(tmp_path, other_data=True)
    assert task.on("test").output_size == task.output_size
    (tmp_path / "ptb.test.txt").write_text(" a dog barks \n")
    with pytest.raises(ValueError, match="test has 2 words that the run does not know, 'barks' among them"):
        PtbWord(tmp_path, other_data=True).on("test")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_part": "valid", "eval_part": "valid"}, "train_part and eval_part are both 'valid'; give them apart"),
        ({"train_part": "train:0-9"}, "train_part is 'train:0-9'; allowed: train, valid, test"),
        ({"state": "kept"}, "state is 'kept'; allowed: 'carried', 'zero'"),
        ({"length": 0}, "length is 0; allowed: an integer >= 1"),
    ],
)
def test_texts_that_cannot_be_cut_so(tmp_path, options, message):
    made.ptb(tmp_path)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        PtbWord(tmp_path, other_data=True, **options)


def test_texts_that_are_none(tmp_path):
    """In another encoding, and too short for a batch."""
    made.wikitext(tmp_path)
    for text, message in (
        ("café", "is cut short: its last character, at byte 3, is incomplete; expected UTF-8 text"),
        ("café ", "is not UTF-8 text: byte 3 is 0xe9"),
    ):
        (tmp_path / "wiki.valid.tokens").write_bytes(text.encode("latin-1"))
        with pytest.raises(ValueError, match=rf"wiki\.valid\.tokens {message}$"):
            Wikitext2(tmp_path, other_data=True)
    made.wikitext(tmp_path)
    for state in ("carried", "zero"):
        with pytest.raises(ValueError, match=r"words to train on; batch 30 and length 70 need 2130$"):
            next(Wikitext2(tmp_path, state=state, other_data=True).batches(np.random.default_rng(0), 30))
