"""Checkpoints: a tree comes back as it was, and a file is there whole or not at all."""

import json
import math
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import example, given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from ortho_ref.backend import to_device
from ortho_ref.training import checkpoint

ROOT = Path(__file__).parents[3]


class Pair(NamedTuple):
    """A tuple with names; they are not kept."""

    a: object
    b: object


def saved(tree):
    """The tree after a way through a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.safetensors"
        checkpoint.save(path, tree)
        return checkpoint.load(path)


def assert_same(ours, theirs, path="tree"):
    """The same to the bit: containers, types (a named tuple is a tuple), dtypes, shapes, memory order, NaN and -0."""
    expected = tuple if isinstance(theirs, tuple) else type(theirs)
    assert type(ours) is expected, path
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs), path
        for key, value in theirs.items():
            assert_same(ours[key], value, f"{path}/{key}")
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs), path
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(a, b, f"{path}/{i}")
    elif isinstance(theirs, np.ndarray | np.generic):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), path
        assert ours.tobytes() == theirs.tobytes(), path
        columns = theirs.flags.f_contiguous and not theirs.flags.c_contiguous
        assert (ours.flags.f_contiguous and not ours.flags.c_contiguous) == columns, path
    elif isinstance(theirs, float):
        assert (ours, math.copysign(1, ours)) == (theirs, math.copysign(1, theirs)), path
    else:
        assert ours == theirs, path


DTYPES = st.sampled_from([*"fdFD", "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2"]).map(np.dtype)


@st.composite
def arrays(draw):
    """Arrays of 0 to 3 axes, also empty, as they are, transposed, by columns, strided or reversed."""
    array = draw(hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))
    if array.ndim == 0:
        return array
    ways = [array, array.T, np.asfortranarray(array), array[::2], array[..., ::-1], array.swapaxes(0, -1)[..., :1]]
    return ways[draw(st.integers(0, len(ways) - 1))]


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**130), 2**130)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | arrays()
    | DTYPES.flatmap(lambda dtype: hnp.from_dtype(dtype)).map(np.asarray).map(lambda array: array[()])
)
KEYS = st.text(min_size=1).filter(lambda key: not key.startswith("$") and "/" not in key and key != "__metadata__")
TREES = st.dictionaries(
    KEYS,
    st.recursive(
        LEAVES,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.builds(Pair, inner, inner)
            | st.dictionaries(KEYS, inner, max_size=3)
        ),
        max_leaves=6,
    ),
    max_size=4,
)


@settings(max_examples=150)
@given(tree=TREES)
@example(tree={})
@example(tree={"generators": np.random.default_rng(0).bit_generator.state})
@example(tree={"a": np.float32(1.5), "b": np.array(1.5, np.float32), "c": 1.5, "d": np.complex64(1 - 2j)})
@example(tree={"a": [[], (), {}, [()], ((),)], "e": np.empty((0, 3), complex)})
def test_a_tree_comes_back(tree):
    """Nested dicts in their order, lists, tuples; None, booleans, integers of any size, floats with infinities, NaN and
    -0, strings; arrays of every dtype, shape and order; an array without axes is no NumPy scalar, and the reverse."""
    assert_same(saved(tree), tree)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "i2", "i8", "u4"])
def test_byte_order(tmp_path, dtype):
    """An array in the other byte order comes back in the machine's, under the hashes of that; to be written to."""
    own = np.arange(6).reshape(2, 3).astype(dtype)
    other = own.astype(own.dtype.newbyteorder())
    metadata = []
    for name, array in (("own", own), ("other", other)):
        checkpoint.save(tmp_path / name, {"W": array, "t": array.T})
        back = checkpoint.load(tmp_path / name)
        assert_same(back, {"W": own, "t": own.T})
        assert all(value.flags.owndata and value.flags.writeable for value in back.values())
        with safetensors.safe_open(str(tmp_path / name), framework="numpy") as stream:
            metadata.append(stream.metadata())
    assert metadata[0] == metadata[1]


def test_what_stands_in_the_file(tmp_path):
    """Without this project: tensors under the paths of their arrays, complex with a trailing (re, im), all else as JSON
    in the metadata."""
    A, v = np.arange(6.0).reshape(2, 3), np.array([1 + 2j, 3 - 4j], np.complex64)
    tree = {"params": {"layer0.U_c.A": A.T}, "carried": [v, (np.float64(7), None)], "iteration": 3, "best": 0.5}
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, tree)
    tensors = safetensors.numpy.load_file(path)
    assert set(tensors) == {"params/layer0.U_c.A", "carried/0", "carried/1/0"}
    np.testing.assert_array_equal(tensors["params/layer0.U_c.A"], A.T)
    np.testing.assert_array_equal(tensors["carried/0"], np.array([[1, 2], [3, -4]], np.float32))
    assert tensors["carried/0"].dtype == np.float32
    assert tensors["carried/1/0"].shape == ()
    with safetensors.safe_open(str(path), framework="numpy") as stream:
        metadata = stream.metadata()
    assert metadata["format"] == "ortho_ref checkpoint 4"
    skeleton = json.loads(metadata["tree"])
    array = {"complex": False, "fortran": False, "scalar": False}
    assert skeleton == {
        "params": {"layer0.U_c.A": array | {"$array": "params/layer0.U_c.A", "fortran": True}},
        "carried": [
            array | {"$array": "carried/0", "complex": True},
            {"$tuple": [array | {"$array": "carried/1/0", "scalar": True}, None]},
        ],
        "iteration": 3,
        "best": 0.5,
    }


def test_device_arrays(device):
    """Are saved as host arrays, in their memory order, wherever they stand in the tree."""
    host = {"a": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "b": [(np.array([1j, 2]), 5)], "c": np.eye(2)}
    assert_same(saved(to_device(host, device)), host)


# What cannot be saved or loaded


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (
            {"a": {"b": object()}},
            "a/b is an object; allowed: numbers, arrays of them, strings, None and trees of these",
        ),
        ({"a": [1, {2}]}, "a/1 is a set; allowed: numbers"),
        ({"a": b"bytes"}, "a is a bytes; allowed: "),
        ({"a": 1j}, "a is a complex; allowed: "),
        ({"a": {"b": np.array(["x"])}}, "a/b is an ndarray <U1; allowed: "),
        ({"a": np.array([None])}, "a is an ndarray object; allowed: "),
        ({"a": np.array([1], "M8[s]")}, r"a is an ndarray datetime64\[s\]; allowed: "),
        *(
            ({"a": {"b": np.zeros(3, char)}}, f"a/b is of {np.dtype(char)}; allowed: {allowed}")
            for char, allowed in (("g", "float16, float32, float64"), ("G", "complex64, complex128"))
            if np.dtype(char).itemsize > 8 * (1 + (char == "G"))
        ),
        ({"a": [np.longdouble(1)]}, "a/0 is of .*; allowed: float16, float32, float64"),
        ({"a": {1: 2}}, r"a has keys \[1\]; allowed: strings without /, none with \$ first"),
        ({"a": [math.inf]}, "a/0 is inf; allowed: finite numbers"),
        ({"a": {"b": math.nan}}, "a/b is nan; allowed: finite numbers"),
        ({"a": ["\udce9"]}, r"a/0 is '\\udce9'; allowed: texts that UTF-8 can hold"),
        ({"a": 10**40}, "a is an integer of more than 40 digits"),
        ({1: 2}, r"the tree has keys \[1\]; allowed: "),
        ({"a": {"$tuple": 1}}, r"a has keys \['\$tuple'\]; allowed: "),
        ({"a": {"$of_ours": 1}}, r"a has keys \['\$of_ours'\]; allowed: "),
        # two arrays could come under one name
        ({"a/b": np.zeros(1), "a": {"b": np.ones(1)}}, r"the tree has keys \['a/b', 'a'\]; allowed: "),
        ({"a": {"": np.zeros(1)}}, r"a has keys \[''\]; allowed: "),
        ({"__metadata__": np.zeros(1)}, r"the tree has keys \['__metadata__'\]; allowed: "),
    ],
)
def test_what_cannot_be_saved(tmp_path, tree, message):
    """An error that names the place, what stands there and what may; an older file stays."""
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, {"old": 1})
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        checkpoint.save(path, tree)
    assert checkpoint.load(path) == {"old": 1}
    assert [*tmp_path.iterdir()] == [path]


PLACE = {"$array": "a", "complex": False, "fortran": False, "scalar": False}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({}, "its tree has no 'a'"),
        ({"a": PLACE, "b": PLACE}, "it has no tensor 'a'"),
        ({"a": PLACE | {"$array": "b"}}, "it has no tensor 'b'"),
        ({"a": {"$array": "a"}}, "an array of its tree has no complex, fortran, scalar"),
        ({"a": PLACE | {"more": 1}}, "an array of its tree has 'more'"),
        ({"a": PLACE | {"scalar": 1}}, "an array of its tree.scalar is 1; allowed: true or false"),
        ({"a": PLACE, "b": {"$tuple": 1}}, r"a tuple of its tree.\$tuple is 1; allowed: a list"),
        ({"a": PLACE | {"complex": True}}, r"'a' is float64 \(3,\), which is not complex"),
        ([PLACE], "its tree is "),
    ],
)
def test_a_sealed_tree_that_nobody_writes(tmp_path, tree, message):
    """With hashes that are right: one line that names the file, and where."""
    path, tensors = tmp_path / "a.safetensors", {"a": np.arange(3.0)}
    text = json.dumps(tree)
    metadata = {"format": checkpoint.FORMAT, "tree": text, "sha256": checkpoint._hash(text, tensors)}
    path.write_bytes(safetensors.numpy.save(tensors, metadata))
    with pytest.raises(ValueError, match=f"^{path} is damaged: {message}"):
        checkpoint.load(path)


def test_a_file_that_memory_does_not_hold(tmp_path, monkeypatch):
    """It is named: what runs out of memory may have read several."""
    path = tmp_path / "large.safetensors"
    checkpoint.save(path, {"x": np.zeros(3)})

    def none_left(data):
        raise MemoryError

    monkeypatch.setattr(safetensors.numpy, "load", none_left)
    with pytest.raises(OSError, match=r"large\.safetensors cannot be read: it is larger than the memory that is left$"):
        checkpoint.load(path)


def test_no_metadata_at_all(tmp_path):
    """safetensors takes null for none."""
    path, header = (
        tmp_path / "a.safetensors",
        b'{"__metadata__":null,"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    )
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\x00")
    with pytest.raises(ValueError, match=f"^{path} has the format None: "):
        checkpoint.load(path)


def test_what_is_no_checkpoint(tmp_path):
    """ValueError, or OSError, that names the file: cut anywhere, empty, text, of another maker, not there, a folder."""
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, {"a": np.arange(50.0), "b": "text"})
    data = path.read_bytes()
    header = 8 + int.from_bytes(data[:8], "little")
    for end in (0, 1, 7, 8, 9, header - 1, header, header + 1, len(data) - 8, len(data) - 1):
        path.write_bytes(data[:end])
        with pytest.raises(ValueError, match=f"^{path} is damaged: "):
            checkpoint.load(path)
    for other in (b"{}", b"\x00" * 100, b"\xff" * 100, data + b"more"):
        path.write_bytes(other)
        with pytest.raises(ValueError, match=f"^{path} is damaged: "):
            checkpoint.load(path)
    other, older = "not 'ortho_ref checkpoint 4'", "written by another version of ortho_ref, which can go on with it"
    for metadata, message in (
        (None, older),
        ({"format": "pt"}, other),
        ({"format": "ortho_ref checkpoint 2", "tree": "{}"}, older),
        ({"format": "ortho_ref checkpoint 3", "tree": "{}", "tensors": "{}", "sha256": "0" * 64}, older),
    ):
        safetensors.numpy.save_file({"a": np.zeros(2)}, path, metadata)
        found = metadata["format"] if metadata else None
        with pytest.raises(ValueError, match=f"^{path} has the format {found!r}: {message}"):
            checkpoint.load(path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=f"^{path} cannot be read: "):
        checkpoint.load(path)
    with pytest.raises((OSError, ValueError), match=f"^{tmp_path}"):
        checkpoint.load(tmp_path)
