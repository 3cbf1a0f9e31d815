"""Disks that are full, broken or over their quota: from any call on, or for one call; for real where it can be had."""

import contextlib
import errno
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.torture.judging import SURVIVED, Verdict, judge
from tests.torture.room import Outcome, Room, chosen, differs, end_of, to_go_on

COUNT = 100
ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT)


def trial(room: Room, rng: random.Random) -> Outcome:
    """One line, exit code 2; once there is room again, the run goes on to the same bits."""
    name, _ = chosen(rng, room)
    kinds = [_call] * 5 + [_small_files] * 2 + [_stdout] + ([_real] * 2 if can_mount() else [])
    return rng.choice(kinds)(room, rng, name)


def _verdict(end: dict[str, Any], room: Room, name: str, folder: Path) -> Verdict:
    """Refused in one line that names a file or the folder; or the run did not notice, and is right."""
    expected = room.expected["whole", name]
    return judge(end, lambda: differs(expected, lambda: end_of(folder)), (folder.name, str(folder)), goes=True)


def _call(room: Room, rng: random.Random, name: str) -> Outcome:
    """A call fails, now and then one of a run that goes on."""
    at, number = rng.choice(["fsync", "rename", "file", "line"]), rng.choice(ERRORS)
    n = rng.randint(1, room.calls[name][at])
    lasting = rng.random() < 0.5
    words = f"{errno.errorcode[number]} at {at} {n}{' and all later ones' if lasting else ''}"
    outcome = Outcome(f"{name}: {words}")
    with room.scratch() as aside:
        folder = aside / name
        if rng.random() < 0.3:
            room.run("scripts.train", *to_go_on(name, folder), at="update", number=rng.randint(2, 20), send=[9])
            outcome.what += ", of a run that goes on"
        end = room.run("scripts.train", *to_go_on(name, folder), at=at, number=n, errno=number, lasting=lasting)
        outcome.add(f"train, {words}", _verdict(end, room, name, folder))
        return room.finish(outcome, name, folder)


def _small_files(room: Room, rng: random.Random, name: str) -> Outcome:
    """The system lets no file grow beyond a size: a write of its own fails, half done."""
    largest = max(path.stat().st_size for path in room.state(name, "finished").iterdir())
    size = rng.randrange(4000, largest)  # what is said on stderr is a file here
    outcome = Outcome(f"{name}: files of at most {size} bytes")
    with room.scratch() as aside:
        folder = aside / name
        end = room.run("scripts.train", *to_go_on(name, folder), file_size=size)
        outcome.add("train", _verdict(end, room, name, folder))
        return room.finish(outcome, name, folder)


def _stdout(room: Room, rng: random.Random, name: str) -> Outcome:
    """What a program says goes to a full disk."""
    outcome = Outcome(f"{name}: stdout on /dev/full")
    if not Path("/dev/full").exists():
        outcome.add("", Verdict(SURVIVED))
        return outcome
    with room.scratch() as aside:
        folder = aside / name
        end = room.run("scripts.train", *to_go_on(name, folder), stdout="/dev/full")
        expected = room.expected["whole", name]  # which is in the folder
        outcome.add("train", judge(end, lambda: differs(expected, lambda: end_of(folder)), goes=True))
        for module, *words in (("scripts.evaluate", folder), ("ortho_ref.conformance", "list")):
            end = room.run(module, *words, stdout="/dev/full")
            outcome.add(module, judge(end, lambda: "exit code 0 for a result that nobody got", goes=True))
        return room.finish(outcome, name, folder)


def _real(room: Room, rng: random.Random, name: str) -> Outcome:
    """A file system of its own, that fills up."""
    free = rng.choice([rng.randrange(0, 200), rng.randrange(0, 60), rng.randrange(0, 12)])
    outcome = Outcome(f"{name}: a disk with {free} KiB free")
    with room.scratch() as aside, mounted(aside / "disk") as disk:
        folder = disk / name
        if rng.random() < 0.3:
            room.run("scripts.train", *to_go_on(name, folder), at="update", number=rng.randint(2, 20), send=[9])
            outcome.what += ", where a run goes on"
        _fill(disk / "filler", free)
        end = room.run("scripts.train", *to_go_on(name, folder))
        outcome.add("train", _verdict(end, room, name, folder))
        (disk / "filler").unlink()
        return room.finish(outcome, name, folder)


def _fill(filler: Path, free: int) -> None:
    """All of the disk but so many KiB, by whole pages."""
    own = os.statvfs(filler.parent)
    pages = own.f_bavail - (free * 1024 + own.f_frsize - 1) // own.f_frsize
    filler.write_bytes(bytes(max(pages, 0) * own.f_frsize))


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    """A small file system in memory."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", folder], check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=False, capture_output=True)


@cache
def can_mount() -> bool:
    """Whether this user may."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        try:
            with mounted(Path(folder) / "disk"):
                return True
        except (subprocess.SubprocessError, OSError):
            return False
