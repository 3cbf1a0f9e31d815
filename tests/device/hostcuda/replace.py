"""Puts the device's functions in the place of CuPy's: parts.py lists what is replaced."""

import ctypes
import importlib
import re
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .compiler import Compiler, program_class
from .parts import CAPSULES, RUNTIME, signature_of

_C_TYPES = {
    "PyObject *": ctypes.py_object,
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "intptr_t": ctypes.c_ssize_t,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
}


def runtime(device: ctypes.CDLL, version: int) -> None:
    """CUDA's runtime, for Cython by its capsules and for Python by its names; what is not there says so."""
    module = importlib.import_module(RUNTIME)
    capsules = module.__pyx_capi__
    device.hc_capsule.restype, device.hc_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p]
    for name, capsule in list(capsules.items()):
        if name in CAPSULES:
            function = getattr(device, f"rt_{name}")
            signature = signature_of(capsule)
            capsules[name] = device.hc_capsule(ctypes.cast(function, ctypes.c_void_p), signature.encode())
            replacement = _for_python(f"rt_{name}", signature, device)
        elif callable(getattr(module, name, None)) and name != "check_status":
            replacement = _missing(f"the runtime's {name}")
        else:
            continue
        if hasattr(module, name):
            setattr(module, name, replacement)
    module._getLocalRuntimeVersion = lambda: version


def _for_python(symbol: str, signature: str, device: ctypes.CDLL) -> Callable[..., Any]:
    """A C function for Python, without the last argument, which is Cython's."""
    result, arguments = re.fullmatch(r"(.*?) ?\((.*)\)", signature).groups()
    types_ = [_C_TYPES[name.strip()] for name in arguments.split(",")[:-1]] if "__pyx" in arguments else []
    function = ctypes.PYFUNCTYPE(_C_TYPES[result], *types_, ctypes.c_int)((symbol, device))
    # of optional arguments only the last ones are left out, and these are 0
    return lambda *given: function(*given, *([0] * (len(types_) - len(given))), 0)


def _missing(what: str) -> Callable[..., Any]:
    def raise_(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"hostcuda: {what} is not there")

    return raise_


def libraries(found: dict[str, ctypes.CDLL]) -> None:
    """What loads NVIDIA's libraries finds the device's."""
    pathfinder: Any = importlib.import_module("cuda.pathfinder")
    real = pathfinder.load_nvidia_dynamic_lib

    def load(libname: str) -> Any:
        return types.SimpleNamespace(_handle_uint=found[libname]._handle) if libname in found else real(libname)

    pathfinder.load_nvidia_dynamic_lib = load


def fortran(device: ctypes.CDLL) -> None:
    """SciPy's BLAS and LAPACK, by name, for the libraries."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    device.hc_set_fortran.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    for module in ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack"):
        for name, capsule in importlib.import_module(module).__pyx_capi__.items():
            device.hc_set_fortran(name.encode(), pointer(capsule, signature_of(capsule).encode()))


def compiler(own: Compiler, version: int) -> None:
    """NVRTC."""
    module: Any = importlib.import_module("cupy.cuda.compiler")
    module._NVRTCProgram = program_class(own, module.CompileException)
    module._get_nvrtc_version = lambda: (version // 1000, version % 1000 // 10)
    module._get_arch_for_options_for_nvrtc = lambda arch=None: ("-arch=sm_90", "cubin")


def sorts() -> None:
    """Thrust's sorts, whose code for the device lies in the wheel."""
    module: Any = importlib.import_module("cupy.cuda.thrust")

    def view(pointer: int, dtype: Any, shape: Any) -> np.ndarray:
        size = int(np.prod(shape))
        memory = (ctypes.c_char * max(1, size * np.dtype(dtype).itemsize)).from_address(pointer)
        return np.frombuffer(memory, dtype, size).reshape(shape)

    def sort(dtype: Any, data: int, keys: int, shape: Any) -> None:
        view(data, dtype, shape).sort(axis=-1)

    def argsort(dtype: Any, indices: int, data: int, keys: int, shape: Any) -> None:
        own = view(data, dtype, shape)
        view(indices, np.intp, shape)[...] = np.argsort(own, axis=-1, kind="stable")
        own.sort(axis=-1)

    module.sort, module.argsort = sort, argsort
