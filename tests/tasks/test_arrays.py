"""A task of one's own data in a file."""

import itertools
import re
import sys

import numpy as np
import pytest

from ortho_ref.training import arrays as in_memory
from scripts.maintain.timing.peak import traced
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
    assert task.notes[1].startswith("y has 3 classes, '0' to '2'; the largest is 33%; predicting how often each")


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


def test_blanks_around_what_a_cell_holds(tmp_path):
    """They are none of it, outside quotes or within."""
    bare = FileArrays(written(tmp_path), **BY)
    for by, end in ((", ", "\n"), (" ;  ", " \r\n")):
        task = FileArrays(written(tmp_path, header=by.join(("who", "kind", "a b", "c")), by=by, end=end), **BY)
        assert (task.data, task.labels, task.ids) == (bare.data, bare.labels, bare.ids)
    quoted = [(f'"{who}"', f' "k, {kind} "', *others) for who, kind, *others in ROWS]
    assert FileArrays(written(tmp_path, quoted), **BY).labels == ["k, 0", "k, 1", "k, 2"]
    head = 'who;kind;"time, s";"a, b, c, m"'  # what stands in quotes does not say what stands between columns
    assert FileArrays(written(tmp_path, header=head, by=";"), **BY).data == bare.data
    parts = [(who, f"{kind}_1", *others) for who, kind, *others in ROWS]  # which are no numbers
    assert FileArrays(written(tmp_path, parts), **BY).labels == ["0_1", "1_1", "2_1"]


def test_one_series(tmp_path):
    """Cut into windows, the last of them held out; with semicolons and \\r\\n as with commas."""
    series = [(i, i % 2) for i in range(105)]
    for by, end in ((",", "\n"), (";", "\r\n"), ("\t", "\n")):
        path = written(tmp_path, series, by.join("ab"), end=end, by=by)
        task = FileArrays(path, length=10, scale="none")
        assert task.sizes == (8, 2)
        np.testing.assert_array_equal([x[:, 0] for x, _ in rows_of(task)], np.arange(100).reshape(10, 10))
        np.testing.assert_array_equal([y[:, 0] for _, y in rows_of(task)], np.arange(1, 101).reshape(10, 10))
    one = FileArrays(written(tmp_path, [(i,) for i in range(50)], "a"), length=10)
    assert one.notes[0] == "4 windows of 10 steps at most; 1 is held out, the last"
    assert one.notes[1].startswith("y is a number, in standard deviations of what is trained on; the mean alone has ")
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
OTHERS = [(f"t{s}", s % 2, 300 + 10 * t + s, 7.0 * t - s) for s in range(4) for t in range(3 + 2 * s)]


def test_a_file_that_is_held_out(tmp_path):
    """In place of a share: columns by their names, in any order; numbers by the mean and deviation of the other file;
    classes by the other file's; its sequences may be longer."""
    there = written(tmp_path, [(c, who, ab, kind) for who, kind, ab, c in OTHERS], "c,who,a b,kind", "b.csv")
    task = FileArrays(written(tmp_path), held_out=there, **BY)
    assert (task.sizes, task.labels) == ((15, 4), ["0", "1", "2"])
    assert task.notes[0] == f"15 sequences of 6 steps at most are trained on; 4 of {there} are held out"
    numbers = np.array([row[2:] for row in ROWS])
    for (x, y), s in zip(rows_of(task)[15:], range(4), strict=True):
        own = (np.array([row[2:] for row in OTHERS if row[0] == f"t{s}"]) - numbers.mean(axis=0)) / numbers.std(axis=0)
        np.testing.assert_allclose(x[-len(own) :], own, rtol=1e-5, atol=1e-6)
        assert not x[: -len(own)].any()
        assert y == s % 2


def test_a_series_that_is_held_out(tmp_path):
    """Windows of it, one at least; each row's target."""
    path, there = (written(tmp_path, [(i, 2 * i) for i in range(k)], "a,y", f"{k}.csv") for k in (10, 21))
    task = FileArrays(path, held_out=there, target="y", target_is="numbers", length=10)
    assert task.sizes == (1, 2)
    np.testing.assert_allclose(task.in_units(rows_of(task)[2][1])[:, 0], 2 * np.arange(10, 20), rtol=1e-6)


def test_other_data_held_out_are_other_data(tmp_path):
    """By the contents of that file alone."""
    path, there = written(tmp_path), written(tmp_path, OTHERS, name="b.csv")
    first = FileArrays(path, held_out=there, **BY).data.sha256
    written(tmp_path, [*OTHERS[:-1], (*OTHERS[-1][:3], 1.5)], name="b.csv")
    second = FileArrays(path, held_out=there, **BY).data.sha256
    assert [first[name] == second[name] for name in ("trained on", "held out")] == [True, False]


@pytest.mark.parametrize(
    ("write", "options", "message"),
    [
        ({"header": "who,kind,a b,d"}, BY, "b.csv has no column 'c'; "),
        ({"header": "who,kind,a b,c,d", "rows": [(*row, 1) for row in OTHERS]}, BY, "b.csv has a column 'd'; "),
        ({"rows": [*OTHERS, ("t5", 7, 1, 2)]}, BY, "b.csv: column 'kind' has the class '7', which "),
        ({"rows": [*OTHERS, ("t3", 0, 1, 2)]}, BY, "b.csv: the target changes within who 't3'; in "),
        ({}, BY | {"share": 0.5}, "share is 0.5, but held_out is "),
        ({"name": "b.npz"}, BY, "b.npz; allowed: .csv"),
    ],
)
def test_what_is_held_out_and_does_not_fit(write, options, message, tmp_path):
    """One line that names the file, and what the other has."""
    there = written(tmp_path, **{"rows": OTHERS, "name": "b.csv"} | write)
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        FileArrays(written(tmp_path), held_out=there, **options)
    assert "\n" not in str(error.value)


def test_a_series_too_short_to_hold_out(tmp_path):
    """No window of it."""
    path, there = (written(tmp_path, [(i, 2 * i) for i in range(k)], "a,y", f"{k}.csv") for k in (20, 9))
    with pytest.raises(ValueError, match=r"9.csv has 9 steps; a window has 10; expected more, or a smaller length"):
        FileArrays(path, held_out=there, target="y", length=10)
    with pytest.raises(ValueError, match=r"20.csv has 1 window; expected 2 at least, one to hold out"):
        FileArrays(path, length=15)


@pytest.mark.parametrize(
    ("write", "options", "message"),
    [
        ({"rows": ROWS[:0], "header": ""}, BY, "is empty"),
        ({"rows": ROWS[:1]}, BY, "has 1 row; expected more"),
        ({"rows": [*ROWS[:5], ("s1", 1, "nan", 2)]}, BY, "row 6, column 'a b': 'nan' is no finite number"),
        ({"rows": [*ROWS[:5], ("s1", 1, "warm", 2)]}, BY, "row 6, column 'a b': 'warm' is no finite number"),
        ({"rows": [*ROWS[:5], ("s1", 1, "1_0", 2)]}, BY, "row 6, column 'a b': '1_0' is no finite number"),
        ({"rows": [*ROWS[:5], ("s1", " ", 1, 2)]}, BY, "row 6, column 'kind': it is empty; expected a value"),
        ({"rows": [*ROWS[:5], ("", 1, 1, 2)]}, BY, "row 6, column 'who': it is empty; expected a value"),
        ({"rows": [*ROWS[:5], ("s1", 1, 1, '"2'), *ROWS[6:]]}, BY, "is no table: unexpected end of data"),
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
        ({"name": "a.xlsx"}, BY, "a.xlsx; allowed: .csv, .parquet, .npz, a folder of .npy"),
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


def test_arrays_that_do_not_fit(tmp_path):
    """As of arrays in memory, before anything is scaled."""
    for arrays, message in (
        ({"x": X, "y": LABELS[:5]}, "y has 5 sequences; x has 6"),
        ({"x": np.ones(()), "y": LABELS}, "a.npz has 1 sequence; expected 2 at least, one to hold out"),
        ({"x": np.where(X.sum() == X, X, np.nan), "y": LABELS}, "x has an entry that is not finite, x[0, 0, 0]"),
    ):
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


def folder_of(place, **arrays):
    """A folder of .npy."""
    place.mkdir(exist_ok=True)
    for name, value in arrays.items():
        np.save(place / f"{name}.npy", value)
    return place


KINDS = {
    "classes": {"x": RNG.standard_normal((20, 6, 2)), "y": np.arange(20) % 3},
    "lengths": {"x": RNG.standard_normal((20, 6, 2)), "y": np.arange(20) % 2, "lengths": RNG.integers(2, 7, 20)},
    "mask": {
        "x": RNG.standard_normal((20, 6, 2)),
        "y": RNG.standard_normal((20, 6, 1)),
        "mask": RNG.random((20, 6)) < 0.8,
    },
    "tokens": {"x": RNG.integers(0, 5, (20, 6)), "y": RNG.integers(0, 5, (20, 6)), "lengths": RNG.integers(2, 7, 20)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder(kind, tmp_path, monkeypatch):
    """To the bit what .npz is; mapped as long as it is used, and read in pieces, which changes nothing but rounding."""
    KINDS["mask"]["mask"][:, 0] = True
    np.savez(tmp_path / "a.npz", **KINDS[kind])
    place = folder_of(tmp_path / "a", **KINDS[kind])
    whole, mapped = FileArrays(tmp_path / "a.npz"), FileArrays(place)
    assert all(isinstance(own, np.memmap) for part in mapped.parts for own in part[:3] if own is not None)
    assert mapped.data == whole.data
    assert mapped.notes == whole.notes
    for ours, theirs in zip(rows_of(mapped), rows_of(whole), strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])
    monkeypatch.setattr(in_memory, "PIECE", 100)
    pieces = FileArrays(place)
    assert pieces.data == whole.data
    assert pieces.baseline == pytest.approx(whole.baseline, rel=1e-12)
    for ours, theirs in zip(rows_of(pieces), rows_of(whole), strict=True):
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6, atol=1e-7)


def test_a_folder_that_is_held_out(tmp_path):
    """Another folder, with longer sequences."""
    place = folder_of(tmp_path / "a", **KINDS["classes"])
    there = folder_of(tmp_path / "b", x=np.ones((3, 9, 2)), y=np.arange(3))
    task = FileArrays(place, held_out=there)
    assert task.sizes == (20, 3)
    assert next(iter(task.evaluation())).x.shape == (9, 3, 2)


def test_a_folder_is_not_read_into_memory(tmp_path, monkeypatch):
    """What NumPy asks for, all in all, is a quarter of the file at most, through checks, scales, hash, baseline and
    batches; a copy of the file would be more."""
    monkeypatch.setattr(in_memory, "PIECE", 1 << 18)
    place = folder_of(tmp_path / "a", x=np.ones((1000, 64, 64), "f4"), y=np.arange(1000) % 3)
    size = (place / "x.npy").stat().st_size

    def used():
        task = FileArrays(place)
        assert task.data.sha256
        for _ in itertools.islice(task.batches(np.random.default_rng(0), 10), 100):
            pass

    assert traced(used) < size / 4
    assert traced(lambda: np.load(place / "x.npy")) > size / 2


@pytest.mark.skipif(sys.platform != "linux", reason="the system says what is resident in /proc")
def test_no_page_of_a_folder_stays_in_memory(tmp_path):
    """Pages that were read count as the process's memory until they are let go."""
    place = folder_of(tmp_path / "a", x=np.ones((100, 64, 64), "f4"), y=np.arange(100) % 3)

    def resident():
        with open("/proc/self/smaps") as lines:
            after = itertools.dropwhile(lambda line: str(place / "x.npy") not in line, lines)
            return int(next(line for line in after if line.startswith("Rss:")).split()[1])

    task = FileArrays(place)
    task.batch(np.arange(5))
    assert resident() == 0
    assert task.parts[0].x[50].sum() == 64 * 64
    assert resident() > 0


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "a has x; y is missing; allowed: "),
        ({}, "a has nothing; x is missing"),
        ({"x": X, "y": LABELS, "maks": X}, "a has 'maks' (did you mean 'mask'?); allowed: x, y, mask, lengths"),
        (
            {"x": X, "y": np.array([None] * 6)},
            "y.npy is no .npy of plain numbers: Array can't be memory-mapped: Python",
        ),
        ({"x": X[:0], "y": LABELS[:0]}, "a has 0 sequences; expected 2 at least"),
        ({"x": np.where(np.arange(2) < 1, X, np.nan), "y": LABELS}, "x has an entry that is not finite, x[0, 0, 1]"),
    ],
)
def test_a_folder_that_does_not_fit(arrays, message, tmp_path):
    """One line: what is missing, or is not what it should be."""
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        FileArrays(folder_of(tmp_path / "a", **arrays))
    assert "\n" not in str(error.value)


#: A header that is too long: NumPy says so in two lines.
TWO_LINES = b"\x93NUMPY\x01\x00\x30\x75" + b" " * 30_000


@pytest.mark.parametrize(
    "content", [b"", b"no array", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8',(\n", b"\x93NUMPY\x09\x00", TWO_LINES]
)
def test_a_damaged_array_in_a_folder(content, tmp_path):
    """It is named."""
    (folder_of(tmp_path / "a", x=X) / "y.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"y.npy is no .npy of plain numbers: ") as error:
        FileArrays(tmp_path / "a")
    assert "\n" not in str(error.value)


def test_arrays_that_are_held_out_and_do_not_fit(tmp_path):
    """Of another width, of a class that the others do not have, of a table's options."""
    path, there = tmp_path / "a.npz", tmp_path / "b.npz"
    np.savez(path, x=X, y=LABELS)
    for arrays, message in (
        (
            {"x": X[:, :, :1], "y": LABELS},
            "held_out's x is float64 (6, 4, 1); expected the kind and columns of float64",
        ),
        ({"x": X, "y": LABELS * 2}, f"{there} has the class '2', which {path} does not have"),
        ({"x": X[:0], "y": LABELS[:0]}, "held_out's x has shape (0, 4, 2); expected entries"),
        ({"x": X, "y": X[:, 0]}, "held_out's y is float64; expected integer classes for cross_entropy"),
    ):
        np.savez(there, **arrays)
        with pytest.raises((ValueError, TypeError), match=re.escape(message)):
            FileArrays(path, held_out=there)


def parquet(path, table):
    """A table of pyarrow's, of columns by name."""
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(table), path)
    return path


def test_parquet(tmp_path):
    """What a .csv with the same columns is, to the bit."""
    columns = dict(zip(("who", "kind", "a b", "c"), map(list, zip(*ROWS, strict=True)), strict=True))
    path, table = parquet(tmp_path / "a.parquet", columns), written(tmp_path)
    for options in (BY, {"sequence": "who"}, {"sequence": "who", "target": "c"}):
        ours, theirs = FileArrays(path, **options), FileArrays(table, **options)
        assert (ours.data, ours.labels, ours.names) == (theirs.data, theirs.labels, theirs.names)
    columns["kind"] = [f"k{kind}" for kind in columns["kind"]]
    assert FileArrays(parquet(path, columns), held_out=path, **BY).labels == ["k0", "k1", "k2"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": [[1.0], [2.0]], "y": [1, 2]}, "column 'a' is of list<"),
        ({"a": [{"b": 1}, {"b": 2}], "y": [1, 2]}, "column 'a' is of struct<"),
        ({"a": [1.0, 2.0], "y": [b"a", b"b"]}, "column 'y' is of binary; allowed: numbers, texts"),
        ({"a": [1.0, None], "y": [1, 2]}, "row 2, column 'a': it is null; expected a value"),
        ({"a": [1.0, 2.0], "y": [None, "b"]}, "row 1, column 'y': it is null; expected a value"),
        ({"a": [1.0, float("nan")], "y": [1, 2]}, "row 2, column 'a': 'nan' is no finite number"),
        ({"a": ["warm", "1"], "y": [1, 2]}, "row 1, column 'a': 'warm' is no finite number"),
        ({"a": [1.0], "y": [1]}, "has 1 row; expected more"),
        ({}, "has 0 rows; expected more"),
    ],
)
def test_a_parquet_that_does_not_fit(table, message, tmp_path):
    """One line: the row and the column."""
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        FileArrays(parquet(tmp_path / "a.parquet", table), target="y", length=2)
    assert "\n" not in str(error.value)


def test_a_parquet_that_is_none(tmp_path):
    """It is named; so is one that is not there."""
    pytest.importorskip("pyarrow")
    for content in (b"", b"who,kind\n1,2\n", b"PAR1" + bytes(99) + b"PAR1"):
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(ValueError, match=r"a.parquet is no .parquet: ") as error:
            FileArrays(tmp_path / "a.parquet")
        assert "\n" not in str(error.value)
    with pytest.raises(FileNotFoundError, match=r"data is .*b.parquet: No such file"):
        FileArrays(tmp_path / "b.parquet")


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    """How to get it."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"a.parquet; to read that, pyarrow: pip install -e '.\[parquet\]'$"):
        FileArrays(tmp_path / "a.parquet")
