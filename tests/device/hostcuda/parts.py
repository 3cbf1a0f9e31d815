"""Everything of CuPy that the host device replaces, and how that looks in CuPy 14.2. In another it may have moved."""

import ctypes
import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

RUNTIME = "cupy_backends.cuda.api.runtime"
_RESULTS = {  # of the runtime's functions -> these functions -> their arguments
    "PyObject *": {
        "deviceSynchronize memGetInfo": "",
        "getDeviceProperties setDevice": "int, ",
        "free freeHost eventDestroy eventQuery eventSynchronize": "intptr_t, ",
        "streamDestroy streamQuery streamSynchronize": "intptr_t, ",
        "eventRecord": "intptr_t, intptr_t, ",
        "memcpy": "intptr_t, intptr_t, size_t, int, ",
        "memcpyAsync": "intptr_t, intptr_t, size_t, int, intptr_t, ",
        "memset": "intptr_t, int, size_t, ",
        "memsetAsync": "intptr_t, int, size_t, intptr_t, ",
    },
    "int ": {
        "_getCUDAMajorVersion driverGetVersion runtimeGetVersion getDevice getDeviceCount": "",
        "deviceCanAccessPeer deviceGetAttribute": "int, int, ",
        "pointerGetMemoryType streamIsCapturing": "intptr_t, ",
    },
    "intptr_t ": {
        "eventCreate streamCreate": "",
        "malloc": "size_t, ",
        "hostAlloc": "size_t, unsigned int, ",
        "eventCreateWithFlags streamCreateWithFlags": "unsigned int, ",
        "streamCreateWithPriority": "unsigned int, int, ",
    },
    "float ": {"eventElapsedTime": "intptr_t, intptr_t, "},
}
#: The runtime's functions, in C: name -> as Cython writes it. runtime.cpp has them.
CAPSULES = {
    name: f"{result}({arguments}int __pyx_skip_dispatch)"
    for result, functions in _RESULTS.items()
    for names, arguments in functions.items()
    for name in names.split()
} | {"_ensure_context": "PyObject *(void)"}

#: "module:name" -> what is there: a capsule's C function, the docstring of a function of Cython's, else parameters.
BEFORE_IMPORT = {f"{RUNTIME}:{name}": signature for name, signature in CAPSULES.items()}
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
    if name in CAPSULES:
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
    """Raise MovedError that lists every part which is not as expected.

    Parameters
    ----------
    parts : dict
        BEFORE_IMPORT, which is replaced before CuPy is imported, or AFTER_IMPORT.
    load : callable
        Name of a module -> the module.
    """
    if lines := list(_moved(parts, load)):
        raise MovedError("\n  ".join(["hostcuda is not made for this CuPy. What moved:", *lines]))
