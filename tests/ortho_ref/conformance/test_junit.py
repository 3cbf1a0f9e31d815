"""JUnit XML: a document that CI systems read, whatever an implementation says."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortho_ref.conformance.compare import Comparison
from ortho_ref.conformance.contract import Contract, Entry
from ortho_ref.conformance.junit import junit, xml_text
from ortho_ref.conformance.origin import Origin
from ortho_ref.conformance.report import FAILED, PARTIAL, PASSED, UNSUPPORTED, Breach, Report, Result, Verdict

ORIGIN = Origin("mine.py", None, True, "2026-01-31T12:00:00Z", "2026-01-31T12:00:09Z")
RAISED = {"message": "raised E: \x1b[2J<&\"'", "traceback": "t\n \x00]]>", "seconds": 1}
RESULTS = (
    Result("cell/a", PASSED, seconds=0.25),
    Result("cell/b/c", FAILED, {"h": Comparison(0.5, 1e-9)}, **RAISED),
    Result("loss/a", UNSUPPORTED),
    Result("loss/b", PARTIAL, missing=("d_x",)),
)
#: Of each element, as Jenkins and the readers after it know them: attributes that it must and may have, and children.
KNOWN = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, set(), {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time"},
        {"timestamp"},
        {"properties", "testcase"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"classname", "name", "time"}, set(), {"failure", "error", "skipped"}),
    "failure": ({"message", "type"}, set(), set()),
    "error": ({"message", "type"}, set(), set()),
    "skipped": ({"message"}, set(), set()),
}


def parsed(report):
    """The document, whose elements are those that are known, and whose counts are right."""
    text = junit(report)
    assert text.startswith('<?xml version="1.0" encoding="utf-8"?>\n<testsuites ')
    root = ET.fromstring(text.encode())
    assert root.tag == "testsuites"
    for element in root.iter():
        must, may, children = KNOWN[element.tag]
        assert must <= set(element.keys()) <= must | may
        assert {child.tag for child in element} <= children
        if element.tag == "testcase":
            assert len(element) <= 1
        if element.tag in ("testsuites", "testsuite"):
            cases = list(element.iter("testcase"))
            assert int(element.get("tests")) == len(cases)
            for attribute, tag in {"failures": "failure", "errors": "error", "skipped": "skipped"}.items():
                if attribute in element.attrib:
                    assert int(element.get(attribute)) == len(list(element.iter(tag)))
            assert float(element.get("time")) == pytest.approx(sum(float(case.get("time")) for case in cases))
    return root


def outcomes(root):
    """Case -> what became of it, and what is said."""
    return {
        f"{case.get('classname')}/{case.get('name')}": [(child.tag, child.get("message")) for child in case]
        for case in root.iter("testcase")
    }


def test_a_report():
    """A suite for each kind; failed and partial cases fail, unsupported ones are skipped."""
    root = parsed(Report(RESULTS, "float64", origin=ORIGIN))
    assert [suite.get("name") for suite in root] == ["ortho_ref.conformance.cell", "ortho_ref.conformance.loss"]
    assert root[0].get("timestamp") == "2026-01-31T12:00:00"
    assert {p.get("name"): p.get("value") for p in root[0].iter("property")}["adapter"] == "mine.py"
    found = outcomes(root)
    assert found == {
        "ortho_ref.conformance.cell/a": [],
        "ortho_ref.conformance.cell/b/c": [("failure", "raised E: \\x1b[2J<&\"'")],
        "ortho_ref.conformance.loss/a": [("skipped", "not supported by the adapter")],
        "ortho_ref.conformance.loss/b": [("failure", "missing: d_x")],
    }
    (failure,) = root[0].iter("failure")
    assert (failure.get("type"), failure.text) == ("failed", "h 5.0e-01\nt\n \\x00]]>")
    assert [case.get("time") for case in root[0].iter("testcase")] == ["0.250000", "1.000000"]
    assert outcomes(parsed(Report(RESULTS, "float64", allow_partial=True)))["ortho_ref.conformance.loss/b"] == []


def test_a_contract():
    """What is expected to fail is skipped with its reason; what is broken fails, also where the case was not run."""
    contract = Contract(
        {"loss/a": Entry("r.txt, line 1", ""), "task/x": Entry("r.txt, line 2", "")},
        {"cell/b/c": Entry("x.txt, line 1", "known <&"), "cell/a": Entry("x.txt, line 2", "known")},
    )
    report = Report(RESULTS, "float64")
    found = outcomes(parsed(Report(RESULTS, "float64", verdict=contract.judge(report))))
    assert found["ortho_ref.conformance.cell/b/c"] == [("skipped", "expected to fail: known <&")]
    said = "is expected to fail (x.txt, line 2) and passed: take it off the list"
    assert found["ortho_ref.conformance.cell/a"] == [("failure", said)]
    said = "is required (r.txt, line 1) and is unsupported"
    assert found["ortho_ref.conformance.loss/a"] == [("failure", said)]
    assert found["ortho_ref.conformance.task/x"] == [("failure", "is required (r.txt, line 2) and was not run")]


def test_an_interrupted_run_is_an_error():
    """Or CI systems would show what passed before as all."""
    assert outcomes(parsed(Report((Result("cell/a", PASSED),), "float64", interrupted=True))) == {
        "ortho_ref.conformance.cell/a": [],
        "ortho_ref.conformance.run/interrupted": [("error", "there were more cases to run")],
    }


#: What XML 1.0 allows (2.2, production Char).
CHARACTERS = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")
ANY_TEXT = st.text(st.characters(categories=None, exclude_categories=()), max_size=30)


@given(ANY_TEXT)
def test_any_text_becomes_xml(text):
    """Controls, surrogates and non-characters are escaped; what XML allows stays, but for carriage returns."""
    written = xml_text(text)
    assert CHARACTERS.fullmatch(written)
    if CHARACTERS.fullmatch(text) and "\r" not in text:
        assert written == text
    assert xml_text("".join(map(chr, range(32)))).count("\\x") == 29  # but \t, \n, and \r as \\r
    assert xml_text("\ud800\ufffe\x7f") == "\\ud800\\ufffe\x7f"


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_any_report_is_a_document(name, said, reason):
    """Names, messages, tracebacks and reasons of any characters."""
    results = (Result(f"cell/{name}", FAILED, message=said, traceback=said), Result("loss/b", FAILED))
    verdict = Verdict(False, {"loss/b": reason}, (Breach(f"task/{name}", said),))
    parsed(Report(results, "float64", origin=Origin(said, None, False, "2026-01-31T12:00:00Z", ""), verdict=verdict))
