"""The exported files: what the kit gives, and enough to check an implementation without it."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import ortho_ref
from ortho_ref import files
from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.cases.case import DTYPES, Case
from ortho_ref.conformance.cases.case_files import select
from ortho_ref.conformance.cases.export import export
from ortho_ref.conformance.compare import scales, tolerance
from ortho_ref.conformance.running.origin import platform_now, vectors_now
from tests.ortho_ref.conformance.adapters import BY_ID

ROOT = Path(__file__).parents[3]
TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "BOOL": "?"}


def read(path):
    """Arrays and metadata of a safetensors file, by its layout alone."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, numbers = json.loads(data[8 : 8 + length]), data[8 + length :]
    metadata, arrays = header.pop("__metadata__", {}), {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        arrays[name] = np.frombuffer(numbers[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays, metadata


@pytest.fixture(scope="module", params=DTYPES)
def exported(request, tmp_path_factory):
    """Every case, in a precision; the folder, its manifest and the precision."""
    folder = tmp_path_factory.mktemp("exported") / "new" / "cases"
    assert export(folder, dtype=request.param) == len(BY_ID)
    return folder, json.loads((folder / "manifest.json").read_text()), request.param


def test_files_are_what_the_kit_gives(exported):
    """Inputs as an adapter gets them, answers in float64, limits at kinks, and nothing else in the folder."""
    folder, _, dtype = exported
    files = {folder / "manifest.json"}
    for id, vector in BY_ID.items():
        case, path = vector.given(dtype), folder / id / "input.safetensors"
        files.add(path)
        arrays, metadata = read(path)
        assert arrays.keys() == case.inputs.keys()
        for key, array in case.inputs.items():
            np.testing.assert_array_equal(arrays[key], array, strict=True)
        assert (metadata["id"], metadata["kind"]) == (id, case.kind)
        assert json.loads(metadata["config"]) == case.config
        assert json.loads(metadata["outputs"]) == {key: list(shape) for key, shape in case.outputs.items()}
        floats = {str(array.dtype) for array in arrays.values() if array.dtype.kind == "f"}
        assert floats <= {metadata["dtype"]}
        answers = vector.expected | {f"low:{n}": a for n, a in vector.low.items()}
        answers |= {f"high:{n}": a for n, a in vector.high.items()}
        if case.kind != "initial":  # whose config says what is right
            path = folder / id / "expected.safetensors"
            files.add(path)
            arrays = read(path)[0]
            assert arrays.keys() == answers.keys()
            for key, array in answers.items():
                np.testing.assert_array_equal(arrays[key], array, strict=True)
    assert {path for path in folder.rglob("*") if path.is_file()} == files


def test_the_manifest(exported):
    """It says of every case what the kit knows."""
    _, manifest, dtype = exported
    assert (manifest["kit"], manifest["dtype"]) == (ortho_ref.__version__, dtype)
    assert (manifest["vectors"], manifest["platform"]) == (vectors_now(), platform_now())
    assert [entry["id"] for entry in manifest["cases"]] == list(BY_ID)
    for entry in manifest["cases"]:
        vector = BY_ID[entry["id"]]
        assert (entry["kind"], entry["config"], entry["why"]) == (vector.case.kind, vector.case.config, vector.why)
        assert (tuple(entry["equations"]), tuple(entry["kills"])) == (vector.equations, vector.kills)
        assert entry["tolerance"] == tolerance(vector.case.kind, dtype)
        own = vector.expected if vector.case.kind != "initial" else {}  # whose config says what is right
        assert entry["scales"] == (scales(own) if own else {})


def problems(folder, implementation):
    """Names of what is wrong with an implementation, found by these files alone.

    implementation: (kind, config, inputs) -> outputs; None: not supported.
    """
    found = []
    for entry in json.loads((folder / "manifest.json").read_text())["cases"]:
        arrays = read(folder / entry["id"] / "input.safetensors")[0]
        outputs = implementation(entry["kind"], entry["config"], arrays)
        if outputs is None:
            continue
        expected = read(folder / entry["id"] / "expected.safetensors")[0]
        for name, scale in entry["scales"].items():
            low, high = (expected.get(f"{side}:{name}", expected[name]) for side in ("low", "high"))
            limit = entry["tolerance"] * scale
            if name in outputs and not ((outputs[name] >= low - limit).all() and (outputs[name] <= high + limit).all()):
                found.append(f"{entry['id']}:{name}")
    return found


def mine(kind, config, inputs):
    """The reference; without initial values, which have no file of answers."""
    return None if kind == "initial" else reference.outputs(Case("", kind, config, inputs))


def test_an_implementation_is_checked_by_the_files_alone(exported):
    """All right; and one output of every case a little too large."""
    folder, manifest, _ = exported
    assert problems(folder, mine) == []

    def wrong(kind, config, inputs):
        found = mine(kind, config, inputs)
        if found is None:
            return None
        name = max(found, key=lambda name: np.abs(found[name]).max())
        return found | {name: found[name] + (np.abs(found[name]).max() or 1.0) * 1e-2}

    seen = {name.partition(":")[0] for name in problems(folder, wrong)}
    assert seen == {entry["id"] for entry in manifest["cases"] if entry["kind"] != "initial"}


def test_cases_that_fit(tmp_path):
    """Of one pattern or several, each once, into a folder that is empty."""
    assert export(tmp_path, ["loss/cross*/large", "cell/lstm/sq*", "cell/lstm/st*", "cell/lstm/square"]) == 3
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    names = ["cell/lstm/square", "cell/lstm/step", "loss/cross_entropy/large"]
    assert [case["id"] for case in manifest["cases"]] == names
    arrays = load_file(tmp_path / "cell" / "lstm" / "square" / "input.safetensors")
    assert arrays.keys() == BY_ID["cell/lstm/square"].case.inputs.keys()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cell", "loss", "manifest.json"]


# All of it or nothing

ENDS = """
import os, signal, sys
from pathlib import Path
from ortho_ref import files
from ortho_ref.conformance.cases import export
calls, right = [], files.write
def write(path, data):
    calls.append(path)
    if len(calls) == 10:
        os.kill(os.getpid(), signal.SIGKILL)
    right(path, data)
files.write = write
export.export(Path(sys.argv[1]), "loss")
"""


def test_an_export_that_is_killed(tmp_path):
    """The folder is as empty as it was; the same command then works."""
    code = subprocess.run([sys.executable, "-c", ENDS, tmp_path / "there"], check=False, cwd=ROOT).returncode
    assert code == -signal.SIGKILL
    assert not (tmp_path / "there").exists()
    assert export(tmp_path / "there", "loss") == len(select("loss"))
    assert (tmp_path / "there" / "manifest.json").exists()


@pytest.mark.parametrize(("there", "number"), [(True, 1), (False, 9), (True, 16)])
def test_an_export_that_fails(tmp_path, monkeypatch, there, number):
    """A disk that gets full at any file, or at the end: an error that names DIR, and nothing is left anywhere."""
    calls, right, folder = [], files.write, tmp_path / "cases"
    if there:
        folder.mkdir()

    def write(path, data):
        calls.append(path.name)
        if len(calls) == number:
            raise OSError(f"{path} cannot be written") from OSError(28, "No space left on device")
        right(path, data)

    monkeypatch.setattr(files, "write", write)
    with pytest.raises(OSError, match=r"cases, which cannot be written: No space left on device$"):
        export(folder, "optimizer/*")
    assert len(calls) == number
    assert list(tmp_path.rglob("*")) == ([folder] if there else [])
    number = 0
    export(folder, "optimizer/*")
    assert calls[-1] == "manifest.json"  # last, so that a folder that was not finished has none


@pytest.mark.parametrize("where", ["here", "a mount"])
def test_into_an_empty_folder_that_keeps_its_place(tmp_path, monkeypatch, where):
    """The folder we are in, one that nothing can be renamed onto: filled."""
    folder = tmp_path / "cases"
    folder.mkdir()
    before = folder.stat().st_ino
    if where == "here":
        monkeypatch.chdir(folder)
        folder = Path()
    else:
        right = os.replace

        def replace(a, b, **folders):
            if Path(b) == folder:
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            right(a, b, **folders)

        monkeypatch.setattr(os, "replace", replace)
    assert export(folder, "loss/*") == len(select("loss/*"))
    assert sorted(path.name for path in (tmp_path / "cases").iterdir()) == ["loss", "manifest.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["cases"]
    assert (tmp_path / "cases").stat().st_ino == before
