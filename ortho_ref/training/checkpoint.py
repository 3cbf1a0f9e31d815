"""Checkpoints: a run's whole state in one safetensors file, which is there whole or not at all.

A tree of dicts, lists, tuples, arrays, numbers, strings, booleans and None becomes one file: every array is a tensor
named by its path, "params/layer0.U_c.A"; all else is JSON in the file's metadata, under "tree".  Complex arrays have a
trailing axis of 2, (re, im).  The memory order of an array is kept: BLAS rounds differently on a transposed one.  The
order of its bytes becomes the machine's.

The metadata's "sha256" is that of format, tree and every tensor: a file that differs by a bit from what was written is
refused.
"""

import hashlib
import math
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import safetensors
import safetensors.numpy

from ortho_ref import files, formats
from ortho_ref.backend import is_array, to_host
from ortho_ref.boundary import kind_of, short, with_article

FORMAT = "ortho_ref checkpoint 4"
METADATA = ("format", "tree", "sha256")
#: The floating-point numbers of a safetensors file.
_REAL = "float16, float32, float64"
#: No integer of a tree is longer: the states of generators have 39.
_DIGITS = 40
#: What is in a Python string and in no UTF-8, as in the name of a file that is none.
_SURROGATE = re.compile("[\ud800-\udfff]")


class Array(formats.Form):
    """What stands in the tree where an array was."""

    array: str = msgspec.field(name="$array")
    complex: bool
    fortran: bool
    scalar: bool


def save(
    path: Path | str,
    tree: dict[str, Any],
    form: Any = dict[str, Any],
    old: Path | str | None = None,
    folder: int | None = None,
) -> None:
    """Write a tree, of the form where one is given; device arrays are moved to the host.

    old: what was there before stays under this name.  folder: a descriptor of the folder, as of `files.write`.
    OSError, naming path, where that fails; TypeError or ValueError, naming the place in the tree, for what a checkpoint
    cannot hold: a number that is no array and is not finite, an integer of more than 40 digits, what does not fit the
    form.
    """
    if not isinstance(tree, dict):
        raise TypeError(f"tree is {kind_of(tree)}; allowed: a dict, as {{'params': params, 'buffers': buffers}}")
    tensors: dict[str, np.ndarray] = {}
    skeleton = _encode(to_host(tree), "", tensors)
    formats.check(skeleton, form, "the tree")
    text = formats.to_json(skeleton)
    metadata = {"format": FORMAT, "tree": text, "sha256": _hash(text, tensors)}
    files.write(path, safetensors.numpy.save(tensors, metadata), old, folder)


def load(path: Path | str, form: Any = dict[str, Any]) -> dict[str, Any]:
    """The tree that `save` wrote, with host arrays; form: which it has to have.

    OSError, naming path, if it cannot be read, or not into the memory that is left; ValueError if it is of another
    format; DamagedFile if it is not what was written, or does not fit the form.
    """
    return load_with_hash(path, form, None)[0]


def load_with_hash(path: Path | str, form: Any, folder: int | None) -> tuple[dict[str, Any], str]:
    """As `load`, of a file in an open folder as of `files.read`, and the file's own SHA-256."""
    try:
        return _tree(path, files.read(path, folder), form)
    except MemoryError:
        raise OSError(f"{path} cannot be read: it is larger than the memory that is left") from None


def _tree(path: Path | str, data: bytes, form: Any) -> tuple[dict[str, Any], str]:
    try:
        tensors = dict(safetensors.numpy.load(data))  # KeyError: a dtype that NumPy has not
        header = formats.from_json(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = header.get("__metadata__") or {}
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise files.DamagedFile(path, f"it is no safetensors file: {error}") from None
    try:
        formats.check_format(metadata, FORMAT)
        if sorted(metadata) != sorted(METADATA):
            raise ValueError(f"its metadata are {', '.join(sorted(metadata))}; expected {', '.join(METADATA)}")
        if metadata["sha256"] != _hash(metadata["tree"], tensors):
            raise ValueError("its SHA-256 is another")
        tree = formats.from_json(metadata["tree"].encode())
        formats.check(tree, form, "its tree")
        whole: dict[str, Any] = _decode(tree, tensors)
        if tensors:
            raise ValueError(f"its tree has no {', '.join(sorted(map(short, tensors)))}")
    except formats.OtherFormat as error:
        raise formats.OtherFormat(f"{path} {error}") from None
    except ValueError as error:
        raise files.DamagedFile(path, error) from None
    return whole, metadata["sha256"]


def _hash(tree: str, tensors: dict[str, np.ndarray]) -> str:
    """The SHA-256 of what is in a file, whatever the order in which it stands there."""
    found = hashlib.sha256(f"{FORMAT}\n{tree}\n".encode())
    for name, array in sorted(tensors.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)  # no copy: it may be large
    return found.hexdigest()


def _encode(value: Any, path: str, tensors: dict[str, np.ndarray]) -> Any:
    """JSON for a tree; arrays go to `tensors` and leave {"$array": path} behind."""
    if (is_array(value) or isinstance(value, np.generic)) and value.dtype.kind in "biufc":
        is_complex, fortran = value.dtype.kind == "c", value.flags.f_contiguous and not value.flags.c_contiguous
        if value.dtype.char in "gG":
            raise TypeError(f"{path} is of {value.dtype}; allowed: {'complex64, complex128' if is_complex else _REAL}")
        plain = np.stack([value.real, value.imag], axis=-1) if is_complex else value
        tensors[path] = np.array(plain, plain.dtype.newbyteorder("="), order="C")
        scalar = isinstance(value, np.generic)  # not an array of no axes: the two promote differently
        return {"$array": path, "complex": is_complex, "fortran": fortran, "scalar": scalar}
    if isinstance(value, dict):
        if any(not isinstance(key, str) or key in ("", "__metadata__") or key[0] == "$" or "/" in key for key in value):
            raise TypeError(
                f"{path or 'the tree'} has keys {list(value)}; allowed: strings without /, none with $ first"
            )
        return {key: _encode(item, f"{path}/{key}" if path else key, tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_encode(item, f"{path}/{i}", tensors) for i, item in enumerate(value)]
        return {"$tuple": items} if isinstance(value, tuple) else items
    return _plain(value, path)


def _plain(value: Any, path: str) -> Any:
    """What is JSON already."""
    if isinstance(value, str) and _SURROGATE.search(value):
        raise ValueError(f"{path} is {short(value)}; allowed: texts that UTF-8 can hold")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{path} is {value}; allowed: finite numbers")
    if isinstance(value, int) and abs(value) >= 10**_DIGITS:
        raise ValueError(f"{path} is an integer of more than {_DIGITS} digits")
    if isinstance(value, int | float):
        return value
    kind = f"{type(value).__name__} {getattr(value, 'dtype', '')}".strip()
    raise TypeError(
        f"{path} is {with_article(kind)}; allowed: numbers, arrays of them, strings, None and trees of these"
    )


def _decode(value: Any, tensors: dict[str, np.ndarray]) -> Any:
    """The tree of JSON; each tensor is taken out.  ValueError for what `_encode` does not write."""
    if isinstance(value, list):
        return [_decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if "$tuple" in value:
        formats.check(value, dict[str, list[Any]], "a tuple of its tree")
        return tuple(_decode(item, tensors) for item in value["$tuple"])
    if "$array" not in value:
        return {key: _decode(item, tensors) for key, item in value.items()}
    formats.check(value, Array, "an array of its tree")
    name = value["$array"]
    if name not in tensors:
        raise ValueError(f"it has no tensor {short(name)}")
    array = tensors.pop(name)
    if value["complex"]:
        if array.shape[-1:] != (2,) or array.dtype.kind != "f":
            raise ValueError(f"{short(name)} is {array.dtype} {array.shape}, which is not complex")
        joined = np.empty(array.shape[:-1], np.result_type(array.dtype, np.complex64))
        joined.real, joined.imag = array[..., 0], array[..., 1]
        array = joined
    array = np.array(array, order="F" if value["fortran"] else "C")
    if value["scalar"] and array.ndim:
        raise ValueError(f"{short(name)} has the shape {array.shape}, which is not a number's")
    return array[()] if value["scalar"] else array
