"""Lines of metrics for other programs to show: what --track names."""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ortho_ref.run_folder import LAST, read_metrics, read_state
from ortho_ref.task import check_choice
from ortho_ref.training import Record

#: What there is; the extra `track` has their libraries.
TRACKERS = ("tensorboard",)


class TensorBoard:
    """What TensorBoard reads, in a folder of the run's own: `tensorboard --logdir RUNS`.

    The folder is written anew from the run's lines whenever the run goes on, so that no line is there twice.

    Parameters
    ----------
    run : Path
        The run's folder.
    which : str, optional
        The checkpoint that it goes on from; the last unless given.

    Raises
    ------
    ValueError
        Where TensorBoard is not installed.
    """

    def __init__(self, run: Path, which: str | None = None) -> None:
        try:
            from tensorboard.summary import Writer
        except ImportError as error:
            needs = "pip install -e '.[track]'"
            raise ValueError(f"--track tensorboard needs TensorBoard ({error.name} is missing): {needs}") from None
        before = _lines(run, which)
        shutil.rmtree(run / "tensorboard", ignore_errors=True)
        self._writer: Any = Writer(str(run / "tensorboard"))
        for record in before:
            self.record(record)

    def record(self, record: Record) -> None:
        """One line of metrics."""
        for name, value in flat(record).items():
            self._writer.add_scalar(name, value, record["iteration"], wall_time=time.time())
        self._writer.flush()

    def close(self) -> None:
        """Let go of the file."""
        self._writer.close()


@contextlib.contextmanager
def tracked(name: str | None, run: Path, which: str | None = None) -> Iterator[Callable[[Record], None]]:
    """What takes each line of a run's metrics.

    Parameters
    ----------
    name
        Of TRACKERS; None: nothing is tracked.
    run
        The run's folder.
    which
        The checkpoint that it goes on from; the last unless given.

    Yields
    ------
    Callable
        Takes a line.

    Raises
    ------
    ValueError
        For a name that is none, and where its library is not installed.
    """
    if name is None:
        yield lambda record: None
        return
    check_choice("track", name, TRACKERS)
    tracker = TensorBoard(run, which)
    try:
        yield tracker.record
    finally:
        tracker.close()


def flat(record: Record) -> dict[str, float]:
    """A line of metrics by names without a tree: "weights/layer0.U_c/defect"."""
    found: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found |= {f"{name}/{inner}": own for inner, own in flat(value).items()}
        elif name != "iteration":
            found[name] = value
    return found


def _lines(run: Path, which: str | None) -> list[Record]:
    """The lines that a run goes on after, from a checkpoint; from the last, if there is one, unless it is given."""
    if which is None and not (run / LAST).exists():
        return []
    done = read_state(run, which or "last")["iteration"]
    return [record for record in read_metrics(run) if record["iteration"] <= done]
