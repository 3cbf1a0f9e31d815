"""Puts the device's functions in the place of CuPy's: parts.py lists what is replaced."""

import ctypes
import importlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .compiler import Compiler, program_class
from .libraries import view
from .parts import BEFORE_IMPORT, FUNCTIONS, RUNTIME

_C_TYPES = {
    "PyObject*": ctypes.py_object,
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "intptr_t": ctypes.c_ssize_t,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
}


def runtime(device: ctypes.CDLL, version: int) -> None:
    """CUDA's runtime, for Cython by its capsules and for Python by its names; what is not there says so."""
    module: Any = importlib.import_module(RUNTIME)

    def failed(error: int, what: str | None) -> None:
        raised = module.CUDARuntimeError(error)
        raised.args = raised.args if what is None else (what,)
        raise raised

    ctypes.py_object.in_dll(device, "hc_raise").value = failed
    device.kept = failed
    device.hc_capsule.restype, device.hc_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p]
    for name in FUNCTIONS.keys() & module.__pyx_capi__.keys():
        function = ctypes.cast(getattr(device, f"rt_{name}"), ctypes.c_void_p)
        module.__pyx_capi__[name] = device.hc_capsule(function, BEFORE_IMPORT[f"{RUNTIME}:{name}"].encode())
    for name in module.__pyx_capi__.keys() & vars(module).keys() - {"check_status"}:
        setattr(module, name, _for_python(name, device) if name in FUNCTIONS else _missing(name))
    module._getLocalRuntimeVersion = lambda: version


def _for_python(name: str, device: ctypes.CDLL) -> Callable[..., Any]:
    """A C function for Python, without the last argument, which is Cython's; what is left out is 0."""
    result, arguments = FUNCTIONS[name]
    function = ctypes.PYFUNCTYPE(*map(_C_TYPES.get, [result, *arguments]))((f"rt_{name}", device))
    return lambda *given: function(*given, *[0] * (len(arguments) - len(given)))


def _missing(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"hostcuda: the runtime's {name} is not there")

    return refuse


def loader(found: dict[str, ctypes.CDLL]) -> None:
    """What loads NVIDIA's libraries finds the device's."""
    pathfinder: Any = importlib.import_module("cuda.pathfinder")
    real = pathfinder.load_nvidia_dynamic_lib

    def load(libname: str) -> Any:
        return types.SimpleNamespace(_handle_uint=found[libname]._handle) if libname in found else real(libname)

    pathfinder.load_nvidia_dynamic_lib = load


def compiler(own: Compiler, version: int) -> None:
    """NVRTC."""
    module: Any = importlib.import_module("cupy.cuda.compiler")
    module._NVRTCProgram = program_class(own, module.CompileException)
    module._get_nvrtc_version = lambda: (version // 1000, version % 1000 // 10)
    module._get_arch_for_options_for_nvrtc = lambda arch=None: ("-arch=sm_90", "cubin")


def sorts() -> None:
    """Thrust's sorts, whose code for the device lies in the wheel."""
    module: Any = importlib.import_module("cupy.cuda.thrust")

    def sort(dtype: Any, data: int, keys: int, shape: Any) -> None:
        view(data, dtype, tuple(shape)).sort(axis=-1)

    def argsort(dtype: Any, indices: int, data: int, keys: int, shape: Any) -> None:
        own = view(data, dtype, tuple(shape))
        view(indices, np.intp, tuple(shape))[...] = np.argsort(own, axis=-1, kind="stable")
        own.sort(axis=-1)

    module.sort, module.argsort = sort, argsort
