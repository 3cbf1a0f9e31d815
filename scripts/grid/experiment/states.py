"""How far the runs of a grid are, from their folders."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ortho_ref.terminal import shown
from ortho_ref.training.run_folder import CONFIG, RunFolder
from ortho_ref.training.trainer import Record
from scripts.grid.experiment.cells import Cell
from scripts.grid.experiment.measures import missing, read_measured
from scripts.grid.experiment.sessions import failure, read_sessions


class State(NamedTuple):
    """How far one run is."""

    cell: Cell
    folder: Path
    how: str  # "waiting", "running", "stopped", "done" or "failed"
    # iteration, iterations: updates as of its last line of metrics, and of all; 0 where it was not begun
    iteration: int = 0
    iterations: int = 0
    config: Mapping[str, Any] = MappingProxyType({})
    records: Sequence[Record] = ()
    summary: Record | None = None  # of one that is done: at its end, with everything measured
    reason: str = ""
    measured: Sequence[Record] = ()  # what was measured so far
    sessions: Sequence[Record] = ()  # who worked on it; none where a file of it is damaged

    @property
    def seconds(self) -> float:
        """By the clock, of all sessions that ended."""
        return sum(own.get("seconds", 0.0) for own in self.sessions)

    @property
    def diverged(self) -> bool:
        """Whether it failed as its loss or its weights stopped being finite, all of its files being whole.

        That, too, is what came out.
        """
        return bool(self.sessions) and self.sessions[-1]["end"] == "diverged"


def states_of(cells: Iterable[Cell], out: Path) -> list[State]:
    """How far each cell's run is."""
    return [state_of(cell, out / cell.folder) for cell in cells]


def state_of(cell: Cell, path: Path) -> State:
    """How far a run is; one that cannot be read has failed, whatever is in its folder."""
    config: Record = {}
    sessions: list[Record] = []
    if not path.exists():
        return State(cell, path, "waiting")
    try:
        with RunFolder(path) as folder:
            sessions = read_sessions(folder)
            if not folder.has(CONFIG):
                reason = failure(sessions)
                return State(cell, path, "waiting" if reason is None else "failed", reason=reason or "")
            config, records, summary = folder.config, folder.records, folder.summary
            state = state_from(cell, path, config, sessions, records, summary, read_measured(folder))
            return state._replace(how="running") if state.how == "stopped" and folder.is_held() else state
    except (OSError, ValueError) as error:
        N, reason = config.get("iterations", 0), failure(sessions) or str(error)
        return State(cell, path, "failed", 0, N, config, reason=reason)


def state_from(
    cell: Cell,
    folder: Path,
    config: Record,
    sessions: Sequence[Record],
    records: Sequence[Record],
    summary: Record | None,
    measured: Sequence[Record],
) -> State:
    """How far a run is by what was read of it; where the cell wants more to be measured, it is not done."""
    N, reason = config.get("iterations", 0), failure(sessions)
    if summary is not None and missing(measured, cell.measures, N):
        summary = None
    how = "done" if summary is not None else "stopped" if reason is None else "failed"
    done = records[-1]["iteration"] if records else 0
    return State(cell, folder, how, done, N, config, records, summary, reason or "", measured, sessions)


def seconds_left(states: Iterable[State]) -> float:
    """What is left to compute, one run after the other."""
    total = 0.0
    for alike in by_line(states).values():
        took = [own.seconds for own in alike if own.how == "done" and own.seconds]
        speeds = [own.iterations * _seconds_of_an_update(own) for own in alike if own.records]
        whole = statistics.mean(took or speeds or [math.nan])
        left = [own for own in alike if own.how not in ("done", "failed")]
        total += sum(whole * (1 - own.iteration / max(own.iterations, 1)) for own in left)
    return total


def by_line(states: Iterable[State]) -> dict[tuple[str, str], list[State]]:
    """The states of each line of the table in each column."""
    found: dict[tuple[str, str], list[State]] = {}
    for own in states:
        found.setdefault((own.cell.line, own.cell.column.name), []).append(own)
    return found


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a name may have its bars."""
    lines = (head, ["---"] * len(head), *rows)
    escaped = ([cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells] for cells in lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in escaped)


def _seconds_of_an_update(state: State) -> float:
    return 1 / statistics.median(record["steps_per_second"] for record in state.records)


def overview(states: Sequence[State]) -> str:
    """How far a grid is, a line for each row and column, in Markdown."""
    ways = ("done", "running", "stopped", "waiting", "failed")
    rows = []
    for (row, column), own in by_line(states).items():
        counts = [str(number) if (number := sum(s.how == way for s in own)) else "" for way in ways]
        N = max(state.iterations for state in own)
        updates = ", ".join(f"{s.iteration:,}" for s in own if s.how in ("running", "stopped", "failed"))
        rows.append([row, column, *counts, f"{updates} of {N:,}" if updates else ""])
    left = seconds_left(states)
    done = sum(state.how == "done" for state in states)
    text = "none" if left == 0 else "not known yet" if math.isnan(left) else f"{clock(left)} of one worker"
    lines = [markdown_table(["row", "column", *ways, "updates"], rows), ""]
    lines.append(f"{done} of {len(states)} runs done; time left: {text}")
    lines += [f"failed: {state.cell.name}: {shown(state.reason)}" for state in states if state.how == "failed"]
    return "\n".join(lines)


def clock(seconds: float) -> str:
    """A time: hours, minutes or seconds."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
