"""A report as annotations of GitHub's: lines on standard output by which it marks a run, a pull request and its files.

GitHub shows ten of a kind for each step: where there are more errors, the tenth says how many are left out.
"""

from collections.abc import Iterator
from pathlib import Path

from ortho_ref.conformance.report import FAILED, PARTIAL, Report, cells_of
from ortho_ref.terminal import shown

#: So many of a kind are shown for each step.
MOST = 10


def annotations(report: Report, adapter: str | None = None, root: Path | str | None = None) -> list[str]:
    """The report's failures, and what breaks the contract, as GitHub's workflow commands.

    Parameters
    ----------
    report : Report
        Of a run.
    adapter : str, optional
        The adapter's file, which is annotated; a module, or a file outside of `root`, is not.
    root : Path or str, optional
        Of the checkout; the working directory unless given.

    Returns
    -------
    list of str
        A line each, of printable characters: first what breaks the contract, then cases that fail, then one notice of
        those that are expected to.
    """
    root = None if root is None else Path(root)
    place = _place(adapter, Path.cwd() if root is None else root)
    errors = list(_errors(report))
    if len(errors) > MOST:
        left = len(errors) - MOST + 1
        errors = [*errors[: MOST - 1], ("conformance", f"{left} more, which the table and the report have")]
    lines = [_command("error", title, message, place) for title, message in errors]
    if report.verdict is not None and report.verdict.expected:
        listed = "; ".join(f"{id}: {reason}" for id, reason in report.verdict.expected.items())
        lines.append(_command("notice", f"{len(report.verdict.expected)} expected to fail", listed, place))
    return lines


def _errors(report: Report) -> Iterator[tuple[str, str]]:
    """Title and message."""
    expected, told = {}, set()
    if report.verdict is not None:
        expected = dict(report.verdict.expected)
        for id, why in report.verdict.broken:
            told.add(id)
            yield id, f"{id} {why}"
    if report.interrupted:
        yield "conformance", "the run was interrupted; there were more cases"
    for result in report.results:
        bad = result.status == FAILED or (result.status == PARTIAL and not report.allow_partial)
        if bad and result.id not in expected and result.id not in told:
            id, status, worst, remarks = cells_of(result)
            yield f"{id} {status}", "; ".join(filter(None, (worst, remarks))) or status
    if not report.ok and not any(r.status in (FAILED, PARTIAL) for r in report.results) and not told:
        yield "conformance", report.summary()


def _place(adapter: str | None, root: Path) -> str:
    """The adapter's file as GitHub names it."""
    if adapter is None or not adapter.endswith(".py"):
        return ""
    path = Path(adapter).resolve()
    return path.relative_to(root.resolve()).as_posix() if path.is_relative_to(root.resolve()) else ""


def _command(level: str, title: str, message: str, file: str) -> str:
    properties = {"file": file, "title": title}
    own = ",".join(f"{name}={_property(shown(value))}" for name, value in properties.items() if value)
    return f"::{level} {own}::{_data(shown(message))}"


def _data(text: str) -> str:
    """Escaped as GitHub's toolkit does; `shown` has left no line ends."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
