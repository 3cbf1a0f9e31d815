"""Everything of CuPy that the host device replaces, and how that looks in CuPy 14.2. In another it may have moved."""

import ctypes
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RUNTIME = "cupy_backends.cuda.api.runtime"
_DEFINED = re.findall(r"^(\w+\*?) rt_(\w+)\((.*?)\) \{", (HERE / "runtime.cpp").read_text(), re.M)
_TYPE = re.compile(r"unsigned int|\w+")
#: The runtime's functions that runtime.cpp has: name -> result, arguments.
FUNCTIONS = {
    name: (result, [_TYPE.match(argument)[0] for argument in arguments.split(", ") if argument])
    for result, name, arguments in _DEFINED
}


def _in_cython(result: str, arguments: list[str]) -> str:
    """A C function's type as Cython writes it: its own argument comes last, and has a name."""
    own = ", ".join([*arguments[:-1], "int __pyx_skip_dispatch"]) if arguments else "void"
    return f"{result.replace('*', '')} {'*' * ('*' in result)}({own})"


#: "module:name" -> what is there: the type of a C function, the docstring of a function of Cython's, else parameters.
BEFORE_IMPORT = {f"{RUNTIME}:{name}": _in_cython(*types) for name, types in FUNCTIONS.items()}
_POINTERS = "intptr_t data_start, intptr_t keys_start, vector[ptrdiff_t] shape)"
AFTER_IMPORT = {
    f"{RUNTIME}:_getLocalRuntimeVersion": "",
    "cuda.pathfinder:load_nvidia_dynamic_lib": "libname",
    "cupy.cuda.compiler:_NVRTCProgram": "src, name, headers, include_names, name_expressions, method",
    "cupy.cuda.compiler:_NVRTCProgram.compile": "self, options, log_stream",
    "cupy.cuda.compiler:_get_nvrtc_version": "",
    "cupy.cuda.compiler:_get_arch_for_options_for_nvrtc": "arch",
    "cupy.cuda.compiler:CompileException": "msg, source, name, options, backend",
    "cupy.cuda.thrust:sort": f"sort(dtype, {_POINTERS}",
    "cupy.cuda.thrust:argsort": f"argsort(dtype, intptr_t idx_start, {_POINTERS}",
}

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]


class MovedError(RuntimeError):
    """CuPy's private parts are not what the host device replaces."""


def _found(module: Any, name: str) -> str:
    """How a part looks, in the words of the tables above."""
    if name in FUNCTIONS:
        return _name_of(module.__pyx_capi__[name]).decode()
    part = module
    for step in name.split("."):
        part = getattr(part, step)
    if inspect.isclass(part) or inspect.isfunction(inspect.unwrap(part)):
        return ", ".join(inspect.signature(part).parameters)
    return (part.__doc__ or "").partition("\n")[0]


def _moved(parts: dict[str, str], load: Callable[[str], Any]) -> Iterator[str]:
    for part, expected in parts.items():
        module, _, name = part.partition(":")
        try:
            found = _found(load(module), name)
        except (ImportError, AttributeError, KeyError) as error:
            yield f"{part} is not there: {error}"
            continue
        if found != expected:
            yield f"{part} is {found!r}, not {expected!r}"


def check(parts: dict[str, str], load: Callable[[str], Any] = importlib.import_module) -> None:
    """Raise MovedError that lists every part of a table which is not as expected; load: a module, by its name."""
    if lines := list(_moved(parts, load)):
        raise MovedError("\n  ".join(["hostcuda is not made for this CuPy. What moved:", *lines]))
