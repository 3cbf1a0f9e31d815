"""Lines of metrics for other programs to show: what --track names."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from ortho_ref.training.run_folder import RunFolder
from ortho_ref.training.task import check_choice
from ortho_ref.training.trainer import Record
from ortho_ref.trees import by_path

#: What there is; the extra `track` has their libraries.
TRACKERS = ("tensorboard",)


class TensorBoard:
    """What TensorBoard reads, in a folder of the run's own: `tensorboard --logdir RUNS`.

    The folder is written anew from the run's lines whenever the run goes on, so that no line is there twice: with the
    first new line, when the run is held and its metrics end where it goes on.
    """

    def __init__(self, run: RunFolder) -> None:
        try:
            from tensorboard.summary import Writer
        except ImportError as error:
            needs = "pip install -e '.[track]'"
            raise ValueError(f"--track tensorboard needs TensorBoard ({error.name} is missing): {needs}") from None
        self._run, self._new = run, Writer
        self._writer: Any = None

    def record(self, record: Record) -> None:
        """One line of metrics, which the run has already."""
        if self._writer is None:
            self.begin()
        else:
            self._add(record)

    def begin(self) -> None:
        """Write what the run has, unless that was done."""
        if self._writer is None:
            folder = self._run.folder("tensorboard")
            for own in folder.glob("events.out.tfevents.*"):  # of this run, which writes them again; no other file
                own.unlink()
            self._writer = self._new(str(folder))
            for record in self._run.records:
                self._add(record)

    def _add(self, record: Record) -> None:
        for name, value in by_path(record).items():  # "weights/layer0.U_c/defect"
            if name != "iteration":
                self._writer.add_scalar(name, value, record["iteration"], wall_time=time.time())
        self._writer.flush()

    def close(self) -> None:
        """Let go of the file."""
        if self._writer is not None:
            self._writer.close()


@contextlib.contextmanager
def tracked(name: str | None, run: RunFolder) -> Iterator[Callable[[Record], None]]:
    """What takes each line of a run's metrics."""
    if name is None:
        yield lambda record: None
        return
    check_choice("track", name, TRACKERS)
    tracker = TensorBoard(run)
    try:
        yield tracker.record
        tracker.begin()  # of a run that was at its end already
    finally:
        tracker.close()
