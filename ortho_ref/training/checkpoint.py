"""Checkpoints: a run's whole state in one safetensors file, which is there whole or not at all.

A tree of dicts, lists, tuples, arrays, numbers, strings, booleans and None becomes one file: every array is a tensor
named by its path, "params/layer0.U_c.A"; all else is JSON in the file's metadata, under "tree".  Complex arrays have a
trailing axis of 2, (re, im).  The memory order of an array is kept: BLAS rounds differently on a transposed one.  The
order of its bytes becomes the machine's.

The metadata's "tensors" is JSON, tensor -> SHA-256 of its dtype, shape and numbers; "sha256" is that of format, tree
and tensors.  A file that differs by a bit from what was written is refused.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from ortho_ref import files, schema
from ortho_ref.backend import is_array, to_host
from ortho_ref.boundary import kind_of, short, with_article

FORMAT = "ortho_ref checkpoint 3"
METADATA = ("format", "tree", "tensors", "sha256")
#: The floating-point numbers of a safetensors file.
_REAL = "float16, float32, float64"

#: What stands in the tree where an array was.
ARRAY = schema.record(
    {"$array": schema.TEXT, "complex": schema.BOOLEAN, "fortran": schema.BOOLEAN, "scalar": schema.BOOLEAN}
)


def tuple_of(items: schema.Schema) -> schema.Schema:
    """The schema of a tuple, as it stands in a tree."""
    return schema.record({"$tuple": schema.list_of(items)})


def save(
    path: Path | str, tree: dict[str, Any], form: schema.Schema = schema.ANY, old: Path | str | None = None
) -> None:
    """Write a tree.

    Parameters
    ----------
    path : Path or str
        The file.
    tree : dict
        Device arrays are moved to the host.
    form : dict
        The schema of the tree, with `ARRAY` for arrays; any unless given.
    old : Path or str, optional
        What was there before stays under this name.

    Raises
    ------
    OSError
        Naming path, if that fails.
    TypeError, ValueError
        Naming the place in the tree, for what a checkpoint cannot hold: a number that is no array and is not finite, an
        integer of more than `files.DIGITS` digits, what does not fit the schema.
    """
    if not isinstance(tree, dict):
        raise TypeError(f"tree is {kind_of(tree)}; allowed: a dict, as {{'params': params, 'buffers': buffers}}")
    tensors: dict[str, np.ndarray] = {}
    skeleton = _encode(to_host(tree), "", tensors)
    files.check_depth(skeleton)
    schema.check(skeleton, {"type": "object"} | form, "the tree")
    text = files.to_json(skeleton)
    hashes = files.to_json({name: _hash(array) for name, array in tensors.items()})
    metadata = {"format": FORMAT, "tree": text, "tensors": hashes, "sha256": _seal(FORMAT, text, hashes)}
    files.write(path, safetensors.numpy.save(tensors, metadata), old)


def load(path: Path | str, form: schema.Schema = schema.ANY) -> dict[str, Any]:
    """The tree that `save` wrote, with host arrays.

    Parameters
    ----------
    path : Path or str
        The file.
    form : dict
        The schema of its tree, with `ARRAY` for arrays; any unless given.

    Returns
    -------
    dict
        The tree.

    Raises
    ------
    OSError
        Naming path, if it cannot be read, or not into the memory that is left.
    ValueError
        If it is of another format.
    DamagedFile
        If it is not what was written, or does not fit the schema.
    """
    try:
        return _tree(path, files.read(path), form)
    except MemoryError:
        raise OSError(f"{path} cannot be read: it is larger than the memory that is left") from None


def _tree(path: Path | str, data: bytes, form: schema.Schema) -> dict[str, Any]:
    try:
        # KeyError: a dtype that NumPy has not
        tensors = dict(safetensors.numpy.load(data))
        header = files.from_json(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = header.get("__metadata__") or {}
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise files.DamagedFile(path, f"it is no safetensors file: {error}") from None
    if "format" in metadata or "sha256" not in metadata:
        files.check_format(path, metadata.get("format"), FORMAT)
    try:
        if sorted(metadata) != sorted(METADATA):
            raise ValueError(f"its metadata are {', '.join(sorted(metadata))}; expected {', '.join(METADATA)}")
        if metadata["sha256"] != _seal(metadata["format"], metadata["tree"], metadata["tensors"]):
            raise ValueError("the SHA-256 of its tree is another")
        hashes = files.from_json(metadata["tensors"].encode())
        schema.check(hashes, schema.mapping(schema.SHA256), "tensors")
        found = {name: _hash(array) for name, array in tensors.items()}
        if wrong := sorted(name for name, _ in hashes.items() ^ found.items()):
            raise ValueError(f"the SHA-256 of {short(wrong[0])} is another")
        tree = files.from_json(metadata["tree"].encode())
        schema.check(tree, {"type": "object"} | form, "its tree")
        whole: dict[str, Any] = _decode(tree, tensors)
        if tensors:
            raise ValueError(f"its tree has no {', '.join(sorted(map(short, tensors)))}")
    except ValueError as error:
        raise files.DamagedFile(path, error) from None
    return whole


def _hash(array: np.ndarray) -> str:
    found = hashlib.sha256(f"{array.dtype.str} {array.shape}\n".encode())
    found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)  # no copy: a checkpoint may be large
    return found.hexdigest()


def _seal(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


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
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        files.check_number(value, path)
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
        schema.check(value, tuple_of(schema.ANY), "a tuple of its tree")
        return tuple(_decode(item, tensors) for item in value["$tuple"])
    if "$array" not in value:
        return {key: _decode(item, tensors) for key, item in value.items()}
    schema.check(value, ARRAY, "an array of its tree")
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
