"""Reports on disk: what they say of the run, what is refused, and the badge of one."""

import hashlib
import json
import platform
import random
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from ortho_ref.conformance import check, read_report
from ortho_ref.conformance.adapters import load_adapter
from ortho_ref.conformance.apart import Apart
from ortho_ref.conformance.badge import GREEN, GREY, RED, YELLOW, badge, said
from ortho_ref.conformance.case_files import VECTORS, select
from ortho_ref.conformance.contract import Contract, Entry
from ortho_ref.conformance.origin import Origin, vectors_now
from ortho_ref.conformance.programs import command_adapter
from ortho_ref.conformance.report import FAILED, PARTIAL, PASSED, UNSUPPORTED, Report, Result
from ortho_ref.conformance.schema import schema
from tests.ortho_ref.conformance.adapters import right


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A report on disk."""
    path = tmp_path_factory.mktemp("stored") / "report.json"
    path.write_text(check(right, "loss/*").as_json())
    return path


def test_what_is_read_is_what_was_written(stored):
    """But for format and seal; it fits the schema; cases have how long they took."""
    document = json.loads(stored.read_text())
    jsonschema.validate(document, schema()["$defs"]["report"])
    found = read_report(stored)
    assert found == {name: value for name, value in document.items() if name not in ("format", "sha256")}
    assert [case["id"] for case in found["cases"]] == [vector.id for vector in select("loss/*")]
    assert all(case["seconds"] > 0 for case in found["cases"])
    assert found["platform"]["python"] == platform.python_version()
    assert found["platform"]["numpy"] == np.__version__


def test_the_vectors_have_a_version_and_a_hash():
    """The number of cases ever stored and of those withdrawn; the seal of the manifest, which has every file's hash."""
    manifest = json.loads((VECTORS / "manifest.json").read_text())
    withdrawn = [case for case in manifest["cases"] if case["withdrawn"] is not None]
    assert vectors_now() == {"version": f"{len(manifest['cases'])}.{len(withdrawn)}", "sha256": manifest["sha256"]}
    for name, sha256 in manifest["files"].items():
        assert hashlib.sha256((VECTORS / name).read_bytes()).hexdigest() == sha256
    assert {path.name for path in VECTORS.iterdir()} == {*manifest["files"], "manifest.json"}


def test_any_flipped_bit_is_refused(stored, tmp_path):
    """In one line that names the file; so is a cut, and what is no report."""
    data, rng, path = stored.read_bytes(), random.Random(0), tmp_path / "report.json"
    others = [b"", data[:-1], data[: len(data) // 2], data + b" ", b"[]", b"{}", b"\xff", data.replace(b"\n", b"\r\n")]
    for _ in range(100):
        place = rng.randrange(8 * len(data))
        others.append(data[: place // 8] + bytes([data[place // 8] ^ 1 << (place % 8)]) + data[place // 8 + 1 :])
    for other in others:
        path.write_bytes(other)
        with pytest.raises(ValueError, match=r"report\.json ") as raised:
            read_report(path)
        assert "\n" not in str(raised.value)
    path.write_bytes(data)
    assert read_report(str(path)) == read_report(stored)


def test_other_formats_are_refused(stored, tmp_path):
    """An older report, and another document of the kit; a file that is not there."""
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"format": "ortho_ref conformance report 1", "cases": []}))
    with pytest.raises(ValueError, match=r"has the format 'ortho_ref conformance report 1': .* reads '.* report 2'"):
        read_report(path)
    with pytest.raises(ValueError, match="has the format 'ortho_ref conformance cases"):
        read_report(VECTORS / "manifest.json")
    with pytest.raises(FileNotFoundError, match=r"none\.json cannot be read"):
        read_report(tmp_path / "none.json")


SOURCE = "def run(case):\n    return None\n"


def test_where_a_report_comes_from(tmp_path):
    """The adapter's name, the hash of its file, whether it ran apart, and when."""
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    sha256 = hashlib.sha256(SOURCE.encode()).hexdigest()
    with Apart(str(path)) as run:
        origin = check(run, "loss/cross_entropy/large").origin
    assert (origin.adapter, origin.sha256, origin.apart) == (str(path), sha256, True)
    assert origin.started <= origin.ended
    origin = check(load_adapter(str(path)), "loss/cross_entropy/large").origin
    assert (origin.adapter, origin.sha256, origin.apart) == ("run of mine.py", sha256, False)
    words = "/bin/sh -c 'exit 77' {input} {output}"
    origin = check(command_adapter(words), "loss/cross_entropy/large").origin
    shell = hashlib.sha256(Path("/bin/sh").read_bytes()).hexdigest()
    assert (origin.adapter, origin.sha256, origin.apart) == (words, shell, True)


def test_an_implementation_that_says_anything_of_itself():
    """A callable's own attributes are not asked."""

    class Meta(type):
        __name__ = property(lambda cls: exit())

    class Liar(metaclass=Meta):
        __getattr__ = lambda self, name: exit()  # noqa: E731

        def __call__(self, case):
            return None

    origin = Origin.begun(Liar())
    assert (origin.adapter, origin.sha256, origin.apart) == ("Liar", None, False)


KNOWN = Contract(xfail={"b": Entry("x.txt, line 1", "known")})
REQUIRED = Contract(required={"c": Entry("r.txt, line 1", "")})
BADGES = [
    ({"a": PASSED, "c": UNSUPPORTED}, {}, None, "1 passed", GREEN),
    ({"a": PASSED, "b": FAILED}, {}, None, "1 passed, 1 failed", RED),
    ({"a": PASSED, "b": PARTIAL}, {}, None, "1 passed, 1 partial", RED),
    ({"a": PASSED, "b": PARTIAL}, {"allow_partial": True}, None, "1 passed, 1 partial", YELLOW),
    ({"a": PASSED, "b": FAILED}, {}, KNOWN, "1 passed, 1 expected to fail", YELLOW),
    ({"a": PASSED, "b": PASSED}, {}, KNOWN, "2 passed, contract broken", RED),
    ({"a": PASSED, "c": UNSUPPORTED}, {}, REQUIRED, "1 passed, contract broken", RED),
    ({"a": PASSED}, {"interrupted": True}, None, "1 passed, interrupted", RED),
    ({"a": UNSUPPORTED}, {}, None, "nothing supported", GREY),
]


@pytest.mark.parametrize(("statuses", "options", "contract", "message", "colour"), BADGES)
def test_badges(statuses, options, contract, message, colour):
    """Green where everything passed, and never where something is wrong; the same in the SVG."""
    report = Report(tuple(Result(id, status) for id, status in statuses.items()), "float64", **options)
    report = replace(report, verdict=contract.judge(report)) if contract else report
    document, svg = json.loads(report.as_json()), "{http://www.w3.org/2000/svg}"
    assert said(document) == (message, colour)
    root = ET.fromstring(badge(document, "a <label> & \x1b"))
    assert [element.text for element in root.iter(f"{svg}text")] == ["a <label> & \\x1b", message]
    assert [element.get("fill") for element in root.iter(f"{svg}rect")] == [None, "#444", colour]
    assert root.find(f"{svg}title").text == root.get("aria-label") == f"a <label> & \\x1b: {message}"
