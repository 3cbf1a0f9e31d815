"""Adapters in a process of their own: one that crashes, hangs or writes nonsense costs a case, and the kit goes on.

The kit and the process say to each other what the kit and a program say (`programs`): a case is a file, and so is its
answer.  The process stays, for loading a framework takes seconds: it looks for the next file in a folder of both.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.running import programs
from ortho_ref.conformance.running.implementation import Broken, Elsewhere, Raised
from ortho_ref.conformance.running.outputs import NoArray
from ortho_ref.terminal import cut

#: Seconds for a case, and for loading an adapter at least.
TIMEOUT, LOADING = 60.0, 300.0
#: Cases of a kind in a row that may lose the process; the others of the kind are not tried then.
_LOST = 3
NAP = 0.0005 if os.name == "posix" else 0.002  # seconds between two looks


class Apart(Elsewhere):
    """An adapter in a process of its own, for `check`; to be closed, as by `with`.

    Parameters
    ----------
    adapter : str
        FILE.py, or a module's dotted name.
    timeout : float
        Seconds for each case, at most a day. Loading the adapter has `LOADING` at least.
    what : str
        What of the adapter is asked: "run", or "map" with its `pullback`.

    Raises
    ------
    ValueError
        The adapter cannot be loaded, or the timeout is not above 0.
    """

    def __init__(self, adapter: str, timeout: float = TIMEOUT, what: str = "run") -> None:
        programs.check_timeout(timeout)
        self.name, self.file, self.timeout, self.what = adapter, Path(adapter), timeout, what
        self._lost: dict[str, int] = {}  # kind -> cases in a row
        self._process: subprocess.Popen[bytes] | None = None
        own = self._start()
        self.cell, self.assumes = own["cell"], tuple(own["assumes"])

    def __enter__(self) -> "Apart":
        """Itself, its process started."""
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """End the process and what it started, and forget the folder that it and the kit have in common."""
        if self._process is not None:
            programs.end(self._process)
            self._process = None
        self._folder.cleanup()

    def __call__(self, case: Case) -> Any:
        """The outputs, or None; `Raised` and `Broken` otherwise."""
        if self._lost.get(case.kind, 0) >= _LOST:
            raise Broken(f"was not tried: {_LOST} of this kind in a row lost the adapter's process")
        try:
            if self._process is None:
                self._start()
            self._number += 1
            programs.write_whole(self._path / f"{self._number}.case", programs.case_file(case))
            arrays, about = self._answer(self.timeout)
        except BaseException as error:
            self.close()
            self._lost[case.kind] = self._lost.get(case.kind, 0) + 1
            if isinstance(error, ValueError):  # it cannot be loaded again
                raise Broken(str(error)) from None
            raise
        self._lost[case.kind] = 0
        if "raised" in about:
            said, place, traceback = about["raised"]
            raise Raised(cut(said), cut(place, 300), traceback)
        if not about["supported"]:
            return None
        return arrays | {name: NoArray(cut(text, 1000)) for name, text in about["no_arrays"].items()}

    def _start(self) -> dict[str, Any]:
        """Start a process, which loads the adapter and says what it is.  ValueError where it cannot be loaded."""
        self._folder = tempfile.TemporaryDirectory(prefix="conformance-")
        self._path, self._number = Path(self._folder.name), 0
        flags = [f"-W{option}" for option in sys.warnoptions]
        flags += [flag for flag, given in (("-I", sys.flags.isolated), ("-P", sys.flags.safe_path)) if given]
        module = "ortho_ref.conformance.running.child"
        words = [sys.executable, *flags, "-m", module, self.name, str(self._path), self.what]
        try:
            self._process = programs.start(words, self._path / "stderr")
            loaded = self._answer(max(self.timeout, LOADING))[1]
            if loaded["problem"]:
                raise ValueError(loaded["problem"])
        except Broken as error:
            self.close()
            raise ValueError(f"adapter is {self.name}, which cannot be loaded: its process {error}") from None
        except BaseException:
            self.close()
            raise
        return loaded

    def _answer(self, timeout: float) -> tuple[Arrays, dict[str, Any]]:
        """Arrays, and what is said of them.  `Broken` for what the process does instead."""
        path, deadline = self._path / f"{self._number}.answer", time.monotonic() + timeout
        assert self._process is not None
        while not path.exists():
            code = self._process.poll()
            if code is not None and not path.exists():
                without = "" if code < 0 else " without an answer"
                raise Broken(f"{programs.how_ended(code)}{without}{programs.last_line(self._path / 'stderr')}")
            if time.monotonic() > deadline:
                raise Broken(f"did not end within {timeout:g} seconds")
            time.sleep(NAP)
        try:
            return programs.read_answer(path)
        finally:
            for own in (path, path.with_suffix(".case")):
                own.unlink(missing_ok=True)
