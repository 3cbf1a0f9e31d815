"""What a run is held to, beyond that what is supported passes: cases that have to pass, and cases known to fail.

A list is a text file of one line a pattern, as --only takes it; a list of known failures has a reason after each:

    # required.txt                      # xfail.txt
    cell/gru_reset_after                cell/gru_reset_after/modrelu   the layer has tanh alone
    activation/tanh

Empty lines, and what follows a # at the beginning of a line, are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ortho_ref import files
from ortho_ref.boundary import short
from ortho_ref.conformance.case import DTYPES
from ortho_ref.conformance.case_files import read_manifest, select
from ortho_ref.conformance.lists import read_lines
from ortho_ref.conformance.report import FAILED, PARTIAL, PASSED, UNSUPPORTED, Breach, Report, Verdict
from ortho_ref.conformance.stored import read_report


class Entry(NamedTuple):
    """What a list says of a case.

    Attributes
    ----------
    place : str
        "xfail.txt, line 3".
    reason : str
        Why it fails; "" in a list without reasons.
    """

    place: str
    reason: str


@dataclass(frozen=True)
class Contract:
    """What a run is held to.

    Attributes
    ----------
    required : dict of str to Entry
        Cases that have to pass.
    xfail : dict of str to Entry
        Cases that are known to fail: such a failure is none, and one that passes is.
    baseline : dict of str to str
        Case -> "passed" or "partial", of an earlier run: those that must not get worse.
    dtype : str or None
        The precision of that run.
    """

    required: Mapping[str, Entry] = field(default_factory=dict)
    xfail: Mapping[str, Entry] = field(default_factory=dict)
    baseline: Mapping[str, str] = field(default_factory=dict)
    dtype: str | None = None

    def judge(self, report: Report) -> Verdict:
        """Whether a run keeps it.

        Parameters
        ----------
        report : Report
            Of a run in the contract's precision.

        Returns
        -------
        Verdict
            `ok` where the run was not interrupted, a case passed, each that is supported passed or is known to fail,
            and nothing of the contract is broken.
        """
        now = {result.id: result.status for result in report.results}
        good = {PASSED, PARTIAL} if report.allow_partial else {PASSED}
        broken = [
            Breach(id, f"is required ({entry.place}) and {_state(now.get(id))}")
            for id, entry in self.required.items()
            if now.get(id) not in good
        ]
        withdrawn = _withdrawn() if self.baseline.keys() - now.keys() else {}
        broken += [
            Breach(id, f"{_then(then)} in the baseline and {_state(now.get(id), withdrawn.get(id))}")
            for id, then in self.baseline.items()
            if now.get(id) not in {PASSED, then}
        ]
        broken += [
            Breach(id, f"is expected to fail ({entry.place}) and {_state(now[id])}: take it off the list")
            for id, entry in self.xfail.items()
            if now.get(id) in good
        ]
        bad = {id for id, status in now.items() if status not in {*good, UNSUPPORTED}}
        expected = {id: entry.reason for id, entry in self.xfail.items() if id in bad}
        passed = any(status in good for status in now.values())
        ok = not report.interrupted and passed and not broken and bad == expected.keys()
        return Verdict(ok, expected, tuple(broken))


def _state(status: str | None, withdrawn: str | None = None) -> str:
    if status is None:
        return "was not run" if withdrawn is None else f"is withdrawn from the kit, {withdrawn}: write a new baseline"
    return {PASSED: "passed", FAILED: "failed", PARTIAL: "is partial", UNSUPPORTED: "is unsupported"}[status]


def _then(status: str) -> str:
    return "passed" if status == PASSED else "was partial, which was allowed,"


def _withdrawn() -> dict[str, str]:
    """Cases that the kit runs no more, and why."""
    cases = read_manifest()["cases"]
    return {case["id"]: case["withdrawn"] for case in cases if case["withdrawn"] is not None}


def read_contract(
    required: Path | str | None = None,
    xfail: Path | str | None = None,
    baseline: Path | str | None = None,
    dtype: str = DTYPES[0],
    forward: bool = False,
) -> Contract:
    """The contract of these files.

    Parameters
    ----------
    required, xfail : Path or str, optional
        Lists of cases that have to pass, and of those that are known to fail.
    baseline : Path or str, optional
        A report.
    dtype : str
        The precision of the run that is to be held to it.
    forward : bool
        Whether the forward pass alone is judged in it.

    Returns
    -------
    Contract
        Patterns are resolved: it names cases.

    Raises
    ------
    OSError
        A file that cannot be read.
    ValueError
        A line that cannot be read, a pattern that fits no case or stands twice, a case on both lists; a baseline of
        another precision, of other passes, of a run that was interrupted, of another format, or damaged.  It names file
        and line.
    """
    needed = {} if required is None else _read_list(required, False)
    known = {} if xfail is None else _read_list(xfail, True)
    if both := [id for id in needed if id in known]:
        id = both[0]
        raise ValueError(f"{id} is required ({needed[id].place}) and expected to fail ({known[id].place})")
    if baseline is None:
        return Contract(needed, known)
    return Contract(needed, known, _read_baseline(baseline, dtype, forward), dtype)


def _read_list(path: Path | str, reasons: bool) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    seen: dict[str, int] = {}
    for number, pattern, reason in read_lines(path):
        place = f"{path}, line {number}"
        if reasons and not reason:
            raise ValueError(f"{place}: {short(pattern)} has no reason; allowed: a pattern, a space, and why it fails")
        if reason and not reasons:
            raise ValueError(f"{place}: {short(f'{pattern} {reason}')}; allowed: one pattern on a line")
        if pattern in seen:
            raise ValueError(f"{place}: {short(pattern)} stands in line {seen[pattern]} already")
        seen[pattern] = number
        for id in _fitting(pattern, place):
            found.setdefault(id, Entry(place, reason))
    if not found and not reasons:  # nothing may be known to fail; a list that requires nothing is a mistake
        raise ValueError(f"{path} names no case")
    return found


def _fitting(pattern: str, place: str) -> list[str]:
    try:
        return [vector.id for vector in select(pattern)]
    except files.DamagedFile:
        raise
    except ValueError:
        listed = "`python -m ortho_ref.conformance list` has them all"
        raise ValueError(f"{place}: {short(pattern)} fits no case; {listed}") from None


def _read_baseline(path: Path | str, dtype: str, forward: bool) -> dict[str, str]:
    document: dict[str, Any] = read_report(path)
    if document["interrupted"]:
        raise ValueError(f"{path} is of a run that was interrupted; allowed as a baseline: whole runs")
    if document["dtype"] != dtype:
        raise ValueError(f"{path} is of a run in {document['dtype']}; this one is in {dtype}")
    if document["forward"] != forward:
        of = "of the forward pass alone", "of both passes"
        raise ValueError(f"{path} is of a run {of[forward]}; this one is {of[not forward]}")
    good = {PASSED, PARTIAL} if document["allow_partial"] else {PASSED}
    return {case["id"]: case["status"] for case in document["cases"] if case["status"] in good}
