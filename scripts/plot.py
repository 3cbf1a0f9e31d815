"""Draw the losses of runs, and how orthogonal they stayed: python -m scripts.plot runs/a runs/b --out losses.png"""

from pathlib import Path
from typing import Annotated

import typer

from scripts.pictures.curves import check_picture
from scripts.pictures.runs import draw_folders
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
        draw_folders(runs, out)
    except BAD_INPUT as error:
        fail(error)
    say(str(out))


if __name__ == "__main__":
    run(main)
