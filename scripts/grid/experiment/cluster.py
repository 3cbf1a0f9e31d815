"""A grid on the workers of a Dask cluster: each run is a task there, that goes on elsewhere when its worker is lost.

The grid's folder is on a file system that all of them see, under the same path.  A task begins the same process as a
worker on this machine has (`pool.start`); that process ends, saved, when the Dask worker that began it is gone.
"""

import secrets
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ortho_ref import files
from ortho_ref.terminal import shown
from scripts.grid.experiment import sessions
from scripts.grid.experiment.pool import RESUMED, TICK, start, tell, why
from scripts.grid.experiment.worker import ENDS, STOPPED, Order

#: Seconds to wait for the scheduler, and for what a worker writes to be seen here.
PATIENCE = 30.0


class Cluster:
    """Runs as tasks of a Dask cluster."""

    def __init__(self, address: str, out: Path, orders: Sequence[Order], on_end: Callable[[Order, str], None]) -> None:
        self.address, self.orders, self.ended = address, orders, dict[str, str]()
        self._on_end = on_end
        self._own = out.absolute() / f".cluster-{secrets.token_hex(8)}"  # a stop, and what the workers prove

    def run(
        self, should_stop: Callable[[], bool] = lambda: False, on_tick: Callable[[], None] = lambda: None
    ) -> dict[str, str]:
        """Do the runs."""
        client = connect(self.address)
        self._own.mkdir(parents=True)
        try:
            with client:
                check_shared(client, self._own)
                self._do(client, should_stop, on_tick)
        finally:
            files.write(self._own / "stop", b"")  # for a task that the cluster still begins
            time.sleep(2 * TICK)
            shutil.rmtree(self._own, ignore_errors=True)
        return self.ended

    def _do(self, client: Any, should_stop: Callable[[], bool], on_tick: Callable[[], None]) -> None:
        name = self._own.name
        left: dict[Any, Order] = {
            client.submit(work, order._asdict(), str(self._own), key=f"{name}-{i}", retries=RESUMED, priority=-i): order
            for i, order in enumerate(self.orders)
        }
        told = False
        while left:
            if should_stop() and not told:
                told = True
                files.write(self._own / "stop", b"")
            for future in [own for own in left if own.done()]:
                order = left.pop(future)
                how = self._end_of(future, order)
                self.ended[order.folder] = how
                self._on_end(order, how)
            on_tick()
            time.sleep(TICK)

    def _end_of(self, future: Any, order: Order) -> str:
        if future.status == "finished":
            return ENDS[future.result()]
        sessions.mark_failed(Path(order.folder), shown(f"its workers died: {future.exception()}", 500))
        return "failed"


def connect(address: str) -> Any:
    """A client of a scheduler.  ValueError: where Dask is not installed, and where nobody answers."""
    try:
        from distributed import Client
    except ImportError as error:
        needs = "pip install -e '.[cluster]'"
        raise ValueError(f"--scheduler needs Dask ({error.name} is missing): {needs}") from None
    try:
        return Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ValueError(f"scheduler is {address}: {error}") from error


def work(order: dict[str, object], own: str) -> int:
    """A task: one run, in a process of its own.  RuntimeError: if the process died."""
    if (Path(own) / "stop").exists() or not Path(own).is_dir():
        return STOPPED
    worker = start(Order(**order))  # type: ignore[arg-type]
    told = False
    while worker.process.poll() is None:
        if not told and ((Path(own) / "stop").exists() or not Path(own).is_dir()):
            told = True
            tell([worker])
        time.sleep(TICK)
    code = worker.process.returncode
    if code not in ENDS and not told:
        raise RuntimeError(why(code))
    return code if code in ENDS else STOPPED


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
