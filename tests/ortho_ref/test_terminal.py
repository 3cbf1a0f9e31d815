"""Text that goes to a terminal, and streams that may be gone."""

import errno
import io
import os
import subprocess
import sys

import pytest

from ortho_ref.terminal import LIMIT, STDERR, Stream, cut, shown, shown_lines

COMMANDS = "\x1b[2J\x1b]0;title\x07\x00\x7f\x9b1m\u202e\u200b\ud800\udcff"


def test_nothing_commands_the_terminal():
    """C0, DEL, C1, format and bidi controls, lone surrogates: as Python's repr; what is printable stays as it is."""
    assert shown(f"a{COMMANDS}b") == r"a\x1b[2J\x1b]0;title\x07\x00\x7f\x9b1m\u202e\u200b\ud800\udcffb"
    assert cut("a\x1b\ud800\n") == "a\x1b\\ud800\n"  # a text for a file of JSON
    assert shown("Soljačić, 正交, \\x1b") == "Soljačić, 正交, \\x1b"
    assert shown(ValueError("x is 1;\n  allowed: 2\r\n")) == "x is 1; allowed: 2"
    assert shown_lines(f"a  b\t{COMMANDS[:1]}\n\r\nc\u3000d") == "a  b\t\\x1b\n\\r\nc\u3000d"


@pytest.mark.parametrize("how", [shown, cut])
def test_long_texts_are_cut_in_the_middle(how):
    """Never longer than the limit; both ends stay, and the number left out is right."""
    assert how("a" * LIMIT) == "a" * LIMIT
    text = "out is " + "x" * 10_000_000 + "; allowed: less"
    found = how(text)
    assert len(found) <= LIMIT
    first, _, rest = found.partition(" ... ")
    number, _, last = rest.partition(" characters left out ... ")
    assert text.startswith(first)
    assert text.endswith(last)
    assert last.endswith("; allowed: less")
    assert int(number.replace(",", "")) == len(text) - len(first) - len(last)
    assert len(how("\x1b" * LIMIT)) <= LIMIT
    assert how(text[:5000], None if how is not cut else 5000) == text[:5000]


class Full(io.StringIO):
    """A disk that is full, or a reader that is gone."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def write(self, text):
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE, errno.EIO])
def test_what_cannot_be_written_is_dropped(monkeypatch, number):
    """No error, whatever it was; a full disk is remembered, a reader that has read enough is not."""
    stream = Stream("stdout")
    monkeypatch.setattr(sys, "stdout", Full(number))
    stream.say("lost")
    assert (stream.error is None) == (number == errno.EPIPE)
    monkeypatch.setattr(sys, "stdout", None)
    stream.say("lost too")
    assert not stream.isatty()
    monkeypatch.setattr(sys, "stdout", closed := io.StringIO())
    closed.close()
    stream.say("and this")
    assert not stream.isatty()


def test_a_stream_is_whatever_sys_has_now(monkeypatch, capsys):
    STDERR.say("one")
    monkeypatch.setattr(sys, "stderr", other := io.StringIO())
    STDERR.say("two")
    monkeypatch.undo()
    assert (capsys.readouterr().err, other.getvalue()) == ("one\n", "two\n")


def test_what_the_encoding_lacks_is_escaped(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    Stream("stdout").say("正")
    assert sys.stdout.buffer.getvalue() == b"\\u6b63\n"


ENDS = """
import os, sys
from ortho_ref import terminal
terminal.open_standard_streams()
terminal.STDOUT.say("x" * 100_000)
terminal.STDERR.say("y" * 100_000)
print("z")
number = os.open(os.devnull, os.O_RDONLY)
sys.exit(7 if number > 2 else 8)
"""


@pytest.mark.parametrize("where", [">&-", "2>&-", ">&- 2>&-", "> /dev/full", "2> /dev/full", "> /dev/full 2>&1"])
def test_the_exit_code_is_the_programs(where):
    """Not 120, which is Python's for a buffer that it cannot write at the end; no file has a standard number."""
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    shell = f'exec "$0" -W error -c "$1" {where}'
    result = subprocess.run(["bash", "-c", shell, sys.executable, ENDS], capture_output=True, text=True, check=False)
    assert result.returncode == 7
    assert "Error" not in result.stderr


def test_no_descriptor_is_left_open(monkeypatch, tmp_path):
    """Those that are dropped go nowhere by a copy of a descriptor that is closed again."""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("descriptors are not to be counted here")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        read, write = os.pipe()
        os.close(read)
        with open(write, "w") as gone:
            monkeypatch.setattr(sys, "stdout", gone)
            Stream("stdout").say("lost")
        monkeypatch.undo()
    assert len(os.listdir("/proc/self/fd")) == before
