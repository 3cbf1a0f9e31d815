"""The curves of runs in folders: losses, metric, defects and Neumann conditions over updates."""

from collections.abc import Sequence
from pathlib import Path

from ortho_ref.training.run_folder import RunFolder
from ortho_ref.training.trainer import Record
from scripts.pictures.curves import UNITS, Drawn, draw_runs, health_of


def draw_folders(folders: Sequence[Path], picture: Path) -> None:
    """Draw the runs in folders in one picture."""
    found = drawn(folders)
    keys = [key for key in UNITS if any(key in record for own in found for record in own.records)]
    draw_runs(found, keys, "; ".join(sorted({own.column for own in found})), picture)


def drawn(folders: Sequence[Path]) -> list[Drawn]:
    """The runs in folders: one line where they differ in the seed alone, a column of panels for each task."""
    runs = [_run_of(folder) for folder in folders]
    found = []
    for own in runs:
        apart = _apart([other for other in runs if other.line == own.line])
        line = ", ".join([own.line, *(f"{name} = {own.config.get(name)}" for name in apart)])
        found.append(own._replace(line=line))
    return found


def _run_of(folder: Path) -> Drawn:
    """The run in a folder.  OSError if it holds none; ValueError if it has no line of metrics yet."""
    with RunFolder(folder) as run:
        config, records = run.config, run.records
    if not records:
        raise ValueError(f"{folder} has no line of metrics yet")
    if "iterations" in config:  # those of its beginning: it may have been lengthened
        config = config | {"iterations": max(config["iterations"], records[-1]["iteration"])}
    network = config.get("network", {})  # all that a run from Python has
    model, n = config.get("model", network.get("name", folder.name)), config.get("hidden", network.get("hidden_sizes"))
    sizes = ", ".join(map(str, n)) if isinstance(n, list) else n
    line = model.partition("#")[0] + (f", n = {sizes}" if n else "")
    return Drawn(line, _column_of(config), health_of(records), config)


def _column_of(config: Record) -> str:
    """What a run is of, for a title: "copying, T = 200", "arrays: activity"; "" where it does not say."""
    of = config.get("task", ""), config.get("length"), config.get("target")
    return of[0] + "".join(
        f"{word}{value}" for word, value in zip((", T = ", ": "), of[1:], strict=True) if value is not None
    )


#: What does not tell runs of one line apart.
_ALIKE = ("seed", "task", "length", "made_by", "experiment", "device", "threads", "network", "data", "baseline")


def _apart(runs: Sequence[Drawn]) -> list[str]:
    """The options in which runs of one line differ."""
    names = dict.fromkeys(name for own in runs for name in own.config if name not in _ALIKE)
    return [name for name in names if len({repr(own.config.get(name)) for own in runs}) > 1]
