"""Characters of a text file [ncgru:task-lm]."""

import hashlib
import itertools
import math
import os
import random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scripts.maintain.timing.peak import traced
from tasks import text as text_module, windows
from tasks.text import Text

ALPHABET = "abcde \r\n\té漢😀\u2028\x01\ufeff"


def write(path, length, seed=0):
    """A file of random characters, each of ALPHABET among them, line ends of all kinds; its text."""
    characters = random.Random(seed).choices(ALPHABET, k=length - len(ALPHABET))
    text = "".join(characters) + ALPHABET
    path.write_bytes(text.encode())
    return text


def decode(task, tokens):
    """The characters that tokens stand for."""
    return "".join(map(chr, task.alphabet[tokens]))


def a_pass(stream):
    """The batches up to the next fresh start."""
    first = next(stream)
    assert not first.carries_state
    rest = itertools.takewhile(lambda batch: batch.carries_state, stream)
    return [first, *rest]


@settings(max_examples=20)
@given(length=st.integers(640, 3000), window=st.integers(1, 30), batch=st.integers(1, 12), seed=st.integers(0, 99))
def test_windows(tmp_path_factory, length, window, batch, seed):
    """x and y are one stretch of text shifted by one, columns and windows contiguous; a pass starts with a fresh state,
    covers all but less than a window of every column, and comes back the same [ncgru:task-lm]."""
    file = tmp_path_factory.getbasetemp() / "windows.txt"
    text = write(file, length, seed)
    task = Text(file, window)
    stream = task.batches(np.random.default_rng(seed), batch)
    one = a_pass(stream)
    assert all(b.x.shape == b.y.shape == (window, batch) and b.mask is None for b in one)
    x, y = np.concatenate([b.x for b in one]), np.concatenate([b.y for b in one])
    rows = (length * 9 // 10) // batch
    assert rows - 1 - window < len(x) <= rows - 1
    for column in range(batch):
        own = text[column * rows : column * rows + len(x) + 1]
        assert (decode(task, x[:, column]), decode(task, y[:, column])) == (own[:-1], own[1:])
    stream = task.batches(np.random.default_rng(seed + 1), batch)  # nothing is random
    for ours, other in zip(one * 3, stream, strict=False):
        assert ours.carries_state == other.carries_state
        np.testing.assert_array_equal(ours.x, other.x)
        np.testing.assert_array_equal(ours.y, other.y)


@pytest.mark.parametrize("length", [640, 1000, 2777])
def test_held_out_tenth(tmp_path, length):
    """The last tenth in its order, every character of it but the first predicted once, after the one before it; no
    character of it is trained on [ncgru:task-lm]."""
    text = write(tmp_path / "a.txt", length)
    task = Text(tmp_path / "a.txt", 7)
    cut = length * 9 // 10
    assert (decode(task, task.training), decode(task, task.held_out)) == (text[:cut], text[cut:])
    batches = list(task.evaluation())
    assert [b.carries_state for b in batches] == [False] + [True] * (len(batches) - 1)
    x, y = np.concatenate([b.x for b in batches]), np.concatenate([b.y for b in batches])
    there = np.concatenate([np.ones(b.x.shape, bool) if b.mask is None else b.mask for b in batches])
    assert there[:, :-1].all()
    assert decode(task, x.T[there.T]) == text[cut:-1]
    assert decode(task, y.T[there.T]) == text[cut + 1 :]
    for one, other in zip(batches, task.evaluation(), strict=True):
        np.testing.assert_array_equal(one.x, other.x)


def test_every_character_counts(tmp_path):
    """Non-ASCII, controls, the byte order mark, and \\r\\n as two characters; the alphabet in code-point order, of the
    whole file."""
    text = "x\r\ny\rz\n" * 100 + ALPHABET
    (tmp_path / "a.txt").write_bytes(text.encode())
    task = Text(tmp_path / "a.txt", 5)
    assert decode(task, np.concatenate([task.training, task.held_out])) == text
    assert "".join(map(chr, task.alphabet)) == "".join(sorted(set(text)))
    assert task.output_size == task.input.size == len(set(text))
    assert "漢" not in decode(task, task.training)  # in the held-out part only, and still a token


def dense_baseline(task):
    """The bigram model by its whole table."""
    K, training = task.output_size, task.training.astype(int)
    pairs = np.bincount(training[:-1] * K + training[1:], minlength=K * K).reshape(K, K) + 1.0
    log_p = np.log(pairs / pairs.sum(axis=1, keepdims=True))
    return float(-log_p[task.held_out[:-1], task.held_out[1:]].mean())


@pytest.mark.parametrize(("counted", "table"), [(windows._COUNTED, windows._TABLE), (100, windows._TABLE), (100, 0)])
@pytest.mark.parametrize(("kinds", "length"), [(30, 2000), (900, 3000)])
def test_baseline_by_its_table(tmp_path, monkeypatch, kinds, length, counted, table):
    """Where most pairs never stand in the text as well, and however it is counted: all at once or in pieces, in a table
    or as a list of pairs."""
    monkeypatch.setattr(windows, "_COUNTED", counted)
    monkeypatch.setattr(windows, "_TABLE", table)
    rng = np.random.default_rng(kinds)
    points = 0x4E00 + (kinds * rng.random(length) ** 3).astype(int)
    (tmp_path / "a.txt").write_text("".join(map(chr, points)), encoding="utf-8")
    task = Text(tmp_path / "a.txt")
    assert math.isclose(task.baseline, dense_baseline(task), rel_tol=1e-13)


def test_a_large_alphabet_costs_no_table(tmp_path):
    """20,000 kinds of characters: the pairs that stand in the text, not 20,000 x 20,000, which were 3.2 GB."""
    points = 0x4E00 + np.random.default_rng(0).integers(0, 20_000, 200_000)
    (tmp_path / "a.txt").write_text("".join(map(chr, points)), encoding="utf-8")
    task = Text(tmp_path / "a.txt")
    assert traced(lambda: task.baseline) < 30e6
    assert math.isclose(task.baseline, math.log(20_000), rel_tol=0.01)


CUT = r"is cut short: its last character, at byte 700, is incomplete; expected UTF-8 text$"
BINARY = [
    (b"x" * 700 + b"\xe9y", "is not UTF-8 text: byte 700 is 0xe9"),
    *(
        (b"x" * 700 + character[:end], CUT)
        for character in ("é".encode(), "漢".encode(), "😀".encode())
        for end in range(1, len(character))
    ),
    (b"x" * 700 + "漢".encode()[:2] + b"x", "is not UTF-8 text: byte 700 is 0xe6"),
    (b"x" * 700 + b"\0", "is binary: byte 700 is NUL; expected UTF-8 text"),
    (b"x" * 700 + b"\0" + b"y" * 700, "is binary: byte 700 is NUL; expected UTF-8 text"),
    (b"\x89PNG\r\n\x1a\n" * 90, "is not UTF-8 text: byte 0 is 0x89"),
    (b"\x1f\x8b\x08" * 300, "is not UTF-8 text: byte 1 is 0x8b"),
    (("x" * 700).encode("utf-16"), "is binary: byte 3 is NUL; expected UTF-8 text"),  # its last: in one piece
]


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000, text_module._PIECE])
def test_pieces(tmp_path, monkeypatch, piece):
    """However the file is cut into pieces, within characters and line ends too: the same tokens, alphabet and notes,
    and the same places in errors, of files that are binary, cut short or in another encoding."""
    text = "\ufeff" + "a\r\nbé漢😀\r\n" * 100 + "\r"
    (tmp_path / "a.txt").write_bytes(text.encode())
    whole = Text(tmp_path / "a.txt", 5)
    monkeypatch.setattr(text_module, "_PIECE", piece)
    task = Text(tmp_path / "a.txt", 5)
    assert decode(task, np.concatenate([task.training, task.held_out])) == text
    assert (task.data, task.notes, task.training.dtype) == (whole.data, whole.notes, np.uint8)
    np.testing.assert_array_equal(task.alphabet, whole.alphabet)
    for data, message in BINARY[: None if piece > 3 else -1]:
        (tmp_path / "b.txt").write_bytes(data)
        with pytest.raises(ValueError, match=rf"^\S*b\.txt {message}"):
            Text(tmp_path / "b.txt")


def test_notes(tmp_path):
    """A byte order mark and line ends of two characters are told, with how many; a text without has none."""
    (tmp_path / "a.txt").write_bytes(("\ufeff" + "ab\r\n" * 200).encode())
    first, second = Text(tmp_path / "a.txt").notes
    assert first == f"{tmp_path / 'a.txt'} begins with a byte order mark, which is learned as a character"
    assert second == f"{tmp_path / 'a.txt'} has 200 line ends of two characters, \\r\\n, which are learned as two"
    (tmp_path / "a.txt").write_bytes(b"ab\ncd\r" * 200)
    assert Text(tmp_path / "a.txt").notes == ()


def test_a_fifo_is_not_waited_for(tmp_path):
    """Nobody writes to it: refused at once, by name."""
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(OSError, match=r"^data is .*a\.txt: it is a FIFO, not a file$"):
        Text(tmp_path / "a.txt")


def test_memory_of_a_long_text(tmp_path, monkeypatch):
    """At most twice the file's size, with its baseline, and what a piece costs; of 300 kinds of characters too."""
    monkeypatch.setattr(text_module, "_PIECE", 1 << 16)
    monkeypatch.setattr(windows, "_COUNTED", 1 << 16)

    def used():
        task = Text(tmp_path / "a.txt")
        assert task.baseline > 0
        next(task.batches(np.random.default_rng(0), 10))

    for characters in ("abcdefgh \n", "".join(map(chr, range(200, 500)))):
        (tmp_path / "a.txt").write_text(characters * (12_000_000 // len(characters)), encoding="utf-8")
        size = (tmp_path / "a.txt").stat().st_size
        assert traced(used) < 2 * size


def test_sha256(tmp_path):
    """Of the bytes as they are on disk, byte order mark and line ends included."""
    data = b"\xef\xbb\xbf\r\n" + b"abc\r\n" * 200 + b"\n \n"
    (tmp_path / "a.txt").write_bytes(data)
    assert Text(tmp_path / "a.txt").data == ("text", None, {"text": hashlib.sha256(data).hexdigest()})
    (tmp_path / "b.txt").write_bytes(b"a" * 700)
    by_sha256sum = "dcdfca8ca3c00b9576f50524178ff4efb8e5548b3bb2d6b8bb85a021d042b518"
    assert Text(tmp_path / "b.txt").data.sha256 == {"text": by_sha256sum}


@pytest.mark.parametrize("length", [0, 1, 630, 639])
def test_a_file_that_is_too_short(tmp_path, length):
    """Characters count, not bytes; what the error asks for is what is enough, and no less is."""
    (tmp_path / "a.txt").write_text("é" * length, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"a\.txt has {length} characters; expected at least 640$"):
        Text(tmp_path / "a.txt")
    (tmp_path / "b.txt").write_text("é" * 640, encoding="utf-8")
    assert [batch.x.shape for batch in Text(tmp_path / "b.txt").evaluation()] == [(2, 32)]


def test_a_batch_that_is_too_large(tmp_path):
    """B (length + 1) characters are enough for one window, one less is an error that names all of them."""
    (tmp_path / "a.txt").write_text("ab" * 350)  # 630 to train on
    assert len(a_pass(itertools.islice(Text(tmp_path / "a.txt", 62).batches(np.random.default_rng(0), 10), 1))) == 1
    with pytest.raises(ValueError, match=r"a\.txt has 630 characters to train on; batch 10 and length 63 need 640$"):
        next(Text(tmp_path / "a.txt", 63).batches(np.random.default_rng(0), 10))
