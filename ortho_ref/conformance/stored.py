"""Reports that were stored: read, held against a new one, and told as a badge."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, defstruct

from ortho_ref import files
from ortho_ref.conformance.cases.case import DTYPES, HALF
from ortho_ref.conformance.cases.case_files import read_manifest
from ortho_ref.conformance.entries import Wrong
from ortho_ref.conformance.findings import Assumed, Count, Finding, Summary
from ortho_ref.conformance.report import FORMAT, PARTIAL, PASSED, STATUSES, Covered, Report
from ortho_ref.conformance.running.origin import Origin, Platform, Vectors
from ortho_ref.formats import Form, Least0

_AnyDtype: Any = Literal[(*DTYPES, *HALF)]
_Status: Any = Literal[STATUSES]
#: How many cases have each status.
Counts: Any = defstruct("Counts", [(status, Count) for status in STATUSES], bases=(Form,), kw_only=True)


class Output(Form):
    """How far an output is off."""

    error: Annotated[float | None, Meta(description="relative to the output's scale; null: not comparable")]
    tolerance: float
    passed: bool
    remark: str
    wrong: Annotated[Wrong | None, Meta(description="null: right, or of another shape")]


class Case(Form):
    """What was found on one case."""

    id: str
    status: _Status
    seconds: Least0
    outputs: dict[str, Output]
    missing: list[str]
    message: str
    mistakes: list[list[str]]
    diagnosis: str
    traceback: str


class Stored(Form):
    """What `run --report` writes."""

    kit: str
    vectors: Vectors
    platform: Platform
    origin: Origin | None
    dtype: _AnyDtype
    forward: bool
    allow_partial: bool
    interrupted: bool
    ok: bool
    worse: list[str]
    counts: Counts
    covered: list[Covered]
    assumed: list[Assumed]
    findings: list[Finding]
    explained: Summary
    cases: list[Case]


def read_report(path: str | Path) -> dict[str, Any]:
    """What `run --report` has written.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    dict
        The report, as `Stored` describes it, without its format and its seal.

    Raises
    ------
    OSError
        It cannot be read.
    ValueError
        It is of another format, or not what was written; the message, one line, names the file.
    """
    return files.read_sealed(path, FORMAT, Stored).value


def read_baseline(path: str | Path, dtype: str, forward: bool) -> dict[str, str]:
    """The cases of a report that a later run has to keep -> "passed", or "partial" where that was allowed.

    OSError or ValueError as of `read_report`, and for a report of another dtype, other passes, or an interrupted run.
    """
    report = read_report(path)
    if report["interrupted"]:
        raise ValueError(f"baseline is {path}, of a run that was interrupted; allowed: whole runs")
    if (report["dtype"], report["forward"]) != (dtype, forward):
        of = {True: "the forward pass alone", False: "both passes"}
        then, now = f"{report['dtype']}, {of[report['forward']]}", f"{dtype}, {of[forward]}"
        raise ValueError(f"baseline is {path}, of a run in {then}; allowed here: {now}")
    good = {PASSED, PARTIAL} if report["allow_partial"] else {PASSED}
    return {case["id"]: case["status"] for case in report["cases"] if case["status"] in good}


def worse(report: Report, baseline: dict[str, str]) -> tuple[str, ...]:
    """What a run does no more that it did in the baseline, a line each."""
    now = {result.id: result.status for result in report.results}
    withdrawn = {case["id"]: case["withdrawn"] for case in read_manifest()["cases"] if case["withdrawn"] is not None}
    gone = {id: f"is withdrawn from the kit, {why}" for id, why in withdrawn.items()}
    return tuple(
        f"worse than the baseline: {id} {'passed' if then == PASSED else 'was partial'} there and "
        f"{f'is {now[id]}' if id in now else gone.get(id, 'was not run')}"
        for id, then in baseline.items()
        if now.get(id) not in {PASSED, then}
    )


def badge(report: dict[str, Any], label: str = "conformance") -> str:
    """What shields.io draws a badge of: the JSON of an endpoint, "conformance | 24 of 24 cases".

    Green where the run was ok, yellow where that took partial cases, red where not; grey where nothing was supported.
    An interrupted run is red whatever it did.
    """
    counts = report["counts"]
    asked = sum(own["there"] for own in report["covered"])
    color = "red" if not report["ok"] else "yellow" if counts[PARTIAL] else "brightgreen"
    nothing = "interrupted" if report["interrupted"] else "nothing supported"
    message = f"{counts[PASSED]} of {asked} cases" if asked else nothing
    color = color if asked or report["interrupted"] else "lightgrey"
    return json.dumps({"schemaVersion": 1, "label": label, "message": message, "color": color}) + "\n"
