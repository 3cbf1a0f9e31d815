"""A task of one's own data in a file."""

import re

import numpy as np
import pytest

from tasks.arrays import FileArrays

RNG = np.random.default_rng(0)
ROWS = [(f"s{s}", s % 3, 100 + 10 * t + s, 7.0 * t * t - s) for s in range(15) for t in range(4 + s % 3)]


def written(folder, rows=ROWS, header="who,kind,a b,c", name="a.csv", end="\n", encoding="utf-8", by=","):
    """A table."""
    lines = [header, *(by.join(map(str, row)) for row in rows)]
    path = folder / name
    path.write_bytes((end.join(lines) + end).encode(encoding))
    return path


def rows_of(task):
    """Each sequence's own steps, by its last one: x, y."""
    found = []
    for part in (task.batch(np.arange(task.sizes[0])), task.batch(np.arange(task.sizes[1]), held_out=True)):
        for b in range(part.x.shape[1]):
            there = slice(None) if part.mask is None else part.mask[:, b]
            found.append((part.x[there, b], part.y[b] if part.y.ndim == 1 else part.y[there, b]))
    return found


def test_a_class_for_each_sequence(tmp_path):
    """A target that is the same within one; shorter ones are filled up in front with 0; numbers are standardised."""
    task = FileArrays(written(tmp_path), sequence="who", target="kind", scale="none", share=0.4)
    assert (task.readout, task.loss, task.sizes, task.output_size) == ("last", "cross_entropy", (9, 6), 3)
    expected = {}
    for s in range(15):
        own = np.array([row[2:] for row in ROWS if row[0] == f"s{s}"])
        expected[tuple(own[-1])] = np.concatenate([np.zeros((6 - len(own), 2)), own]), s % 3
    for x, y in rows_of(task):
        own, kind = expected.pop(tuple(x[-1].tolist()))
        np.testing.assert_array_equal(x, own)
        assert y == kind
    assert not expected
    scaled = FileArrays(written(tmp_path), sequence="who", target="kind", share=0.4)
    trained = np.concatenate([x[x.any(axis=1)] for x, _ in rows_of(scaled)[:9]]).astype(np.float64)
    np.testing.assert_allclose([trained.mean(axis=0), trained.std(axis=0)], [[0, 0], [1, 1]], atol=1e-6)
    assert task.notes[0] == "15 sequences of 6 steps at most; 6 are held out, drawn"
    assert task.notes[1].startswith("y has 3 classes, '0' to '2'; the largest is 33%; how often each is, alone, has")


def test_a_target_for_each_step(tmp_path):
    """Numbers that change within a sequence, masked beyond its end; and the next row where there is no target."""
    rows = [(*row, row[2] / 7) for row in ROWS]
    path = written(tmp_path, rows, "who,kind,a,b,y")
    task = FileArrays(path, sequence="who", target="y", scale="none")
    assert (task.readout, task.loss, task.output_size, task.input.size) == ("every", "mean_squared_error", 1, 3)
    for x, y in rows_of(task):
        np.testing.assert_allclose(y[:, 0], x[:, 1] / 7, rtol=1e-12)
    assert sorted(len(x) for x, _ in rows_of(task)) == sorted(4 + s % 3 for s in range(15))
    following = FileArrays(path, sequence="who", scale="none")
    for x, y in rows_of(following):
        np.testing.assert_array_equal(x[1:], y[:-1])


def test_one_series(tmp_path):
    """Cut into windows, the last of them held out; with semicolons and \\r\\n as with commas."""
    series = [(i, i % 2) for i in range(105)]
    for by, end in ((",", "\n"), (";", "\r\n"), ("\t", "\n")):
        path = written(tmp_path, series, by.join("ab"), end=end, by=by)
        task = FileArrays(path, length=10, scale="none")
        assert task.sizes == (8, 2)
        np.testing.assert_array_equal([x[:, 0] for x, _ in rows_of(task)], np.arange(100).reshape(10, 10))
        np.testing.assert_array_equal([y[:, 0] for _, y in rows_of(task)], np.arange(1, 101).reshape(10, 10))
    as_text = written(tmp_path, [(i, "ab"[i % 2]) for i in range(105)], "x,y")
    task = FileArrays(as_text, target="y", length=10)
    assert (task.labels, task.loss) == (["a", "b"], "cross_entropy")
    assert FileArrays(written(tmp_path, series, "a,b"), target="b", length=10).loss == "cross_entropy"
    assert FileArrays(path, target="b", target_is="numbers", length=10).loss == "mean_squared_error"


@pytest.mark.parametrize("kind", ["mask", "lengths"])
def test_npz(kind, tmp_path):
    """x and y as arrays are; lengths are a mask; for one class each, shorter ones are filled up in front."""
    x, lengths = RNG.standard_normal((20, 6, 2)), RNG.integers(2, 7, 20)
    mask = np.arange(6) < lengths[:, None]
    path = tmp_path / "a.npz"
    np.savez(path, x=x, y=np.arange(20) % 2, **{kind: {"mask": mask, "lengths": lengths}[kind]})
    by_end = {tuple(own[n - 1]): own[:n] for own, n in zip(x, lengths, strict=True)}
    for own, _ in rows_of(FileArrays(path, scale="none")):
        expected = by_end.pop(tuple(own[-1]))
        np.testing.assert_array_equal(own[-len(expected) :], expected)
        assert not own[: -len(expected)].any()
    assert not by_end


def test_other_data_are_other_data(tmp_path):
    """By their contents; where they lie does not matter."""
    (tmp_path / "there").mkdir()
    first = FileArrays(written(tmp_path), sequence="who", target="kind")
    assert first.data == FileArrays(written(tmp_path / "there"), sequence="who", target="kind").data
    changed = [(*ROWS[0][:3], 1.5), *ROWS[1:]]
    assert first.data != FileArrays(written(tmp_path, changed), sequence="who", target="kind").data


BY = {"sequence": "who", "target": "kind"}


@pytest.mark.parametrize(
    ("write", "options", "message"),
    [
        ({"rows": ROWS[:0], "header": ""}, BY, "is empty"),
        ({"rows": ROWS[:1]}, BY, "has 1 row below its header; expected more"),
        ({"rows": [*ROWS[:5], ("s1", 1, "nan", 2)]}, BY, "row 6, column 'a b': 'nan' is no finite number"),
        ({"rows": [*ROWS[:5], ("s1", 1, "warm", 2)]}, BY, "row 6, column 'a b': 'warm' is no finite number"),
        ({"rows": [*ROWS[:5], ("s1", 1, "", 2)]}, BY, "row 6, column 'a b': '' is no finite number"),
        ({"rows": [*ROWS[:5], ("s1", 1, 2)]}, BY, "row 6, has 3 columns; the header has 4"),
        ({"encoding": "utf-16"}, BY, "is UTF-16; save it as UTF-8"),
        ({"header": "who,kind,é,c", "encoding": "latin-1"}, BY, "is not UTF-8 text"),
        ({"rows": [*ROWS, ("s1", 1, "x" * 200_000, 2)]}, BY, "is no table: field larger than field limit"),
        ({"rows": [*ROWS, ("s1", 1, "\0", 2)]}, BY, "is NUL; expected UTF-8 text"),
        ({"header": "1,2,3,4"}, BY, "begins with '1,2,3,4'; expected a header"),
        ({"header": "who,kind,a,a"}, BY, "begins with 'who,kind,a,a'; expected a header"),
        ({}, BY | {"target": "knd"}, "target is 'knd' (did you mean 'kind'?); "),
        ({}, BY | {"length": 5}, "length is 5, but 'who' says where each sequence ends"),
        ({}, {"sequence": "who", "target_is": "classes"}, "target_is is 'classes', but there is no target"),
        ({}, {"length": 1}, "length is 1; allowed"),
        ({}, {"target": "kind"}, "row 1, column 'who': 's0' is no finite number"),
        ({}, BY | {"share": 1.0}, "share is 1.0; allowed: 0 < share < 1"),
        ({}, BY | {"scale": "all"}, "scale is 'all'; allowed: 'standard', 'none'"),
        ({"rows": [ROWS[0], ROWS[4], ROWS[1]]}, BY, "row 3: who 's0' goes on after another; sort by it"),
        ({"rows": [(f"s{s}", s, 1, 2) for s in range(9)]}, BY, "is held out, nothing is trained on; give more"),
        ({"rows": [(*row[:1], "up", *row[2:]) for row in ROWS]}, BY, "column 'kind' is 'up' throughout"),
        ({"rows": ROWS[:4]}, BY | {"target": "c"}, "has 1 sequence; expected 2 at least, one to hold out"),
        ({"name": "a.xlsx"}, BY, "the end of data's name is '.xlsx'; allowed: '.npz', '.csv'"),
        ({"name": "a.npz"}, {}, "is no .npz of plain arrays"),
        ({"name": "a.npz"}, BY, "sequence is 'who', but "),
    ],
)
def test_what_does_not_fit(write, options, message, tmp_path):
    """One line: where, what was found, what is allowed."""
    path = written(tmp_path, **write)
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        FileArrays(path, **options)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    """It is named."""
    for name in ("a.csv", "a.npz"):
        with pytest.raises(FileNotFoundError, match=f"data is {re.escape(str(tmp_path / name))}: No such file"):
            FileArrays(tmp_path / name)


X, LABELS = np.ones((6, 4, 2)), np.arange(6) % 2


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X, "y": LABELS[:5]}, "x is (6, 4, 2) and y (5,); expected (N, T, m) or (N, T), and as many y"),
        ({"x": X[:, 0, 0], "y": LABELS}, "x is (6,) and y (6,); expected"),
        ({"x": X, "y": np.array(1)}, "x is (6, 4, 2) and y (); expected"),
        ({"x": X, "y": LABELS, "lengths": np.full(6, 5)}, "lengths is int64 (6,); allowed: integers (N,), 1 to T = 4"),
        ({"x": X, "y": LABELS, "lengths": np.full(6, "4")}, "lengths is <U1 (6,); allowed"),
        (
            {"x": X, "y": LABELS, "lengths": np.full(6, 4), "mask": X[:, :, 0] > 0},
            "lengths is int64 (6,) beside a mask",
        ),
        ({"x": X, "y": LABELS, "mask": X[:, :3, 0] > 0}, "mask is bool (6, 3); expected bool (6, 4)"),
        ({"x": X, "y": LABELS, "mask": np.tile([True, False, True, True], (6, 1))}, "mask has holes or no"),
        ({"x": X, "y": LABELS, "mask": X[:, :, 0] < 0}, "mask has holes or no step"),
        ({"x": np.where(X.sum() == X, X, np.nan), "y": LABELS}, "x has an entry that is not finite, x[0, 0, 0]"),
        ({"x": X, "y": np.eye(2)[LABELS]}, "y is one-hot; give the classes"),
        ({"x": X, "y": LABELS + 1}, "y holds classes 1 to 2, none below"),
    ],
)
def test_arrays_that_do_not_fit(arrays, message, tmp_path):
    """As of arrays in memory, before anything is scaled."""
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=re.escape(message)):
        FileArrays(tmp_path / "a.npz")


def test_what_is_said_of_masked_classes(tmp_path):
    """Steps that there are not are no class 0; what stands there need not be finite."""
    mask = np.arange(4) < 1 + np.arange(6)[:, None] % 2
    x = np.where(mask[:, :, None], X, np.nan)
    np.savez(tmp_path / "a.npz", x=x, y=np.where(mask, np.arange(6)[:, None] % 3, 0), mask=mask)
    assert "the largest is 33%" in FileArrays(tmp_path / "a.npz").notes[1]
    np.savez(tmp_path / "a.npz", x=x, y=LABELS, mask=mask)
    for own, _ in rows_of(FileArrays(tmp_path / "a.npz", scale="none")):
        assert own[-1].tolist() == [1, 1]
        assert not own[:-2].any()


def test_an_npz_with_other_names(tmp_path):
    """What is missing, and what is not known."""
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2, 1)))
    with pytest.raises(ValueError, match=r"has x; y is missing"):
        FileArrays(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2, 1)), y=np.zeros(3, int), maks=np.ones((3, 2), bool))
    with pytest.raises(ValueError, match=r"has 'maks' \(did you mean 'mask'\?\)"):
        FileArrays(tmp_path / "a.npz")
