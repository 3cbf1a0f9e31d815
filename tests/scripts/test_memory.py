"""`scripts.program.malloc`: freed memory is used again, where glibc is; elsewhere nothing is touched."""

import ctypes
import os
import subprocess
import sys

import pytest

from scripts.program import malloc
from tests.scripts.runs import ROOT

#: Large blocks, one after the other; says the pages that were new after the first, and what the function returned.
BLOCKS = """
import resource, sys
from scripts.program.malloc import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

kept = keep_freed_memory() if sys.argv[1] == "keep" else None
block = b"." * 2**26
del block
before = faults()
for _ in range(10):
    block = b"." * 2**26
    del block
print(kept, faults() - before)
"""


def new_pages(how):
    command = [sys.executable, "-c", BLOCKS, how]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    environment["PYTHONPATH"] = str(ROOT)
    kept, pages = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True).stdout.split()
    return kept.decode(), int(pages)


@pytest.mark.skipif(not malloc.is_glibc(), reason="glibc alone is asked")
def test_freed_memory_is_used_again():
    """No new pages for a block that was there before; without it some for each of ten, 32 even where pages are huge."""
    kept, pages = new_pages("keep")
    assert kept == "True"
    assert pages < 100
    assert new_pages("give back")[1] > 300


@pytest.mark.parametrize("answer", [OSError, None, "musl 1.2", ""])
def test_other_c_libraries_are_left_alone(monkeypatch, answer):
    """No function of theirs is called."""

    def confstr(name):
        if answer is OSError:
            raise OSError
        return answer

    monkeypatch.setattr(os, "confstr", confstr, raising=False)
    monkeypatch.setattr(os, "confstr_names", {"CS_GNU_LIBC_VERSION": 2}, raising=False)
    monkeypatch.setattr(ctypes, "CDLL", None)
    assert malloc.keep_freed_memory() is False
    monkeypatch.delattr(os, "confstr_names")
    assert malloc.keep_freed_memory() is False


@pytest.mark.parametrize("refused", [malloc.M_TRIM_THRESHOLD, malloc.M_MMAP_MAX])
def test_a_setting_that_is_refused(monkeypatch, refused):
    """mallopt returns 0 for what it does not take: then it was not done."""
    monkeypatch.setattr(malloc, "is_glibc", lambda: True)

    class Library:
        def __init__(self, name):
            self.mallopt = lambda setting, value: int(setting != refused)

    monkeypatch.setattr(ctypes, "CDLL", Library)
    assert malloc.keep_freed_memory() is False
