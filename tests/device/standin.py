"""A strict stand-in for a GPU array library, backed by NumPy, so that code for devices is tested where there is no GPU.

`DeviceArray` is cupy.ndarray, `xp` is cupy, `linalg` is cupyx.scipy.linalg. What CuPy refuses is refused: names and
keywords that CuPy does not have (cupy_names.json, written by make_cupy_names.py), any mix of host and device arrays,
implicit copies to the host. Where CuPy goes wrong silently, the stand-in raises (`out` overlapping a factor of a
product, complex right-hand sides of real LU factors); where CuPy leaves memory uninitialized, it holds NaN. Where CuPy
would forward (np.tanh(device), device[host_index]), the stand-in raises too.

`fuse` makes a fused function, which may do less here than in CuPy: element-wise operations on its arguments and on
Python scalars, of one dtype, with results written into arguments by `y[...] =`. `launches` counts kernels by name: one
for each call that computes or copies, "fused" for a fused function, "copy" and "pointers" for what CuPy launches beside
a product, none for views and uninitialized arrays. Elsewhere CuPy may need several where this counts one (a sum, a
concatenation), or none (zeros).

Not imitated: rounding, indices out of bounds (CuPy wraps around, here IndexError), repeated indices in an assignment
(CuPy stores any of the values), streams, memory, kernels of one's own in CUDA (NotImplementedError), NaN in place of
LinAlgError.

Import it under one name everywhere, `from tests.device import standin`: a second import would be a second library.
"""

import inspect
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.linalg

from ortho_ref import backend

_CONTENT = json.loads(Path(__file__).with_name("cupy_names.json").read_text())
VERSION: str = _CONTENT["cupy"]
NAMES: dict[str, dict[str, str]] = _CONTENT["names"]
UFUNC_KEYWORDS = frozenset(_CONTENT["ufunc_keywords"])
UFUNC_METHODS = {"outer": "A B **kwargs", "accumulate": "array axis dtype out"}
UFUNC_METHODS |= {"reduce": "array axis dtype out keepdims", "reduceat": "array indices axis dtype out"}

SCALARS = (bool, int, float, complex, np.generic)
DTYPES = "?bhilqBHILQefdFD"

# Functions that wait for the device because the size of their result, or an error code, comes to the host.
WAITING = {"nonzero", "flatnonzero", "argwhere", "unique", "bincount", "compress", "extract", "tolist", "tobytes"}
WAITING |= {"lu_factor", "lu_solve", "lu", "expm"}
# First parameters on which CuPy calls array methods, so that a list fails; converters and queries take lists.
ARRAY_PARAMETERS = {"a", "x", "x1", "arr", "ary", "m", "condition"}
TAKE_LISTS = {"asanyarray", "ascontiguousarray", "asfortranarray", "copy", "ndim", "shape", "size"}
# NumPy answers with bool or int, CuPy with a 0-d array.
ZERO_DIMENSIONAL = {"allclose", "array_equal", "array_equiv", "count_nonzero"}
UNINITIALIZED = {"empty", "empty_like"}
# Data types for which CuPy has atomic operations. No complex ones: write to .real and .imag separately.
AT_DTYPES = {"add": "iIlLqQefd", "subtract": "iI", "maximum": "iIlLqQfd", "minimum": "iIlLqQfd"}
AT_DTYPES |= dict.fromkeys(["bitwise_and", "bitwise_or", "bitwise_xor"], "iIlLqQ")

transfers = 0  # device -> host copies so far: get, item, float, int, bool ..., boolean masks read, and WAITING
waits: Counter[str] = Counter()  # those of them that are functions of WAITING, by name
launches: Counter[str] = Counter()  # kernels so far, by the function's name
uploads = 0  # host -> device copies so far: array, asarray, set


def _count(waiting: str | None = None) -> None:
    global transfers
    transfers += 1
    if waiting:
        waits[waiting] += 1


def _count_upload() -> None:
    global uploads
    uploads += 1


def _host_array_error() -> TypeError:
    return TypeError("a NumPy array where a device array is needed; move it with asarray")


def _unwrap(value: Any) -> Any:
    """NumPy's view of an argument: device arrays, also within lists and tuples, become their host arrays."""
    if type(value) is DeviceArray:
        return value._host
    if type(value) in (list, tuple):
        return type(value)(map(_unwrap, value))
    if isinstance(value, np.ndarray):
        raise _host_array_error()
    return value


def _wrap(value: Any) -> Any:
    """The device's view of a result: arrays and NumPy scalars become device arrays."""
    if isinstance(value, np.ndarray | np.generic):
        array = object.__new__(DeviceArray)
        array._host = np.asarray(value)
        return array
    if isinstance(value, list | tuple):
        return (list if isinstance(value, list) else tuple)(map(_wrap, value))
    return value


def _operand(value: Any) -> Any:
    """An argument of element-wise arithmetic: a device array or a scalar, nothing else."""
    if type(value) is DeviceArray:
        return value._host
    if isinstance(value, SCALARS):
        return value
    if type(value) is FusedVariable:
        raise TypeError("a fused function's variable where an array is needed")
    raise _host_array_error() if isinstance(value, np.ndarray) else TypeError(f"unsupported type {type(value)}")


def _key(key: Any) -> tuple[tuple[Any, ...], bool]:
    """An index for the host array, and whether it holds a boolean mask. Basic indices always give views."""
    parts, basic, masks = [], True, 0
    for part in key if isinstance(key, tuple) else (key,):
        if type(part) is DeviceArray or type(part) is list:
            part = part._host if type(part) is DeviceArray else np.array(part, dtype=None if part else int)
            basic, masks = False, masks + (part.dtype == bool)
        elif isinstance(part, np.ndarray):
            raise _host_array_error()
        elif part is Ellipsis or isinstance(part, bool | np.bool_):
            basic = False
        parts.append(part)
    if masks > 1:
        raise IndexError("CuPy takes one boolean array in an index at most")
    return (*parts, ...) if basic else tuple(parts), masks == 1


class _Parameters:
    """What CuPy's `label` is called with, from its parameters in CuPy's order; `function` is NumPy's or SciPy's."""

    def __init__(self, label: str, function: Callable[..., Any], parameters: str) -> None:
        words = parameters.split()
        ends = [i for i, word in enumerate(words) if word.startswith("*")] or [len(words)]
        self.label, self.name = label, label.rpartition(".")[2]
        self.positional = [word for word in words[: ends[0]] if word != "/"]
        by_keyword = words[words.index("/") + 1 if "/" in words else 0 :]
        self.keywords = {word for word in by_keyword if not word.startswith("*")}
        self.variadic = any(word.startswith("*") and word.strip("*") and not word.startswith("**") for word in words)
        self.open_keywords = any(word.startswith("**") for word in words)
        array_first = self.positional[:1] != [] and self.positional[0] in ARRAY_PARAMETERS
        self.lists = self.name in TAKE_LISTS or not array_first
        self.aligned = self._aligned(function)

    def _aligned(self, function: Callable[..., Any]) -> int:
        """Up to here CuPy's parameters are NumPy's, or NumPy's under another name; later ones go by keyword."""
        try:
            theirs = list(inspect.signature(function).parameters)
        except ValueError:
            theirs = self.positional
        pairs = enumerate(zip(self.positional, theirs, strict=False))
        apart = (i for i, (a, b) in pairs if a != b and (a in theirs or b in self.positional))
        return next(apart, len(self.positional))

    def check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """TypeError for what CuPy's function does not take."""
        if len(args) > len(self.positional) and not self.variadic:
            raise TypeError(f"CuPy's {self.label} takes {len(self.positional)} positional arguments, {len(args)} given")
        if kwargs and not self.open_keywords and not kwargs.keys() <= self.keywords:
            raise TypeError(f"CuPy's {self.label} has no parameter {', '.join(sorted(kwargs.keys() - self.keywords))}")
        if args and not self.lists and isinstance(args[0], list | tuple):
            raise TypeError(f"CuPy's {self.label} takes an array, not a {type(args[0]).__name__}")

    def on_host(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments for NumPy's function."""
        kwargs = {key: _unwrap(value) for key, value in kwargs.items()}
        if not self.variadic and len(args) > self.aligned:
            kwargs.update(zip(self.positional[self.aligned :], map(_unwrap, args[self.aligned :]), strict=False))
            args = args[: self.aligned]
        return list(map(_unwrap, args)), kwargs


def _checked(label: str, function: Callable[..., Any], parameters: str) -> Callable[..., Any]:
    """`function` of NumPy or SciPy, called with the parameters that CuPy's function has, in CuPy's order."""
    own = _Parameters(label, function, parameters)
    name, waiting = own.name, own.name in WAITING

    def call(*args: Any, **kwargs: Any) -> Any:
        own.check(args, kwargs)
        if waiting:
            _count(name)
        if any(type(value) is FusedVariable for value in (*args, *kwargs.values())):
            raise TypeError(f"{label} in a fused function, which takes element-wise functions only")
        hosts, host_kwargs = own.on_host(args, kwargs)
        result = function(*hosts, **host_kwargs)
        if kwargs.get("out") is not None:
            launches[name] += 1
            return kwargs["out"]
        if name not in UNINITIALIZED and not _is_view(result, hosts):
            launches[name] += 1
        return _wrap(np.asarray(result)) if name in ZERO_DIMENSIONAL else _wrap(result)

    call.__name__ = call.__qualname__ = name
    return call


def _is_view(result: Any, arguments: list[Any]) -> bool:
    """Whether a result is memory of an argument: nothing was launched."""
    arrays = (a for a in arguments if isinstance(a, np.ndarray))
    return isinstance(result, np.ndarray) and any(np.may_share_memory(result, a) for a in arrays)


class DeviceArray:
    """cupy.ndarray: the same names and nothing more; `_host` is what no code but this file may touch."""

    __slots__ = ("_host",)
    __module__ = "standin"  # the root package by which ortho_ref.backend finds the library
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    _host: np.ndarray

    def __init__(self, shape: Any, dtype: Any = float, *, order: str = "C") -> None:
        self._host = _poison(np.empty(shape, dtype, order=order))

    def __getattr__(self, name: str) -> Any:
        if name in NAMES["cupy.ndarray"] and not name.startswith("__"):
            raise NotImplementedError(f"cupy.ndarray has {name}, the stand-in does not")
        raise AttributeError(f"cupy.ndarray of CuPy {VERSION} has no attribute {name!r}")

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("implicit conversion of a device array to a NumPy array; use backend.to_host")

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise TypeError(f"numpy.{func.__name__} called with a device array; take the function from backend.xp_of")

    # What leaves the device.

    def get(self, stream: Any = None, order: str = "C", out: np.ndarray | None = None, blocking: bool = True) -> Any:
        _count()
        if out is None:
            return np.array(self._host, order=order)
        out[...] = self._host
        return out

    def item(self) -> Any:
        _count()
        return self._host.item()

    def __bool__(self) -> bool:
        _count()
        return bool(self._host)

    def __int__(self) -> int:
        _count()
        return int(self._host)

    def __float__(self) -> float:
        _count()
        return float(self._host)

    def __complex__(self) -> complex:
        _count()
        return complex(self._host)

    def __repr__(self) -> str:
        return f"device {self._host!r}"

    # What comes to it.

    def set(self, arr: np.ndarray, stream: Any = None) -> None:
        if arr.shape != self.shape or arr.dtype != self.dtype:
            raise ValueError(f"set needs {self.dtype} of shape {self.shape}, got {arr.dtype} of shape {arr.shape}")
        _count_upload()
        self._host[...] = arr

    # Indexing.

    def __getitem__(self, key: Any) -> "DeviceArray":
        host_key, mask = _key(key)
        if mask:
            _count()
        return _wrap(self._host[host_key])

    def __setitem__(self, key: Any, value: Any) -> None:
        launches["copy"] += 1
        self._host[_key(key)[0]] = _operand(value)

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self) -> Iterator["DeviceArray"]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __copy__(self) -> "DeviceArray":
        launches["copy"] += 1
        return _wrap(self._host.copy())

    def __deepcopy__(self, memo: Any) -> "DeviceArray":
        launches["copy"] += 1
        return _wrap(self._host.copy())

    # Attributes.

    shape = property(lambda self: self._host.shape)
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    itemsize = property(lambda self: self._host.itemsize)
    nbytes = property(lambda self: self._host.nbytes)
    strides = property(lambda self: self._host.strides)
    T = property(lambda self: _wrap(self._host.T))
    mT = property(lambda self: _wrap(self._host.swapaxes(-1, -2)))
    real = property(lambda self: _wrap(self._host.real), lambda self, value: _set_part(self._host.real, value))
    imag = property(lambda self: _wrap(self._host.imag), lambda self, value: _set_part(self._host.imag, value))

    @property
    def flags(self) -> SimpleNamespace:
        names = ("c_contiguous", "f_contiguous", "owndata", "forc", "fnc")
        return SimpleNamespace(**{name: getattr(self._host.flags, name) for name in names})


def _set_part(part: np.ndarray, value: Any) -> None:
    launches["copy"] += 1
    part[...] = _operand(value)


def _poison(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "fc":
        array.fill(np.nan)
    return array


def _forward(ufunc: np.ufunc) -> Callable[[DeviceArray, Any], Any]:
    def operator(self: DeviceArray, other: Any) -> Any:
        if isinstance(other, FusedVariable):
            return NotImplemented
        launches[ufunc.__name__] += 1
        if ufunc is np.matmul:
            _count_around_product(self, other)
        return _wrap(ufunc(self._host, _operand(other)))

    return operator


def _reflected(ufunc: np.ufunc) -> Callable[[DeviceArray, Any], Any]:
    def operator(self: DeviceArray, other: Any) -> Any:
        launches[ufunc.__name__] += 1
        return _wrap(ufunc(_operand(other), self._host))

    return operator


def _in_place(ufunc: np.ufunc) -> Callable[[DeviceArray, Any], DeviceArray]:
    def operator(self: DeviceArray, other: Any) -> DeviceArray:
        launches[ufunc.__name__] += 1
        ufunc(self._host, _operand(other), out=self._host)
        return self

    return operator


def _unary(ufunc: np.ufunc) -> Callable[[DeviceArray], DeviceArray]:
    def operator(self: DeviceArray) -> Any:
        launches[ufunc.__name__] += 1
        return _wrap(ufunc(self._host))

    return operator


def _of_fused(ufunc: np.ufunc, swapped: bool = False) -> "Callable[[FusedVariable, Any], FusedVariable]":
    def operator(self: "FusedVariable", other: Any) -> "FusedVariable":
        pair = self._host, _fused_operand(other)
        return FusedVariable(ufunc(*(reversed(pair) if swapped else pair)))

    return operator


BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide}
BINARY |= {"mod": np.remainder, "pow": np.power, "lshift": np.left_shift, "rshift": np.right_shift}
BINARY |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
BINARY |= {"matmul": np.matmul, "divmod": np.divmod}
COMPARISONS = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
COMPARISONS |= {"eq": np.equal, "ne": np.not_equal}
UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.abs, "invert": np.invert}


def _add_operators() -> None:
    for name, ufunc in BINARY.items():
        setattr(DeviceArray, f"__{name}__", _forward(ufunc))
        setattr(DeviceArray, f"__r{name}__", _reflected(ufunc))
        if f"__i{name}__" in NAMES["cupy.ndarray"]:  # no __imatmul__: a @= b rebinds a
            setattr(DeviceArray, f"__i{name}__", _in_place(ufunc))
    for name in ("add", "sub", "mul", "truediv"):
        setattr(FusedVariable, f"__{name}__", _of_fused(BINARY[name]))
        setattr(FusedVariable, f"__r{name}__", _of_fused(BINARY[name], True))
    for name, ufunc in COMPARISONS.items():
        setattr(DeviceArray, f"__{name}__", _forward(ufunc))
    for name, ufunc in UNARY.items():
        setattr(DeviceArray, f"__{name}__", _unary(ufunc))


def _add_methods() -> None:
    unsupported = {"choose", "dump", "dumps", "tofile"}
    for name, parameters in NAMES["cupy.ndarray"].items():
        method = getattr(np.ndarray, name, None)  # `ptp` of NumPy 2.0 is an attribute that says that it is gone
        if parameters != "value" and name not in {*vars(DeviceArray), *unsupported} and callable(method):
            setattr(DeviceArray, name, _checked(f"ndarray.{name}", method, parameters))


class Ufunc:
    """cupy.ufunc: `out`, `dtype` and `casting`, no `where`; few methods, and those of few ufuncs."""

    def __init__(self, name: str, function: Callable[..., Any], methods: list[str]) -> None:
        self.name, self._function, self._methods = name, function, methods

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any(type(value) is FusedVariable for value in (*args, *kwargs.values())):
            if kwargs or len(args) > self._function.nin:
                raise TypeError("the stand-in's fused functions take no `out`; write y[...] =")
            return FusedVariable(self._function(*map(_fused_operand, args)))
        launches[self.name] += 1
        if not kwargs:
            return _wrap(self._function(*map(_operand, args)))
        if not kwargs.keys() <= UFUNC_KEYWORDS:
            raise TypeError(f"CuPy's ufunc {self.name} has no parameter {', '.join(kwargs.keys() - UFUNC_KEYWORDS)}")
        out = kwargs.get("out")
        result = self._function(*map(_operand, args), **{key: _unwrap(value) for key, value in kwargs.items()})
        return _wrap(result) if out is None else out

    def __getattr__(self, method: str) -> Any:
        if method not in self._methods:
            error = NotImplementedError if method in {*UFUNC_METHODS, "at"} else AttributeError
            raise error(f"CuPy's ufunc {self.name} has no {method}")
        return _checked(f"{self.name}.{method}", getattr(self._function, method), UFUNC_METHODS[method])

    def _at(self, a: DeviceArray, indices: Any, b: Any = None) -> None:
        host = _operand(a)
        if host.dtype.char not in AT_DTYPES[self.name]:
            raise TypeError(f"CuPy's {self.name}.at does not take {host.dtype}")
        self._function.at(host, _key(indices)[0], _operand(b))  # type: ignore[attr-defined]

    @property
    def at(self) -> Callable[..., None]:
        if "at" not in self._methods:
            raise NotImplementedError(f"CuPy's ufunc {self.name} has no at")
        return self._at


class FusedVariable:
    """What a fused function sees in place of an argument, and its intermediate results."""

    __slots__ = ("_host", "_written")
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, host: Any) -> None:
        self._host, self._written = host, False

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("a fused function's variable has no values")

    def __bool__(self) -> bool:
        raise TypeError("a fused function cannot branch on values")

    def __setitem__(self, key: Any, value: Any) -> None:
        if key is not Ellipsis:
            raise ValueError("a fused function writes whole arrays, y[...] =")
        own, host = np.asarray(self._host), _fused_operand(value)
        if isinstance(host, np.ndarray | np.generic) and host.dtype != own.dtype:
            raise TypeError(f"{host.dtype} written into {own.dtype} in a fused function")
        own[...] = host
        self._written = True


def _fused_operand(value: Any) -> Any:
    if type(value) is FusedVariable:
        return value._host
    if type(value) in (bool, int, float, complex):  # numpy.float64 would promote
        return value
    raise TypeError(f"a {type(value).__name__} in a fused function, which takes its arguments and Python scalars")


def _fuse(function: Callable[..., None]) -> Callable[..., None]:
    """cupy.fuse. What CuPy would answer wrongly, or by several kernels, is refused."""

    def call(*args: Any) -> None:
        hosts = [_operand(value) for value in args]
        arrays = [host for host in hosts if isinstance(host, np.ndarray)]
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        variables = [FusedVariable(host) for host in hosts]
        if function(*variables) is not None:
            raise TypeError("the stand-in's fused functions write into arguments and return nothing")
        written = [(i, v._host) for i, v in enumerate(variables) if v._written]
        if not written:
            raise TypeError("a fused function that writes nothing")
        for i, host in written:
            if not isinstance(host, np.ndarray) or host.shape != shape:
                raise ValueError(f"argument {i} of a fused function is written, but is not of the whole shape {shape}")
            if any(
                j != i and isinstance(other, np.ndarray) and np.shares_memory(host, other)
                for j, other in enumerate(hosts)
            ):
                raise ValueError(f"argument {i} of a fused function is written and shares memory with another")
        launches["fused"] += 1

    call.__name__ = function.__name__
    return call


class Namespace:
    """A module of CuPy. Functions are NumPy's or SciPy's; `own` are those that are written here."""

    def __init__(self, label: str, host: Any, own: dict[str, Any]) -> None:
        self._label, self._host = label, host
        for name, value in own.items():
            if name not in NAMES[label]:
                raise AttributeError(f"CuPy {VERSION} has no {label}.{name}")
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        label = f"{self._label}.{name}"
        kind = NAMES[self._label].get(name)
        if kind is None:
            raise AttributeError(f"CuPy {VERSION} has no {label}")
        if not hasattr(self._host, name):
            raise NotImplementedError(f"{label} has no counterpart in {self._host.__name__}")
        value = getattr(self._host, name)
        if kind.startswith("ufunc"):
            value = Ufunc(name, value, kind.split()[1:])
        elif kind != "value":
            value = _checked(label, value, kind)
        elif not _is_plain(value):
            raise NotImplementedError(f"CuPy has {label}, the stand-in does not")
        setattr(self, name, value)
        return value


def _is_plain(value: Any) -> bool:
    """True for dtypes, constants, exceptions and the like, which mean the same on host and device."""
    plain_types = (np.dtype, np.finfo, np.iinfo, np.ndindex)
    is_plain_type = isinstance(value, type) and (issubclass(value, np.generic | Exception) or value in plain_types)
    return is_plain_type or value is None or isinstance(value, float)


def _array(
    obj: Any, dtype: Any = None, copy: Any = True, order: Any = "K", subok: bool = False, ndmin: int = 0, **kwargs: Any
) -> DeviceArray:
    """cupy.array: with asarray the only way for host arrays to the device. Never shares memory with the host."""
    if kwargs.keys() - {"blocking"} or subok:
        raise TypeError("CuPy's array has no such parameter")
    if type(obj) is DeviceArray and not copy and dtype in (None, obj.dtype) and ndmin <= obj.ndim:
        return obj
    if _holds_device_array(obj):
        launches["copy"] += 1
        obj = _unwrap(obj)
    else:
        _count_upload()
    host = np.array(obj, dtype=dtype, order=order or "K", ndmin=ndmin)
    if host.dtype.char not in DTYPES:
        raise ValueError(f"CuPy has no dtype {host.dtype}")
    return _wrap(host)


def _holds_device_array(value: Any) -> bool:
    return type(value) is DeviceArray or (isinstance(value, list | tuple) and any(map(_holds_device_array, value)))


def _asarray(
    a: Any, dtype: Any = None, order: Any = None, *, copy: bool | None = None, blocking: bool = False
) -> DeviceArray:
    return _array(a, dtype, copy, order)


def _asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> np.ndarray:
    return a.get(stream, order, out, blocking) if type(a) is DeviceArray else np.asarray(a, order=order)


def _default_rng(seed: Any = None) -> Any:
    raise NotImplementedError("the stand-in has no device generators; draw on the host and move")


def _empty(name: str) -> Callable[..., DeviceArray]:
    function = _checked(f"cupy.{name}", getattr(np, name), NAMES["cupy"][name])

    def call(*args: Any, **kwargs: Any) -> DeviceArray:
        array = function(*args, **kwargs)
        _poison(array._host)
        return array

    return call


def _count_around_product(*arrays: Any) -> None:
    """CuPy's kernels beside cuBLAS's, of factors and `out`: copies of what is strided, pointers for unequal stacks."""
    hosts = [_operand(array) for array in arrays if array is not None]
    stacked, stacks = max(host.ndim for host in hosts[:2]) > 2, {host.shape[:-2] for host in hosts[:2]}
    launches["copy"] += sum(not (host.flags.c_contiguous if stacked else host.flags.forc) for host in hosts[:2])
    launches["copy"] += sum(not host.flags.c_contiguous for host in hosts[2:])
    launches["pointers"] += 3 * (len(stacks) > 1 and max(map(math.prod, stacks)) > 1)


def _product(name: str) -> Callable[..., DeviceArray]:
    """matmul or dot. cuBLAS writes to `out` while it reads the factors."""
    function = _checked(f"cupy.{name}", getattr(np, name), NAMES["cupy"][name])

    def call(*args: Any, **kwargs: Any) -> DeviceArray:
        out = kwargs.get("out", args[2] if len(args) > 2 else None)
        if out is not None and any(np.shares_memory(_operand(out), _operand(factor)) for factor in args[:2]):
            raise ValueError(f"`out` of {name} overlaps a factor")
        if name == "dot" and out is not None and not _operand(out).flags.c_contiguous:
            raise ValueError("CuPy's dot needs an `out` that is C-contiguous")
        result: DeviceArray = function(*args, **kwargs)
        _count_around_product(*args[:2], out)
        return result

    return call


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if type(condition) is not DeviceArray:
        raise TypeError(f"CuPy's where needs an array as its condition, not {type(condition)}")
    launches["where"] += 1
    if x is None and y is None:
        _count()
        return _wrap(np.where(condition._host))
    return _wrap(np.where(condition._host, _operand(x), _operand(y)))


def _one_matrix(name: str) -> Callable[..., Any]:
    """A function of scipy.linalg that takes stacks of matrices, where CuPy's takes a single one."""
    function = _checked(f"linalg.{name}", getattr(scipy.linalg, name), NAMES["cupyx.scipy.linalg"][name])

    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        matrix = a[0] if name == "lu_solve" else a
        if matrix.ndim != 2 or matrix.dtype.char not in "fdFD":
            raise ValueError(f"CuPy's {name} takes one matrix of floats, not {matrix.dtype} of shape {matrix.shape}")
        if name == "lu_solve" and matrix.dtype.kind == "f" and args[0].dtype.kind == "c":
            raise ValueError("CuPy's lu_solve drops the imaginary part of the right-hand side")
        return function(a, *args, **kwargs)

    return call


def _sum_segments(rows: DeviceArray, order: DeviceArray, first: DeviceArray) -> DeviceArray:
    """`segments.of_cupy`, one launch."""
    launches["sum_segments"] += 1
    sums = np.zeros((len(first) - 1, rows.shape[1]), rows.dtype)
    np.add.at(sums, np.repeat(np.arange(len(sums)), np.diff(first._host)), rows._host[order._host])
    return _wrap(sums)


_add_operators()
_add_methods()

_OWN = {"ndarray": DeviceArray, "array": _array, "asarray": _asarray, "asnumpy": _asnumpy, "where": _where}
_OWN["fuse"] = _fuse
_OWN |= {name: _empty(name) for name in ("empty", "empty_like")} | {name: _product(name) for name in ("dot", "matmul")}
_OWN |= {name: Namespace(f"cupy.{name}", getattr(np, name), {}) for name in ("linalg", "fft")}
_OWN["random"] = Namespace("cupy.random", np.random, {"default_rng": _default_rng})

xp = Namespace("cupy", np, _OWN)
linalg = Namespace(
    "cupyx.scipy.linalg", scipy.linalg, {name: _one_matrix(name) for name in ("lu_factor", "lu_solve", "lu", "expm")}
)
_MOVES = (_asarray, lambda array: array.get(order="A"))
LIBRARY = backend.ArrayLibrary("stand-in", xp, linalg, *_MOVES, _fuse, _sum_segments)
