"""Files that are there whole or not at all, on any disk; folders that one process holds."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ortho_ref import checkpoint, files
from tests.ortho_ref.test_checkpoint import ROOT, assert_same

# Whole or not at all


@pytest.fixture
def calls(monkeypatch):
    """What is done to files in the order it is done: write, fsync of a file or folder, rename."""
    done = []
    real_open, real_sync, real_replace = open, os.fsync, os.replace

    class Stream:
        def __init__(self, path, mode):
            self.inner = real_open(path, mode)

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            self.inner.close()

        def write(self, data):
            done.append(("write", Path(self.inner.name).name))
            return self.inner.write(data)

        def __getattr__(self, name):
            return getattr(self.inner, name)

    def sync(descriptor):
        name = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name
        size = os.fstat(descriptor).st_size
        done.append(("fsync", name, size) if name.endswith(".part") else ("fsync", name))
        return real_sync(descriptor)

    def replace(source, target):
        done.append(("rename", Path(source).name, Path(target).name))
        return real_replace(source, target)

    monkeypatch.setattr(files, "open", Stream, raising=False)
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    return done


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of open files are read from /proc")
def test_synced_before_renamed_and_the_folder_after(tmp_path, calls):
    """Otherwise a machine that stops could leave an empty file under the right name, or no name.  At the fsync all
    bytes have left the process."""
    files.write(tmp_path / "a", b"x" * 100)
    assert calls == [
        ("write", "a.part"),
        ("fsync", "a.part", 100),
        ("rename", "a.part", "a"),
        ("fsync", tmp_path.name),
    ]


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


def no_space(*arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("stage", ["open", "write", "fsync", "rename", "fsync of the folder"])
def test_a_full_disk(tmp_path, monkeypatch, stage):
    """At any stage: an error that names the file, the old file or (after the rename) the new one, no third file."""
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, {"old": np.arange(3.0)})
    old, new = path.read_bytes(), {"new": np.arange(1000.0)}
    with monkeypatch.context() as patch:
        if stage in ("open", "write"):
            patch.setattr(files, "open", Full if stage == "write" else no_space, raising=False)
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


def test_a_file_left_half_written(tmp_path):
    """What a killed process left under the temporary name is no obstacle."""
    path = tmp_path / "a.safetensors"
    (tmp_path / "a.safetensors.part").write_bytes(b"half" * 10_000)
    checkpoint.save(path, {"a": 1})
    assert checkpoint.load(path) == {"a": 1}
    assert [*tmp_path.iterdir()] == [path]


def test_no_folder_to_write_in(tmp_path):
    """The error names the file, and is of the system's kind."""
    with pytest.raises(FileNotFoundError, match=f"^{tmp_path}/none/a cannot be written: No such file or directory$"):
        files.write(tmp_path / "none" / "a", b"")


# The lock

HOLDER = """
import sys
from pathlib import Path
from ortho_ref import files
with files.locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


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


def test_the_lock_is_let_go(tmp_path):
    """By the end of the block, by an error in it too; held once more within the block it is refused."""
    with pytest.raises(KeyError), files.locked(tmp_path):
        raise KeyError
    with files.locked(tmp_path), pytest.raises(BlockingIOError), files.locked(tmp_path):
        pytest.fail("held twice")
    with files.locked(tmp_path):
        pass
