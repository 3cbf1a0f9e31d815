"""Many runs at once.  Each is a process of its own, which a thread looks after: here, or on a worker of a Dask cluster.

Both are executors of Python's concurrent.futures.  A cluster's workers see the grid's folder under the same path.  A
run whose process died goes on once more, elsewhere if its Dask worker was lost; one that gives no sign of life for so
many seconds is killed first.  Whoever ends the grid ends every process that it began, by its id.
"""

import contextlib
import json
import logging
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ortho_ref import files
from ortho_ref.memory import resident
from ortho_ref.terminal import shown
from ortho_ref.training.run_folder import RunFolder
from scripts.grid.experiment import sessions
from scripts.grid.experiment.worker import ENDS, HELD, STOPPED, Order, command

#: What a worker says goes here, in its run's folder.
LOG = "worker.log"
#: Runs that a worker died of are resumed so often.
RESUMED = 1
#: Seconds: between looks, until a run that another program works on is tried again, for a process to end when it is
#: told to, for a scheduler and what its workers write, until a scheduler that does not answer is lost, and for a
#: process to start, which on a busy machine takes longer than an update.
TICK, AGAIN, GRACE, PATIENCE, LOST, STARTING = 0.1, 5.0, 60.0, 30.0, 10.0, 60.0

#: The processes that threads of this process look after, by the run's folder, the oldest first.
_here: dict[str, "subprocess.Popen[bytes]"] = {}


def start(order: Order) -> "subprocess.Popen[bytes]":
    """The process of a run, begun."""
    folder = Path(order.folder)
    folder.mkdir(parents=True, exist_ok=True)
    with RunFolder(folder) as own, open(own.written_on(LOG), "ab") as log:
        process = subprocess.Popen(
            command(), stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True, env=environment(order)
        )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it is dead already, as its exit code tells
        process.stdin.write(json.dumps({"order": order._asdict(), "parent": os.getpid()}).encode())
        process.stdin.close()
    return process


def environment(order: Order) -> dict[str, str]:
    """The environment of a process: BLAS makes its threads when it is loaded, no more than the run has."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return dict(os.environ) | dict.fromkeys(names, str(order.given["threads"]))


def look_after(order: dict[str, Any], own: str, stalled: float | None) -> int:
    """Do a run in a process of its own; its exit code.  RuntimeError, saying why, where it died.

    `own` is a folder of the grid's: the process is told to end when that is gone, or has a file "stop", or one of the
    run's name.
    """
    stops = Path(own) / "stop", Path(own) / _name(order["folder"])

    def is_over() -> bool:
        return not Path(own).is_dir() or any(path.exists() for path in stops)

    if is_over():
        return STOPPED
    process = _here[order["folder"]] = start(Order(**order))
    told = killed = None
    life = _SignsOfLife(Path(order["folder"]) / "lock")
    try:
        while process.poll() is None:
            if told is None and is_over():
                told = time.monotonic()
                process.send_signal(signal.SIGTERM)
            if told is not None and time.monotonic() > told + GRACE:
                process.kill()
            if stalled is not None and killed is None and life.silence() > stalled:
                killed = f"no update for {stalled:g} s"
                process.kill()
            time.sleep(TICK)
    finally:
        del _here[order["folder"]]
    code = process.returncode
    if code in ENDS:
        return code
    if told is not None and killed is None:
        return STOPPED  # before it could hear of it
    raise RuntimeError(killed or why(code))


class _SignsOfLife:
    """Of a run, by the time of its lock; whatever its clock says, as it may be another machine's."""

    def __init__(self, lock: Path) -> None:
        self._lock, self._since = lock, time.monotonic() + STARTING
        self._last = self._time()

    def silence(self) -> float:
        """Seconds since the last one; before the first, since the process should have started."""
        if (now := self._time()) != self._last:
            self._last, self._since = now, time.monotonic()
        return time.monotonic() - self._since

    def _time(self) -> int | None:
        return self._lock.stat().st_mtime_ns if self._lock.exists() else None


def _name(folder: str) -> str:
    return folder.strip(os.sep).replace(os.sep, "+")[-200:]


def why(code: int) -> str:
    """What an exit code of a process says."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"
    return f"exit code {code}"


class Engine:
    """The runs of a grid, as many at a time as there is room for; a cluster does as many as it has workers.

    on_end: gets each order, and how its process ended.  memory: bytes for all processes here.  stalled: seconds
    without a sign of life after which a process is killed.  scheduler: the address of a Dask scheduler.
    """

    def __init__(
        self,
        orders: Sequence[Order],
        out: Path,
        jobs: int,
        on_end: Callable[[Order, str], None],
        memory: int | None,
        stalled: float | None,
        scheduler: str | None,
    ) -> None:
        self.room = len(orders) if scheduler else jobs
        self._waiting, self._on_end, self._memory, self._stalled = deque(orders), on_end, memory, stalled
        self._scheduler, self._deaths, self._yielding = scheduler, Counter[str](), set[str]()
        self._held: dict[str, float] = {}  # when a run is tried again that another program works on
        self._own = out.absolute() / f".runs-{secrets.token_hex(8)}"

    def run(self, should_stop: Callable[[], bool], on_tick: Callable[[], None]) -> None:
        """Do the runs.  ValueError where a scheduler cannot be had, or is lost."""
        left: dict[Future[int], Order] = {}
        with self._executor() as (executor, check):
            try:
                told = False
                while self._waiting or left:
                    check()
                    if should_stop() and not told:
                        told = True
                        self._waiting.clear()
                        files.write(self._own / "stop", b"")
                    for order in self._ready(len(left)):
                        left[executor.submit(look_after, order._asdict(), str(self._own), self._stalled)] = order
                    for future in [own for own in left if own.done()]:
                        order = left.pop(future)
                        self._on_end(order, self._end_of(order, future, told))
                    self._watch_memory()
                    on_tick()
                    time.sleep(TICK)
            finally:
                shutil.rmtree(self._own, ignore_errors=True)  # and whatever is on yet ends

    def _ready(self, working: int) -> Iterator[Order]:
        """The runs that can be begun now."""
        for _ in range(len(self._waiting)):
            if working >= self.room:
                return
            order = self._waiting.popleft()
            if time.monotonic() < self._held.get(order.folder, 0):
                self._waiting.append(order)
                continue
            working += 1
            yield order

    def _end_of(self, order: Order, future: "Future[int]", told: bool) -> str:
        """How a run ended; one that is not at its end waits again."""
        try:
            code = future.result()
        except Exception as error:  # of the process, of its Dask worker, of the disk
            return self._died(order, shown(error, 500), told)
        how = ENDS[code]
        if how == "stopped" and order.folder in self._yielding and not told:
            self._yielding.remove(order.folder)
            (self._own / _name(order.folder)).unlink(missing_ok=True)
            self._waiting.append(order)
            return "waits"
        if code == HELD and not told:
            again = order.folder in self._held
            self._held[order.folder] = time.monotonic() + AGAIN
            self._waiting.append(order)
            return "" if again else how
        return how

    def _died(self, order: Order, reason: str, told: bool) -> str:
        self._yielding.discard(order.folder)  # it has made room by its death
        self._deaths[order.folder] += 1
        if self._deaths[order.folder] <= RESUMED:
            if not told:
                self._waiting.appendleft(order)
            return "stopped" if told else "again"
        with contextlib.suppress(OSError, ValueError):  # a disk that is full, say: the others go on
            sessions.mark_failed(Path(order.folder), f"its workers died, the last: {reason}; see {LOG}")
        return f"failed: its workers died, the last: {reason}; see {LOG}"

    def _watch_memory(self) -> None:
        """Above the limit, tell the youngest process to make room; from then on there is one fewer at a time."""
        working = dict(_here)
        if self._memory is None or self._scheduler or len(working) < 2:
            return
        if sum(resident(process.pid) for process in working.values()) <= self._memory:
            return
        youngest = [*working][-1]
        if youngest not in self._yielding:
            self._yielding.add(youngest)
            self.room = len(working) - 1
            files.write(self._own / _name(youngest), b"")

    @contextlib.contextmanager
    def _executor(self) -> Iterator[tuple[Executor, Callable[[], None]]]:
        """What does the runs, and a check that it still can."""
        if self._scheduler is None:
            self._own.mkdir(parents=True)
            with ThreadPoolExecutor(self.room) as threads:
                yield threads, lambda: None
            return
        with connected(self._scheduler) as client:
            self._own.mkdir(parents=True)
            check_shared(client, self._own)
            lost: list[float] = []

            def check() -> None:
                if client.status == "running":
                    lost.clear()
                    return
                lost.append(time.monotonic())
                if lost[-1] - lost[0] > LOST or client.status == "closed":
                    raise ValueError(f"scheduler is {self._scheduler}, and was lost; the same command goes on")

            yield client.get_executor(pure=False), check


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of a Dask scheduler.  ValueError: where Dask is not installed, and where nobody answers."""
    try:
        from distributed import Client
    except ImportError as error:
        needs = "pip install -e '.[cluster]'"
        raise ValueError(f"--scheduler needs Dask ({error.name} is missing): {needs}") from None
    loud = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    for name in ("asyncio", "tornado", *loud):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # that a scheduler is gone is said in one line, here
    try:
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ValueError(f"scheduler is {address}: {error}") from error
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):  # the scheduler may be gone
            client.close(timeout=TICK * 20)


def check_shared(client: Any, own: Path) -> None:
    """Check that every worker sees a folder, and that what it writes there is seen here."""
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    if not workers:
        raise ValueError(f"the scheduler at {client.scheduler.address} has no workers")
    token = secrets.token_bytes(16)
    files.write(own / "asked", token)
    answers = client.run(answer, str(own))
    deadline = time.monotonic() + PATIENCE
    for worker, name in answers.items():
        path = own / name
        while not (path.exists() and path.read_bytes() == token):
            if time.monotonic() > deadline:
                raise ValueError(f"out is {own.parent}, which worker {worker} does not see; choose a shared folder")
            time.sleep(TICK)


def answer(own: str) -> str:
    """On a worker: write what stands in the folder into a file of another name; that name."""
    name = f"answer-{secrets.token_hex(8)}"
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            files.write(Path(own) / name, (Path(own) / "asked").read_bytes())
            return name
        except OSError:
            if time.monotonic() > deadline:
                return name
            time.sleep(TICK)
