"""Checkpoints: a run's whole state in one safetensors file, which is there whole or not at all.

A tree of dicts, lists, tuples, arrays, numbers, strings, booleans and None becomes one file: every array is a tensor
named by its path, "params/layer0.U_c.A"; all else is JSON in the file's metadata, under "tree".  Complex arrays have a
trailing axis of 2, (re, im).  The memory order of an array is kept: BLAS rounds differently on a transposed one.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from ortho_ref import files
from ortho_ref.backend import is_array, to_host

FORMAT = "ortho_ref checkpoint 2"


def save(path: Path, tree: dict[str, Any]) -> None:
    """Write the tree to `path`.  Device arrays are moved to the host.  OSError, naming path, if that fails."""
    tensors: dict[str, np.ndarray] = {}
    skeleton = _encode(to_host(tree), "", tensors)
    files.write(path, safetensors.numpy.save(tensors, {"format": FORMAT, "tree": json.dumps(skeleton)}))


def load(path: Path) -> dict[str, Any]:
    """The tree that `save` wrote, with host arrays.

    OSError, naming path, if it cannot be read; ValueError if it is not a checkpoint.
    """
    try:
        with open(path, "rb"):  # safetensors calls every reason that it cannot a missing file
            pass
        with safetensors.safe_open(str(path), framework="numpy") as stream:
            metadata = stream.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise ValueError(
                    f"{path} is not a checkpoint: its format is {metadata.get('format')!r}, not {FORMAT!r}"
                )
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118  not a dict
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is not a checkpoint: {error}") from error
    except OSError as error:
        raise type(error)(f"{path}: {error.strerror or error}") from error
    try:
        tree = _decode(json.loads(metadata["tree"]), tensors)
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{path} is not a checkpoint: its tree does not fit: {error!r}") from error
    if not isinstance(tree, dict):
        raise ValueError(f"{path} is not a checkpoint: its tree is a {type(tree).__name__}")
    return tree


def _encode(value: Any, path: str, tensors: dict[str, np.ndarray]) -> Any:
    """JSON for a tree; arrays go to `tensors` and leave {"$array": path} behind."""
    if (is_array(value) or isinstance(value, np.generic)) and value.dtype.kind in "biufc":
        is_complex, fortran = value.dtype.kind == "c", value.flags.f_contiguous and not value.flags.c_contiguous
        plain = np.stack([value.real, value.imag], axis=-1) if is_complex else value
        tensors[path] = np.array(plain, order="C")
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
    if value is None or isinstance(value, bool | int | float | str):
        return value
    kind = f"{type(value).__name__} {getattr(value, 'dtype', '')}".strip()
    raise TypeError(f"{path} is a {kind}; allowed: numbers, arrays of them, strings, None and trees of these")


def _decode(value: Any, tensors: dict[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if "$tuple" in value:
        return tuple(_decode(item, tensors) for item in value["$tuple"])
    if "$array" not in value:
        return {key: _decode(item, tensors) for key, item in value.items()}
    array = tensors[value["$array"]]
    if value["complex"]:
        joined = np.empty(array.shape[:-1], np.result_type(array.dtype, np.complex64))
        joined.real, joined.imag = array[..., 0], array[..., 1]
        array = joined
    array = np.array(array, order="F" if value["fortran"] else "C")
    return array[()] if value["scalar"] else array
