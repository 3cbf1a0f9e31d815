"""What is kept of a grid under results/: the small files of its finished runs."""

from collections.abc import Iterable
from pathlib import Path

from ortho_ref.files import write
from ortho_ref.training.run_folder import CONFIG, METRICS_FILE, SUMMARY, read_config, read_summary
from scripts.grid.experiment.cells import Cell
from scripts.grid.experiment.measures import MEASURED, missing, read_measured
from scripts.grid.experiment.sessions import SESSIONS, diverged, read_sessions
from scripts.grid.experiment.states import State

#: By the summary a run counts as stored, by its sessions one that diverged: they come after all else.
KEPT = (CONFIG, METRICS_FILE, MEASURED, SESSIONS, SUMMARY)
#: A run under results/ has no more lines of metrics.
LINES = 300


def is_stored(folder: Path, cell: Cell) -> bool:
    """Whether a folder under results/ holds a cell's run: done, with all measures that the cell wants; or diverged."""
    if diverged(read_sessions(folder)):
        return True
    return (folder / SUMMARY).exists() and not missing(
        read_measured(folder), cell.measures, read_config(folder)["iterations"]
    )


def store(states: Iterable[State], out: Path) -> list[State]:
    """Copy the files of runs that are done, or diverged, and not there yet; checkpoints stay where they are."""
    copied = []
    for state in states:
        folder = out / state.cell.folder
        if not (state.how == "done" or state.diverged) or is_stored(folder, state.cell):
            continue
        if len(state.records) > LINES:
            raise ValueError(
                f"{state.folder} has {len(state.records)} lines of metrics; allowed: {LINES}; log less often"
            )
        folder.mkdir(parents=True, exist_ok=True)
        for name in KEPT:
            if (state.folder / name).exists():
                write(folder / name, (state.folder / name).read_bytes())
        if state.how == "done":
            read_summary(folder)
        copied.append(state)
    return copied
