"""make_vectors, which adds to the kit's vectors and checks those that are there."""

import dataclasses
import json
import shutil
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from ortho_ref import files
from ortho_ref.conformance.cases import case_files as stored, drawing, reference
from ortho_ref.conformance.cases.case_files import FORMAT, MANIFEST, VECTORS, Manifest, read_manifest, vectors
from scripts.maintain import make_vectors
from scripts.maintain.vectors import making
from scripts.maintain.vectors.cases import specs
from scripts.maintain.vectors.spec import Spec
from tests.ortho_ref.conformance.adapters import BY_ID
from tests.ortho_ref.training.reading import contents
from tests.scripts.runs import call

# The program, over three cases of the kit in a folder of their own: two with arrays, one that is drawn

STORED = ("parametrization/exponential", "activation/tanh", "linear/mingru/plain")
DRAWN = next(s for s in specs() if s.id == STORED[2])
CELL = next(s for s in specs() if s.id == "cell/elman/tanh-single")


def other(spec: Spec, **changes) -> Spec:
    """A case with something else in it."""
    return dataclasses.replace(spec, **changes)


@pytest.fixture
def make(tmp_path, monkeypatch):
    """The program on a command line, with these specs and a stand-in for the second route; `folder` is where."""
    folder = tmp_path / "vectors"
    folder.mkdir()
    whole = json.loads((VECTORS / MANIFEST).read_bytes())
    kept = [f"{kind}.safetensors" for kind in ("activation", "parametrization")]
    for name in kept:
        shutil.copy(VECTORS / name, folder)
    cases = [e | {"kills": [], "why": "made"} for e in whole["cases"] if e["id"] in STORED]
    cases = [e | {"why": DRAWN.why} if e["id"] == DRAWN.id else e for e in cases]
    own = {"files": {name: whole["files"][name] for name in kept}, "cases": cases}
    files.write_sealed(folder / MANIFEST, FORMAT, own, Manifest, indent=0)

    monkeypatch.setattr(make_vectors, "VECTORS", folder)
    here = {name: partial(getattr(stored, name), folder) for name in ("vectors", "read_manifest")}
    monkeypatch.setattr(make_vectors, "stored", SimpleNamespace(**here))
    errors, killed = [1e-14], []
    monkeypatch.setattr(make_vectors, "confirmed", lambda made: {"route": "a test", "error": errors[-1]})
    torch = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: True))
    monkeypatch.setattr(make_vectors, "importlib", torch)
    monkeypatch.setattr(make_vectors, "kills", lambda vector: ["loss-bits"] if vector.id in killed else [])

    def run(*arguments, cases=(DRAWN,)):
        vectors.cache_clear()
        monkeypatch.setattr(make_vectors, "specs", lambda: list(cases))
        return call(make_vectors.main, *arguments)

    run.folder, run.torch, run.killed, run.errors = folder, torch, killed, errors
    yield run
    vectors.cache_clear()


def refused(make, *says, cases=(DRAWN,), arguments=()):
    """The program refuses, by one line that says this, and changes no file, with --check or without."""
    before = contents(make.folder)
    for more in ([], ["--check"]) if not arguments else ([],):
        code, out, err = make(*arguments, *more, cases=cases)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        assert all(word in err for word in says), err
    assert contents(make.folder) == before


def test_cases_stay(make, monkeypatch):
    """To the byte, with --check and without, and where another machine's answer is off by rounding."""
    before = contents(make.folder)
    for arguments in (["--check"], []):
        code, _, err = make(*arguments)
        assert (code, err.split(";")[0]) == (0, "3 cases, 0 new")
        assert "confirmed to 1.0e-14" in err
    make.errors.append(3e-14)
    assert "confirmed to 3.0e-14" in make()[2]
    answer = making.answer
    monkeypatch.setattr(making, "answer", lambda case: {k: a * (1 + 1e-15) for k, a in answer(case).items()})
    assert make()[0] == 0
    assert contents(make.folder) == before


def test_a_purpose_is_no_part_of_a_case(make):
    """It may be said otherwise; --check sees it, and a run without changes the manifest alone."""
    before, cases = contents(make.folder), (other(DRAWN, why="another purpose"),)
    code, _, err = make("--check", cases=cases)
    assert (code, f"{DRAWN.id}: its kills, equations or purpose are not those stored" in err) == (2, True)
    assert make(cases=cases)[0] == 0
    assert make("--check", cases=cases)[0] == 0
    assert [n for n, data in contents(make.folder).items() if data != before[n]] == [MANIFEST]


def test_cases_are_added(make):
    """Each beside its kind; what was there stays; inputs are the kit's draw, and the answer is the reference's."""
    before = {e["id"]: e for e in read_manifest(make.folder)["cases"]}
    added = other(DRAWN, id="linear/mingru/added")
    cases = (DRAWN, added, CELL)
    code, _, err = make("--check", cases=cases)
    assert (code, err) == (2, "error: linear/mingru/added is not stored yet; run without --check\n")
    make.killed.append(added.id)
    code, _, err = make(cases=cases)
    assert (code, err.split(";")[0]) == (0, "5 cases, 2 new")
    assert make("--check", cases=cases)[0] == 0
    entries = {e["id"]: e for e in read_manifest(make.folder)["cases"]}
    assert list(entries) == [CELL.id, *STORED, added.id]
    assert {id: entries[id] for id in before} == before
    vectors.cache_clear()
    made = {v.id: v for v in vectors(make.folder)}
    for spec in (added, CELL):
        v = made[spec.id]
        assert v.drawn["seed"].startswith(f"{spec.id} ")
        inputs = drawing.inputs_of({"seed": v.drawn["seed"], "arrays": spec.arrays})
        assert inputs.keys() == v.case.inputs.keys()
        assert all((inputs[name] == array).all() for name, array in v.case.inputs.items())
        for name, array in reference.outputs(v.case).items():
            np.testing.assert_array_equal(v.expected[name], array)
        assert v.confirmed == {"route": "a test", "error": 1e-14}
    assert made[added.id].kills == ("loss-bits",)
    # the entry is that of the kit's own case of this name
    assert entries[CELL.id] | {"kills": 0, "confirmed": 0} == own_entry(CELL.id) | {"kills": 0, "confirmed": 0}


def own_entry(id):
    """Of the kit's manifest."""
    return next(e for e in read_manifest(VECTORS)["cases"] if e["id"] == id)


def test_a_new_case_has_to_be_well_conditioned(make):
    """An answer that is 0, where it is not said to be, is none; nor is one that small changes of the inputs change."""
    still = {name: own | {"low": 0.0, "high": 0.0} for name, own in CELL.arrays.items()}
    steep = {name: own | ({"power": 16} if name == "weights.U" else {}) for name, own in CELL.arrays.items()}
    for arrays in (still, steep):
        case = other(CELL, id="cell/elman/tanh-new", arrays=arrays)
        code, _, err = make(cases=(DRAWN, case))
        assert (code, err) == (2, "error: cell/elman/tanh-new: no well-conditioned inputs in 300 draws\n")


def test_a_case_needs_its_second_route(make):
    """One that is new is not stored without torch."""
    make.torch.util.find_spec = lambda name: None
    code, _, err = make("--check")
    assert (code, "not confirmed again: torch is not installed" in err) == (0, True)
    code, _, err = make(cases=(DRAWN, CELL))
    assert (code, err) == (2, f"error: {CELL.id} is new and cannot be confirmed: torch is not installed\n")


def test_a_changed_case_is_refused(make):
    """Another config, and other ranges, under the name it had."""
    refused(make, DRAWN.id, "kind or config", cases=(other(DRAWN, config=DRAWN.config | {"resets": True}),))
    wider = {name: own | {"high": own["high"] + 1} for name, own in DRAWN.arrays.items()}
    refused(make, DRAWN.id, "inputs", "give the changed case another name", cases=(other(DRAWN, arrays=wider),))


@pytest.mark.parametrize("id", STORED)
def test_a_changed_answer_is_refused(make, monkeypatch, id):
    """Its numbers, names or shapes."""
    answer = making.answer

    def answers(change):
        monkeypatch.setattr(making, "answer", lambda case: (change if case.id == id else dict)(answer(case)))

    answers(lambda own: {name: a + 1e-8 * np.abs(a).max() for name, a in own.items()})
    refused(make, id, "away from what is stored")
    answers(lambda own: dict(list(own.items())[1:]))
    refused(make, id, "outputs")
    answers(lambda own: {name: a[None] for name, a in own.items()})
    refused(make, id, "shapes")


def test_a_case_is_withdrawn(make):
    """It is no longer run; its entry and its arrays stay, through later runs too, and its name is not used again."""
    before = contents(make.folder)
    for id, left in ((STORED[1], (DRAWN,)), (DRAWN.id, ())):
        code, _, err = make("--withdraw", id, "--why", "the sign was wrong")
        assert code == 0, err
        assert make("--check", cases=left)[0] == 0
        assert make(cases=left)[0] == 0
        entry = next(e for e in read_manifest(make.folder)["cases"] if e["id"] == id)
        assert entry["withdrawn"] == "the sign was wrong"
    refused(make, f"{DRAWN.id} is withdrawn, and in scripts/maintain/vectors; give it another name")
    vectors.cache_clear()
    assert [v.id for v in vectors(make.folder)] == [STORED[0]]
    assert [n for n, data in contents(make.folder).items() if data != before[n]] == [MANIFEST]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--withdraw", STORED[0]], "--withdraw ID and --why WHY go together"),
        (["--why", "wrong"], "--withdraw ID and --why WHY go together"),
        (["--check", "--withdraw", STORED[0], "--why", "wrong"], "not with --check"),
        (["--withdraw", "loss/three", "--why", "wrong"], "--withdraw loss/three is no case of the kit"),
        (["--withdraw", "loss/*", "--why", "wrong"], "is no case of the kit"),
    ],
)
def test_bad_arguments(make, arguments, says):
    refused(make, says, arguments=arguments)


def test_check_sees_other_kills_and_equations(make, monkeypatch):
    """Without --check they are written."""
    make.killed.append(STORED[1])
    assert make("--check")[0] == 2
    assert make()[0] == 0
    assert make("--check")[0] == 0
    vectors.cache_clear()
    assert {v.id: v.kills for v in vectors(make.folder)}[STORED[1]] == ("loss-bits",)
    monkeypatch.setattr(make_vectors, "equations_of", lambda case: ["ncgru:1/h"])
    code, _, err = make("--check")
    assert (code, "kills, equations or purpose" in err) == (2, True)


def test_a_file_that_was_changed_is_refused(make):
    path = make.folder / "activation.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(ValueError, match="SHA-256"):
        make("--check")


def test_a_second_route_that_disagrees_is_refused(monkeypatch):
    """By more than the kind's limit; the distance is what is stored."""
    route = pytest.importorskip("scripts.maintain.oracle.second_route")
    made = BY_ID["activation/tanh"]
    for factor, good in ((1 + 5e-13, True), (1 + 5e-12, False)):
        answer = {name: array * factor for name, array in made.expected.items()}
        monkeypatch.setattr(route, "second_route", lambda *case, answer=answer: ("another", answer))
        if good:
            assert making.confirmed(made) == {"route": "another", "error": 5e-13}
        else:
            with pytest.raises(ValueError, match=r"activation/tanh: another is 5\.0e-12 away; allowed: 1e-12"):
                making.confirmed(made)


def test_the_kit_s_own_vectors_are_those_of_the_program(monkeypatch, tmp_path):
    """make_vectors --check: every case computed again; over a copy, and without torch, whose second route
    tests/crosscheck runs.  Kills are asked for, not counted: test_mistakes.py and `make crosscheck` do that."""
    monkeypatch.setattr(make_vectors, "VECTORS", shutil.copytree(VECTORS, tmp_path / "vectors"))
    nothing = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: None))
    monkeypatch.setattr(make_vectors, "importlib", nothing)
    asked = []
    monkeypatch.setattr(make_vectors, "kills", lambda vector: asked.append(vector.id) or list(BY_ID[vector.id].kills))
    code, out, err = call(make_vectors.main, "--check")
    assert (code, out) == (0, ""), err
    assert err.startswith(f"{len(BY_ID)} cases, 0 new; not confirmed again")
    assert asked == list(BY_ID)
    assert contents(tmp_path / "vectors") == contents(VECTORS)
    assert {v.id for v in BY_ID.values() if v.drawn} <= {spec.id for spec in specs()}
