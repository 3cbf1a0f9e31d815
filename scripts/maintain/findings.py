"""What the kit says of other people's code, docs/findings.md and docs/findings: python -m scripts.maintain.findings

From the reports that `scripts.maintain.audit` has stored in results/conformance, and the words of audit.toml there.
Exit code 1 with --check if a page is not what would be written.
"""

from typing import Annotated

import typer

from scripts.maintain.scoreboard import audit_toml, stored_reports
from scripts.maintain.scoreboard.audit_toml import ROOT
from scripts.maintain.scoreboard.page import pages
from scripts.program import BAD_INPUT, fail, run, say
from scripts.program.pages import keep_pages


def main(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit code 1 if a page would change.")] = False,
) -> None:
    """Write docs/findings.md and the pages of docs/findings."""
    try:
        audit = audit_toml.read()
        found = pages(audit, {name: stored_reports.load(own) for name, own in audit.by_name.items()})
        texts = {f"docs/{name}": text for name, text in found.items()}
        keep_pages(ROOT, texts, "scripts.maintain.findings", check, "docs/findings")
    except BAD_INPUT as error:
        fail(error)
    say(next(line for line in found["findings.md"].splitlines() if " reports on " in line))


if __name__ == "__main__":
    run(main)
