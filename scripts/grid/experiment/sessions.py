"""sessions.json: who worked on a run of a grid, when, under which commit, how long, and how each of these ended."""

import datetime
import hashlib
import subprocess
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from ortho_ref.formats import Form, Least0
from ortho_ref.training.run_folder import CONFIG, RunFolder
from ortho_ref.training.trainer import Record
from scripts.program.usage import cpu_name, peak_memory

SESSIONS = "sessions.json"
#: Ends of a run that failed: of one whose loss or weights stopped being finite, the second.
FAILURES = ("failed", "diverged")
_FORMAT = "ortho_ref sessions 1"


class Past(Form):
    """A session as it is written: of one that is on, or whose process was killed, without an end."""

    commit: str | None
    machine: str
    began: str
    end: Literal["done", "stopped", "failed", "diverged"] | None
    seconds: Least0 | UnsetType = UNSET
    cpu_seconds: Least0 | UnsetType = UNSET
    peak_bytes: Annotated[int, Meta(ge=0, le=2**50)] | UnsetType | None = UNSET
    reason: str | UnsetType = UNSET


class _Sessions(Form):
    sessions: list[Past]


def read_sessions(folder: RunFolder) -> list[Record]:
    """The sessions of a run, the first one first.  ValueError: where the file is not what was written."""
    found = folder.document(SESSIONS, _FORMAT, _Sessions)
    return [] if found is None else found["sessions"]


def _write(folder: RunFolder, sessions: list[Record]) -> None:
    folder.write_document(SESSIONS, _FORMAT, {"sessions": sessions}, _Sessions)


class Session:
    """A session of this process on a run, noted from its beginning."""

    def __init__(self, folder: RunFolder, commit: str | None) -> None:
        self.folder, self._started, self._cpu = folder, time.monotonic(), time.process_time()
        began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._before = read_sessions(folder)
        self._own: Record = {"commit": commit, "machine": cpu_name(), "began": began, "end": None}
        _write(folder, [*self._before, self._own])

    def end(self, how: str, reason: str | None = None) -> None:
        """Note how it ended: "done", "stopped", or one of FAILURES, and why."""
        own = self._own | {
            "end": how,
            "seconds": time.monotonic() - self._started,
            "cpu_seconds": time.process_time() - self._cpu,
            "peak_bytes": peak_memory(),
        }
        _write(self.folder, [*self._before, own | ({} if reason is None else {"reason": reason})])


def held(path: Path, patience: float = 0.0) -> RunFolder:
    """The folder of a run that is there, or of a new one, held by this process.

    One that holds it may be about to end, and is waited for, so many seconds.  BlockingIOError where it does not.
    """
    end = time.monotonic() + patience
    while True:
        try:
            return RunFolder(path, "a" if (path / CONFIG).exists() else "w")
        except (BlockingIOError, FileExistsError):  # which may just have begun it
            if time.monotonic() >= end:
                raise
        time.sleep(0.1)


def mark_failed(path: Path, reason: str) -> None:
    """Note that the last session, which cannot say so itself, is the end of the run; of one without any, nothing."""
    with held(path) as folder:
        if sessions := read_sessions(folder):
            _write(folder, [*sessions[:-1], sessions[-1] | {"end": "failed", "reason": reason}])


def failure(sessions: Sequence[Record]) -> str | None:
    """Why a run of these sessions failed; None where it did not."""
    return sessions[-1].get("reason", "") if sessions and sessions[-1]["end"] in FAILURES else None


@cache
def commit() -> str | None:
    """The commit of this code; behind a "+" what was changed of it since, as a digest; None outside of a repository."""
    root = Path(__file__).resolve().parents[3]

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True, timeout=30)
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != root:
            return None
        changed = git("diff", "HEAD", "--", "ortho_ref", "tasks", "scripts/grid")
        return git("rev-parse", "HEAD") + (f"+{hashlib.sha256(changed.encode()).hexdigest()[:8]}" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
