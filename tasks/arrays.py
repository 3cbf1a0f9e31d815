"""A task of one's own data in a file: .npz of arrays, or a .csv table.  docs/own-data.md.

    .npz   x and y as `ortho_ref.training.arrays` has them; mask (N, T), or lengths (N,) of sequences that are filled up
    .csv   a header; a column that names the sequence of each row, or none: the table is one series, cut into windows; a
           column with the target, or none: the next row is predicted

Numbers are standardised: less the mean, by the standard deviation of what is trained on.  Which sequences are held out
is drawn, always alike; of one series the last windows are.
"""

import codecs
import csv
import io
import zipfile
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ortho_ref.training.arrays import Arrays, readout_of
from ortho_ref.training.task import check_choice, check_integer, nearest, opened
from tasks.files import LARGEST, text_of

#: Steps of a window of one series, unless said.
LENGTH = 100
#: A target of integers is one of classes, unless said, up to so many of them.
MOST_CLASSES = 20
_SEED = 20


class Sequences(NamedTuple):
    """Sequences of a file, filled up."""

    x: np.ndarray  # (N, T, m), or tokens (N, T)
    y: np.ndarray
    mask: np.ndarray | None  # (N, T): the steps that there are; None: all
    drawn: bool  # whether those held out are drawn
    labels: list[str] | None = None  # of the classes
    names: list[str] | None = None  # of y's columns


class FileArrays(Arrays):
    """Learn y from x, of a file; docs/own-data.md.

    Parameters
    ----------
    data : Path or str
        The file, .npz or .csv.
    share : float
        How much of the sequences, or of the windows, is held out.
    sequence, target : str, optional
        .csv: the columns that name each row's sequence, and what is to be learned.
    target_is : str, optional
        .csv: classes or numbers.  Unless given a text is a class, and so are integers, up to MOST_CLASSES of them.
    length : int, optional
        .csv: steps of a window of one series; LENGTH unless given.
    scale : str
        standard, or none: numbers as they are.

    Attributes
    ----------
    labels : list of str or None
        Of the classes, where the file names them.
    names : list of str or None
        Of y's columns, likewise.
    notes : tuple of str
        What was inferred, and what the baseline is.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is not what it should be, or an option has no such value; the message has the line and the column.
    """

    name: str = "arrays"

    def __init__(
        self,
        data: Path | str,
        share: float = 0.2,
        sequence: str | None = None,
        target: str | None = None,
        target_is: str | None = None,
        length: int | None = None,
        scale: str = "standard",
    ) -> None:
        data = Path(data)
        if not 0 < share < 1:
            raise ValueError(f"share is {share}; allowed: 0 < share < 1")
        check_choice("scale", scale, ("standard", "none"))
        if target_is is not None:
            check_choice("target_is", target_is, ("classes", "numbers"))
        if length is not None:
            check_integer("length", length, least=2)
        kinds = {".npz": _of_npz, ".csv": _of_csv}
        check_choice("the end of data's name", data.suffix.lower(), kinds)
        options = {"sequence": sequence, "target": target, "target_is": target_is, "length": length}
        found = kinds[data.suffix.lower()](data, options)
        N = len(found.x)
        held_out = min(max(round(share * N), 1), N - 1)
        if N < 2:
            raise ValueError(f"{data} has {N} sequence{'' if N == 1 else 's'}; expected 2 at least, one to hold out")
        order = np.random.default_rng(_SEED).permutation(N) if found.drawn else np.arange(N)
        x, y, mask = (None if a is None else a[order] for a in (found.x, found.y, found.mask))
        assert x is not None
        assert y is not None
        _check_classes(y, N - held_out, found.labels, data)
        there = mask
        if mask is not None and readout_of(x, y) == "last":
            x, there = _in_front(x, mask)
            mask = None
        classes = None if found.labels is None else len(found.labels)
        super().__init__(x, y, held_out=held_out, mask=mask, classes=classes)
        self._mean, self._deviation = 0.0, 1.0
        if scale == "standard":
            self._x, *_ = _standardised(self._x, there, N - held_out)
            self._y, self._mean, self._deviation = _standardised(self._y, mask, N - held_out)
        self.labels, self.names = found.labels, found.names
        self.notes = (self._told_of(held_out, found.drawn), *self._told_of_y(scale))

    def in_units(self, y: np.ndarray) -> np.ndarray:
        """Numbers of y, or of what a network says, in the file's units."""
        return y.astype(np.float64) * self._deviation + self._mean

    def _told_of(self, held_out: int, drawn: bool) -> str:
        what = "sequences" if drawn else "windows"
        ways = "drawn" if drawn else "the last"
        return f"{len(self._x)} {what} of {self._x.shape[1]} steps at most; {held_out} are held out, {ways}"

    def _told_of_y(self, scale: str) -> list[str]:
        if self.loss == "mean_squared_error":
            unit = ", in standard deviations of what is trained on" if scale == "standard" else ""
            return [f"y is {self.output_size} numbers{unit}; the mean alone has a held-out loss of {self.baseline:.4g}"]
        counted = self._y if self._mask is None else self._y[self._mask]
        counts = np.bincount(counted.reshape(-1), minlength=self.output_size)
        names = self.labels or [str(i) for i in range(self.output_size)]
        shown = f"{names[0]!r} to {names[-1]!r}" if self.labels else f"0 to {self.output_size - 1}"
        most = counts.max() / counts.sum()
        return [
            f"y has {self.output_size} classes, {shown}; the largest is {most:.0%}; how often each is, alone, has a "
            f"held-out loss of {self.baseline:.4g}"
        ]


def _standardised(a: np.ndarray, mask: np.ndarray | None, cut: int) -> tuple[np.ndarray, Any, Any]:
    """Numbers less the mean, by the standard deviation, of the first `cut` sequences' steps, and these two.

    Integers are as they are.
    """
    if a.dtype.kind != "f":
        return a, 0.0, 1.0
    own = a[:cut]
    rows = own[mask[:cut]] if mask is not None and a.ndim == 3 else own.reshape(-1, a.shape[-1])
    mean, deviation = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    deviation = np.where(deviation > 0, deviation, 1)
    scaled = ((a - mean) / deviation).astype(np.float32)
    return np.where(mask[:, :, None], scaled, 0) if mask is not None and a.ndim == 3 else scaled, mean, deviation


def _in_front(x: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sequences that are filled up at the end, filled up in front, as the last step is read; and their mask."""
    there = mask[:, ::-1]
    filled = np.zeros_like(x)
    filled[there] = x[mask]
    return filled, there


def _check_classes(y: np.ndarray, cut: int, labels: list[str] | None, data: Path) -> None:
    """ValueError for a class that is held out alone."""
    if y.dtype.kind in "iu" and len(new := np.setdiff1d(y[cut:], y[:cut])):
        name = labels[new[0]] if labels else str(new[0])
        raise ValueError(f"{data}: all there is of the class {name!r} is held out, nothing is trained on; give more")


def _opened(data: Path) -> IO[bytes]:
    try:
        return open(data, "rb", opener=opened)
    except OSError as error:
        raise type(error)(f"data is {data}: {error.strerror or error}") from error


def _of_npz(data: Path, options: dict[str, Any]) -> Sequences:
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} is {value!r}, but {data} is .npz; allowed of .csv alone")
    try:
        with _opened(data) as stream, np.load(stream, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{data} is no .npz of plain arrays: {error}") from None
    known = ("x", "y", "mask", "lengths")
    if missing := [name for name in known[:2] if name not in arrays]:
        raise ValueError(f"{data} has {', '.join(arrays) or 'nothing'}; {missing[0]} is missing; allowed: {known}")
    if unknown := [name for name in arrays if name not in known]:
        raise ValueError(f"{data} has {unknown[0]!r}{nearest(unknown[0], known)}; allowed: {', '.join(known)}")
    x, y = arrays["x"], arrays["y"]
    if x.ndim < 2 or x.shape[:1] != y.shape[:1]:
        raise ValueError(f"{data}: x is {x.shape} and y {y.shape}; expected (N, T, m) or (N, T), and as many y")
    return Sequences(x, y, _mask_of(data, arrays), True)


def _mask_of(data: Path, arrays: dict[str, np.ndarray]) -> np.ndarray | None:
    """Which steps there are, of a mask or of lengths; None: all."""
    x, mask, lengths = arrays["x"], arrays.get("mask"), arrays.get("lengths")
    if lengths is not None:
        integers = lengths.dtype.kind in "iu" and lengths.shape == x.shape[:1]
        if mask is not None or not integers or ((lengths < 1) | (lengths > x.shape[1])).any():
            given = f"{lengths.dtype} {lengths.shape}{' beside a mask' if mask is not None else ''}"
            raise ValueError(f"{data}: lengths is {given}; allowed: integers (N,), 1 to T = {x.shape[1]}, without mask")
        return np.arange(x.shape[1]) < lengths[:, None]
    if mask is not None and (mask.dtype != bool or mask.shape != x.shape[:2]):
        raise ValueError(f"{data}: mask is {mask.dtype} {mask.shape}; expected bool {x.shape[:2]}")
    at_the_end = mask is None or (mask[:, 0].all() and not (mask[:, 1:] > mask[:, :-1]).any())
    if readout_of(x, arrays["y"]) == "last" and not at_the_end:
        raise ValueError(f"{data}: mask has holes or no step; allowed for one y each: filled up at the end")
    return mask


def _of_csv(data: Path, options: dict[str, Any]) -> Sequences:
    columns = _columns(data)
    sequence, target = (options[name] for name in ("sequence", "target"))
    for name in ("sequence", "target"):
        if options[name] is not None and options[name] not in columns:
            near = nearest(options[name], columns)
            raise ValueError(f"{name} is {options[name]!r}{near}; {data} has the columns {', '.join(columns)}")
    inputs = [name for name in columns if name not in (sequence, target)]
    if not inputs:
        raise ValueError(f"{data} has the columns {', '.join(columns)}; none is left for x")
    x = np.stack([_numbers(data, name, columns[name]) for name in inputs], axis=1)
    if target is None and options["target_is"] is not None:
        raise ValueError(f"target_is is {options['target_is']!r}, but there is no target")
    y, labels = (x, None) if target is None else _target(data, target, columns[target], options["target_is"])
    told = labels, inputs if target is None else [target]
    if sequence is None:
        return _windows(data, x, y, target is None, told, options["length"])
    if options["length"] is not None:
        raise ValueError(
            f"length is {options['length']}, but {sequence!r} says where each sequence ends; allowed: None"
        )
    return _sequences(data, x, y, columns[sequence], sequence, target is None, told)


def _columns(data: Path) -> dict[str, list[str]]:
    """The columns of a table, by their names."""
    with _opened(data) as stream:
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"{data} has more than {LARGEST} bytes; allowed: fewer, or .npz")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{data} is UTF-16; save it as UTF-8")
    text = text_of(content.removeprefix(codecs.BOM_UTF8), str(data))
    if not text.strip():
        raise ValueError(f"{data} is empty")
    first = text.partition("\n")[0]
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count)))
    except csv.Error as error:
        raise ValueError(f"{data} is no table: {error}") from None
    header = [name.strip() for name in rows[0]]
    if len(set(header)) < len(header) or "" in header or all(map(_is_number, header)):
        raise ValueError(f"{data} begins with {first.strip()!r}; expected a header, a name of its own for each column")
    return _by_name(data, header, [row for row in rows[1:] if row])


def _by_name(data: Path, header: list[str], rows: list[list[str]]) -> dict[str, list[str]]:
    for i, row in enumerate(rows):
        if len(row) != len(header):
            raise ValueError(f"{data}, row {i + 1}, has {len(row)} columns; the header has {len(header)}")
    if len(rows) < 2:
        raise ValueError(f"{data} has {len(rows)} row{'' if len(rows) == 1 else 's'} below its header; expected more")
    return {name: list(column) for name, column in zip(header, zip(*rows, strict=True), strict=True)}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(data: Path, name: str, column: list[str]) -> np.ndarray:
    """A column as numbers; ValueError names the first that is none, or not finite."""
    try:
        found = np.array(column).astype(np.float64)
        wrong = np.flatnonzero(~np.isfinite(found))
    except ValueError:
        wrong = np.array([i for i, text in enumerate(column) if not _is_number(text)])
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(f"{data}, row {i + 1}, column {name!r}: {column[i]!r} is no finite number")
    return found


def _target(data: Path, name: str, column: list[str], is_a: str | None) -> tuple[np.ndarray, list[str] | None]:
    """A column as classes, with their names, or as numbers (rows, 1)."""
    kinds = sorted(set(column))
    numbers = all(_is_number(text) for text in kinds)
    if is_a is None:
        few = len(kinds) <= MOST_CLASSES and all(text.lstrip("+-").isdigit() for text in kinds)
        is_a = "numbers" if numbers and not few else "classes"
    if is_a == "numbers":
        return _numbers(data, name, column)[:, None], None
    if len(kinds) < 2:
        raise ValueError(f"{data}: column {name!r} is {kinds[0]!r} throughout; expected two classes at least")
    if numbers:
        kinds.sort(key=float)
    place = {text: i for i, text in enumerate(kinds)}
    return np.array([place[text] for text in column]), kinds


def _windows(
    data: Path,
    x: np.ndarray,
    y: np.ndarray,
    following: bool,
    told: tuple[list[str] | None, list[str]],  # labels of classes, names of columns
    length: int | None,
) -> Sequences:
    """One series, cut; what is left at its end is dropped."""
    T = LENGTH if length is None else length
    if following:
        x, y = x[:-1], x[1:]
    N = len(x) // T
    if N < 2:
        raise ValueError(f"{data} has {len(x)} steps; of length {T} that is {N} windows; expected 2 at least")
    own, theirs = (a[: N * T].reshape(N, T, *a.shape[1:]) for a in (x, y))
    return Sequences(own, theirs, None, False, *told)


def _sequences(
    data: Path,
    x: np.ndarray,
    y: np.ndarray,
    names: list[str],
    column: str,
    following: bool,
    told: tuple[list[str] | None, list[str]],  # labels of classes, names of columns
) -> Sequences:
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
    once = not following and all((theirs == theirs[0]).all() for _, theirs in pieces)
    targets = np.zeros((N, *y.shape[1:]) if once else (N, T, *y.shape[1:]), y.dtype)
    for i, (own, theirs) in enumerate(pieces):
        filled[i, : len(own)] = own
        if once:
            targets[i] = theirs[0]
        else:
            targets[i, : len(theirs)] = theirs
    mask = None if (lengths == T).all() else np.arange(T) < lengths[:, None]
    return Sequences(filled, targets, mask, True, *told)
