"""Reports on disk: what they say of the run, what is refused, a baseline, and the badge of one."""

import hashlib
import json
import platform
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ortho_ref.conformance import check, read_report
from ortho_ref.conformance.cases.case_files import VECTORS, select
from ortho_ref.conformance.report import FAILED, PARTIAL, PASSED, STATUSES, UNSUPPORTED, Covered, Report, Result
from ortho_ref.conformance.running.adapters import load_adapter
from ortho_ref.conformance.running.apart import Apart
from ortho_ref.conformance.running.origin import Origin, vectors_now
from ortho_ref.conformance.running.programs import command_adapter
from ortho_ref.conformance.running.runner import group_of
from ortho_ref.conformance.stored import badge, read_baseline, worse
from tests.ortho_ref.conformance.adapters import right


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A report on disk."""
    path = tmp_path_factory.mktemp("stored") / "report.json"
    path.write_text(check(right, "loss/*").as_json())
    return path


def test_what_is_read_is_what_was_written(stored):
    """But for format and seal; cases have how long they took."""
    document = json.loads(stored.read_text())
    found = read_report(stored)
    assert found == {name: value for name, value in document.items() if name not in ("format", "sha256")}
    assert [case["id"] for case in found["cases"]] == [vector.id for vector in select("loss/*")]
    assert all(case["seconds"] > 0 for case in found["cases"])
    assert found["platform"]["python"] == platform.python_version()
    assert found["platform"]["numpy"] == np.__version__


def test_the_vectors_have_a_version_and_a_hash():
    """The number of cases ever stored and of those withdrawn; the seal of the manifest."""
    manifest = json.loads((VECTORS / "manifest.json").read_text())
    withdrawn = [case for case in manifest["cases"] if case["withdrawn"] is not None]
    assert vectors_now() == {"version": f"{len(manifest['cases'])}.{len(withdrawn)}", "sha256": manifest["sha256"]}


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
    with pytest.raises(ValueError, match=r"has the format 'ortho_ref conformance report 1': .* reads '.* report 3'"):
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


@pytest.mark.parametrize(
    ("answers", "only", "ok", "said"),
    [
        (("cell/lstm/square",), "cell/lstm*", False, "One case alone is no pass: lstm. 1 of "),
        (("cell/lstm/square", "cell/lstm/step"), "cell/lstm*", True, " 2 of "),
        (("cell/lstm/square",), "cell/lstm/square", True, " 1 of "),
    ],
)
def test_how_much_a_verdict_is_of(answers, only, ok, said):
    """Cases that passed, of all that the kit has of the cell; one of several that were asked is too few."""
    report = check(lambda case: right(case) if case.id in answers else None, only)
    there = sum(group_of(vector) == "lstm" for vector in select())
    assert (report.ok, report.covered) == (ok, (Covered("lstm", len(answers), len(select(only)), there),))
    assert f"{said}{there} cases of lstm." in report.summary()


BADGES = [
    ({"a": PASSED, "c": UNSUPPORTED}, {}, "1 of 1 cases", "brightgreen"),
    ({"a": PASSED, "b": FAILED}, {}, "1 of 2 cases", "red"),
    ({"a": PASSED, "b": PARTIAL}, {}, "1 of 2 cases", "red"),
    ({"a": PASSED, "b": PARTIAL}, {"allow_partial": True}, "1 of 2 cases", "yellow"),
    ({"a": PASSED}, {"interrupted": True}, "1 of 1 cases", "red"),
    ({"a": PASSED}, {"interrupted": True, "covered": ()}, "interrupted", "red"),
    ({"a": PASSED}, {"worse": ("worse than the baseline: b passed there and was not run",)}, "1 of 1 cases", "red"),
    ({"a": UNSUPPORTED}, {}, "nothing supported", "lightgrey"),
]


def report_of(statuses, **options):
    there, passed = sum(own != UNSUPPORTED for own in statuses.values()), list(statuses.values()).count(PASSED)
    covered = (Covered("x", passed, 0, there),) if there else ()
    results = tuple(Result(id, status) for id, status in statuses.items())
    return Report(results, "float64", **{"covered": covered} | options)


@pytest.mark.parametrize(("statuses", "options", "message", "color"), BADGES)
def test_badges(statuses, options, message, color):
    """What shields.io takes: green where everything passed, and never where something is wrong."""
    document = json.loads(report_of(statuses, **options).as_json())
    found = json.loads(badge(document, "mine"))
    assert found == {"schemaVersion": 1, "label": "mine", "message": message, "color": color}


@pytest.mark.parametrize("status", [*STATUSES, None])
@pytest.mark.parametrize("then", [PASSED, PARTIAL])
@pytest.mark.parametrize("allowed", [False, True])
def test_what_was_good_in_the_baseline_does_not_get_worse(status, then, allowed):
    """Failed, partial, unsupported or not run, also where partial cases are allowed now."""
    report = report_of({"a": status, "b": PASSED} if status else {"b": PASSED}, allow_partial=allowed)
    lines = worse(report, {"a": then})
    kept = status == PASSED or status == then == PARTIAL
    assert bool(lines) is not kept
    assert replace(report, worse=lines).ok is (kept and (status == PASSED or allowed))
    if not kept:
        (line,) = lines
        assert line.startswith("worse than the baseline: a ")
        assert line.endswith("was not run" if status is None else f"is {status}")
        assert line in str(replace(report, worse=lines)).splitlines()


@pytest.mark.parametrize(
    ("of", "now", "kept", "message"),
    [
        ({}, ("float64", False), {"a": PASSED}, None),
        ({"allow_partial": True}, ("float64", False), {"a": PASSED, "c": PARTIAL}, None),
        ({"forward": True}, ("float64", True), {"a": PASSED}, None),
        ({}, ("float32", False), None, "of a run in float64, both passes; allowed here: float32, both passes"),
        (
            {},
            ("float64", True),
            None,
            "both passes; allowed here: float64, the forward pass alone",
        ),
        ({"interrupted": True}, ("float64", False), None, "of a run that was interrupted; allowed: whole runs"),
    ],
)
def test_baselines(tmp_path, of, now, kept, message):
    """What passed, and what was partial where it was allowed; of the run's precision and passes, of a whole run."""
    path = tmp_path / "b.json"
    path.write_text(report_of(dict(zip("abcd", STATUSES, strict=True)), **of).as_json())
    if message is None:
        assert read_baseline(path, *now) == kept
        return
    with pytest.raises(ValueError, match=message):
        read_baseline(path, *now)


def test_a_case_that_the_kit_has_withdrawn_is_said_to_be(monkeypatch):
    """It is gone, with the reason."""
    cases = [{"id": "a", "withdrawn": "its answer is wrong"}, {"id": "b", "withdrawn": None}]
    monkeypatch.setattr("ortho_ref.conformance.stored.read_manifest", lambda: {"cases": cases})
    said = "a passed there and is withdrawn from the kit, its answer is wrong"
    assert worse(report_of({"b": PASSED}), {"a": PASSED}) == (f"worse than the baseline: {said}",)
