"""make_vectors, which makes the kit's vectors, and conformance_cases, which says what they are."""

import dataclasses
import shutil
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from ortho_ref.conformance.cases import case_files as stored, reference
from ortho_ref.conformance.cases.case_files import MANIFEST, VECTORS, key_of, read_manifest, vectors
from scripts.maintain import make_vectors
from scripts.maintain.vectors import making
from scripts.maintain.vectors.conformance_cases import specs
from scripts.maintain.vectors.spec import Spec
from tests.ortho_ref.conformance.adapters import BY_ID
from tests.ortho_ref.training.reading import contents
from tests.scripts.runs import call

# The program, over three cases of its own in a folder of its own


def doubled(inputs):
    return {"y": 2 * inputs["a"]}


@dataclasses.dataclass(frozen=True)
class Made(Spec):
    """A case with an answer of its own."""

    answer: Callable = doubled

    def outputs(self, inputs):
        return self.answer(inputs)


def spec(id, loss="made up", **options):
    """A made-up case whose answer is `answer`."""
    return Made(id, "loss", {"loss": loss}, lambda rng: {"a": rng.standard_normal((3, 2))}, (), "made up", **options)


ACTIVATION = next(s for s in specs() if s.id == "activation/tanh")
MAP = next(s for s in specs() if s.id == "parametrization/exponential")
CASES = (ACTIVATION, spec("loss/one"), spec("loss/two"), MAP)


@pytest.fixture
def make(tmp_path, monkeypatch):
    """The program on a command line, with these cases and a stand-in for the second route; `folder` is where."""
    folder = tmp_path / "vectors"
    seen, errors = [], [1e-14]

    def route(made):
        return {"route": "a test", "error": errors[-1]}

    monkeypatch.setattr(make_vectors, "VECTORS", folder)
    here = {name: getattr(stored, name) for name in ("Case",)}
    here |= {name: partial(getattr(stored, name), folder) for name in ("vectors", "read_manifest")}
    monkeypatch.setattr(make_vectors, "stored", SimpleNamespace(**here))
    monkeypatch.setattr(make_vectors, "confirmed", route)
    torch = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: True))
    monkeypatch.setattr(make_vectors, "importlib", torch)
    monkeypatch.setattr(make_vectors, "kills", lambda vector: ["loss-bits"] if vector.id in seen else [])

    def run(*arguments, cases=CASES):
        vectors.cache_clear()
        monkeypatch.setattr(make_vectors, "specs", lambda: list(cases))
        return call(make_vectors.main, *arguments)

    run.folder, run.torch, run.killed, run.errors = folder, torch, seen, errors
    yield run
    vectors.cache_clear()


def refused(make, *says, cases, arguments=()):
    """The program refuses, by one line that says this, and changes no file, with --check or without."""
    before = contents(make.folder)
    for more in ([], ["--check"]) if not arguments else ([],):
        code, out, err = make(*arguments, *more, cases=cases)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        assert all(word in err for word in says), err
    assert contents(make.folder) == before


def test_cases_are_made_and_stay(make):
    """Made, read back, and made again: to the byte what they were."""
    code, _, err = make()
    assert (code, err.split(";")[0]) == (0, "4 cases, 4 new")
    assert "confirmed to 1.0e-14" in err
    before = contents(make.folder)
    assert sorted(before) == ["activation.safetensors", "loss.safetensors", MANIFEST, "parametrization.safetensors"]
    made = {vector.id: vector for vector in vectors(make.folder)}
    assert list(made) == [s.id for s in CASES]
    inputs = CASES[1].inputs(0)
    np.testing.assert_array_equal(made["loss/one"].case.inputs["a"], inputs["a"])
    np.testing.assert_array_equal(made["loss/one"].expected["y"], 2 * inputs["a"])
    assert made["loss/one"].confirmed == {"route": "a test", "error": 1e-14}
    assert (made["activation/tanh"].expected["y"] == reference.outputs(made["activation/tanh"].case)["y"]).all()
    code, _, err = make("--check")
    assert (code, err.split(";")[0]) == (0, "4 cases, 0 new")
    make.errors.append(3e-14)
    code, _, err = make()
    assert (code, "confirmed to 3.0e-14" in err) == (0, True)
    assert contents(make.folder) == before
    near = spec("loss/one", answer=lambda inputs: {"y": 2 * inputs["a"] * (1 + 1e-15)})  # as another machine has it
    assert make(cases=(CASES[0], near, *CASES[2:]))[0] == 0
    assert contents(make.folder) == before


def test_check_writes_nothing(make):
    """Also where a run without it would: another reason for a case is no change of it."""
    make()
    before = contents(make.folder)
    cases = (*CASES[:3], dataclasses.replace(MAP, why="another reason"))
    assert make("--check", cases=cases)[0] == 0
    assert contents(make.folder) == before
    assert make(cases=cases)[0] == 0
    assert [n for n, data in contents(make.folder).items() if data != before[n]] == [MANIFEST]


def test_cases_are_added(make):
    """Those that are there stay to the bit; order is that of the cases."""
    make()
    before = {v.id: v for v in vectors(make.folder)}
    cases = (CASES[0], spec("loss/added"), *CASES[1:])
    assert make("--check", cases=cases)[::2] == (2, "error: loss/added is not stored yet; run without --check\n")
    code, _, err = make(cases=cases)
    assert (code, err.split(";")[0]) == (0, "5 cases, 1 new")
    vectors.cache_clear()
    assert [v.id for v in vectors(make.folder)] == [s.id for s in cases]
    for vector in vectors(make.folder):
        if vector.id in before:
            for role, arrays in making.roles(vector).items():
                for name, array in making.roles(before[vector.id])[role].items():
                    assert arrays[name].tobytes() == array.tobytes()


CHANGES = {
    "config": spec("loss/one", loss="another"),
    "away from what is stored": spec("loss/one", answer=lambda inputs: {"y": 2 * inputs["a"] + 1e-9}),
    "outputs": spec("loss/one", answer=lambda inputs: {"y": 2 * inputs["a"], "z": inputs["a"]}),
    "shapes": spec("loss/one", answer=lambda inputs: {"y": 2 * inputs["a"].T}),
    "expected": spec("loss/one", answer=lambda inputs: {}),
    "low": spec("loss/one", between=lambda inputs: ({"y": inputs["a"] - 9}, {"y": inputs["a"] + 9})),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_case_is_refused(make, what):
    """Its config, its answer or what passes for one, under the name it had."""
    make()
    refused(make, "loss/one", what, cases=(CASES[0], CHANGES[what], *CASES[2:]))


def test_inputs_are_compared_to_the_bit():
    """NaN is NaN's equal; another type, name or number is not."""
    made = making.vector(MAP, MAP.inputs(0))

    def changed(arrays):
        return dataclasses.replace(made, case=dataclasses.replace(made.case, inputs=arrays))

    own = made.case.inputs
    A = own["params.A"]
    nan = own | {"params.A": np.where(A[0, 1] == A, np.nan, A)}
    making.compared(changed(nan), changed({name: array.copy() for name, array in nan.items()}))
    others = [
        own | {"params.A": np.nextafter(A, 9)},
        own | {"params.A": A.astype(np.float32)},
        own | {"more": A},
        {name: array for name, array in own.items() if name != "dU"},
        nan,
    ]
    for other in others:
        with pytest.raises(ValueError, match="its inputs are not those stored"):
            making.compared(changed(other), changed(own))


def test_a_removed_case_is_refused(make):
    make()
    refused(
        make,
        "stored, but not in scripts/maintain/vectors/conformance_cases.py: loss/two; withdraw them",
        cases=CASES[:2] + CASES[3:],
    )


def test_a_case_is_withdrawn(make):
    """It is no longer run; its entry and its arrays stay, through later runs too, and its name is not used again."""
    make()
    before = {v.id: v for v in vectors(make.folder)}
    code, _, err = make("--withdraw", "loss/one", "--why", "the sign was wrong")
    assert (code, err.split(",")[0]) == (0, "3 cases")
    refused(
        make, "withdrawn, and in scripts/maintain/vectors/conformance_cases.py: loss/one; give other names", cases=CASES
    )
    left = (CASES[0], *CASES[2:])
    for cases in (left, (*left, spec("loss/new"))):
        assert make(cases=cases)[0] == 0
        assert make("--check", cases=cases)[0] == 0
        vectors.cache_clear()
        assert [v.id for v in vectors(make.folder)] == [s.id for s in cases]
        manifest = read_manifest(make.folder)
        (entry,) = [e for e in manifest["cases"] if e["id"] == "loss/one"]
        assert entry["withdrawn"] == "the sign was wrong"
        arrays = stored.load((make.folder / "loss.safetensors").read_bytes())
        for role, name, array in (
            ("inputs", "a", before["loss/one"].case.inputs["a"]),
            ("expected", "y", before["loss/one"].expected["y"]),
        ):
            np.testing.assert_array_equal(arrays[key_of("loss/one", role, name)], array)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--withdraw", "loss/one"], "--withdraw ID and --why WHY go together"),
        (["--why", "wrong"], "--withdraw ID and --why WHY go together"),
        (["--check", "--withdraw", "loss/one", "--why", "wrong"], "not with --check"),
        (["--withdraw", "loss/three", "--why", "wrong"], "--withdraw loss/three is no case of the kit"),
        (["--withdraw", "loss/*", "--why", "wrong"], "is no case of the kit"),
    ],
)
def test_bad_arguments(make, arguments, says):
    make()
    refused(make, says, cases=CASES, arguments=arguments)


def test_check_sees_other_kills_and_equations(make):
    """Without --check they are written."""
    make()
    make.killed.append("loss/one")
    code, _, err = make("--check")
    assert (code, "loss/one: its kills or equations are not those stored" in err) == (2, True)
    assert make()[0] == 0
    assert make("--check")[0] == 0
    vectors.cache_clear()
    assert {v.id: v.kills for v in vectors(make.folder)}["loss/one"] == ("loss-bits",)
    sourced = dataclasses.replace(CASES[1], sources=ACTIVATION.sources)
    code, _, err = make("--check", cases=(CASES[0], sourced, *CASES[2:]))
    assert (code, "kills or equations" in err) == (2, True)


def test_a_case_needs_its_second_route(make, monkeypatch):
    """One that is new is not stored without torch, nor against the second route's answer."""
    make()
    make.torch.util.find_spec = lambda name: None
    code, _, err = make("--check")
    assert (code, "not confirmed again: torch is not installed" in err) == (0, True)
    cases = (*CASES, spec("loss/new"))
    code, _, err = make(cases=cases)
    assert (code, err) == (2, "error: loss/new is new and cannot be confirmed: torch is not installed\n")


def test_a_file_that_was_changed_is_refused(make):
    make()
    path = make.folder / "loss.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(ValueError, match="SHA-256"):
        make("--check")


def test_a_second_route_that_disagrees_is_refused(monkeypatch):
    """By more than the kind's limit; the distance is what is stored."""
    route = pytest.importorskip("scripts.maintain.oracle.second_route")
    made = making.vector(ACTIVATION, ACTIVATION.inputs(0))
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
    monkeypatch.setattr(make_vectors, "kills", lambda vector: asked.append(vector.id) or BY_ID[vector.id].kills)
    code, out, err = call(make_vectors.main, "--check")
    assert (code, out) == (0, ""), err
    assert err.startswith(f"{len(BY_ID)} cases, 0 new; not confirmed again")
    assert asked == list(BY_ID)
    assert contents(tmp_path / "vectors") == contents(VECTORS)
    assert [s.id for s in specs()] == list(BY_ID)
    assert all(s.why == BY_ID[s.id].why for s in specs())
