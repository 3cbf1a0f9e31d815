"""Draw the losses of runs, and how orthogonal they stayed: python -m scripts.plot runs/a runs/b --out losses.png"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from scripts.pictures.curves import UNITS, Drawn, check_picture, draw_runs
from scripts.pictures.loss_curves import Run, column_of, health_of, run_of
from scripts.program import BAD_INPUT, fail, run, say


def main(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of runs; runs that differ only in the seed make one curve.")
    ],
    out: Annotated[Path, typer.Option(help="The picture, .png, .pdf or .svg.")] = Path("losses.png"),
) -> None:
    """Draw losses, metric, defects and Neumann conditions of runs: the mean, and a band from least to largest seed."""
    try:
        check_picture("out", out)
        found = drawn(runs)
        keys = [key for key in UNITS if any(key in record for own in found for record in own.records)]
        draw_runs(found, keys, "; ".join(sorted({own.column for own in found})), out)
    except BAD_INPUT as error:
        fail(error)
    say(str(out))


def drawn(folders: list[Path]) -> list[Drawn]:
    """The runs in folders: one line where they differ in the seed alone, a column of panels for each task."""
    runs = [run_of(folder) for folder in folders]
    found = []
    for own in runs:
        apart = _apart([other for other in runs if other.label == own.label])
        line = ", ".join([own.label, *(f"{name} = {own.config.get(name)}" for name in apart)])
        found.append(Drawn(line, column_of(own.config), health_of(own.records), own.config))
    return found


#: What does not tell runs of one line apart.
_ALIKE = ("seed", "task", "length", "made_by", "experiment", "device", "threads", "network", "data", "baseline")


def _apart(runs: Sequence[Run]) -> list[str]:
    """The options in which runs of one label differ."""
    names = dict.fromkeys(name for own in runs for name in own.config if name not in _ALIKE)
    return [name for name in names if len({repr(own.config.get(name)) for own in runs}) > 1]


if __name__ == "__main__":
    run(main)
