"""Build the site, pages of formula and code and the docs around them: python -m scripts.site [--out build/site]"""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from scripts.program import BAD_INPUT, fail, run, say

ROOT = Path(__file__).parents[1]


def main(
    out: Annotated[Path, typer.Option(help="The folder that is written; a site that it has is removed.")] = Path(
        "build/site"
    ),
) -> None:
    """Build the site as static pages; a warning is an error."""
    try:
        from sphinx.cmd.build import build_main

        from scripts.book.material import read
        from scripts.book.stage import Stage

        source, doctrees = (out.with_name(f"{out.name}-{kind}") for kind in ("source", "doctrees"))
        clear(out, ".buildinfo")
        clear(source, "conf.py")
        clear(doctrees, "environment.pickle")
        Stage(read(ROOT), source).fill()
    except ModuleNotFoundError as error:
        fail(f"{error}; pip install --group docs installs what the site is built with")
    except BAD_INPUT as error:
        fail(error)
    quiet, strict = ["-q"], ["--fail-on-warning", "--nitpicky"]
    if build_main([*quiet, *strict, "-j", "auto", "-b", "html", "-d", str(doctrees), str(source), str(out)]):
        raise typer.Exit(1)
    say(f"{out}: {sum(1 for _ in out.rglob('*.html'))} pages; open {out / 'index.html'}")


def clear(folder: Path, sign: str) -> None:
    """Remove what an earlier build left.

    Parameters
    ----------
    folder : Path
        The folder; one that is not there, or is empty, will do.
    sign : str
        The file that an earlier build has left in it.

    Raises
    ------
    ValueError
        It has something, and not that file: it is somebody's.
    """
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / sign).is_file())):
        raise ValueError(f"--out: {folder} is there and was not built by this program; give another folder")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    run(main)
