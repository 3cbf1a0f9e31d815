"""Adapters in a process of their own: whatever they do to it, the kit goes on and says what happened.

One process (`child`) answers all cases; one that dies, hangs, takes too much memory or speaks no sense is ended, with
its process group, and the next case gets another.  Linux and macOS; memory is limited on Linux alone.
"""

import contextlib
import math
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from ortho_ref.conformance import line
from ortho_ref.conformance.case import Case
from ortho_ref.conformance.implementation import Broken, Elsewhere, Raised
from ortho_ref.conformance.outputs import NoArray
from ortho_ref.conformance.programs import check_timeout, end, name_of
from ortho_ref.memory import resident, total_memory
from ortho_ref.terminal import cut

#: Seconds for a case, for loading an adapter at least, and between two looks at a process.
TIMEOUT, LOADING = 60.0, 300.0
_TICK = 0.02
#: Processes in a row that may end while the adapter is loaded; cases of a kind in a row that may hang, or end it.
_UNLOADABLE, _HANGS, _DEATHS = 3, 3, 5
_ROUNDS = 100  # of ending what a process has started: some start more meanwhile
GIB = 1 << 30
_TAIL = 10_000  # bytes of standard error


class Apart(Elsewhere):
    """An adapter in a process of its own, for `check`; to be closed, as by `with`.

    Parameters
    ----------
    adapter : str
        FILE.py, or a module's dotted name.
    timeout : float
        Seconds for each case, at most a day. Loading the adapter has `LOADING` at least.
    memory : float, optional
        GiB that the process may take, of resident memory; half of the machine's unless given.
    what : str
        What of the adapter is asked: "run", or "map" with its `pullback`.

    Raises
    ------
    ValueError
        The adapter cannot be loaded, or a limit is not above 0.
    """

    def __init__(self, adapter: str, timeout: float = TIMEOUT, memory: float | None = None, what: str = "run") -> None:
        if os.name != "posix":
            raise ValueError("an adapter has a process of its own on Linux and macOS alone; --in-process runs it here")
        check_timeout(timeout)
        memory = default_memory() if memory is None else memory
        check_memory(memory)
        self.adapter, self.timeout, self.memory, self.what = adapter, timeout, memory, what
        self.name, self.file = adapter, Path(adapter)
        self._process: _Process | None = None
        self._unloadable = 0
        self._lost = _Lost("", 0, 0)
        self._number = 0
        self._process = self._started()

    def __enter__(self) -> "Apart":
        """Itself, its process started."""
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """End the process and what it started."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def __call__(self, case: Case) -> Any:
        """The outputs, or None; `Raised` and `Broken` otherwise."""
        lost = self._lost if self._lost.kind == case.kind else _Lost(case.kind, 0, 0)
        if lost.hangs >= _HANGS:
            raise Broken(f"was not tried: {_HANGS} of this kind in a row did not end within {self.timeout:g} seconds")
        if lost.deaths >= _DEATHS:
            raise Broken(f"was not tried: {_DEATHS} of this kind in a row lost the adapter's process")
        if self._process is None or not self._process.is_idle():
            self.close()
            self._process = self._restarted()
        self._number += 1
        header = {
            "number": self._number,
            "id": case.id,
            "kind": case.kind,
            "dtype": str(case.dtype),
            "config": case.config,
            "outputs": {name: list(shape) for name, shape in case.outputs.items()},
        }
        now, well = lost._replace(hangs=0, deaths=lost.deaths + 1), False
        try:
            answer = self._process.heard(self.timeout, _most(case), line.packed(header, case.inputs))
            outputs = _outcome(answer, case, self._number)
            well = True
            return outputs
        except _Hanging:
            now = lost._replace(hangs=lost.hangs + 1, deaths=lost.deaths + 1)
            raise
        except (Raised, _Said):
            well = True
            raise
        finally:
            self._lost = _Lost(case.kind, 0, 0) if well else now
            if not well:
                self.close()

    def _restarted(self) -> "_Process":
        """Another process; not after as many as `_UNLOADABLE` in a row that could not load the adapter."""
        if self._unloadable >= _UNLOADABLE:
            raise Broken(f"was not tried: the adapter could not be loaded again, {_UNLOADABLE} times in a row")
        try:
            process = self._started()
        except ValueError as error:
            self._unloadable += 1
            raise Broken(str(error)) from None
        self._unloadable = 0
        return process

    def _started(self) -> "_Process":
        process = _Process(self.adapter, self.memory, self.what)
        try:
            answer = process.heard(max(self.timeout, LOADING), 0)
            if answer.header["status"] == line.LOADED:
                return process
            problem = answer.header["said"]
        except Broken as error:
            problem = f"adapter is {self.adapter}, which cannot be loaded: its process {error}"
        except BaseException:
            process.close()
            raise
        process.close()
        raise ValueError(problem)


class _Lost(NamedTuple):
    """How many cases of a kind, one after the other, have hung, or ended the process in any way."""

    kind: str
    hangs: int
    deaths: int


class _Hanging(Broken):
    """It did not answer in time."""


class _Said(Broken):
    """What it says itself; the process is well."""


class _Process:
    """A process, and the kit's end of the line to it.

    Parameters
    ----------
    adapter : str
        FILE.py, or a module's dotted name.
    memory : float
        GiB that it may take.
    what : str
        As of `Apart`.
    """

    def __init__(self, adapter: str, memory: float, what: str) -> None:
        self._limit = memory * GIB
        self._errors = bytearray()
        self._line, theirs = socket.socketpair()
        self._line.setblocking(False)
        number = theirs.fileno()
        flags = [f"-W{option}" for option in sys.warnoptions]
        flags += [flag for flag, given in (("-I", sys.flags.isolated), ("-P", sys.flags.safe_path)) if given]
        words = [
            sys.executable,
            *flags,
            "-m",
            "ortho_ref.conformance.child",
            adapter,
            str(number),
            str(os.getpid()),
            what,
        ]
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[number],
                start_new_session=True,
            )
        except BaseException:
            self._line.close()
            raise
        finally:
            theirs.close()
        assert self._process.stderr is not None
        self._stderr = self._process.stderr
        os.set_blocking(self._stderr.fileno(), False)

    def is_idle(self) -> bool:
        """Whether it is there, and has said nothing that it was not asked."""
        self._read_errors()
        if self._process.poll() is not None:
            return False
        try:
            self._line.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """End it, with all of its group, and on Linux with what it has started in others."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGSTOP)  # it starts no more, and forgets none that has ended
            killed: set[int] = set()
            for _ in range(_ROUNDS):
                more = descendants(self._process.pid) - killed
                for pid in more:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                killed |= more
                if not more:
                    break
        end(self._process)
        self._line.close()
        self._stderr.close()

    def heard(self, timeout: float, most: int, data: bytes = b"") -> line.Message:
        """The next message.

        Parameters
        ----------
        timeout : float
            Seconds.
        most : int
            Bytes of its arrays, at most.
        data : bytes
            What is to be said before.

        Returns
        -------
        Message
            Its header fits `line.Answer`.

        Raises
        ------
        Broken
            What it did instead of answering.
        """
        self._errors.clear()
        reader, left, deadline = line.Reader(line.Answer, most), memoryview(data), time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(self._line, selectors.EVENT_READ | (selectors.EVENT_WRITE if left else 0))
            selector.register(self._stderr, selectors.EVENT_READ)
            while True:
                ready = selector.select(_TICK)
                code = self._process.poll()  # before the line is read: what it says last comes before its end
                for key, events in ready:
                    if key.fileobj is self._stderr:
                        if not self._read_errors():
                            selector.unregister(self._stderr)
                        continue
                    if events & selectors.EVENT_WRITE:
                        left = left[self._said(left) :]
                        if not left:
                            selector.modify(self._line, selectors.EVENT_READ)
                    if events & selectors.EVENT_READ and (message := self._heard(reader)) is not None:
                        return message
                if code is not None and not any(key.fileobj is self._line for key, _ in ready):
                    raise Broken(self._ended(code))
                self._check_memory()
                if time.monotonic() > deadline:
                    raise _Hanging(f"did not end within {timeout:g} seconds")

    def _said(self, data: memoryview) -> int:
        try:
            return self._line.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            raise Broken(self._gone()) from None

    def _heard(self, reader: line.Reader) -> line.Message | None:
        try:
            piece = self._line.recv(1 << 20)
        except BlockingIOError:
            return None
        except OSError:
            piece = b""
        if not piece:
            raise Broken(self._gone())
        try:
            return reader.feed(piece)
        except (ValueError, MemoryError) as error:
            raise Broken(f"spoke no sense to the kit: {error}") from None

    def _gone(self) -> str:
        """Nobody holds the other end any more."""
        try:
            return self._ended(self._process.wait(1.0))
        except subprocess.TimeoutExpired:
            return f"closed the descriptor by which it answers{self._last()}"

    def _ended(self, code: int) -> str:
        if code < 0:
            return f"was ended by {name_of(-code)}{self._last()}"
        return f"ended with exit code {code} without an answer{self._last()}"

    def _last(self) -> str:
        """The last line on standard error."""
        self._read_errors()
        lines = self._errors.decode(errors="replace").strip().splitlines()
        return f": {cut(lines[-1], 1000)}" if lines else ""

    def _read_errors(self) -> bool:
        """Keep the end of standard error; whether there may be more later."""
        for _ in range(64):  # one that writes without end is not listened to without end
            try:
                piece = os.read(self._stderr.fileno(), 1 << 16)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not piece:
                return False
            self._errors = (self._errors + piece)[-_TAIL:]
        return True

    def _check_memory(self) -> None:
        if resident(self._process.pid) > self._limit:
            raise Broken(f"took more than {self._limit / GIB:.3g} GiB of memory")


def _most(case: Case) -> int:
    """Bytes of outputs, at most: twice what is expected, and a little, in the longest numbers that NumPy has."""
    return sum(32 * (2 * math.prod(shape) + 1000) for shape in case.outputs.values())


def _outcome(answer: line.Message, case: Case, number: int) -> Any:
    """What `Run` gives, or raises."""
    header = answer.header
    if header["number"] != number:
        raise Broken("spoke no sense to the kit: an answer to another question")
    status = header["status"]
    if status == line.UNSUPPORTED:
        return None
    if status == line.RAISED:
        raise Raised(cut(header["said"]), cut(header["place"], 300), header["traceback"], header["refuses"])
    if status == line.BROKEN:
        raise _Said(header["said"])
    if status != line.GIVEN or not set(answer.arrays) <= set(case.outputs):
        raise Broken("spoke no sense to the kit: outputs that the case does not have")
    return answer.arrays | {name: NoArray(cut(text, 1000)) for name, text in header["no_arrays"].items()}


def default_memory() -> float:
    """GiB: half of what the machine, or the container that this runs in, has."""
    most = total_memory()
    return 8.0 if most is None else most / GIB / 2


def check_memory(memory: float) -> None:
    """ValueError unless it is above 0, and finite."""
    if not 0 < memory < 1 << 20:
        raise ValueError(f"memory is {memory}; allowed: GiB above 0, below {1 << 20:,}")


def descendants(pid: int) -> set[int]:
    """The processes that one has started, and these in turn; none where the system does not say it as Linux does."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended
            parent = int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found: set[int] = set()
    open_ones = [pid]
    while open_ones:
        own = set(children.get(open_ones.pop(), ())) - found
        found |= own
        open_ones += own
    return found
