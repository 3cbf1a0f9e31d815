"""A process that does one run of a grid: what to do comes on its standard input, as JSON.

It holds the run's folder from its beginning to its end.  It ends after an update, with its state saved, when it is told
to by a signal and when the process that began it is gone.  Exit codes: 0 done, STOPPED saved before its end, FAILED
with the reason in sessions.json, CHANGED and HELD before it touched the run, as the code is another than the grid was
begun with, or as another process works on the run; any other is a crash.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ortho_ref.backend import to_host
from ortho_ref.training.run_folder import CONFIG, LAST, SUMMARY, RunFolder
from ortho_ref.training.runs import Loaded
from ortho_ref.training.task import Task
from ortho_ref.training.trainer import Record
from scripts.grid.build import make_trainer
from scripts.grid.config import begun, resumed
from scripts.grid.experiment import sessions
from scripts.grid.experiment.measures import Measures
from scripts.grid.run import STOPS, handle, quiet_arithmetic
from scripts.grid.track import tracked
from scripts.program import BAD_INPUT
from scripts.program.malloc import keep_freed_memory

DONE, STOPPED, FAILED, CHANGED, HELD = 0, 75, 76, 77, 78
#: How a run ended, by the exit code.
ENDS = {DONE: "done", STOPPED: "stopped", FAILED: "failed", CHANGED: "changed", HELD: "held"}
#: Seconds to wait for a folder that a process holds which is about to end, and between signs of life.
PATIENCE, BEAT = 60.0, 1.0


class Order(NamedTuple):
    """One run, for a worker."""

    folder: str
    task: str
    given: Record  # options of the run, those of the machine among them
    places: Record  # where its data are, by option
    mark: Record  # what its config says of the grid that it is of; its commit is the worker's too
    measures: list[Record]  # what is measured besides
    track: str | None  # for which other programs

    @property
    def paths(self) -> dict[str, Path]:
        """Where its data are."""
        return {name: Path(place) for name, place in self.places.items()}

    def begun(self) -> tuple[Record, Task]:
        """The config of a new run, and its task; the process has its threads then."""
        return begun(self.task, **self.given, **self.paths)


def command() -> list[str]:
    """The command line of a worker."""
    return [sys.executable, "-m", "scripts.grid.experiment.worker"]


def work(order: Order, parent: int | None = None) -> int:
    """Do a run, from its beginning or from its last checkpoint."""
    told: list[int] = []
    handle(set(STOPS) - {signal.SIGINT}, lambda number, frame: told.append(number))
    parent = parent or os.getppid()
    commit = order.mark["commit"]
    if sessions.commit() != commit:  # of the files that this process has just read
        print(f"the code is {sessions.commit()}; the grid was begun under {commit}", file=sys.stderr)
        return CHANGED
    try:
        folder = sessions.held(Path(order.folder), PATIENCE)
    except BlockingIOError as error:
        print(error, file=sys.stderr)
        return HELD
    with folder:
        session, last_beat = sessions.Session(folder, commit), 0.0

        def should_stop() -> bool:
            nonlocal last_beat
            if time.monotonic() > last_beat + BEAT:
                last_beat = time.monotonic()
                folder.beat()
            return bool(told) or os.getppid() != parent

        try:
            finished = _train(order, folder, should_stop)
        except (*BAD_INPUT, FloatingPointError) as error:
            session.end("diverged" if isinstance(error, FloatingPointError) else "failed", str(error))
            print(f"failed: {error}", file=sys.stderr)
            return FAILED
        session.end("done" if finished else "stopped")
    return DONE if finished else STOPPED


def _train(order: Order, folder: RunFolder, should_stop: Callable[[], bool]) -> bool:
    """Whether the run came to its end, with everything measured."""
    resume = folder.has(CONFIG)
    if resume:  # with its own options: whoever gave the order has compared them
        config, task = resumed(folder, order.task, {"model": order.given.get("model")}, order.paths)
    else:
        config, task = order.begun()
        config |= {"experiment": order.mark}
    measures = Measures(folder, order.measures, task, config)
    trainer = make_trainer(config, task)
    pause: int | None = None

    def should_pause() -> bool:
        return should_stop() or trainer.iteration == pause

    with quiet_arithmetic():
        while not folder.has(SUMMARY):
            initial = to_host((trainer.params, trainer.buffers))
            measures.take_due(None if folder.has(LAST) else Loaded(trainer.network, *initial))
            pause = measures.next_after(trainer.iteration)
            with tracked(order.track, folder) as note:
                trainer.run(folder, config, resume=resume, on_record=note, should_stop=should_pause)
            resume = True
            if should_stop():
                break
        measures.take_due()
    if not folder.has(SUMMARY):
        return False
    measures.check_complete()
    return True


def main() -> int:
    """Read the order, and work."""
    keep_freed_memory()
    sent = json.load(sys.stdin)
    return work(Order(**sent["order"]), sent["parent"])  # which may be gone since: a worker takes a second to start


if __name__ == "__main__":
    sys.exit(main())
