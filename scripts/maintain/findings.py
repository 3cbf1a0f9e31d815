"""What the kit says of other people's code, docs/findings.md and docs/findings: python -m scripts.maintain.findings

From the reports that `scripts.maintain.audit` has stored in results/conformance, and the words of audit.toml there.
Exit code 1 with --check if a page is not what would be written.
"""

from typing import Annotated

import typer

from ortho_ref import files
from scripts.maintain.scoreboard import audit_toml, stored_reports
from scripts.maintain.scoreboard.audit_toml import ROOT
from scripts.maintain.scoreboard.page import pages
from scripts.program import BAD_INPUT, fail, run, say

DOCS = ROOT / "docs"


def texts() -> dict[str, str]:
    """File below docs -> text, from what is stored."""
    audit = audit_toml.read()
    return pages(audit, {name: stored_reports.load(own) for name, own in audit.by_name.items()})


def main(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit code 1 if a page would change.")] = False,
) -> None:
    """Write docs/findings.md and the pages of docs/findings."""
    try:
        found = texts()
    except BAD_INPUT as error:
        fail(error)
    others = sorted(path for path in (DOCS / "findings").glob("*.md") if f"findings/{path.name}" not in found)
    if check:
        for name, text in found.items():
            path = DOCS / name
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                fail(f"docs/{name} is not what `python -m scripts.maintain.findings` writes", 1)
        for path in others:
            fail(f"docs/findings/{path.name} is of no finding", 1)
    else:
        (DOCS / "findings").mkdir(exist_ok=True)
        for name, text in found.items():
            files.write(DOCS / name, text.encode())
        for path in others:
            path.unlink()
    say(next(line for line in found["findings.md"].splitlines() if " reports on " in line))


if __name__ == "__main__":
    run(main)
