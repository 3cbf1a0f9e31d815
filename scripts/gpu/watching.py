"""A bar on the terminal while pytest runs in another process: how far it is stands in its log."""

import contextlib
import re
import threading
from collections.abc import Iterator
from pathlib import Path

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from scripts.program import console

_EVERY = 0.5  # seconds


@contextlib.contextmanager
def watched(log: Path) -> Iterator[None]:
    """On a terminal, a bar of the tests that are through; it leaves nothing.

    Parameters
    ----------
    log : Path
        What `pytest -v` writes to.
    """
    columns = (TextColumn("warm-up: kernels are compiled", markup=False), BarColumn(20), TaskProgressColumn())
    ended = threading.Event()
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=100)

        def look() -> None:
            while not ended.wait(_EVERY):
                bar.update(task, completed=percent(log.read_text(errors="replace")))

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def percent(log: str) -> int:
    """How many of a hundred tests are through.

    Parameters
    ----------
    log : str
        What `pytest -v` has said so far.

    Returns
    -------
    int
        0 before the first.
    """
    return max(map(int, re.findall(r"\[ *(\d+)%\]", log)), default=0)
