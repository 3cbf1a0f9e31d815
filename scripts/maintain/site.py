"""Build the site, formula beside code and the docs around it: python -m scripts.maintain.site [--out build/site]"""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from scripts.maintain.book import excerpts
from scripts.program import BAD_INPUT, fail, run, say

ROOT = Path(__file__).parents[2]
#: The file by which a folder is known as built by this program.
MARK = ".built-by-scripts.maintain.site"


def main(
    out: Annotated[Path, typer.Option(help="Folder to write; a site already in it is removed.")] = Path("build/site"),
) -> None:
    """Build the site as static pages; a warning is an error."""
    try:
        from sphinx.cmd.build import build_main

        from scripts.maintain.book.material import read
        from scripts.maintain.book.stage import Stage

        source, doctrees = (out.with_name(f"{out.name}-{kind}") for kind in ("source", "doctrees"))
        for folder in (out, source, doctrees):
            clear(folder)
        Stage(read(ROOT), source).fill()
    except ModuleNotFoundError as error:
        fail(f"{error}; pip install --group docs installs what the site is built with")
    except BAD_INPUT as error:
        fail(error)
    quiet, strict = ["-q"], ["--fail-on-warning", "--nitpicky"]
    if build_main([*quiet, *strict, "-j", "auto", "-b", "html", "-d", str(doctrees), str(source), str(out)]):
        raise typer.Exit(1)
    excerpts.write(out)
    say(f"{out}: {sum(1 for _ in out.rglob('*.html'))} pages; open {out / 'index.html'}")


def clear(folder: Path) -> None:
    """Remove what an earlier build left, one that was broken off too, and mark the folder as this program's."""
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / MARK).is_file())):
        raise ValueError(
            f"--out: {folder} is there and was not built by this program; remove it, or give another folder"
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARK).touch()


if __name__ == "__main__":
    run(main)
