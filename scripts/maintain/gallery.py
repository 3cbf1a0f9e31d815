"""The pictures of the pages that show results, docs/gallery.md: python -m scripts.maintain.gallery [--check]

Exit code 1 with --check if the page is not what would be written.
"""

from pathlib import Path
from typing import Annotated

import typer

from scripts.pictures.gallery_page import PAGE, gallery
from scripts.program import BAD_INPUT, fail, run, say
from scripts.program.pages import keep_pages

ROOT = Path(__file__).parents[2]


def main(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 if the page would change.")
    ] = False,
) -> None:
    """Write docs/gallery.md."""
    try:
        found = gallery(ROOT)
        keep_pages(ROOT, {PAGE: found}, "scripts.maintain.gallery", check)
    except BAD_INPUT as error:
        fail(error)
    say(f"{PAGE}: {found.count('![')} pictures")


if __name__ == "__main__":
    run(main)
