"""Everything of CuPy that the host device replaces, and how it has to look for that: written for CuPy 14.2.

Another CuPy may have changed any of it; `moved` says what.
"""

import ctypes
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

_PYTHON, _NUMBER, _HANDLE = "PyObject *({}int __pyx_skip_dispatch)", "int ({}int __pyx_skip_dispatch)", "intptr_t ({}int __pyx_skip_dispatch)"

RUNTIME = "cupy_backends.cuda.api.runtime"
#: The runtime's functions, for C and for Python -> arguments, by the form of the result. runtime.cpp has them.
_FUNCTIONS: dict[str, dict[str, str]] = {
    _PYTHON: {
        **dict.fromkeys(("deviceSynchronize", "memGetInfo"), ""),
        **dict.fromkeys(("getDeviceProperties", "setDevice"), "int, "),
        **dict.fromkeys(("free", "freeHost", "eventDestroy", "eventQuery", "eventSynchronize"), "intptr_t, "),
        **dict.fromkeys(("streamDestroy", "streamQuery", "streamSynchronize"), "intptr_t, "),
        "eventRecord": "intptr_t, intptr_t, ",
        "memcpy": "intptr_t, intptr_t, size_t, int, ",
        "memcpyAsync": "intptr_t, intptr_t, size_t, int, intptr_t, ",
        "memset": "intptr_t, int, size_t, ",
        "memsetAsync": "intptr_t, int, size_t, intptr_t, ",
    },
    _NUMBER: {
        **dict.fromkeys(("_getCUDAMajorVersion", "driverGetVersion", "runtimeGetVersion"), ""),
        **dict.fromkeys(("getDevice", "getDeviceCount"), ""),
        **dict.fromkeys(("deviceCanAccessPeer", "deviceGetAttribute"), "int, int, "),
        **dict.fromkeys(("pointerGetMemoryType", "streamIsCapturing"), "intptr_t, "),
    },
    _HANDLE: {
        **dict.fromkeys(("eventCreate", "streamCreate"), ""),
        "malloc": "size_t, ",
        "hostAlloc": "size_t, unsigned int, ",
        **dict.fromkeys(("eventCreateWithFlags", "streamCreateWithFlags"), "unsigned int, "),
        "streamCreateWithPriority": "unsigned int, int, ",
    },
    "float ({}int __pyx_skip_dispatch)": {"eventElapsedTime": "intptr_t, intptr_t, "},
    "PyObject *(void)": {"_ensure_context": ""},
}
CAPSULES = {name: form.format(given) for form, functions in _FUNCTIONS.items() for name, given in functions.items()}

#: (Module, name) -> its parameters; of Cython's functions the beginning of the docstring.
FUNCTIONS = {
    ("cupy.cuda.compiler", "_NVRTCProgram"): "src, name, headers, include_names, name_expressions, method",
    ("cupy.cuda.compiler", "_NVRTCProgram.compile"): "self, options, log_stream",
    ("cupy.cuda.compiler", "_get_nvrtc_version"): "",
    ("cupy.cuda.compiler", "_get_arch_for_options_for_nvrtc"): "arch",
    ("cupy.cuda.compiler", "CompileException"): "msg, source, name, options, backend",
    ("cupy.cuda.thrust", "sort"): "sort(dtype, intptr_t data_start, intptr_t keys_start, shape)",
    ("cupy.cuda.thrust", "argsort"): "argsort(dtype, intptr_t idx_start, intptr_t data_start, intptr_t keys_start, shape)",
    ("cuda.pathfinder", "load_nvidia_dynamic_lib"): "libname",
    (RUNTIME, "_getLocalRuntimeVersion"): "_getLocalRuntimeVersion()",
}

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]


def signature_of(capsule: Any) -> str:
    """The C function that Cython keeps in a capsule, as it writes it."""
    return (_name_of(capsule) or b"").decode()


def _found(module: Any, name: str) -> str:
    """The parameters of a function, or, where Cython made it, the first line of its docstring."""
    part = module
    for step in name.split("."):
        part = getattr(part, step)
    if inspect.isbuiltin(part) or not (inspect.isclass(part) or inspect.isfunction(part) or hasattr(part, "__wrapped__")):
        return (part.__doc__ or "").partition("\n")[0]
    return ", ".join(inspect.signature(part).parameters)


def _differences(load: Any) -> Iterator[str]:
    for (where, name), expected in FUNCTIONS.items():
        try:
            found = _found(load(where), name)
        except (ImportError, AttributeError) as error:
            yield f"{where}.{name}: {error}"
            continue
        if found != expected:
            yield f"{where}.{name}: ({found}), not ({expected})"
    capsules = load(RUNTIME).__pyx_capi__
    for name, expected in CAPSULES.items():
        found = signature_of(capsules[name]) if name in capsules else "not there"
        if found != expected:
            yield f"{RUNTIME}.{name} in C: {found}, not {expected}"


def moved(load: Any = importlib.import_module) -> list[str]:
    """What of CuPy's private parts is not as expected, a line each; before anything is replaced.

    Parameters
    ----------
    load : callable
        Name of a module -> the module.
    """
    return list(_differences(load))
