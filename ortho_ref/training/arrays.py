"""A task of arrays that one has: sequences and what they should give, some of them held out.  docs/own-data.md.

Sequences are the first axis, steps the second: x (N, T, m) of numbers, or (N, T) of tokens.
    readout "last"   y (N,) of classes, or (N, q) of numbers: what is read off at the end
    readout "every"  y (N, T) or (N, T, q): what is read off at every step
Sequences of different lengths are filled up to T: at the end for readout "every", with a mask (N, T) that is False
there; in front for readout "last", which reads the last step.
"""

import hashlib
import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ortho_ref.backend import library_of
from ortho_ref.training.examples import Examples, frequency_baseline
from ortho_ref.training.task import Batch, Named, Tokens, Vectors, check_choice, check_integer, kind_of

LOSSES = {
    "cross_entropy": "accuracy",
    "binary_cross_entropy": "binary_accuracy",
    "mean_squared_error": "within_0.04",
}


class Arrays(Examples):
    """Learn y from x.

    Parameters
    ----------
    x : ndarray, (N, T, m), or integer tokens (N, T)
        The sequences.  What a mask leaves out need not be finite: it is read as 0.
    y : ndarray
        What they should give, as above; integer classes from 0, or numbers for mean_squared_error.
    held_out : int
        How many of them, the last ones, are held out.
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
        bool: which steps count, for readout every.
    name : str
        What the task is called.

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

    CHUNK: ClassVar[int] = 500

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        *,
        held_out: int,
        loss: str | None = None,
        readout: str | None = None,
        classes: int | None = None,
        vocabulary: int | None = None,
        mask: np.ndarray | None = None,
        name: str = "arrays",
    ) -> None:
        self._x, self._y, self.name = _array("x", x), _array("y", y), name
        N = len(self._x)
        if self._x.ndim != (3 if self._x.dtype.kind == "f" else 2):
            expected = "(N, T, m) of floating-point numbers or (N, T) of integers"
            raise ValueError(f"x has shape {x.shape} of {x.dtype}; expected {expected}")
        if len(self._y) != N:
            raise ValueError(f"y has {len(self._y)} sequences; x has {N}")
        check_integer("held_out", held_out, most=N - 1)
        self._cut = N - held_out
        integers = self._y.dtype.kind in "iu"
        self.loss = loss or ("cross_entropy" if integers else "mean_squared_error")
        check_choice("loss", self.loss, LOSSES)
        self.metric = LOSSES[self.loss]
        self.readout = readout or readout_of(self._x, self._y)
        check_choice("readout", self.readout, ("every", "last"))
        axes = (2 if self.readout == "every" else 1) + (not integers)
        if self._y.ndim != axes or (self.readout == "every" and self._y.shape[1] != self._x.shape[1]):
            own = "(N, T" if self.readout == "every" else "(N"
            own += (",)" if own == "(N" else ")") if integers else ", q)"
            raise ValueError(f"y has shape {y.shape}; expected {own} for readout {self.readout!r}")
        if integers == (self.loss == "mean_squared_error"):
            raise TypeError(f"y is {y.dtype}; expected {'numbers' if integers else 'integer classes'} for {self.loss}")
        self._mask = self._checked(mask)
        self._x, self._y = (_finite(*own, self._mask) for own in (("x", self._x), ("y", self._y)))
        if loss is None and not integers and _is_one_hot(self._y):
            raise ValueError(
                "y is one-hot; give the classes, y.argmax(axis=-1), or loss='mean_squared_error' where they are numbers"
            )
        self.input = self._input(vocabulary)
        self.output_size = self._width(classes)

    def _input(self, vocabulary: int | None) -> Tokens | Vectors:
        if self._x.ndim == 3:
            if vocabulary is not None:
                raise ValueError(f"vocabulary is {vocabulary}, but x is of {self._x.dtype}, not of tokens")
            return Vectors(self._x.shape[2])
        own = int(self._x.max()) + 1 if vocabulary is None else vocabulary
        check_integer("vocabulary", own)
        _check_below("x", "token", self._x, own)
        return Tokens(own)

    def _width(self, classes: int | None) -> int:
        if classes is not None and self.loss != "cross_entropy":
            raise ValueError(f"classes is {classes}, but loss is {self.loss!r}; allowed: None")
        if self.loss == "mean_squared_error":
            return self._y.shape[-1]
        own = 2 if self.loss == "binary_cross_entropy" else (int(self._y.max()) + 1 if classes is None else classes)
        if classes is None and own < 2:
            least = int(self._y.min())
            what = "0 and above" if least < 0 else "two classes or more; or say how many there are, as classes=2"
            raise ValueError(f"y holds class {least}{' alone' if least == 0 else ''}; allowed: {what}")
        if classes is None and self.loss == "cross_entropy" and (least := int(self._y.min())) > 0:
            raise ValueError(
                f"y holds classes {least} to {own - 1}, none below; give y - {least}, or classes={own} where 0 is one"
            )
        check_integer("classes", own, least=2)
        _check_below("y", "class", self._y, own)
        return 1 if self.loss == "binary_cross_entropy" else own

    def _checked(self, given: np.ndarray | None) -> np.ndarray | None:
        """The mask."""
        if given is None:
            return None
        if self.readout == "last":
            raise ValueError("mask is for readout 'every'; fill shorter sequences up in front for readout 'last'")
        _check_plain("mask", given)
        try:
            mask = np.asarray(given)
        except ValueError:
            raise ValueError(f"mask has rows of several lengths; expected bool {self._x.shape[:2]}") from None
        if mask.dtype != bool or mask.shape != self._x.shape[:2]:
            raise ValueError(f"mask is {mask.dtype} {mask.shape}; expected bool {self._x.shape[:2]}")
        if not mask.any(axis=1).all():
            raise ValueError(f"mask leaves no step of sequence {int(np.argmin(mask.any(axis=1)))}")
        return mask

    @property
    def sizes_of_network(self) -> dict[str, Any]:
        """What `models.network` has to know of the task: its sizes, readout and loss."""
        sizes = {"input_size": self.input.size, "output_size": self.output_size}
        return sizes | {"readout": self.readout, "loss": self.loss}

    @property
    def sizes(self) -> tuple[int, int]:
        """Sequences that are trained on, and held out."""
        return self._cut, len(self._x) - self._cut

    @cached_property
    def data(self) -> Named:
        """Which arrays these are, by their contents: a run goes on with its own alone."""

        def sha256(part: slice) -> str:
            found = hashlib.sha256()
            for own in (self._x, self._y, *(() if self._mask is None else (self._mask,))):
                found.update(f"{own.dtype.str} {own[part].shape}\n".encode())
                found.update(np.ascontiguousarray(own[part]).reshape(-1).view(np.uint8).data)
            return found.hexdigest()

        parts = {"trained on": slice(self._cut), "held out": slice(self._cut, None)}
        return Named(self.name, None, {name: sha256(part) for name, part in parts.items()})

    @cached_property
    def baseline(self) -> float:
        """The held-out loss of a constant: how often each class is, or the mean; of the sequences trained on."""
        counted = self._y if self._mask is None else [own[mask] for own, mask in zip(self._y, self._mask, strict=True)]
        trained, held_out = (
            np.concatenate([np.atleast_1d(own) for own in part])
            for part in (counted[: self._cut], counted[self._cut :])
        )
        if self.loss != "mean_squared_error":
            return frequency_baseline(trained, held_out, max(self.output_size, 2))
        width = self._y.shape[-1]
        mean = trained.reshape(-1, width).mean(axis=0, dtype=np.float64)
        return float(((held_out.reshape(-1, width) - mean) ** 2).mean())

    def batch(self, chosen: np.ndarray, held_out: bool = False) -> Batch:
        """The batch of some sequences (B,): x (T, B, m) or (T, B); y (B,) or (B, q), with T in front for every step."""
        own = chosen + self._cut if held_out else chosen
        x, y = self._x[own].swapaxes(0, 1), self._y[own]
        y = y.swapaxes(0, 1) if self.readout == "every" else y
        mask = None if self._mask is None else np.ascontiguousarray(self._mask[own].T)
        return Batch(_contiguous(x), _contiguous(y), mask)


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


def _finite(argument: str, value: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """The array, with 0 where the mask leaves out what is not finite."""
    if value.dtype.kind != "f" or (finite := np.isfinite(value)).all():
        return value
    counts = np.ones(value.shape, bool) if mask is None else np.broadcast_to(mask[:, :, None], value.shape)
    if (wrong := ~finite & counts).any():
        where = ", ".join(str(int(i)) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{argument} has an entry that is not finite, {argument}[{where}]")
    return np.where(finite, value, 0).astype(value.dtype)


def _is_one_hot(y: np.ndarray) -> bool:
    """Whether every row is 0 but for one 1."""
    return y.shape[-1] > 1 and bool(((y == 0) | (y == 1)).all() and (y.sum(axis=-1) == 1).all())


def _check_below(argument: str, what: str, value: np.ndarray, count: int) -> None:
    if value.min() < 0 or value.max() >= count:
        wrong = int(value.min() if value.min() < 0 else value.max())
        raise ValueError(f"{argument} holds {what} {wrong}; allowed: 0 to {count - 1}")


def _contiguous(own: np.ndarray) -> np.ndarray:
    """In the order that training wants; tokens and classes as NumPy indexes."""
    return np.ascontiguousarray(own, np.intp if own.dtype.kind in "iu" else own.dtype)
