"""A task of one's own data in a file: a table, or arrays.  docs/own-data.md.

    .csv, .parquet   a table: a column names the sequence of each row, or none does: it is one series, cut into windows;
                     a column has the target, or none has: the next row is predicted
    .npz, a folder   x and y as `ortho_ref.training.arrays` has them, and mask or lengths; the folder's x.npy, y.npy,
                     ... are mapped, not read into memory

Numbers are standardised: less the mean, by the standard deviation of what is trained on.  Held out is a file of the
same kind, or else a share: which sequences these are is drawn, always alike; of one series the last windows are.
"""

import codecs
import csv
import io
import re
import tokenize
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ortho_ref.training.arrays import Arrays, readout_of
from ortho_ref.training.task import check_choice, check_integer, nearest, opened
from tasks.files import LARGEST, text_of

#: How much is held out, unless said.
SHARE = 0.2
#: Steps of a window of one series, unless said.
LENGTH = 100
#: A target of integers is one of classes, unless said, up to so many of them.
MOST_CLASSES = 20
_SEED = 20

#: A column of a table: texts, or numbers.
Column = list[str] | np.ndarray
Columns = dict[str, Column]


class Sequences(NamedTuple):
    """Sequences of a file, filled up."""

    data: Path
    arrays: dict[str, Any]  # x and y, mask or lengths: what `Arrays` takes
    drawn: bool = True  # whether those held out are drawn
    labels: list[str] | None = None  # of the classes
    names: list[str] | None = None  # of y's columns
    columns: tuple[str, ...] = ()  # of the table
    ids: list[str] | None = None  # of the sequences, as the table has them


class FileArrays(Arrays):
    """Learn y from x, of a file; docs/own-data.md.

    data: .csv, .parquet or .npz, or a folder of .npy.  scale: standard, or none.
    share: how much of the sequences, or of the windows, is held out; SHARE unless given.
    held_out: in place of a share, a file of the same kind and columns.
    sequence, target: of a table, the columns that name each row's sequence, and what is to be learned.
    target_is: of a table, classes or numbers; unless given a text is a class, and so are up to MOST_CLASSES integers.
    length: of a table, steps of a window of one series; LENGTH unless given.

    labels, names, ids: of the classes, of y's columns, and of the held-out sequences in the order of the evaluation,
    where the file has them.  notes: what was inferred, and what the baseline is.

    OSError where a file cannot be read.  ValueError, with the line and the column, where it is not what it should be,
    or an option has no such value; and for .parquet without pyarrow.
    """

    name: str = "arrays"

    def __init__(
        self,
        data: Path | str,
        share: float | None = None,
        held_out: Path | str | None = None,
        sequence: str | None = None,
        target: str | None = None,
        target_is: str | None = None,
        length: int | None = None,
        scale: str = "standard",
    ) -> None:
        if share is not None and held_out is not None:
            raise ValueError(f"share is {share}, but held_out is {held_out}; allowed: one of them")
        if share is not None and not 0 < share < 1:
            raise ValueError(f"share is {share}; allowed: 0 < share < 1")
        check_choice("scale", scale, ("standard", "none"))
        if target_is is not None:
            check_choice("target_is", target_is, ("classes", "numbers"))
        if length is not None:
            check_integer("length", length, least=2)
        options = {"sequence": sequence, "target": target, "target_is": target_is, "length": length}
        found = _read("data", Path(data), options)
        self._file = None if held_out is None else Path(held_out)
        others: np.ndarray | dict[str, np.ndarray]
        if self._file is None:
            others = _share(found, SHARE if share is None else share)
            ids = found.ids and [found.ids[i] for i in np.sort(others)]
        else:
            others, ids = (own := _read("held_out", self._file, options, found)).arrays, own.ids
        self.ids = ids
        self.labels, self.names = found.labels, found.names
        classes = None if found.labels is None else len(found.labels)
        super().__init__(**found.arrays, held_out=others, classes=classes, scale=scale == "standard")
        if self.loss == "cross_entropy":
            self._check_classes(found.data)
        self.notes = (self._told_of(found.drawn), *self._told_of_y(scale))

    def _check_classes(self, data: Path) -> None:
        """ValueError for a class that is held out alone."""
        trained, held_out = self.counts
        if len(new := np.flatnonzero((trained == 0) & (held_out > 0))):
            name = self.labels[new[0]] if self.labels else str(new[0])
            if self._file is not None:
                raise ValueError(f"{self._file} has the class {name!r}, which {data} does not have")
            raise ValueError(
                f"{data}: all there is of the class {name!r} is held out, nothing is trained on; give more"
            )

    def _told_of(self, drawn: bool) -> str:
        what, (trained, held_out) = "sequences" if drawn else "windows", self.sizes
        T = self.parts[0].x.shape[1]
        if self._file is not None:
            same = ", the same ones" if len(set(self.data.sha256.values())) == 1 else ""
            return (
                f"{trained} {what} of {T} steps at most are trained on; {held_out} of {self._file} are held out{same}"
            )
        ways, verb = "drawn" if drawn else "the last", "is" if held_out == 1 else "are"
        return f"{trained + held_out} {what} of {T} steps at most; {held_out} {verb} held out, {ways}"

    def _told_of_y(self, scale: str) -> list[str]:
        if self.loss == "mean_squared_error":
            unit = ", in standard deviations of what is trained on" if scale == "standard" else ""
            many = "a number" if self.output_size == 1 else f"{self.output_size} numbers"
            return [f"y is {many}{unit}; the mean alone has a held-out loss of {self.baseline:.4g}"]
        counts = np.sum(self.counts, axis=0)
        names = self.labels or [str(i) for i in range(self.output_size)]
        shown = f"{names[0]!r} to {names[-1]!r}" if self.labels else f"0 to {self.output_size - 1}"
        most = counts.max() / counts.sum()
        return [
            f"y has {self.output_size} classes, {shown}; the largest is {most:.0%}; predicting how often each is gives "
            f"a held-out loss of {self.baseline:.4g}"
        ]


def _share(found: Sequences, share: float) -> np.ndarray:
    """Which sequences are held out."""
    if (N := len(np.atleast_1d(found.arrays["x"]))) < 2:
        what = f"{'sequence' if found.drawn else 'window'}{'' if N == 1 else 's'}"
        raise ValueError(f"{found.data} has {N} {what}; expected 2 at least, one to hold out")
    order = np.random.default_rng(_SEED).permutation(N) if found.drawn else np.arange(N)
    return order[-min(max(round(share * N), 1), N - 1) :]


def _kind(data: Path) -> str:
    return _FOLDER if data.is_dir() else data.suffix.lower()


def _read(argument: str, data: Path, options: dict[str, Any], like: Sequences | None = None) -> Sequences:
    """The sequences of a file; like: those of the file that it is held out beside."""
    allowed = [*_TABLES, *_ARRAYS] if like is None else [_kind(like.data)]
    if (kind := _kind(data)) not in allowed:
        raise ValueError(f"{argument} is {data}; allowed: {', '.join(allowed)}")
    if kind in _TABLES:
        return _of_table(data, _TABLES[kind](argument, data), options, like)
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} is {value!r}, but {data} is {kind}; allowed of {' and '.join(_TABLES)} alone")
    return _of_arrays(data, _ARRAYS[kind](argument, data))


def _opened(argument: str, data: Path) -> IO[bytes]:
    try:
        return open(data, "rb", opener=opened)
    except OSError as error:
        raise type(error)(f"{argument} is {data}: {error.strerror or error}") from error


#: What NumPy raises for a file that is no array.
_NO_ARRAY = (
    *(ValueError, KeyError, EOFError, ArithmeticError, SyntaxError),
    *(tokenize.TokenError, zipfile.BadZipFile),
)


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _in_npz(argument: str, data: Path) -> dict[str, np.ndarray]:
    try:
        with _opened(argument, data) as stream, np.load(stream, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except _NO_ARRAY as error:
        raise ValueError(f"{data} is no .npz of plain arrays: {_line(error)}") from None


def _in_folder(argument: str, data: Path) -> dict[str, np.ndarray]:
    """Those of x.npy, y.npy, ..., mapped."""
    found: dict[str, np.ndarray] = {}
    for path in sorted(data.glob("*.npy")):
        try:
            found[path.stem] = np.lib.format.open_memmap(path, mode="r")
        except OSError as error:
            raise type(error)(f"{argument} is {data}: {path.name}: {error.strerror or error}") from error
        except _NO_ARRAY as error:
            raise ValueError(f"{path} is no .npy of plain numbers: {_line(error)}") from None
    return found


def _of_arrays(data: Path, arrays: dict[str, np.ndarray]) -> Sequences:
    known = ("x", "y", "mask", "lengths")
    allowed = f"allowed: {', '.join(known)}"
    if missing := [name for name in known[:2] if name not in arrays]:
        raise ValueError(f"{data} has {', '.join(arrays) or 'nothing'}; {missing[0]} is missing; {allowed}")
    if unknown := [name for name in arrays if name not in known]:
        raise ValueError(f"{data} has {unknown[0]!r}{nearest(unknown[0], known)}; {allowed}")
    return Sequences(data, arrays)


def _of_table(data: Path, columns: Columns, options: dict[str, Any], like: Sequences | None) -> Sequences:
    if (count := max(map(len, columns.values()), default=0)) < 2:
        raise ValueError(f"{data} has {count} row{'' if count == 1 else 's'}; expected more")
    if like is not None:
        columns = _as_of(like, data, columns)
    sequence, target = (options[name] for name in ("sequence", "target"))
    for argument in ("sequence", "target"):
        if options[argument] is not None:
            _check_column(data, argument, options[argument], columns)
    inputs = [name for name in columns if name not in (sequence, target)]
    if not inputs:
        raise ValueError(f"{data} has the columns {', '.join(columns)}; none is left for x")
    x = np.stack([_numbers(data, name, columns[name]) for name in inputs], axis=1)
    if target is None and options["target_is"] is not None:
        raise ValueError(f"target_is is {options['target_is']!r}, but there is no target")
    if target is None:
        y, labels, names = x, None, inputs
    else:
        y, labels = _target(data, target, columns[target], options["target_is"], like)
        names = [target]
    if sequence is None:
        arrays = _windows(data, x, y, target is None, options["length"])
    elif options["length"] is not None:
        raise ValueError(
            f"length is {options['length']}, but {sequence!r} says where each sequence ends; allowed: None"
        )
    else:
        arrays = _sequences(data, x, y, _texts(columns[sequence]), sequence, target is None, like)
    ids = None if sequence is None else list(dict.fromkeys(_texts(columns[sequence])))
    return Sequences(data, arrays, sequence is not None, labels, names, tuple(columns), ids)


def _check_column(data: Path, argument: str, name: str, columns: Columns) -> None:
    """ValueError where there is no such column, or nothing stands in a row of it."""
    if name not in columns:
        raise ValueError(f"{argument} is {name!r}{nearest(name, columns)}; {data} has the columns {', '.join(columns)}")
    if "" in (texts := _texts(columns[name])):
        raise ValueError(f"{data}, row {texts.index('') + 1}, column {name!r}: it is empty; expected a value")


def _as_of(like: Sequences, data: Path, columns: Columns) -> Columns:
    """The columns of what is held out, in the order of what is trained on; ValueError unless they have its names."""
    if missing := [name for name in like.columns if name not in columns]:
        raise ValueError(f"{data} has no column {missing[0]!r}{nearest(missing[0], columns)}; {like.data} has")
    if more := [name for name in columns if name not in like.columns]:
        raise ValueError(f"{data} has a column {more[0]!r}; {like.data} has not")
    return {name: columns[name] for name in like.columns}


def _columns_of_csv(argument: str, data: Path) -> Columns:
    with _opened(argument, data) as stream:
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"{data} has more than {LARGEST} bytes; allowed: fewer, or a folder of .npy")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{data} is UTF-16; save it as UTF-8")
    text = text_of(content.removeprefix(codecs.BOM_UTF8), str(data))
    if not text.strip():
        raise ValueError(f"{data} is empty")
    first = text.partition("\n")[0]
    try:
        lines, by = io.StringIO(text, newline=""), max(",;\t", key=re.sub('"[^"]*"', "", first).count)
        found = csv.reader(lines, delimiter=by, skipinitialspace=True, strict=True)
        rows = [[cell.strip() for cell in row] for row in found]
    except csv.Error as error:
        raise ValueError(f"{data} is no table: {error}") from None
    header = rows[0]
    if len(set(header)) < len(header) or "" in header or all(map(_is_number, header)):
        raise ValueError(f"{data} begins with {first.strip()!r}; expected a header, a name of its own for each column")
    rows = [row for row in rows[1:] if row]
    for i, row in enumerate(rows):
        if len(row) != len(header):
            raise ValueError(f"{data}, row {i + 1}, has {len(row)} columns; the header has {len(header)}")
    return {name: [row[i] for row in rows] for i, name in enumerate(header)}


def _columns_of_parquet(argument: str, data: Path) -> Columns:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise ValueError(f"{argument} is {data}; to read that, pyarrow: pip install -e '.[parquet]'") from None
    with _opened(argument, data) as stream:
        try:
            table = pyarrow.parquet.ParquetFile(stream).read()
        except (pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"{data} is no .parquet: {_line(error)}") from None
    if len(names := table.column_names) > len(set(names)):
        raise ValueError(f"{data} has the columns {', '.join(names)}; expected a name of its own for each")
    return {name: _column(data, name, table.column(name)) for name in names}


def _column(data: Path, name: str, column: Any) -> Column:
    """A column of pyarrow's: numbers, or texts."""
    from pyarrow import types

    if types.is_nested(column.type) or any(is_(column.type) for is_ in (types.is_binary, types.is_large_binary)):
        raise ValueError(f"{data}: column {name!r} is of {column.type}; allowed: numbers, texts")
    if column.null_count:
        i = column.is_null().to_pylist().index(True)
        raise ValueError(f"{data}, row {i + 1}, column {name!r}: it is null; expected a value")
    if types.is_integer(column.type) or types.is_floating(column.type):
        return column.to_numpy()
    return list(map(str, column.to_pylist()))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # which Python reads as its own sources': 1_2 is 12


def _texts(column: Column) -> list[str]:
    return column if isinstance(column, list) else list(map(str, column.tolist()))


def _numbers(data: Path, name: str, column: Column) -> np.ndarray:
    """A column as numbers; ValueError names the first that is none, or not finite."""
    texts = isinstance(column, list)
    found = np.array([float(own) if _is_number(own) else np.nan for own in column] if texts else column, np.float64)
    if len(wrong := np.flatnonzero(~np.isfinite(found))):
        i = int(wrong[0])
        how = "; name a column of texts by --sequence or --target, or remove it" if texts else ""
        raise ValueError(f"{data}, row {i + 1}, column {name!r}: {str(column[i])!r} is no finite number{how}")
    return found


def _target(
    data: Path, name: str, column: Column, is_a: str | None, like: Sequences | None
) -> tuple[np.ndarray, list[str] | None]:
    """A column as classes, with their names, or as numbers (rows, 1)."""
    texts = _texts(column)
    kinds = sorted(set(texts))
    numbers = all(map(_is_number, kinds))
    if like is not None:
        is_a = "classes" if like.labels else "numbers"
    elif is_a is None:
        few = len(kinds) <= MOST_CLASSES and all(text.lstrip("+-").isdigit() for text in kinds)
        is_a = "numbers" if numbers and not few else "classes"
    if is_a == "numbers":
        return _numbers(data, name, column)[:, None], None
    if like is not None and like.labels:
        if new := [text for text in kinds if text not in like.labels]:
            raise ValueError(f"{data}: column {name!r} has the class {new[0]!r}, which {like.data} does not have")
        kinds = like.labels
    elif len(kinds) < 2:
        raise ValueError(f"{data}: column {name!r} is {kinds[0]!r} throughout; expected two classes at least")
    elif numbers:
        kinds.sort(key=float)
    place = {text: i for i, text in enumerate(kinds)}
    return np.array([place[text] for text in texts]), kinds


def _windows(data: Path, x: np.ndarray, y: np.ndarray, following: bool, length: int | None) -> dict[str, np.ndarray]:
    """One series, cut; what is left at its end is dropped."""
    T = LENGTH if length is None else length
    if following:
        x, y = x[:-1], x[1:]
    N = len(x) // T
    if N < 1:
        raise ValueError(f"{data} has {len(x)} steps; a window has {T}; expected more, or a smaller length")
    return {name: a[: N * T].reshape(N, T, *a.shape[1:]) for name, a in (("x", x), ("y", y))}


def _sequences(
    data: Path, x: np.ndarray, y: np.ndarray, names: list[str], column: str, following: bool, like: Sequences | None
) -> dict[str, np.ndarray]:
    """Those that a column names, in the order of their first rows; rows of one stand together."""
    begins = [i for i in range(len(names)) if i == 0 or names[i] != names[i - 1]]
    seen: set[str] = set()
    for i in begins:
        if names[i] in seen:
            raise ValueError(f"{data}, row {i + 1}: {column} {names[i]!r} goes on after another; sort by it")
        seen.add(names[i])
    ends = [*begins[1:], len(names)]
    pieces = [(x[a : b - following], y[a + following : b]) for a, b in zip(begins, ends, strict=True)]
    lengths = np.array([len(own) for own, _ in pieces])
    if not lengths.all():
        alone = names[begins[int(lengths.argmin())]]
        raise ValueError(f"{data}: {column} {alone!r} has one row; expected 2 at least, to predict the next")
    N, T = len(pieces), lengths.max()
    filled = np.zeros((N, T, x.shape[1]))
    changing = [i for i, (_, theirs) in enumerate(pieces) if following or (theirs != theirs[0]).any()]
    once = not changing
    if like is not None and (once := readout_of(like.arrays["x"], like.arrays["y"]) == "last") and changing:
        alone = names[begins[changing[0]]]
        raise ValueError(f"{data}: the target changes within {column} {alone!r}; in {like.data} it does so in none")
    targets = np.zeros((N, *y.shape[1:]) if once else (N, T, *y.shape[1:]), y.dtype)
    for i, (own, theirs) in enumerate(pieces):
        filled[i, : len(own)] = own
        if once:
            targets[i] = theirs[0]
        else:
            targets[i, : len(theirs)] = theirs
    arrays = {"x": filled, "y": targets}
    return arrays if (lengths == T).all() else arrays | {"lengths": lengths}


_FOLDER = "a folder of .npy"
#: What reads a file, by the end of its name.
_TABLES: dict[str, Callable[[str, Path], Columns]] = {".csv": _columns_of_csv, ".parquet": _columns_of_parquet}
_ARRAYS: dict[str, Callable[[str, Path], dict[str, np.ndarray]]] = {".npz": _in_npz, _FOLDER: _in_folder}
