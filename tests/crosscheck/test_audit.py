"""The adapters of scripts/maintain/adapters give today what results/conformance has stored of them.

What is not installed here is skipped, each with its reason: `make crosscheck` installs PyTorch alone.
"""

import pytest

from ortho_ref.conformance import read_report
from scripts.maintain import audit
from scripts.maintain.scoreboard import audit_toml, stored_reports

AUDIT = audit_toml.read()


@pytest.mark.parametrize("name", AUDIT.implementations)
def test_an_adapter_gives_what_is_stored(name):
    """The status of every case that is supported, and the names of what is wrong."""
    own = AUDIT.implementations[name]
    if reason := audit.cannot(own):
        pytest.skip(reason)
    known = stored_reports.load(own)
    if (versions := stored_reports.versions(own)) != known["versions"]:
        pytest.skip(f"{versions} installed; the report is of {known['versions']}")
    report, _ = audit.reported(own, read_report)
    found = [stored_reports.shortened(case) for case in report["cases"] if case["status"] != "unsupported"]
    assert {case["id"]: seen(case) for case in found} == {case["id"]: seen(case) for case in known["cases"]}


def seen(case):
    """What does not depend on rounding."""
    return case["status"], case.get("mistakes"), case.get("missing")
