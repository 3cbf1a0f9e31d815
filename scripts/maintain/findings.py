"""What the kit says of other people's code, docs/findings.md: python -m scripts.maintain.findings [--check]

From the reports that `scripts.maintain.audit` has stored in results/conformance, and the words of audit.toml there.
Exit code 1 with --check if the page is not what would be written.
"""

from typing import Annotated

import typer

from ortho_ref import files
from scripts.maintain.scoreboard import audit_toml, stored_reports
from scripts.maintain.scoreboard.audit_toml import ROOT
from scripts.maintain.scoreboard.page import page
from scripts.program import BAD_INPUT, fail, run, say

PAGE = ROOT / "docs" / "findings.md"


def text() -> str:
    """The page, from what is stored."""
    audit = audit_toml.read()
    maps = {name: stored_reports.load(own) for name, own in audit.maps.items()}
    return page(audit, {name: stored_reports.load(own) for name, own in audit.implementations.items()}, maps)


def main(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 if the page would change.")
    ] = False,
) -> None:
    """Write docs/findings.md."""
    try:
        found = text()
    except BAD_INPUT as error:
        fail(error)
    if check and PAGE.read_text(encoding="utf-8") != found:
        fail("docs/findings.md is not what `python -m scripts.maintain.findings` writes", 1)
    if not check:
        files.write(PAGE, found.encode())
    say(next(part for part in found.split("\n\n") if " reports on " in part))


if __name__ == "__main__":
    run(main)
