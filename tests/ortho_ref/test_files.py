"""Files that are there whole or not at all, on any disk; folders that one process holds."""

import errno
import hashlib
import json
import math
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ortho_ref import files, formats
from ortho_ref.training import checkpoint
from tests.ortho_ref.training.reading import contents
from tests.ortho_ref.training.test_checkpoint import ROOT, assert_same

# Whole or not at all


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of open files are read from /proc")
def test_synced_before_renamed_and_the_folder_after(tmp_path, monkeypatch):
    """Otherwise a machine that stops could leave an empty file under the right name, or no name.  At the fsync all
    bytes have left the process."""
    calls, real_sync, real_replace = [], os.fsync, os.replace

    def sync(descriptor):
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        calls.append(("fsync", path.name, None if path.is_dir() else path.stat().st_size))
        real_sync(descriptor)

    def replace(source, target, **folders):
        calls.append(("rename", Path(source).name, Path(target).name))
        real_replace(source, target, **folders)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    files.write(tmp_path / "a", b"x" * 100)
    assert calls == [("fsync", "a.part", 100), ("rename", "a.part", "a"), ("fsync", tmp_path.name, None)]


class Full:
    """A stream onto a full disk: half of what is written arrives."""

    def __init__(self, path, mode):
        self.inner = open(path, mode)  # noqa: SIM115  closed by __exit__

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.inner.close()

    def write(self, data):
        self.inner.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_space(*arguments, **options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("stage", ["open", "write", "fsync", "rename", "fsync of the folder"])
def test_a_full_disk(tmp_path, monkeypatch, stage):
    """At any stage: an error that names the file, the old file or (after the rename) the new one, no third file."""
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, {"old": np.arange(3.0)})
    old, new = path.read_bytes(), {"new": np.arange(1000.0)}
    with monkeypatch.context() as patch:
        if stage == "open":
            patch.setattr(files, "opened", no_space)
        elif stage == "write":
            patch.setattr(files, "open", Full, raising=False)
        elif stage == "fsync of the folder":
            patch.setattr(files, "sync_folder", no_space)
        else:
            patch.setattr(os, "fsync" if stage == "fsync" else "replace", no_space)
        with pytest.raises(OSError, match=f"^{path} cannot be written: No space left on device$"):
            checkpoint.save(path, new)
    assert [*tmp_path.iterdir()] == [path]
    if stage == "fsync of the folder":
        assert_same(checkpoint.load(path), new)
    else:
        assert path.read_bytes() == old
    checkpoint.save(path, new)
    assert_same(checkpoint.load(path), new)


@pytest.mark.parametrize("left", ["file", "link"])
def test_what_is_left_under_the_temporary_name(tmp_path, left):
    """By a process that was killed, or a link, which is not written through: it is no obstacle."""
    part, other = tmp_path / "a.part", tmp_path / "other"
    other.write_bytes(b"mine" * 10_000)
    part.symlink_to("other") if left == "link" else shutil.copy(other, part)
    files.write(tmp_path / "a", b"one")
    assert contents(tmp_path) == {"a": b"one", "other": b"mine" * 10_000}


def test_no_folder_to_write_in(tmp_path):
    """The error names the file, and is of the system's kind."""
    with pytest.raises(FileNotFoundError, match=f"^{tmp_path}/none/a cannot be written: No such file or directory$"):
        files.write(tmp_path / "none" / "a", b"")
    for folder in (".", ""):
        with pytest.raises(IsADirectoryError, match=r"^\. cannot be written: it is a folder, not a file$"):
            files.write(folder, b"")


def test_what_was_there_stays_under_another_name(tmp_path, monkeypatch):
    """As it was, and apart from what comes after; on a file system without second names too; nothing where nothing
    was."""
    path, old = tmp_path / "a", tmp_path / "b"
    files.write(path, b"one", old)
    assert not old.exists()
    for linked in (True, False):
        if not linked:
            monkeypatch.setattr(os, "link", no_space)
        files.write(path, b"two", old)
        assert (path.read_bytes(), old.read_bytes()) == (b"two", b"one")
        files.write(path, b"one")
        assert old.read_bytes() == b"one"
    assert sorted(tmp_path.iterdir()) == [path, old]


def test_what_was_there_stays_where_the_new_one_cannot_be(tmp_path, monkeypatch):
    """Both files are as they were: the old one is not given up before the new one is whole."""
    path, old = tmp_path / "a", tmp_path / "b"
    files.write(path, b"one")
    files.write(path, b"two", old)
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match=f"^{path} cannot be written: "):
        files.write(path, b"three", old)
    assert (path.read_bytes(), old.read_bytes()) == (b"two", b"one")
    assert sorted(tmp_path.iterdir()) == [path, old]


def test_the_file_that_cannot_be_written_is_named(tmp_path):
    """What is kept beside, where that is what fails; the file itself stays as it was."""
    path, old = tmp_path / "a", tmp_path / "b"
    files.write(path, b"one")
    old.mkdir()
    with pytest.raises(OSError, match=f"^{old} cannot be written: Is a directory$"):
        files.write(path, b"two", old)
    assert path.read_bytes() == b"one"
    assert sorted(tmp_path.iterdir()) == [path, old]


@pytest.mark.parametrize("kind", ["FIFO", "device"])
@pytest.mark.parametrize("linked", [False, True])
def test_only_files_are_replaced(tmp_path, kind, linked):
    """/dev/null stays a device, and /dev/stdout a link to one: root could put a file in their places."""
    path = tmp_path / "a"
    own = tmp_path / "b" if linked else path
    if kind == "device" and not linked:
        try:
            os.mknod(own, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("root alone makes a device")
    elif kind == "device":
        own = Path(os.devnull)
    else:
        os.mkfifo(own)
    if linked:
        path.symlink_to(own)
    before = path.lstat()
    with pytest.raises(OSError, match=f"^{path} cannot be written: it is a {kind}, not a file$"):
        files.write(path, b"one")
    assert os.path.samestat(path.lstat(), before)


# What is read


@pytest.mark.parametrize("kind", ["FIFO", "folder", "device", "link to a FIFO", "nothing"])
def test_only_files_are_read(tmp_path, kind):
    """A FIFO that nobody writes to, a device without end: refused at once, by name."""
    path = tmp_path / "a"
    made = {
        "FIFO": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "device": lambda: path.symlink_to("/dev/zero"),
        "link to a FIFO": lambda: (os.mkfifo(tmp_path / "b"), path.symlink_to("b")),
        "nothing": lambda: None,
    }
    made[kind]()
    what = {"nothing": "No such file or directory"}.get(kind, f"it is a {kind.split()[-1]}, not a file")
    with pytest.raises(OSError, match=f"^{path} cannot be read: {what}$"):
        files.read(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "truncated"),
        (b'{"a": 1,}', "malformed: trailing comma"),
        (b"\xff", "malformed"),
        ("\ufeff{}".encode(), "malformed"),
        ('{"a": 1}'.encode("utf-16"), "malformed"),
        (b"[NaN]", "malformed"),
        (b"[-Infinity]", "malformed|invalid number"),
        (b"[1e999]", "out of range"),
        (b"9" * 5000, "out of range"),
        (b"[" * 100_000 + b"]" * 100_000, "it is nested too deep"),
    ],
)
def test_what_is_no_json(text, message):
    """And what JSON allows, but nobody means: numbers without end, towers."""
    with pytest.raises(ValueError, match=message):
        formats.from_json(text)
    assert formats.from_json(b'{"a": [1, -1.5e3, null, true, "\\u00e9"]}') == {"a": [1, -1500.0, None, True, "é"]}
    assert formats.from_json(b"-" + b"9" * 40) == -(10**40) + 1


@pytest.mark.parametrize("path", [0, 3, None, b"x"])
def test_what_is_no_path(path):
    """A number is not taken for a descriptor: `open` would close what the process has under it."""
    with open(os.devnull, "rb") as stream:
        given = stream.fileno() if path == 3 else path
        message = f"^path is {re.escape(repr(given))}; allowed: a str or a Path$"
        with pytest.raises(TypeError, match=message):
            files.read(given)
        with pytest.raises(TypeError, match=message):
            files.write(given, b"")
        with pytest.raises(TypeError, match=message):
            checkpoint.load(given)
        assert stream.read() == b""


class Note(formats.Form):
    n: Annotated[int, msgspec.Meta(ge=0, le=9)]
    text: str


def test_a_sealed_document(tmp_path):
    """Comes back with its seal; begins with its format, ends with the SHA-256 of what is before, in plain JSON."""
    path, form = tmp_path / "a.json", Note
    value = {"n": 3, "text": "é\x1b"}
    sha256 = files.write_sealed(path, "ortho_ref test 1", value, form)
    assert files.read_sealed(path, "ortho_ref test 1", form) == (value, sha256)
    whole = json.loads(path.read_bytes())
    assert list(whole) == ["format", "n", "text", "sha256"]
    assert path.read_text() == json.dumps(whole, indent=2) + "\n"
    text = json.dumps({"format": "ortho_ref test 1", **value})
    assert sha256 == whole["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    with pytest.raises(ValueError, match=f"^{path} cannot hold this: n is 10; allowed: an integer from 0 to 9$"):
        files.write_sealed(path, "ortho_ref test 1", value | {"n": 10}, form)
    with pytest.raises(ValueError, match="a document has its own format and sha256; name it otherwise"):
        files.write_sealed(path, "ortho_ref test 1", value | {"format": 1, "sha256": 2}, form)
    with pytest.raises(TypeError, match=f"^{path} cannot hold this: "):
        files.write_sealed(path, "ortho_ref test 1", value | {"text": b""}, form)
    assert files.read_sealed(path, "ortho_ref test 1", form) == (value, sha256)
    with pytest.raises(ValueError, match=r"has the format 'ortho_ref test 1': written by another version of ortho_ref"):
        files.read_sealed(path, "ortho_ref test 2", form)
    with pytest.raises(ValueError, match=r"has the format 'ortho_ref test 1': not 'ortho_ref other 1'$"):
        files.read_sealed(path, "ortho_ref other 1", form)


@settings(max_examples=200)
@given(st.data())
def test_a_sealed_document_with_one_bit_changed(data):
    """Any bit: refused, whether it is still JSON or not."""
    value = {"rate": 1e-05, "name": "a", "list": [1, 2, None]}
    text, _ = formats.seal(value, "ortho_ref test 1")
    at = data.draw(st.integers(0, 8 * len(text) - 1))
    flipped = bytearray(text)
    flipped[at // 8] ^= 1 << at % 8
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match=r"(is damaged: |has the format )"):
            files.read_sealed(path, "ortho_ref test 1", dict)


# The lock


@pytest.mark.parametrize("kind", ["link", "FIFO", "folder"])
def test_a_lock_that_is_none(tmp_path, kind):
    """A link's target is not written to; a FIFO does not hang."""
    path, other = tmp_path / "lock", tmp_path / "other"
    other.write_text("mine")
    {"link": lambda: path.symlink_to("other"), "FIFO": lambda: os.mkfifo(path), "folder": path.mkdir}[kind]()
    with pytest.raises(OSError, match=f"^{path} cannot be held: "), files.locked(tmp_path):
        pytest.fail("it is held")
    assert other.read_text() == "mine"


HOLDER = """
import sys
from pathlib import Path
from ortho_ref import files
with files.locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_on_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "write", no_space)
    message = f"^{tmp_path / 'lock'} cannot be written: No space left on device$"
    with pytest.raises(OSError, match=message), files.locked(tmp_path):
        pass


def test_the_lock_of_another_process(tmp_path):
    """Is respected, with that process in the message, and gone when it was killed."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            for _ in range(2):  # being refused leaves the lock and its number as they are
                message = f"^out is {tmp_path}, which process {holder.pid} is using$"
                with pytest.raises(BlockingIOError, match=message), files.locked(tmp_path):
                    pytest.fail("two processes hold the folder")
        finally:
            holder.send_signal(signal.SIGKILL)
    with files.locked(tmp_path):
        assert (tmp_path / "lock").read_text() == str(os.getpid())


def test_a_lock_that_is_taken_away_while_it_is_taken(tmp_path, monkeypatch):
    """Between opening the file and holding it: what is held then is nobody's."""
    import fcntl

    hold = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda *words: ((tmp_path / "lock").unlink(), hold(*words)))
    message = f"^out is {tmp_path}, which was removed or taken over while this process used it$"
    with pytest.raises(OSError, match=message), files.locked(tmp_path):
        pytest.fail("it is held")


def test_the_lock_is_let_go(tmp_path):
    """By the end of the block, by an error in it too; held once more within the block it is refused."""
    with pytest.raises(KeyError), files.locked(tmp_path):
        raise KeyError
    with files.locked(tmp_path), pytest.raises(BlockingIOError), files.locked(tmp_path):
        pytest.fail("held twice")
    with files.locked(tmp_path):
        pass


@pytest.mark.parametrize("value", [math.nan, math.inf, {"a": [-math.inf]}])
def test_json_of_what_is_no_number(value):
    """JSON has none of these, Python's reader of it would take them."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        formats.to_json(value)
