"""Departures that are known: code with them passes, code without them or with more does not."""

import json
import re
from dataclasses import replace

import pytest

from ortho_ref.conformance import check, pytest_cases
from ortho_ref.conformance.__main__ import main
from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.report import FAILED, PASSED
from tests.ortho_ref.conformance.adapters import right
from tests.ortho_ref.conformance.test_findings import has

GRU = "cell/gru_reset_before/[tr]*"
BOTH = ("u-keeps", "reset-after")


@pytest.mark.parametrize(
    "assume", ["u-keeps,reset-after", "reset-after, u-keeps", BOTH, dict.fromkeys(BOTH, "as cuDNN")]
)
def test_code_with_them_passes(assume):
    """In any order: one may hide the other otherwise.  The report says what was assumed, why, and where."""
    report = check(has(BOTH), GRU, assume=assume)
    assert report.ok
    assert {departure.mistake for departure in report.assumed} == set(BOTH)
    assert all(len(departure.cases) == len(report.results) for departure in report.assumed)
    reason = " (as cuDNN)" if isinstance(assume, dict) else ""
    assert f"in {len(report.results)} cases{reason}." in " ".join(str(report).split())
    assert [entry["mistake"] for entry in json.loads(report.as_json())["assumed"]] == [
        d.mistake for d in report.assumed
    ]


def test_code_without_them_fails_and_is_told_so():
    for result in check(right, "cell/gru_reset_before/tanh", assume="u-keeps").results:
        assert result.status == FAILED
        assert result.diagnosis == "your outputs equal gru_reset_before without what is assumed: u-keeps"
    for result in check(has(["u-keeps"]), "cell/gru_reset_before/tanh", assume=",".join(BOTH)).results:
        assert result.diagnosis.endswith("without what is assumed: reset-after")


def test_everything_else_is_still_checked():
    """A mistake beside them is named, on its own; cases that they are not of are as ever."""
    for assumed, named in ((BOTH, "reset-after"), (["u-keeps", "no-bias"], "no-bias")):
        for result in check(has(assumed), GRU, assume="u-keeps").results:
            assert (named,) in result.mistakes
    report = check(right, "loss/*", assume="u-keeps")
    assert report.ok
    assert "which changes no case that was run" in " ".join(str(report).split())


def test_answers_near_noise_pass_in_single_precision():
    """Without h0 some gradients of saturated gates are ten thousand times smaller."""

    def run(case):
        outputs = reference.outputs(replace(case, inputs=case.inputs | {"h0": 0 * case.inputs["h0"]}))
        outputs["h"][0] = case.inputs["h0"]
        return outputs | {"d_h0": 0 * outputs["d_h0"]}

    (result,) = check(run, "cell/gru_reset_after/recurrent-bias-saturated", "float32", assume="h0-ignored").results
    assert result.status == PASSED


@pytest.mark.parametrize(
    ("assume", "message"),
    [
        ("u-kept", "assume has 'u-kept' (did you mean 'u-keeps'?), which is no mistake"),
        ("", "assume has '', which is no mistake"),
        ("u-keeps,u-keeps", "assume has 'u-keeps' twice"),
        (["no-bias", "nonsense!"], "assume has 'nonsense!', which is no mistake; `ortho-ref mistakes` lists them"),
        ("u" * 300, "assume has 'uuu"),
        ([5], "assume has '5', which is no mistake"),
        (5, "assume is an int; allowed: names of mistakes"),
        ("h0-gradient-lost,all-negative,detached,h0-ignored", "which do not go together in cell/"),
    ],
)
def test_what_cannot_be_assumed(assume, message):
    """Refused before the first case, in `pytest_cases` as well."""

    def run(case):
        pytest.fail("run")

    for refused in (check, pytest_cases):
        if "together" not in message or refused is check:
            with pytest.raises(TypeError if assume == 5 else ValueError, match=re.escape(message)):
                refused(run, "cell/*", assume=assume)


def test_a_list_with_reasons(tmp_path, capsys):
    """A line a name, its reason after it; another list is refused, with the line."""
    adapter, listed = tmp_path / "mine.py", tmp_path / "departures.txt"
    adapter.write_text(
        "from tests.ortho_ref.conformance.test_findings import has\nrun = has(('u-keeps', 'reset-after'))\n"
    )
    listed.write_text("# what we know of\n\nu-keeps   as PyTorch\nreset-after  as cuDNN does\n")
    words = ["run", "--adapter", str(adapter), "--only", GRU, "--in-process", "--assume", str(listed)]
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Assumed: u-keeps" in said
    assert "(as cuDNN does)" in said
    listed.write_bytes("u-keeps\tas PyTorch\r\nreset-after  as cuDNN does".encode("utf-8-sig"))
    assert main(words) == 0
    assert "(as cuDNN does)" in " ".join(capsys.readouterr().out.split())
    for text, message in (("u-keeps\n", "line 1: u-keeps has no reason"), ("a b\na c\n", "line 2: a is there twice")):
        listed.write_text(text)
        with pytest.raises(SystemExit):
            main(words)
        assert message in capsys.readouterr().err
