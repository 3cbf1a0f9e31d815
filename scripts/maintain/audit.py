"""Run others' code over the kit and store what it says: python -m scripts.maintain.audit [NAME ...] [--sources DIR]

Whose code, and by which adapter, stands in results/conformance/audit.toml; what the kit says of it is stored beside
it, a file each.  What is not installed here is left out, and said.  Then `python -m scripts.maintain.findings`.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ortho_ref.conformance import read_report
from scripts.maintain.scoreboard import audit_toml, stored_reports
from scripts.maintain.scoreboard.audit_toml import ROOT, Implementation, Map
from scripts.maintain.scoreboard.sources import VARIABLE, checkout
from scripts.program import BAD_INPUT, chosen, fail, run, say


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Entries of audit.toml; all unless given.")] = None,
    sources: Annotated[Path | None, typer.Option(help="A folder with checkouts of code that no package has.")] = None,
) -> None:
    """Run whatever is installed, and store its reports."""
    try:
        known = audit_toml.read().by_name
        wanted = chosen("NAME", names, known)
    except BAD_INPUT as error:
        fail(error)
    if sources is not None:
        os.environ[VARIABLE] = str(sources.resolve())
    failed = []
    for name in wanted:
        own = known[name]
        if reason := cannot(own):
            say(f"{name}: left out: {reason}")
            continue
        try:
            say(f"{name}: {run_map(own) if isinstance(own, Map) else run_cases(own)}")
        except ValueError as error:
            say(f"{name}: {error}")
            failed.append(name)
    if failed:
        fail(f"not stored: {', '.join(failed)}", 1)


def cannot(own: Implementation | Map) -> str:
    """Why an implementation cannot be run here; empty where it can."""
    if absent := stored_reports.missing(own):
        return f"{', '.join(absent)} not installed"
    if isinstance(own, Implementation) and own.source:
        try:
            checkout(own.source.repository, own.source.commit)
        except (FileNotFoundError, ValueError) as error:
            return str(error)
    return ""


def run_cases(own: Implementation) -> str:
    """Store what the kit says of an implementation; the counts."""
    report, _ = reported(own, read_report)
    stored_reports.store(own, report)
    return ", ".join(f"{count} {status}" for status, count in report["counts"].items())


def run_map(own: Map) -> str:
    """Store what the kit says of a map; which it is."""
    report, printed = reported(own, lambda path: json.loads(path.read_text()))
    stored_reports.store_map(own, report, printed)
    return "; ".join(report["is"]) or "none of the closed forms"


def reported(own: Implementation | Map, read: Callable[[Path], dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """The kit's report and what it printed, by the command that the page shows.  ValueError where it writes none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [sys.executable, "-m", *own.arguments, "--report", str(path)]
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | own.environment, capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 1) or not path.is_file():
            raise ValueError(f"exit code {done.returncode}: {done.stderr.strip()[-2000:]}")
        return read(path), done.stdout


if __name__ == "__main__":
    run(main)
