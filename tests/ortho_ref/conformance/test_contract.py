"""The contract: what must pass, what may fail, what must not get worse; the lists and the baseline as files."""

import json
from dataclasses import replace

import pytest

from ortho_ref.conformance.case_files import select
from ortho_ref.conformance.contract import Contract, Entry, read_contract
from ortho_ref.conformance.report import FAILED, PARTIAL, PASSED, STATUSES, UNSUPPORTED, Report, Result

GONE = "gone"


def report_of(statuses, **options):
    return Report(tuple(Result(id, status) for id, status in statuses.items() if status != GONE), "float64", **options)


def judged(contract, statuses, **options):
    return contract.judge(report_of(statuses, **options))


@pytest.mark.parametrize("status", [*STATUSES, GONE])
@pytest.mark.parametrize("allowed", [False, True])
def test_a_required_case_has_to_pass(status, allowed):
    """Not supported and not run are no pass; a partial one is where partial cases are allowed."""
    contract = Contract(required={"a": Entry("r.txt, line 1", "")})
    verdict = judged(contract, {"a": status, "b": PASSED}, allow_partial=allowed)
    good = status == PASSED or (status == PARTIAL and allowed)
    assert (verdict.ok, [breach.case for breach in verdict.broken]) == (good, [] if good else ["a"])
    if not good:
        (line,) = verdict.lines()
        assert line.startswith("contract broken: a is required (r.txt, line 1) and ")


@pytest.mark.parametrize("status", [*STATUSES, GONE])
@pytest.mark.parametrize("then", [PASSED, PARTIAL])
@pytest.mark.parametrize("allowed", [False, True])
def test_what_was_good_in_the_baseline_does_not_get_worse(status, then, allowed):
    """Lost: failed, partial, unsupported or gone, also where partial cases are allowed now."""
    verdict = judged(Contract(baseline={"a": then}), {"a": status, "b": PASSED}, allow_partial=allowed)
    kept = status == PASSED or status == then == PARTIAL
    assert bool(verdict.broken) is not kept
    assert verdict.ok is (kept and (status == PASSED or allowed))
    said = {FAILED: "failed", PARTIAL: "is partial", UNSUPPORTED: "is unsupported", GONE: "was not run"}
    if not kept:
        assert verdict.broken[0].why.endswith(f"in the baseline and {said[status]}")


@pytest.mark.parametrize("status", [*STATUSES, GONE])
@pytest.mark.parametrize("allowed", [False, True])
def test_what_is_expected_to_fail(status, allowed):
    """A failure is none, a pass is; what is not supported or not run is neither."""
    contract = Contract(xfail={"a": Entry("x.txt, line 2", "no modReLU")})
    verdict = judged(contract, {"a": status, "b": PASSED}, allow_partial=allowed)
    passes = status == PASSED or (status == PARTIAL and allowed)
    assert verdict.ok is not passes
    assert dict(verdict.expected) == ({"a": "no modReLU"} if status in (FAILED, PARTIAL) and not passes else {})
    if passes:
        assert "is expected to fail (x.txt, line 2) and " in verdict.lines()[0]
        assert verdict.lines()[0].endswith(": take it off the list")


@pytest.mark.parametrize(
    ("statuses", "options", "ok"),
    [
        ({"a": PASSED, "b": UNSUPPORTED}, {}, True),
        ({"a": PASSED, "b": FAILED}, {}, False),
        ({"a": PASSED, "b": PARTIAL}, {}, False),
        ({"a": PASSED}, {"interrupted": True}, False),
        ({"x": FAILED}, {}, False),
        ({"a": UNSUPPORTED}, {}, False),
    ],
)
def test_the_ordinary_rule_stays(statuses, options, ok):
    """A failure that nobody expects, an interrupt, and nothing that passes are no pass, whatever else is kept."""
    assert judged(Contract(xfail={"x": Entry("x.txt, line 1", "why")}), statuses, **options).ok == ok


def test_a_reports_exit_code_is_the_verdicts():
    """And its JSON has what is expected and what is broken."""
    contract = Contract({"c": Entry("r.txt, line 1", "")}, {"a": Entry("x.txt, line 1", "why")})
    report = report_of({"a": FAILED, "b": PASSED, "c": PASSED})
    assert (report.exit_code, replace(report, verdict=contract.judge(report)).exit_code) == (1, 0)
    report = report_of({"a": PASSED, "b": PASSED, "c": UNSUPPORTED})
    judged = replace(report, verdict=contract.judge(report))
    assert (report.exit_code, judged.exit_code) == (0, 1)
    document = json.loads(judged.as_json())
    assert document["ok"] is document["contract"]["ok"] is False
    assert [breach["case"] for breach in document["contract"]["broken"]] == ["c", "a"]
    assert document["contract"]["expected"] == {}


@pytest.fixture
def lists(tmp_path):
    """Write a file; its path."""

    def of(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return of


def test_lists(lists):
    """Patterns as of --only, comments, empty lines, any line ends, a byte order mark; of two lines the first counts."""
    required = lists("r.txt", b"\xef\xbb\xbf# ours\r\n\r\n  loss/*/large \r\nactivation\n")
    xfail = lists("x.txt", "loss/cross_entropy  not  masked # yet\nloss   the others\n\tcell/lstm\tno\tcell\n")
    contract = read_contract(required)
    assert list(contract.required) == [
        vector.id for pattern in ("loss/*/large", "activation") for vector in select(pattern)
    ]
    assert contract.required["loss/cross_entropy/large"].place == f"{required}, line 3"
    contract = read_contract(xfail=xfail)
    assert {entry.reason for entry in contract.xfail.values()} == {"not  masked # yet", "the others", "no\tcell"}
    assert contract.xfail["loss/cross_entropy"].reason == "not  masked # yet"
    assert len(contract.xfail) == len(select(["loss", "cell/lstm"]))
    assert read_contract(xfail=lists("x.txt", "# nothing is known to fail\n")) == Contract()


@pytest.mark.parametrize(
    ("required", "xfail", "message"),
    [
        ("loss\nnothing\n", None, "r.txt, line 2: 'nothing' fits no case; `python -m ortho_ref.conformance list`"),
        ("loss a reason\n", None, "r.txt, line 1: 'loss a reason'; allowed: one pattern on a line"),
        ("loss\n\nloss\n", None, "r.txt, line 3: 'loss' stands in line 1 already"),
        ("", None, "r.txt names no case"),
        ("# loss\n", None, "r.txt names no case"),
        (b"loss\n\xff\n", None, "r.txt is no text in UTF-8: invalid start byte at byte 5"),
        (None, "# why\nloss\n", "x.txt, line 2: 'loss' has no reason; allowed: a pattern, a space, and why it fails"),
        (None, "nothing  why\n", "x.txt, line 1: 'nothing' fits no case"),
        (
            "activation/tanh\n",
            "activation  no\n",
            "activation/tanh is required (%s/r.txt, line 1) and expected to fail",
        ),
    ],
)
def test_lists_that_cannot_be_read(lists, tmp_path, required, xfail, message):
    """One line that names file and line, what is there and what is allowed."""
    paths = [None if text is None else lists(name, text) for name, text in (("r.txt", required), ("x.txt", xfail))]
    with pytest.raises(ValueError, match="txt") as raised:
        read_contract(*paths)
    assert message.replace("%s", str(tmp_path)) in str(raised.value)
    assert "\n" not in str(raised.value)
    with pytest.raises(OSError, match="cannot be read"):
        read_contract(tmp_path / "none.txt")


WHOLE = "is of a run that was interrupted; allowed as a baseline: whole runs"


@pytest.mark.parametrize(
    ("of", "now", "kept", "message"),
    [
        ({}, {}, {"a": PASSED}, None),
        ({"allow_partial": True}, {}, {"a": PASSED, "c": PARTIAL}, None),
        ({"forward": True}, {"forward": True}, {"a": PASSED}, None),
        ({}, {"dtype": "float32"}, None, "b.json is of a run in float64; this one is in float32"),
        ({}, {"forward": True}, None, "is of a run of both passes; this one is of the forward pass alone"),
        ({"forward": True}, {}, None, "is of a run of the forward pass alone; this one is of both passes"),
        ({"interrupted": True}, {}, None, WHOLE),
    ],
)
def test_baselines(lists, of, now, kept, message):
    """What passed, and what was partial where it was allowed; of the run's precision and passes, of a whole run."""
    path = lists("b.json", report_of(dict(zip("abcd", STATUSES, strict=True)), **of).as_json())
    if message is None:
        assert read_contract(baseline=path, **now).baseline == kept
        return
    with pytest.raises(ValueError, match=message):
        read_contract(baseline=path, **now)


def test_a_case_that_the_kit_has_withdrawn_is_said_to_be(monkeypatch):
    """It is gone, with the reason."""
    cases = [{"id": "a", "withdrawn": "its answer is wrong"}, {"id": "b", "withdrawn": None}]
    monkeypatch.setattr("ortho_ref.conformance.contract.read_manifest", lambda: {"cases": cases})
    verdict = judged(Contract(baseline={"a": PASSED}), {"b": PASSED})
    said = "a passed in the baseline and is withdrawn from the kit, its answer is wrong: write a new baseline"
    assert (verdict.ok, verdict.lines()) == (False, [f"contract broken: {said}"])
