"""What the kit and the process of an adapter say to each other: messages of a header and arrays, over one socket.

A message is the header's length (8 bytes, little-endian), the header, JSON in UTF-8, and the bytes of its arrays one
after the other, in C order; the header has their names, dtypes and shapes.  No pickle: what comes from an adapter's
process is numbers and text, checked like any file, and can do nothing to whoever reads it.
"""

import math
import struct
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from msgspec import Meta

from ortho_ref import formats
from ortho_ref.formats import NO_LINE_END, Form

#: Bytes of a header, at most.
HEADER = 1 << 22
_LENGTH = struct.Struct("<Q")
GIVEN, UNSUPPORTED, RAISED, BROKEN, LOADED = "given", "unsupported", "raised", "broken", "loaded"
_Count: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 40)]


class Array(Form):
    """An array, whose bytes come after the header."""

    name: str
    dtype: Annotated[str, Meta(pattern="^[<>|][fiubc][0-9]{1,2}$" + NO_LINE_END)]
    shape: Annotated[list[_Count], Meta(max_length=64)]


class Asked(Form):
    """What the kit says: a case."""

    number: _Count
    id: str
    kind: str
    dtype: str
    config: dict[str, Any]
    outputs: dict[str, list[_Count]]
    arrays: list[Array]


class Answer(Form):
    """What an adapter's process says: outputs, with what is no array in words, or what happened instead."""

    number: _Count
    status: Literal[GIVEN, UNSUPPORTED, RAISED, BROKEN, LOADED]  # type: ignore[valid-type]
    said: str
    place: str
    traceback: str
    refuses: bool
    no_arrays: dict[str, str]
    arrays: list[Array]


class Message(NamedTuple):
    """What one end said.

    Attributes
    ----------
    header : dict
        As its form has it.
    arrays : dict of str to array
        The arrays, which may be written to.
    """

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


def packed(header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a message; the header without "arrays"."""
    listed = [{"name": name, "dtype": a.dtype.str, "shape": list(a.shape)} for name, a in arrays.items()]
    text = formats.to_json(header | {"arrays": listed}).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *(array.tobytes() for array in arrays.values())])


def length_of(head: bytes) -> int:
    """The header's length, from the 8 bytes before it.  ValueError where no header is so long."""
    (length,) = _LENGTH.unpack(head)
    if not 0 < length <= HEADER:
        raise ValueError(f"a header of {length:,} bytes; allowed: 1 to {HEADER:,}")
    return int(length)


def header_of(text: bytes, form: type[Form]) -> tuple[dict[str, Any], int]:
    """A header, and how many bytes of arrays follow.

    Parameters
    ----------
    text : bytes
        The header's.
    form : type
        `Asked` or `Answer`.

    Returns
    -------
    dict
        The header.
    int
        The bytes that its arrays have.

    Raises
    ------
    ValueError
        It is no JSON, or does not fit.
    """
    header = formats.from_json(text)
    formats.check(header, form)
    return header, sum(_size(entry) for entry in header["arrays"])


def _size(entry: dict[str, Any]) -> int:
    return int(math.prod(entry["shape"]) * _dtype(entry).itemsize)


def _dtype(entry: dict[str, Any]) -> np.dtype:
    try:
        return np.dtype(entry["dtype"])
    except TypeError:
        raise ValueError(f"an array of dtype {entry['dtype']}, which NumPy does not have") from None


def message_of(header: dict[str, Any], data: bytes) -> Message:
    """A message from its header and the bytes of its arrays, as many as `header_of` said."""
    arrays, place = {}, 0
    for entry in header["arrays"]:
        size = _size(entry)
        whole = np.ndarray(entry["shape"], _dtype(entry), data[place : place + size])
        arrays[entry["name"]], place = whole.copy(), place + size
    if len(arrays) < len(header["arrays"]):
        raise ValueError("two arrays of one name")
    return Message(header, arrays)


class Reader:
    """A message from the pieces in which it comes.

    Parameters
    ----------
    form : type
        What its header has to be: `Asked` or `Answer`.
    most : int
        Bytes of arrays, at most.
    """

    def __init__(self, form: type[Form], most: int) -> None:
        self._form, self._most = form, most
        self._bytes = bytearray()
        self._header: dict[str, Any] | None = None
        self._begin = self._end = 0

    def feed(self, piece: bytes) -> Message | None:
        """Take what came.

        Parameters
        ----------
        piece : bytes
            Of any length.

        Returns
        -------
        Message or None
            The message, once it is whole.

        Raises
        ------
        ValueError
            It can be none, or there is more than one.
        """
        self._bytes += piece
        if self._header is None:
            if len(self._bytes) < _LENGTH.size:
                return None
            self._begin = _LENGTH.size + length_of(bytes(self._bytes[: _LENGTH.size]))
            if len(self._bytes) < self._begin:
                return None
            self._header, size = header_of(bytes(self._bytes[_LENGTH.size : self._begin]), self._form)
            if size > self._most:
                raise ValueError(f"arrays of {size:,} bytes; allowed: {self._most:,}")
            self._end = self._begin + size
        if len(self._bytes) > self._end:
            raise ValueError("more than one message")
        if len(self._bytes) < self._end:
            return None
        return message_of(self._header, bytes(self._bytes[self._begin :]))
