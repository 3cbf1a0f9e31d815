"""What a case is, and what it is with its answer.

Complex arrays are stored as real ones with a last axis of 2, real and imaginary part.
"""

import json
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from ortho_ref.printing import brief

Arrays: TypeAlias = dict[str, np.ndarray]
Config: TypeAlias = dict[str, Any]

KINDS = ("cell", "layer", "parametrization", "update", "optimizer", "activation", "loss", "initial", "linear")
DTYPES = ("float64", "float32")
HALF = ("float16", "bfloat16")  # for forward passes alone


class Precision(str):
    """The name of a dtype, which equals NumPy's dtype and scalar type as well as the name.

    `case.dtype == np.float32` were silently False for a plain str.  It hashes as the name, so a dict is asked by names.
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        """Equal to the name, to numpy.dtype of it, and to its scalar type."""
        if isinstance(other, type | np.dtype) and str(self) == "bfloat16":
            return False  # NumPy has none
        if isinstance(other, type):
            return other is np.dtype(str(self)).type
        return other == np.dtype(str(self)) if isinstance(other, np.dtype) else str.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        """As ==."""
        return not self == other


@dataclass(frozen=True)
class Case:
    """What an implementation gets."""

    id: str  # its name, "cell/lstm"
    kind: str  # one of `KINDS`
    config: Config  # what is to be computed: plain JSON values, one for each option
    #: int64, bool, or floating-point in `dtype`, bfloat16's in float32; complex ones as real, with a last axis of 2.
    inputs: Arrays
    outputs: dict[str, tuple[int, ...]] = field(default_factory=dict)  # the shape of what is expected
    #: "float64" or "float32", of forward passes also "float16" or "bfloat16"; equal to NumPy's dtypes of the names.
    dtype: str = "float64"

    __repr__ = brief

    def __post_init__(self) -> None:
        """A name that dtypes can be compared with."""
        object.__setattr__(self, "dtype", Precision(self.dtype))


@dataclass(frozen=True)
class Vector:
    """A case and its answer, in float64."""

    case: Case  # what an implementation gets
    expected: Arrays  # the answer
    low: Arrays
    high: Arrays  # of outputs that may be anything between the two, entry by entry: at a kink
    equations: tuple[str, ...]  # tags of docs/equations.md
    why: str  # what the case is there for
    kills: tuple[str, ...]  # names of the mistakes it shows
    confirmed: dict[str, Any]  # "route", the second route, and "error", how far it was from the answer
    drawn: dict[str, Any] | None = None  # how inputs too large to be stored are drawn, as `drawing.Drawn`
    #: Where the answer is that of the reference with departures that are assumed: those, the first around the next, and
    #: the case with the answer that the kit ships.
    assumed: tuple[Any, ...] = ()
    whole: "Vector | None" = None

    @property
    def id(self) -> str:
        """The case's name."""
        return self.case.id

    def given(self, dtype: str) -> Case:
        """A fresh copy of the case, its floating-point inputs in a precision; its arrays may be written to."""
        config = json.loads(json.dumps(self.case.config))
        own = {name: in_precision(array, dtype) for name, array in self.case.inputs.items()}
        return replace(self.case, config=config, inputs=own, dtype=dtype)


def in_precision(array: np.ndarray, dtype: str) -> np.ndarray:
    """A copy, of floating-point numbers in that precision; bfloat16's, which NumPy does not have, as float32."""
    if array.dtype.kind != "f":
        return array.copy()
    if dtype != "bfloat16":
        return array.astype(dtype)
    bits = array.astype(np.float32).view(np.uint32)  # the upper half of float32, to nearest, ties to even
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def joined(array: np.ndarray) -> np.ndarray:
    """(..., 2) real -> (...) complex."""
    whole = np.empty(array.shape[:-1], np.result_type(array.dtype, np.complex64))
    whole.real, whole.imag = array[..., 0], array[..., 1]
    return whole


def parted(array: np.ndarray) -> np.ndarray:
    """(...) complex -> (..., 2) real; a real array as it is."""
    return np.stack([array.real, array.imag], axis=-1) if array.dtype.kind == "c" else array
