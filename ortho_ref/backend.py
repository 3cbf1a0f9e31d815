"""Arrays: which library an array belongs to, that library's linear algebra, and explicit moves between host and device.

Functions of ortho_ref take the array library from the arrays they are given: `xp = xp_of(x, h)` is numpy for host
arrays and cupy for device arrays, and a mixture of the two raises. CuPy is imported when its first array is seen or
asked for, never before.
"""

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

Array: TypeAlias = Any  # numpy.ndarray or cupy.ndarray; the two share no base class


#: Arrays of NumPy that are no plain ones: what is computed of them is something else, without a word.
NOT_PLAIN = np.ma.MaskedArray | np.matrix


class NotFiniteError(FloatingPointError, ValueError):
    """An array or a number that is not finite where only finite ones are allowed."""


class NotOrthogonalError(FloatingPointError, ValueError):
    """A matrix that is not orthogonal, though its parameter is finite: rounding has the better of it."""


class DeviceError(RuntimeError):
    """The device asked for cannot be used on this machine."""


@dataclass(frozen=True)
class ArrayLibrary:
    """One array library.

    Parameters
    ----------
    device : str
        The name users write, "cpu" or "gpu".
    xp : module
        Its NumPy-like namespace.
    linalg : module
        Its SciPy-like module (lu_factor, lu_solve, expm).
    from_host : callable
        numpy.ndarray -> its array.
    to_host : callable
        Its array -> numpy.ndarray.
    fuse : callable, optional
        Makes one kernel of a Python function of arrays, as cupy.fuse; None where kernels are not launched.
    """

    device: str
    xp: Any
    linalg: Any
    from_host: Callable[[np.ndarray], Array]
    to_host: Callable[[Array], np.ndarray]
    fuse: Callable[[Callable[..., None]], Callable[..., None]] | None = None


def _numpy_library() -> ArrayLibrary:
    return ArrayLibrary("cpu", np, importlib.import_module("scipy.linalg"), lambda array: array, lambda array: array)


def _cupy_library() -> ArrayLibrary:
    install = "pip install cupy-cuda13x (CUDA 13) or cupy-cuda12x (CUDA 12)"
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        if getattr(error, "name", None) == "cupy":
            raise DeviceError(f"device 'gpu' needs CuPy: {install}") from error
        raise DeviceError(f"device 'gpu': CuPy is installed but cannot be loaded: {_first_line(error)}") from error
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        if "InsufficientDriver" in str(error) or "driver version is insufficient" in str(error):
            raise DeviceError(
                f"device 'gpu': the NVIDIA driver is too old: it serves CUDA {_cuda_version(runtime, 'driver')}, CuPy "
                f"needs CUDA {_cuda_version(runtime, 'runtime')}; update the driver, or install the CuPy that fits it: "
                f"{install}"
            ) from error
        raise DeviceError(f"device 'gpu' finds no usable GPU: {error}") from error
    if not count:
        raise DeviceError("device 'gpu' finds no usable GPU: CUDA counts 0 devices")
    linalg = importlib.import_module("cupyx.scipy.linalg")
    # order "A": by columns stays by columns, which products round by
    moves = (cupy.asarray, lambda array: cupy.asnumpy(array, order="A"))
    return ArrayLibrary("gpu", cupy, linalg, *moves, cupy.fuse)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip(" =")), type(error).__name__)


def _cuda_version(runtime: Any, of: str) -> str:
    """Such as 13.0, of the "driver" or the "runtime"; the runtime's can be had with a working driver only."""
    try:
        version = getattr(runtime, f"{of}GetVersion")()
    except runtime.CUDARuntimeError:
        return "of its own version" if of == "runtime" else "unknown"
    return f"{version // 1000}.{version % 1000 // 10}" if version else "none"


# Root package of an array's type -> how to get its library.
_LOADERS: dict[str, Callable[[], ArrayLibrary]] = {"numpy": _numpy_library, "cupy": _cupy_library}
_LOADED: dict[str, ArrayLibrary] = {}
_DEVICES: dict[str, str] = {"cpu": "numpy", "gpu": "cupy"}
# What CuPy has, as NumPy's characters and in words.
_DTYPES = "?bhilqBHILQefdFD"
_DTYPE_NAMES = "bool, integers, float16 to float64, complex64, complex128"


def _load(root: str) -> ArrayLibrary:
    if root not in _LOADED:
        _LOADED[root] = _LOADERS[root]()
    return _LOADED[root]


def is_array(value: object) -> bool:
    """True for host and device arrays; False for Python and NumPy scalars, None, containers."""
    return _root(type(value)) != ""  # type: ignore[arg-type]  # mypy takes a type for not hashable


@functools.cache  # it is asked at every step of every cell
def _root(kind: type) -> str:
    """The package in which an array's type lives, "" for what is no array's; or a key of `_REFUSED`."""
    if issubclass(kind, NOT_PLAIN):
        return "masked" if issubclass(kind, np.ma.MaskedArray) else "matrix"
    root = kind.__module__.partition(".")[0]
    return root if root in _LOADERS and not issubclass(kind, np.generic | np.dtype) else ""


#: What is wrong with them, and what to do.
_REFUSED = {
    "masked": "a MaskedArray, whose mask would be ignored; allowed: a plain array, as by .filled(0), and where a "
    "function has an argument mask that",
    "matrix": "a numpy.matrix, whose * is another product; allowed: a plain array, as by numpy.asarray",
}


def library_of(*values: object) -> ArrayLibrary:
    """The library that all arrays among `values` belong to, NumPy's where there is none; scalars and None are skipped.

    TypeError for host and device arrays in one call, and for a masked array or a numpy.matrix.
    """
    root = _common_root(*map(type, values))
    return _LOADED.get(root) or _load(root)


@functools.cache  # as `_root`
def _common_root(*kinds: type) -> str:
    """The package in which arrays of these types live, "numpy" where there is none; see `library_of`."""
    roots = {_root(kind) for kind in kinds}
    roots.discard("")
    if not roots.isdisjoint(_REFUSED):
        raise TypeError(f"an array is {next(_REFUSED[root] for root in roots if root in _REFUSED)}")
    if len(roots) > 1:
        raise TypeError(
            f"arrays of different libraries in one call: {', '.join(sorted(roots))}; move them to one device"
        )
    return roots.pop() if roots else "numpy"


def xp_of(*values: object) -> Any:
    """The NumPy-like namespace of the arrays among `values`; see `library_of`."""
    root = _common_root(*map(type, values))  # not by library_of: it is asked at every step of every cell
    return (_LOADED.get(root) or _load(root)).xp


def with_floats_as(tree: Any, dtype: DTypeLike) -> Any:
    """Every array of real floating-point numbers in `tree`, as `to_device` takes it, in another precision."""
    return _map(tree, lambda array: array.astype(dtype, copy=False) if array.dtype.kind == "f" else array)


def complex_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """complex64 for float32, complex128 for float64."""
    return np.result_type(dtype, np.complex64)


def _map(tree: Any, move: Callable[[Any], Any]) -> Any:
    if isinstance(tree, dict):
        return tree | {key: _map(value, move) for key, value in tree.items()}  # ArraysByName stays one
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_map(value, move) for value in tree))
    if isinstance(tree, tuple | list):
        return type(tree)(_map(value, move) for value in tree)
    return move(tree) if is_array(tree) else tree


def to_device(tree: Any, device: str) -> Any:
    """Move every array in `tree` to a device.

    Parameters
    ----------
    tree : Array, dict, tuple or list
        An array, or nested dicts, tuples and lists of them; what is no array stays as it is.
    device : str
        "cpu" or "gpu".

    Returns
    -------
    Array, dict, tuple or list
        Built as `tree`; arrays that are on the device already are the same ones.

    Raises
    ------
    ValueError
        There is no such device.
    DeviceError
        CuPy, a GPU or a driver new enough for it is missing.
    TypeError
        Numbers that devices do not have (objects, strings, longdouble).
    """
    if not isinstance(device, str) or device not in _DEVICES:
        raise ValueError(f"device is {device!r}; allowed: {', '.join(map(repr, _DEVICES))}")
    target = _load(_DEVICES[device])

    def move(array: Array) -> Array:
        if library_of(array) is target:
            return array
        if array.dtype.char not in _DTYPES:
            raise TypeError(f"an array of {array.dtype} cannot be on device {device!r}; allowed: {_DTYPE_NAMES}")
        return target.from_host(library_of(array).to_host(array))

    return _map(tree, move)


def to_host(tree: Any) -> Any:
    """Move every array in `tree`, as `to_device` takes it, to the host; the only place where device data comes back."""
    return to_device(tree, "cpu")
