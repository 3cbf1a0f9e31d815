"""Cases: how a folder of them is read, what is refused, what an implementation is given."""

import hashlib
import re
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save

from ortho_ref import formats
from ortho_ref.conformance.cases.case import DTYPES, in_precision, joined, parted
from ortho_ref.conformance.cases.case_files import FORMAT, read_manifest, select, vectors

ARRAYS = {
    "a/one:inputs:x": np.array([[1.5, -2.0]]),
    "a/one:inputs:steps": np.array([3, 4]),
    "a/one:inputs:mask": np.array([True, False]),
    "a/one:expected:h": np.array([0.25, 0.5, 1.0]),
    "a/one:expected:loss": np.array(2.0),
    "a/one:low:h": np.array([0.0, 0.0, 0.0]),
    "a/one:high:h": np.array([1.0, 1.0, 1.0]),
    "a/two:inputs:x": np.array([np.nan]),
}
ONE = {
    "id": "a/one",
    "kind": "cell",
    "config": {"cell": "elman", "deep": {"list": [1, 2]}},
    "inputs": ["mask", "steps", "x"],
    "expected": ["h", "loss"],
    "low": ["h"],
    "high": ["h"],
    "equations": ["ncgru:1"],
    "why": "a reason",
    "kills": ["a-mistake"],
    "confirmed": {"route": "by hand", "error": 0.0},
    "drawn": None,
    "withdrawn": None,
}
TWO = ONE | {"id": "a/two", "inputs": ["x"], "expected": [], "low": [], "high": []}


@pytest.fixture
def folder(tmp_path):
    """A folder of two cases; `write(**changes)` writes it again with other parts of the manifest."""

    def write(format=FORMAT, **changes):
        data = save(ARRAYS)
        (tmp_path / "cell.safetensors").write_bytes(data)
        hashes = {"cell.safetensors": hashlib.sha256(data).hexdigest()}
        manifest = {"files": hashes, "cases": [ONE, TWO], **changes}
        (tmp_path / "manifest.json").write_bytes(formats.seal(manifest, format)[0])
        return tmp_path

    tmp_path.joinpath("cell.safetensors").touch()
    write()
    vectors.cache_clear()
    yield tmp_path, write
    vectors.cache_clear()


def test_a_folder_is_read(folder):
    """Every field of the manifest and every array, under its role, in the manifest's order."""
    one, two = vectors(folder[0])
    assert (one.id, one.case.id, one.case.kind, one.case.config) == ("a/one", "a/one", "cell", ONE["config"])
    assert one.case.outputs == {"h": (3,), "loss": ()}
    assert (one.equations, one.why, one.kills) == (("ncgru:1",), "a reason", ("a-mistake",))
    assert one.confirmed == {"route": "by hand", "error": 0.0}
    for role in ("inputs", "expected", "low", "high"):
        found = one.case.inputs if role == "inputs" else getattr(one, role)
        assert sorted(found) == ONE[role]
        for name, array in found.items():
            np.testing.assert_array_equal(array, ARRAYS[f"a/one:{role}:{name}"], strict=True)
    assert (two.id, two.expected, two.case.outputs) == ("a/two", {}, {})
    assert np.isnan(two.case.inputs["x"]).all()


def test_arrays_are_read_only(folder):
    """So one case cannot spoil another; the shipped ones are, too."""
    for vector in (*vectors(folder[0]), *vectors()):
        for arrays in (vector.case.inputs, vector.expected, vector.low, vector.high):
            assert not any(array.flags.writeable for array in arrays.values()), vector.id
    with pytest.raises(FrozenInstanceError):
        vectors()[0].given("float64").id = "another"


def test_withdrawn_cases_are_left_out(folder):
    path, write = folder
    write(cases=[ONE | {"withdrawn": "it was wrong"}, TWO])
    assert [vector.id for vector in vectors(path)] == ["a/two"]
    assert [entry["id"] for entry in read_manifest(path)["cases"]] == ["a/one", "a/two"]


@pytest.mark.parametrize("at", [0, 8, -1, None, "text"])
def test_a_changed_file_is_refused(folder, at):
    """One bit, in the length, the header or the last number; one that is gone; one that is none, of the right hash."""
    path, write = folder
    file = path / "cell.safetensors"
    data = bytearray(file.read_bytes())
    if at is None:
        file.unlink()
    elif at == "text":
        data = b"no such thing"
        write(files={"cell.safetensors": hashlib.sha256(data).hexdigest()})
        file.write_bytes(data)
    else:
        data[at] ^= 1
        file.write_bytes(data)
    says = {None: "cannot be read: No such file", "text": "is damaged: .*[Hh]eader"}
    with pytest.raises(
        (ValueError, OSError), match=rf"cell\.safetensors {says.get(at, 'is damaged: its SHA-256 is not .*; install')}"
    ):
        vectors(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", "\xff", None, f"{FORMAT} 1", "2"])
def test_what_is_no_manifest_is_named(folder, text):
    """Nor one of another format, nor none."""
    path, write = folder
    says = "is damaged: |has the format None: written by another vers"
    if text is None:
        (path / "manifest.json").unlink()
        says = "cannot be read: No such file"
    elif text[-1:].isdigit():
        write(format=text)
        says = f"has the format '{text}': .*'{FORMAT}'$"
    else:
        (path / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises((ValueError, OSError), match=rf"manifest\.json ({says})"):
        vectors(path)


def test_a_changed_manifest_is_refused(folder):
    """Every bit of it: a tolerance, a name, a digit of a hash, the seal itself."""
    path, _ = folder
    data = (path / "manifest.json").read_bytes()
    for at in range(len(data)):
        (path / "manifest.json").write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        with pytest.raises(ValueError, match=r"manifest\.json (is damaged|has the format)"):
            read_manifest(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cases": [ONE | {"expected": ["h", "other"]}]}, "it names 'a/one:expected:other', which its files have not"),
        ({"cases": [ONE | {"kind": "loss"}]}, r"it names 'loss\.safetensors', which its files have not"),
        ({"cases": [ONE | {"kind": "other"}]}, r"cases\[0\]\.kind is 'other'; allowed: 'cell', "),
        ({"cases": [ONE | {"more": 1}]}, r"cases\[0\] has 'more'; allowed: id, kind, config, "),
        ({"cases": {}}, r"cases is {}; allowed: a list$"),
        ({"files": {"cell.safetensors": "1"}}, r"files\.cell\.safetensors is '1'; allowed: a text like "),
    ],
)
def test_what_a_manifest_can_say(folder, changes, message):
    """A manifest with a seal of its own still has to fit its schema and its files."""
    path, write = folder
    write(**changes)
    with pytest.raises(ValueError, match=rf"manifest\.json is damaged: {message}"):
        vectors(path)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_given_is_fresh(dtype):
    """Copies of every input that may be written to, and a config of its own, each time; integers keep their type."""
    for vector in vectors():
        stored = vector.case.inputs
        for _ in range(2):
            case = vector.given(dtype)
            assert (case.id, case.kind, case.config) == (vector.id, vector.case.kind, vector.case.config)
            assert case.outputs == {name: array.shape for name, array in vector.expected.items()}
            assert case.inputs.keys() == stored.keys()
            for name, array in case.inputs.items():
                assert array.dtype == (dtype if stored[name].dtype.kind == "f" else stored[name].dtype)
                np.testing.assert_array_equal(array, stored[name].astype(array.dtype))
                assert not np.shares_memory(array, stored[name])
                array[...] = 0
            case.config["more"] = 1
    vector = select("optimizer/adam")[0]
    vector.given("float64").config["optimizer"]["beta1"] = 7
    assert vector.given("float64").config["optimizer"]["beta1"] == 0.9


_DRAWN = ["rows", "units", "blocks", "cut", "saturated", "small"]
_SHAPES = [*_DRAWN, "square", "single", "long", "tokens", "step", "no-dc_T"]
LSTM = ["cell/lstm", *(f"cell/lstm/{own}" for own in _SHAPES)]
PATTERNS = {
    "cell/lstm": LSTM,
    "*/lstm": [*LSTM, *(v.id for v in select("layer/lstm")), "initial/lstm"],
    "cell/lstm/s*": [f"cell/lstm/{own}" for own in _SHAPES if own.startswith("s")],
    "optimizer/sg?": ["optimizer/sgd", "optimizer/sgd/momentum", "optimizer/sgd/weight-decay"],
    "loss/*/large": ["loss/cross_entropy/large", "loss/binary_cross_entropy/large"],
    "loss/cross_entropy/groups": ["loss/cross_entropy/groups"],
}


@pytest.mark.parametrize("only", PATTERNS)
def test_patterns(only):
    assert sorted(vector.id for vector in select(only)) == sorted(PATTERNS[only])


def test_several_patterns():
    """Their union, each case once, in the order of all; a string is one pattern, and [one] the same; none is all."""
    for only in PATTERNS:
        assert select([only]) == select(only)
    both = [vector.id for vector in select(("optimizer/sgd/momentum", "cell/lstm/*", "cell/lstm", "cell/lstm/step"))]
    assert both == [*PATTERNS["cell/lstm"], "optimizer/sgd/momentum"]
    every = [entry["id"] for entry in read_manifest()["cases"] if entry["withdrawn"] is None]
    for only in (None, "*", [*PATTERNS, "*"]):
        assert [vector.id for vector in select(*([] if only is None else [only]))] == every
    assert [vector.id for vector in select("*modrelu*")] == [id for id in every if "modrelu" in id]


@pytest.mark.parametrize(
    "only", ["", "lstm", "cell/lst", "CELL/LSTM", "cell/lstm/", "ell*", "cell/elman/tan", "cell/?"]
)
def test_patterns_that_fit_nothing(only):
    """They hold from the first character to the last, or to a slash; of several that one is named."""
    for patterns in (only, [only, "cell/lstm", "loss/*"], ["cell/lstm", "loss/*", only]):
        with pytest.raises(ValueError, match=f"^only is '{re.escape(only)}'.*, which fits no case"):
            select(patterns)


@pytest.mark.parametrize(("only", "says"), [(5, "only is an int"), (["cell/lstm", 5], "only has an int")])
def test_patterns_that_are_no_text(only, says):
    with pytest.raises(TypeError, match=f"^{says}; allowed: "):
        select(only)


FLOATS = st.floats(-1e3, 1e3, width=32)


@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0), elements=FLOATS), st.booleans())
def test_complex_arrays_in_two_parts(real, single):
    """joined is parted's inverse; a real array is left as it is; float32 gives complex64."""
    real = in_precision(real, "float32") if single else real
    z = real + 1j * real[..., ::-1] if real.ndim else real * (1 + 2j)
    z = z.astype(np.complex64 if single else np.complex128)
    parts = parted(z)
    assert parts.dtype == real.dtype
    assert parts.shape == (*z.shape, 2)
    np.testing.assert_array_equal(joined(parts), z, strict=True)
    np.testing.assert_array_equal(parts[..., 0], z.real)
    np.testing.assert_array_equal(parts[..., 1], z.imag)
    assert parted(real) is real
