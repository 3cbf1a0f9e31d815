"""Build the site, pages of formula and code and the docs around them: python -m scripts.site [--out build/site]"""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from scripts.program import BAD_INPUT, fail, run, say

ROOT = Path(__file__).parents[1]


def main(
    out: Annotated[Path, typer.Option(help="The folder that is written; what it had is removed.")] = Path("build/site"),
    jobs: Annotated[str, typer.Option(help="How many processes render pages: a number, or auto.")] = "auto",
) -> None:
    """Build the site as static pages; a warning is an error."""
    try:
        from sphinx.cmd.build import build_main

        from scripts.book.material import read
        from scripts.book.stage import Stage

        source = out.parent / f"{out.name}-source"
        Stage(read(ROOT), source).fill()
    except ModuleNotFoundError as error:
        fail(f"{error}; pip install -e '.[docs]' installs what the site is built with")
    except BAD_INPUT as error:
        fail(error)
    shutil.rmtree(out, ignore_errors=True)
    code = build_main(["-q", "-W", "-n", "--keep-going", "-j", jobs, "-b", "html", "-d", f"{source}-read", str(source), str(out)])
    if code:
        raise typer.Exit(1)
    say(f"{out}: {sum(1 for _ in out.rglob('*.html'))} pages; open {out / 'index.html'}")


if __name__ == "__main__":
    run(main)
