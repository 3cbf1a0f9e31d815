"""Draw the losses of runs, and how orthogonal they stayed: python -m scripts.plot runs/a runs/b --out losses.png"""

from pathlib import Path
from typing import Annotated

import typer

from scripts.pictures.losses import draw, run_of
from scripts.program import BAD_INPUT, fail, run, say


def main(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.")],
    out: Annotated[Path, typer.Option(help="The picture, .png, .pdf or .svg.")] = Path("losses.png"),
) -> None:
    """Draw the losses of one or more runs into one picture."""
    try:
        if out.suffix not in (".png", ".pdf", ".svg"):
            raise ValueError(f"out is {out}; allowed: a name that ends in .png, .pdf or .svg")
        drawn = [run_of(folder) for folder in runs]
        if len({run.label for run in drawn}) < len(drawn):
            drawn = [run._replace(label=f"{folder.name}: {run.label}") for folder, run in zip(runs, drawn, strict=True)]
        draw(drawn, out)
    except BAD_INPUT as error:
        fail(error)
    say(str(out))


if __name__ == "__main__":
    run(main)
