"""A task of arrays that one has: sequences and what they should give, some of them held out.  docs/own-data.md.

Sequences are the first axis, steps the second: x (N, T, m) of numbers, or (N, T) of tokens.
    readout "last"   y (N,) of classes, or (N, q) of numbers: what is read off at the end
    readout "every"  y (N, T) or (N, T, q): what is read off at every step
Sequences of different lengths are filled up to T, at the end, with a mask (N, T) that is False there, or lengths (N,).
For readout "last", which reads the last step, a batch has them filled up in front.
"""

import hashlib
import math
import mmap
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.backend import library_of
from ortho_ref.boundary import check_indices, check_switch
from ortho_ref.training.examples import Examples, baseline_of_counts
from ortho_ref.training.task import Batch, Named, Tokens, Vectors, check_choice, check_integer, kind_of

LOSSES = {"cross_entropy": "accuracy", "binary_cross_entropy": "binary_accuracy", "mean_squared_error": "within_0.04"}


#: Bytes of an array that are read at once, where all of it is looked at.
PIECE = 1 << 24


class Part(NamedTuple):
    """The sequences that are trained on, or those held out, as they were given: arrays, and which of their rows."""

    x: np.ndarray
    y: np.ndarray
    steps: np.ndarray | None  # bool (N, T): which count; integers (N,): how many there are; None: all
    rows: np.ndarray  # ascending
    of: str = ""  # whose arrays, for errors


class Arrays(Examples):
    """Learn y from x.

    Arrays stay as they are given: memory-mapped ones (`numpy.load(file, mmap_mode="r")`) are read a batch, or PIECE
    bytes, at a time.

    Parameters
    ----------
    x : ndarray, (N, T, m), or integer tokens (N, T)
        The sequences.  What a mask leaves out is read too, up to the last step that counts; it need not be finite,
        and is 0 then.
    y : ndarray
        What they should give, as above; integer classes from 0, or numbers for mean_squared_error.
    held_out : int, ndarray of integers, or mapping
        How many of them, the last ones, are held out; which; or others, that are given as x and y, and mask or lengths.
    loss : str, optional
        cross_entropy, binary_cross_entropy or mean_squared_error; unless given the first for integers, the last for
        numbers.
    readout : str, optional
        every or last; unless given every where y has as many steps as x.
    classes : int, optional
        Of cross_entropy; one more than the largest in y unless given.  It has to be given where y has no class 0.
    vocabulary : int, optional
        Kinds of tokens; one more than the largest in x unless given.
    mask : ndarray, (N, T), optional
        bool: which steps count.  For readout last all but those at the end: a batch has them in front.
    lengths : ndarray, (N,), optional
        Integers, in place of a mask: how many steps there are, from the first.
    scale : bool
        Whether numbers are standardised: less the mean, by the standard deviation of what is trained on; of x all
        that is read, of y what counts.
    name : str
        What the task is called.

    Attributes
    ----------
    parts : tuple of Part
        What is trained on, and what is held out.

    Raises
    ------
    ValueError
        Shapes that do not fit, numbers that are not finite, an option that has no such value; a y that is one-hot, or
        has no class 0, where it is not said what is meant.
    TypeError
        What is no array of numbers.
    """

    loss: str
    metric: str
    readout: str
    parts: tuple[Part, Part]

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        *,
        held_out: int | np.ndarray | Mapping[str, np.ndarray],
        loss: str | None = None,
        readout: str | None = None,
        classes: int | None = None,
        vocabulary: int | None = None,
        mask: np.ndarray | None = None,
        lengths: np.ndarray | None = None,
        scale: bool = False,
        name: str = "arrays",
    ) -> None:
        x, y, self.name = _array("x", x), _array("y", y), name
        integers = y.dtype.kind in "iu"
        self.loss = loss or ("cross_entropy" if integers else "mean_squared_error")
        check_choice("loss", self.loss, LOSSES)
        self.metric = LOSSES[self.loss]
        self.readout = readout or readout_of(x, y)
        check_choice("readout", self.readout, ("every", "last"))
        own = self._part("", x, y, mask, lengths)
        if isinstance(held_out, Mapping):
            self.parts = own, self._others(own, held_out)
        else:
            rows = _rows(held_out, len(x))
            self.parts = own._replace(rows=np.setdiff1d(own.rows, rows)), own._replace(rows=rows)
        token, kind = (self._range(name) for name in ("x", "y"))
        if loss is None and not integers and all(_is_one_hot(values) for values in self._all("y")):
            raise ValueError(
                "y is one-hot; give the classes, y.argmax(axis=-1), or loss='mean_squared_error' where they are numbers"
            )
        self.input = self._input(vocabulary, *token)
        self.output_size = self._width(classes, *kind)
        check_switch("scale", scale)
        self._scale = {}
        if scale:
            for name in ("x", "y"):
                if getattr(own, name).dtype.kind == "f":
                    mean, variance = self._moments(self.parts[0], name)
                    self._scale[name] = mean, np.where(variance > 0, np.sqrt(variance), 1)

    def _part(
        self, of: str, x: np.ndarray, y: np.ndarray, mask: np.ndarray | None = None, lengths: np.ndarray | None = None
    ) -> Part:
        """All sequences of some arrays; ValueError and TypeError as above, in which the arrays are `of` somebody."""
        N, integers = len(x), y.dtype.kind in "iu"
        if x.ndim != (3 if x.dtype.kind == "f" else 2):
            expected = "(N, T, m) of floating-point numbers or (N, T) of integers"
            raise ValueError(f"{of}x has shape {x.shape} of {x.dtype}; expected {expected}")
        if len(y) != N:
            raise ValueError(f"{of}y has {len(y)} sequences; {of}x has {N}")
        axes = (2 if self.readout == "every" else 1) + (not integers)
        if y.ndim != axes or (self.readout == "every" and y.shape[1] != x.shape[1]):
            own = "(N, T" if self.readout == "every" else "(N"
            own += (",)" if own == "(N" else ")") if integers else ", q)"
            how = "" if integers else "; for numbers give y[:, None]"
            how += "" if integers or self.loss == "mean_squared_error" else ", for classes y.astype(int)"
            raise ValueError(f"{of}y has shape {y.shape}; expected {own} for readout {self.readout!r}{how}")
        if integers == (self.loss == "mean_squared_error"):
            expected = "numbers" if integers else "integer classes"
            raise TypeError(f"{of}y is {y.dtype}; expected {expected} for {self.loss}")
        steps = self._checked(of, mask, x.shape[:2]) if lengths is None else _lengths(of, lengths, mask, x.shape)
        return Part(x, y, steps, np.arange(N), of)

    def _checked(self, of: str, given: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray | None:
        """The mask."""
        if given is None:
            return None
        _check_plain(f"{of}mask", given)
        try:
            mask = given if isinstance(given, np.ndarray) else np.asarray(given)
        except ValueError:
            raise ValueError(f"{of}mask has rows of several lengths; expected bool {shape}") from None
        if mask.dtype != bool or mask.shape != shape:
            raise ValueError(f"{of}mask is {mask.dtype} {mask.shape}; expected bool {shape}")
        for rows in _pieces(mask, np.arange(len(mask))):
            own = _taken(mask, rows)
            if not (there := own.any(axis=1)).all():
                raise ValueError(f"{of}mask leaves no step of sequence {rows[np.argmin(there)]}")
            if self.readout == "last" and (own[:, 1:] > own[:, :-1]).any():
                raise ValueError(
                    f"{of}mask has holes; allowed for readout 'last': sequences that are filled up at the end"
                )
        return mask

    def _others(self, own: Part, given: Mapping[str, np.ndarray]) -> Part:
        """Sequences of other arrays, that are held out."""
        for name in given:
            check_choice("a key of held_out", name, ("x", "y", "mask", "lengths"))
        for name in ("x", "y"):
            if name not in given:
                raise ValueError(f"held_out has {', '.join(given) or 'nothing'}; {name} is missing")
            _array(f"held_out's {name}", given[name])
        part = self._part("held_out's ", **given)
        for name in ("x", "y"):
            theirs, ours = getattr(part, name), getattr(own, name)
            if theirs.ndim != ours.ndim or (ours.dtype.kind == "f" and theirs.shape[-1] != ours.shape[-1]):
                of = f"{ours.dtype} {ours.shape}"
                raise ValueError(
                    f"held_out's {name} is {theirs.dtype} {theirs.shape}; expected the kind and columns of {of}"
                )
        return part

    def _input(self, vocabulary: int | None, low: Any, high: Any) -> Tokens | Vectors:
        x = self.parts[0].x
        if x.ndim == 3:
            if vocabulary is not None:
                raise ValueError(f"vocabulary is {vocabulary}, but x is of {x.dtype}, not of tokens")
            return Vectors(x.shape[2])
        own = int(high) + 1 if vocabulary is None else vocabulary
        check_integer("vocabulary", own)
        check_indices("x", "token", np.array([low, high]), own)
        return Tokens(own)

    def _width(self, classes: int | None, low: Any, high: Any) -> int:
        if classes is not None and self.loss != "cross_entropy":
            raise ValueError(f"classes is {classes}, but loss is {self.loss!r}; allowed: None")
        if self.loss == "mean_squared_error":
            return self.parts[0].y.shape[-1]
        own = 2 if self.loss == "binary_cross_entropy" else (int(high) + 1 if classes is None else classes)
        if classes is None and own < 2:
            what = "0 and above" if low < 0 else "two classes or more; or say how many there are, as classes=2"
            raise ValueError(f"y holds class {low}{' alone' if low == 0 else ''}; allowed: {what}")
        if classes is None and self.loss == "cross_entropy" and low > 0:
            raise ValueError(
                f"y holds classes {low} to {own - 1}, none below; give y - {low}, or classes={own} where 0 is one"
            )
        check_integer("classes", own, least=2)
        check_indices("y", "class", np.array([low, high]), own)
        return 1 if self.loss == "binary_cross_entropy" else own

    @property
    def sizes_of_network(self) -> dict[str, Any]:
        """What `models.network` has to know of the task: its sizes, readout and loss."""
        sizes = {"input_size": self.input.size, "output_size": self.output_size}
        return sizes | {"readout": self.readout, "loss": self.loss}

    @property
    def sizes(self) -> tuple[int, int]:
        """Sequences that are trained on, and held out."""
        trained, held_out = self.parts
        return len(trained.rows), len(held_out.rows)

    @property
    def chunk(self) -> int:
        """Held-out sequences in a batch: 500, or about PIECE bytes of x."""
        return min(500, _rows_at_once(self.parts[1].x))

    @cached_property
    def data(self) -> Named:
        """Which arrays these are, by their contents: a run goes on with its own alone."""

        def sha256(part: Part) -> str:
            found = hashlib.sha256()
            for name in ("x", "y", "steps"):
                if (own := getattr(part, name)) is not None:
                    found.update(f"{own.dtype.str} {(len(part.rows), *own.shape[1:])}\n".encode())
                    for values, _ in self._read_all(part, name):
                        found.update(values.reshape(-1).view(np.uint8).data)
            return found.hexdigest()

        parts = zip(("trained on", "held out"), self.parts, strict=True)
        return Named(self.name, None, {name: sha256(part) for name, part in parts})

    @cached_property
    def counts(self) -> tuple[np.ndarray, ...]:
        """How often each class is, (classes,): of what is trained on, and of what is held out."""
        K = max(self.output_size, 2)

        def of(part: Part) -> np.ndarray:
            return np.sum([np.bincount(_counted(*own), minlength=K) for own in self._read_all(part, "y")], axis=0)

        return tuple(map(of, self.parts))

    @cached_property
    def baseline(self) -> float:
        """The held-out loss of a constant: how often each class is, or the mean; of the sequences trained on."""
        if self.loss != "mean_squared_error":
            return baseline_of_counts(*self.counts)
        (mean, _), (own, variance) = (self._moments(part, "y") for part in self.parts)
        _, deviation = self._scale.get("y", (0.0, 1.0))
        return float(((variance + (own - mean) ** 2) / deviation**2).mean())

    def batch(self, chosen: np.ndarray, held_out: bool = False) -> Batch:
        """The batch of some sequences (B,): x (T, B, m) or (T, B); y (B,) or (B, q), with T in front for every step."""
        part = self.parts[held_out]
        (x, there), (y, steps) = (self._scaled(name, *self._read(part, name, part.rows[chosen])) for name in ("x", "y"))
        if self.readout == "every":
            y = y.swapaxes(0, 1)
        elif there is not None:
            x = _in_front(x, there)
        return Batch(_contiguous(x.swapaxes(0, 1)), _contiguous(y), None if steps is None else _contiguous(steps.T))

    def in_units(self, y: np.ndarray) -> np.ndarray:
        """Numbers of a batch's y, or of what a network says of it, as they were before they were scaled."""
        mean, deviation = self._scale.get("y", (0.0, 1.0))
        return y.astype(np.float64) * deviation + mean

    def _read(self, part: Part, name: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Some rows of one of a part's arrays, and which of their steps count, (B, T); None: all.

        Of x those that are read: all finite ones up to the last that counts.  What does not count is 0 where it is not
        finite; ValueError for what does.
        """
        values, steps, whole = _taken(getattr(part, name), rows), None, np.bool_(True)
        if part.steps is not None and (name == "x" or self.readout == "every"):
            steps = _taken(part.steps, rows)
            steps = np.arange(part.x.shape[1]) < steps[:, None] if steps.ndim == 1 else steps
        if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
            wrong = ~finite if steps is None else ~finite & steps[:, :, None]
            if wrong.any():
                i, *others = np.argwhere(wrong)[0]
                where = ", ".join(map(str, (rows[i], *others)))
                raise ValueError(f"{part.of}{name} has an entry that is not finite, {name}[{where}]")
            values[~finite], whole = 0, finite.all(axis=-1)
        if name == "x" and steps is not None:
            steps = _up_to_last(steps) & whole
        return values, steps

    def _read_all(self, part: Part, name: str) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """`_read` of all rows of a part, in pieces."""
        for rows in _pieces(getattr(part, name), part.rows):
            yield self._read(part, name, rows)

    def _all(self, name: str) -> Iterator[np.ndarray]:
        """One of the arrays, of both parts, in pieces."""
        return (values for part in self.parts for values, _ in self._read_all(part, name))

    def _range(self, name: str) -> tuple[Any, Any]:
        """The least and the largest entry of an array."""
        lows, highs = zip(*((values.min(), values.max()) for values in self._all(name)), strict=True)
        return min(lows), max(highs)

    def _moments(self, part: Part, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the variance of the numbers that count, (width,), in float64; of a constant itself and 0."""
        first = _counted(*self._read(part, name, part.rows[:1]))[0].astype(np.float64)
        count, mean, squares = 0, np.zeros(1), np.zeros(1)
        for own in (_counted(*read) - first for read in self._read_all(part, name)):
            away, before = own.mean(axis=0, dtype=np.float64) - mean, count
            count += len(own)
            mean = mean + away * len(own) / count
            squares = squares + own.var(axis=0, dtype=np.float64) * len(own) + away**2 * before * len(own) / count
        return mean + first, squares / count

    def _scaled(self, name: str, values: np.ndarray, steps: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """What was read, standardised in float32 where that is asked for, and 0 where nothing counts; and its steps."""
        if name in self._scale:
            mean, deviation = self._scale[name]
            values = ((values - mean) / deviation).astype(np.float32)
            if steps is not None:
                values[~steps] = 0
        return values, steps


def _taken(a: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """A copy of some rows (B,) of an array.  Of a memory-mapped one no page that was read is kept in memory."""
    own = a[rows]
    if isinstance(a, np.memmap) and a.mode == "r":
        mapping: Any = a
        while isinstance(mapping, np.ndarray):
            mapping = mapping.base
        if hasattr(mapping, "madvise"):
            mapping.madvise(mmap.MADV_DONTNEED)
    return own


def _pieces(a: np.ndarray, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Rows of an array, so many at a time as are read at once."""
    size = _rows_at_once(a)
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _rows_at_once(a: np.ndarray) -> int:
    """How many rows of an array are about PIECE bytes, one at least."""
    return max(1, PIECE * len(a) // a.nbytes)


def _counted(values: np.ndarray, steps: np.ndarray | None) -> np.ndarray:
    """What counts of classes, (entries,), or of numbers, (entries, width)."""
    own = values if steps is None else values[steps]
    return own.reshape(-1, *values.shape[-1:]) if values.dtype.kind == "f" else own.reshape(-1)


def _up_to_last(steps: np.ndarray) -> np.ndarray:
    """Which steps (B, T) are not behind the last that counts."""
    return np.logical_or.accumulate(steps[:, ::-1], axis=1)[:, ::-1]


def _in_front(x: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Sequences that are filled up at the end, filled up in front, as the last step is read."""
    filled = np.zeros_like(x)
    filled[steps[:, ::-1]] = x[steps]
    return filled


def _rows(held_out: int | np.ndarray, N: int) -> np.ndarray:
    """Which of N sequences are held out."""
    if not isinstance(held_out, np.ndarray):
        check_integer("held_out", held_out, most=N - 1)
        return np.arange(N - held_out, N)
    whole = held_out.dtype.kind in "iu" and held_out.ndim == 1
    rows = np.unique(held_out) if whole else np.arange(0)
    if not (0 < len(rows) == len(held_out) < N and rows[0] >= 0 and rows[-1] < N):
        given = f"{held_out.dtype} {held_out.shape}"
        raise ValueError(
            f"held_out is {given}; allowed: integers from 0 to {N - 1}, each once, one at least and not all"
        )
    return rows


def _lengths(of: str, lengths: np.ndarray, mask: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
    """How many steps there are."""
    _check_plain(f"{of}lengths", lengths)
    N, T = shape[:2]
    integers = isinstance(lengths, np.ndarray) and lengths.dtype.kind in "iu" and lengths.shape == (N,)
    if mask is not None or not integers or ((lengths < 1) | (lengths > T)).any():
        kind = f"{lengths.dtype} {lengths.shape}" if isinstance(lengths, np.ndarray) else kind_of(lengths)
        given = f"{kind}{' beside a mask' if mask is not None else ''}"
        raise ValueError(f"{of}lengths is {given}; allowed: integers ({N},), 1 to T = {T}, without mask")
    return lengths


def readout_of(x: np.ndarray, y: np.ndarray) -> str:
    """What the readout is unless it is said: every where y has as many steps as x, else last."""
    steps = y.shape[1:2] == x.shape[1:2] and y.ndim == (2 if y.dtype.kind in "iu" else 3)
    return "every" if steps else "last"


def _check_plain(argument: str, value: object) -> None:
    """TypeError for a masked array, whose mask would be ignored, and for a matrix."""
    try:
        library_of(value)
    except TypeError as error:
        raise TypeError(f"{argument}: {error}") from None


def _array(argument: str, value: np.ndarray) -> np.ndarray:
    _check_plain(argument, value)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iuf":
        kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else kind_of(value)
        raise TypeError(f"{argument} is {kind}; expected a NumPy array of integers or of floating-point numbers")
    if value.ndim == 0 or math.prod(value.shape) == 0:
        raise ValueError(f"{argument} has shape {value.shape}; expected entries")
    return value


def _is_one_hot(y: np.ndarray) -> bool:
    """Whether every row is 0 but for one 1."""
    return y.shape[-1] > 1 and bool(((y == 0) | (y == 1)).all() and (y.sum(axis=-1) == 1).all())


def _contiguous(own: np.ndarray) -> np.ndarray:
    """In the order that training wants; tokens and classes as NumPy indexes."""
    return np.ascontiguousarray(own, np.intp if own.dtype.kind in "iu" else own.dtype)
