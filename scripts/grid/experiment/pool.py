"""Workers on this machine: so many processes, each of which does one run; none of them takes another with it."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from ortho_ref.files import opened
from ortho_ref.memory import resident
from scripts.grid.experiment import sessions
from scripts.grid.experiment.worker import ENDS, Order, command

#: What a worker says goes here, in its run's folder.
LOG = "worker.log"
#: Runs that a worker died of are resumed so often.
RESUMED = 1
#: Seconds between looks at the workers.
TICK = 0.1


class Worker(NamedTuple):
    """A process and its order."""

    order: Order
    process: "subprocess.Popen[bytes]"


def start(order: Order) -> Worker:
    """A worker, begun."""
    folder = Path(order.folder)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOG, "ab", opener=_opened) as log:
        process = subprocess.Popen(
            command(), stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True, env=environment(order)
        )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it is dead already, as its exit code tells
        process.stdin.write(json.dumps({"order": order._asdict(), "parent": os.getpid()}).encode())
        process.stdin.close()
    return Worker(order, process)


def _opened(path: str, flags: int) -> int:
    """A regular file itself: no link's, and no FIFO, which would be waited for."""
    try:
        return opened(path, flags | os.O_NOFOLLOW)
    except OSError as error:
        raise type(error)(f"{path} cannot be written: {error.strerror}") from error


def environment(order: Order) -> dict[str, str]:
    """The environment of a process: BLAS makes its threads when it is loaded, no more than the run has."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return dict(os.environ) | dict.fromkeys(names, str(order.given["threads"]))


def why(code: int) -> str:
    """What an exit code of a worker says."""
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"exit code {code}"


class Pool:
    """Workers, and the runs that wait for one."""

    def __init__(
        self,
        orders: Iterable[Order],
        jobs: int,
        on_end: Callable[[Order, str], None] = lambda order, how: None,
        memory: int | None = None,
    ) -> None:
        self.ended: dict[str, str] = {}
        self._waiting, self._working = deque(orders), list[Worker]()
        self._room, self._on_end, self._memory = jobs, on_end, memory
        self._deaths: Counter[str] = Counter()
        self._yielding: set[str] = set()

    def run(
        self, should_stop: Callable[[], bool] = lambda: False, on_tick: Callable[[], None] = lambda: None
    ) -> dict[str, str]:
        """Do the runs."""
        told = False
        try:
            while self._waiting or self._working:
                if should_stop() and not told:
                    told = True
                    self._waiting.clear()
                    tell(self._working)
                while self._waiting and len(self._working) < self._room:
                    self._working.append(start(self._waiting.popleft()))
                for worker in [own for own in self._working if own.process.poll() is not None]:
                    self._working.remove(worker)
                    self._on_end(worker.order, self._end_of(worker, told))
                self._watch_memory()
                on_tick()
                time.sleep(TICK)
        finally:
            tell(self._working)  # none, unless this was broken off
            for worker in self._working:
                worker.process.wait()
        return self.ended

    def _end_of(self, worker: Worker, told: bool) -> str:
        """How a run's worker ended; a run that is not at its end waits again."""
        order, code = worker.order, worker.process.returncode
        how = ENDS.get(code)
        if code == -signal.SIGTERM and (told or order.folder in self._yielding):
            how = "stopped"  # before it could hear of it
        if how is None:
            self._yielding.discard(order.folder)  # it has made room by its death
            self._deaths[order.folder] += 1
            if self._deaths[order.folder] > RESUMED:
                how = "failed"
                sessions.mark_failed(Path(order.folder), f"its workers died, the last {why(code)}; see {LOG}")
            elif not told:
                self._waiting.appendleft(order)
                return "again"
        if how == "stopped" and order.folder in self._yielding and not told:
            self._yielding.remove(order.folder)
            self._waiting.append(order)
            return "waits"
        self.ended[order.folder] = how or "stopped"
        return self.ended[order.folder]

    def _watch_memory(self) -> None:
        """Above the limit, tell the youngest worker to make room; from then on there is one fewer at a time."""
        if self._memory is None or len(self._working) < 2:
            return
        if sum(resident(worker.process.pid) for worker in self._working) <= self._memory:
            return
        youngest = self._working[-1]
        if youngest.order.folder not in self._yielding:
            self._yielding.add(youngest.order.folder)
            self._room = len(self._working) - 1
            tell([youngest])


def tell(workers: Iterable[Worker]) -> None:
    """Tell workers to save, and to end after their update."""
    for worker in workers:
        if worker.process.poll() is None:
            worker.process.send_signal(signal.SIGTERM)
