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


@contextlib.contextmanager
def tracked(name: str | None, run: RunFolder) -> Iterator[Callable[[Record], None]]:
    """What takes each line of a run's metrics, which the run has already; `tensorboard --logdir RUNS` shows them.

    The folder for TensorBoard is written anew from the run's lines whenever the run goes on, so that no line is there
    twice: with the first new line, when the run is held and its metrics end where it goes on.
    """
    if name is None:
        yield lambda record: None
        return
    check_choice("track", name, TRACKERS)
    try:
        from tensorboard.summary import Writer
    except ImportError as error:
        needs = "pip install -e '.[track]'"
        raise ValueError(f"--track tensorboard needs TensorBoard ({error.name} is missing): {needs}") from None
    writer: Any = None

    def begin() -> None:
        nonlocal writer
        folder = run.folder("tensorboard")
        for own in folder.glob("events.out.tfevents.*"):  # of this run, which writes them again; no other file
            own.unlink()
        writer = Writer(str(folder))
        for record in run.records:
            _add(writer, record)

    try:
        yield lambda record: begin() if writer is None else _add(writer, record)
        if writer is None:  # of a run that was at its end already
            begin()
    finally:
        if writer is not None:
            writer.close()


def _add(writer: Any, record: Record) -> None:
    for name, value in by_path(record).items():  # "weights/layer0.U_c/defect"
        if name != "iteration":
            writer.add_scalar(name, value, record["iteration"], wall_time=time.time())
    writer.flush()
