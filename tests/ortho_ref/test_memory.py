"""What a process holds and what the machine has: a container's limit counts, as it is what ends a process there."""

import mmap
import os
from pathlib import Path

import pytest

from ortho_ref import memory

GIB = 2**30
LINUX = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux says what a process holds")


@LINUX
def test_a_process_holds_what_it_asked_for():
    """Within the noise of an interpreter; of no process, nothing."""
    size = 2**28
    with mmap.mmap(-1, size) as block:  # no allocator, which may have memory left
        before = memory.resident(os.getpid())
        block[::4096] = b"1" * (size // 4096)
        assert 0.9 * size < memory.resident(os.getpid()) - before < 1.1 * size
    assert memory.resident(-1) == 0


@LINUX
def test_a_machine_without_a_container(tmp_path, monkeypatch):
    """What is free is part of what there is; a limit of "max" is none."""
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < memory.free_memory() < total
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1\n")
    assert 0 < memory.free_memory() < total


@LINUX
@pytest.mark.parametrize(
    ("limit", "usage", "parts"),
    [
        ("memory.max", "memory.current", "memory.stat"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
    ],
)
def test_a_container(tmp_path, monkeypatch, limit, usage, parts):
    """Its limit in place of the machine's memory; files that the system would drop are not in use."""
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    (tmp_path / "memory").mkdir()
    (tmp_path / limit).write_text(f"{GIB // 4}\n")
    (tmp_path / usage).write_text(f"{GIB // 8}\n")
    (tmp_path / parts).write_text("anon 5\n")
    assert memory.free_memory() == GIB // 8
    (tmp_path / parts).write_text(f"anon 5\ninactive_file {GIB // 16}\nactive_file 7\n")
    assert memory.free_memory() == GIB // 8 + GIB // 16
    (tmp_path / usage).write_text(f"{GIB}\n")
    assert memory.free_memory() == 0


def test_a_system_that_does_not_tell(monkeypatch):
    """None, and 0 of a process: no limit is made up."""
    monkeypatch.setattr(os, "sysconf", lambda name: (_ for _ in ()).throw(ValueError(name)))
    monkeypatch.setattr(Path, "read_text", lambda self, *rest: (_ for _ in ()).throw(OSError(str(self))))
    assert memory.free_memory() is None
    assert memory.resident(os.getpid()) == 0
