"""CuPy's real wheel on a machine without a GPU: a device of host memory whose kernels g++ compiles.

    import hostcuda; hostcuda.install()     # before cupy is imported for the first time

Real: every line of CuPy's Python and Cython, its kernel generator (ufuncs, fuse, reductions), its headers (CArray,
complex), argument packing, launch shapes, memory pool, what its routines do with strides and copies.
Replaced: the CUDA driver (libcuda.so.1), NVRTC (g++), CUDA's runtime (through __pyx_capi__), cuBLAS, cuSOLVER and
cuSPARSE as far as products, LU and CSR times dense go (BLAS and LAPACK of SciPy).
"""

import ctypes
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("HOSTCUDA_CACHE", Path.home() / ".cache" / "hostcuda"))
FLAGS = os.environ.get("HOSTCUDA_FLAGS", "-O1 -ffp-contract=fast -mfma").split()
STUB = r"extern int puts(const char*); int %s() { puts(\"hostcuda: %s is not there\"); return 15; }"

sonames: dict[str, str] = {}  # library -> the name under which this CuPy wants it
sources: list[tuple[str, str, tuple]] = []  # (kernel's name, source, options) of everything compiled or found in the cache
driver = runtime_library = blas = sparse = None


def _build(name: str, sources_: list[str], soname: str, flags: list[str]) -> Path:
    texts = [(HERE / s).read_bytes() for s in sources_]
    key = hashlib.sha256(b"".join(texts) + " ".join(flags).encode()).hexdigest()[:16]
    folder = CACHE / "lib" / key
    target = folder / soname
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        own = folder / f"tmp{os.getpid()}"
        command = ["g++", "-O2", "-fPIC", "-shared", f"-Wl,-soname,{soname}", "-o", str(own)]
        subprocess.run([*command, *[str(HERE / s) for s in sources_], *flags, "-ldl"], check=True)
        own.rename(target)
    return target


def _stubs(soname: str, extension: Path, pattern: str, have: Path | None) -> Path:
    """A library with every symbol that a CuPy extension needs of it: ours first, then stubs that say they are not there."""
    def symbols(path: Path, kind: str) -> set[str]:
        lines = subprocess.run(["nm", "-D", kind, str(path)], check=True, capture_output=True, text=True).stdout.split("\n")
        return {line.split()[-1].partition("@")[0] for line in lines if line.strip()}
    needed = {s for s in symbols(extension, "--undefined-only") if re.match(pattern, s)}
    needed -= symbols(have, "--defined-only") if have else set()
    text = "\n".join(f'int {s}(void) {{ hc_missing("{s}"); return 15; }}' for s in sorted(needed))
    text = "// %s\n" % hashlib.sha256(have.read_bytes() if have else b"").hexdigest() + "#include <stdio.h>\nstatic void hc_missing(const char* s) { fprintf(stderr, \"hostcuda: %s\\n\", s); }\n" + text
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    target = CACHE / "lib" / key / (soname + ".stubs.c")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return target


def _library(soname: str, name: str, ours: list[str], extension: Path | None, pattern: str, flags: list[str]) -> ctypes.CDLL:
    base = _build(name, ours, soname + ".base", flags) if ours else None
    if extension is None:
        return ctypes.CDLL(str(_build(name, ours, soname, flags)), mode=ctypes.RTLD_GLOBAL)
    stubs = _stubs(soname, extension, pattern, base)
    target = stubs.with_name(soname)
    if not target.exists():
        obj = stubs.with_suffix(".o")
        subprocess.run(["gcc", "-fPIC", "-w", "-c", str(stubs), "-o", str(obj)], check=True)
        command = ["g++", "-O2", "-fPIC", "-shared", f"-Wl,-soname,{soname}", "-o", str(target)]
        subprocess.run([*command, *[str(HERE / s) for s in ours], str(obj), *flags], check=True)
    return ctypes.CDLL(str(target), mode=ctypes.RTLD_GLOBAL)


def _needed(extension: Path, stem: str) -> str:
    """The name under which a CuPy extension wants a library: libcublas.so.12 or .13."""
    lines = subprocess.run(["readelf", "-d", str(extension)], check=True, capture_output=True, text=True).stdout
    return next(name for name in re.findall(r"NEEDED.*\[(.*)\]", lines) if name.startswith(stem + ".so"))


def install() -> None:
    global driver, runtime_library, blas, sparse
    assert "cupy" not in sys.modules, "hostcuda.install() comes before the first import of cupy"
    os.environ["CUPY_ACCELERATORS"] = ""                      # no CUB: device code within the wheel, which would answer NaN
    # CuPy's own cache names an image by its CUDA source alone: another shim or other flags, another folder
    version = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in ("shim.h", "__init__.py")) + " ".join(FLAGS).encode())
    os.environ["CUPY_CACHE_DIR"] = str(CACHE / f"cupy-{version.hexdigest()[:12]}")
    site = Path(next(p for p in sys.path if (Path(p) / "cupy_backends").is_dir()))
    libs = site / "cupy_backends" / "cuda" / "libs"
    driver = _library("libcuda.so.1", "driver", ["libcuda.cpp"], None, "", [])
    made = {}
    for name, ours, flags in (("cublas", ["blas.cpp"], []), ("cusolver", ["blas.cpp"], ["-DSOLVERS"]), ("cusparse", ["sparse.cpp"], []), ("curand", [], []), ("cufft", ["fft.cpp"], [])):
        folder = site / "cupy" / "cuda" if name == "cufft" else libs
        extension = next(folder.glob(name + ".cpython-*.so"))
        sonames[name] = _needed(extension, "lib" + name)
        made[name] = _library(sonames[name], name, ours, extension, name, flags)
    blas, solver, sparse = made["cublas"], made["cusolver"], made["cusparse"]
    _fill_tables(blas, solver)
    import sysconfig

    path = _build("runtime", ["runtime.cpp"], "hc_runtime.so", ["-I" + sysconfig.get_paths()["include"]])
    runtime_library = ctypes.PyDLL(str(path))
    _patch_runtime()
    if "HOSTCUDA_MEMORY" in os.environ:
        ctypes.c_longlong.in_dll(runtime_library, "rt_limit").value = int(os.environ["HOSTCUDA_MEMORY"])
    _patch_compiler()
    ctypes.c_int.in_dll(driver, "hc_order").value = int(os.environ.get("HOSTCUDA_ORDER", "0"))
    ctypes.c_int.in_dll(sparse, "sp_shuffled").value = int("HOSTCUDA_NONDETERMINISTIC" in os.environ)


def _fill_tables(*libraries: ctypes.CDLL) -> None:
    import scipy.linalg.cython_blas as cb
    import scipy.linalg.cython_lapack as cl

    names = [x + "gemm" for x in "sdcz"] + [x + "getrf" for x in "sdcz"] + [x + "getrs" for x in "sdcz"] + [x + "trsm" for x in "sdcz"]
    names += [x + "gesvd" for x in "sdcz"] + [x + "geqrf" for x in "sdcz"] + ["sorgqr", "dorgqr", "cungqr", "zungqr"]
    ctypes.pythonapi.PyCapsule_GetName.restype = ctypes.c_char_p
    ctypes.pythonapi.PyCapsule_GetName.argtypes = [ctypes.py_object]
    ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
    ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    for library in libraries:
        table = (ctypes.c_void_p * 64).in_dll(library, "bl_table")
        for i, name in enumerate(names):
            capsule = (cb if name in cb.__pyx_capi__ else cl).__pyx_capi__[name]
            table[i] = ctypes.pythonapi.PyCapsule_GetPointer(capsule, ctypes.pythonapi.PyCapsule_GetName(capsule))


def _patch_runtime() -> None:
    import cupy_backends.cuda.api.runtime as runtime

    capi = runtime.__pyx_capi__
    make = runtime_library.rt_capsule
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_char_p, ctypes.c_char_p]
    name_of = ctypes.pythonapi.PyCapsule_GetName
    for name in list(capi):
        symbol = {"_ensure_context": "rt_ensure_context", "_getCUDAMajorVersion": "rt_getCUDAMajorVersion"}.get(name, "rt_" + name)
        try:
            address = ctypes.cast(getattr(runtime_library, symbol), ctypes.c_void_p).value
        except AttributeError:
            continue
        capi[name] = make(b"%x" % address, name_of(capi[name]))
    lib = runtime_library

    def call(symbol, result, *types):
        function = ctypes.PYFUNCTYPE(result, *types, ctypes.c_int)((symbol, lib))
        return lambda *a: function(*a, *([0] * (len(types) - len(a))), 0)

    o, i, p, n, u = ctypes.py_object, ctypes.c_int, ctypes.c_ssize_t, ctypes.c_size_t, ctypes.c_uint
    for name, types in {
        "getDevice": (i,), "getDeviceCount": (i,), "setDevice": (o, i), "deviceGetAttribute": (i, i, i), "driverGetVersion": (i,),
        "runtimeGetVersion": (i,), "deviceSynchronize": (o,), "malloc": (p, n), "free": (o, p), "hostAlloc": (p, n, u), "freeHost": (o, p),
        "memcpy": (o, p, p, n, i), "memcpyAsync": (o, p, p, n, i, p), "memset": (o, p, i, n), "memsetAsync": (o, p, i, n, p), "memGetInfo": (o,),
        "streamSynchronize": (o, p), "streamCreate": (p,), "eventCreate": (p,), "eventRecord": (o, p, p), "eventSynchronize": (o, p),
        "eventElapsedTime": (ctypes.c_float, p, p), "streamIsCapturing": (i, p), "getDeviceProperties": (o, i), "pointerGetMemoryType": (i, p),
    }.items():
        setattr(runtime, name, call("rt_" + name, *types))
    runtime._getLocalRuntimeVersion = lambda: 12090


# In front of everything; a precompiled header of it and CuPy's own would halve the time.
HEAD = '#include "shim.h"\n'
KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(')
FIBERS = re.compile(r"__syncthreads|__syncwarp|__shfl|cooperative_groups|grid_group|_cg::|__nanosleep|atomicAdd\s*\(\s*\(?volatile")


def translate(source: str) -> tuple[str, list[str]]:
    names = KERNEL.findall(source)
    source = re.sub(r"extern\s+__shared__\s+(?:__align__\(\d+\)\s+)?([\w:<> ]+?)\s+(\w+)\s*\[\s*\]\s*;", r"\1* \2 = reinterpret_cast<\1*>(hc_dynamic_shared);", source)
    source = source.replace("#include <cooperative_groups.h>", "").replace("#pragma unroll 1", "")
    source = re.sub(r"#pragma unroll.*", "", source)
    tail = "\n".join(f"HC_EXPORT({name})" for name in names)
    fibers = int(bool(FIBERS.search(source)))
    shared = bool(re.search(r"__shared__", source))
    body = source[source.find('extern "C" __global__') :]  # CuPy compiles with -ftz=true, which is about float only
    ftz = int(bool(re.search(r"\bfloat\b", body)) and not re.search(r"\bdouble\b", body))
    tail += f'\nextern "C" {{ int hc_uses_fibers = {fibers}; int hc_ftz = {ftz}; char* hc_shared_begin = {"__start_hcshared" if shared else "nullptr"}; char* hc_shared_end = {"__stop_hcshared" if shared else "nullptr"}; }}\n'
    return HEAD + source + "\n" + tail, names


def compile_source(source: str, options: tuple = ()) -> bytes:
    """CUDA C++ to an image that the driver's stand-in loads."""
    text, names = translate(source)
    include = [o for o in options if o.startswith("-I") and "_cccl" not in o and "cuda_runtime" not in o]
    include += [o for o in options if o.startswith("-I") and o not in include and os.environ.get("HOSTCUDA_ALL_INCLUDES")]
    key = hashlib.sha256((text + (HERE / "shim.h").read_text() + " ".join(FLAGS)).encode()).hexdigest()[:24]
    folder = CACHE / "kernels"
    target = folder / f"{key}.so"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{key}.cpp").write_text(text)
        with tempfile.TemporaryDirectory() as tmp:
            own = Path(tmp) / "k.so"
            command = ["g++", "-std=gnu++17", "-w", "-shared", "-fPIC", "-fno-strict-aliasing", *FLAGS, "-I" + str(HERE / "include"), "-I" + str(HERE)]
            command += [*include, "-DHOSTCUDA", "-D__CUDACC_VER_MAJOR__=12", "-o", str(own), str(folder / f"{key}.cpp")]
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode:
                raise RuntimeError("g++: " + " ".join(command) + "\n" + result.stderr[:6000])
            target.write_bytes(own.read_bytes())
    return b"HOSTCUDA:" + str(target).encode() + b"\0"


class _Program:
    """In place of cupy.cuda.compiler._NVRTCProgram."""

    def __init__(self, src, name="default_program", headers=(), include_names=(), name_expressions=None, method="ptx"):
        self.src, self.name, self.ptr = src if isinstance(src, str) else src.decode(), name, 1
        self.name_expressions, self.method = name_expressions, method

    def compile(self, options=(), log_stream=None):
        if not self.src.strip():
            return b"// hostcuda\n", None
        sources.append((",".join(KERNEL.findall(self.src)), self.src, tuple(options)))
        if os.environ.get("HOSTCUDA_DUMP"):
            key = hashlib.sha256((self.src + " ".join(options)).encode()).hexdigest()[:12]
            folder = Path(os.environ["HOSTCUDA_DUMP"])
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{sources[-1][0]}-{key}.cu").write_text("// " + " ".join(options) + "\n" + self.src)
        return compile_source(self.src, tuple(options)), None


def _patch_compiler() -> None:
    import cuda.pathfinder as pathfinder
    import types

    real = pathfinder.load_nvidia_dynamic_lib

    def load(name):
        if name in sonames:
            return types.SimpleNamespace(_handle_uint=ctypes.CDLL(sonames[name])._handle)
        return real(name)

    pathfinder.load_nvidia_dynamic_lib = load
    import cupy.cuda.compiler as compiler
    import cupy.cuda.thrust as thrust
    import numpy as np

    def view(pointer, dtype, shape):
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer((ctypes.c_char * max(count, 1)).from_address(pointer), dtype, int(np.prod(shape))).reshape(shape)

    def sort(dtype, data, keys, shape):
        view(data, dtype, shape).sort(axis=-1)

    def argsort(dtype, idx, data, keys, shape):
        own = view(data, dtype, shape)
        view(idx, np.intp, shape)[...] = np.argsort(own, axis=-1, kind="stable")
        own.sort(axis=-1)

    thrust.sort, thrust.argsort = sort, argsort            # device code within the wheel

    compiler._NVRTCProgram = _Program
    compiler._get_nvrtc_version = lambda: (12, 9)
    compiler._get_arch_for_options_for_nvrtc = lambda arch=None: ("-arch=sm_90", "cubin")


@dataclass
class Counts:
    """What was asked of the device: kernels, cuBLAS calls, copies, waits."""

    kernels: int = 0
    products: int = 0
    to_host: int = 0
    to_device: int = 0
    waits: int = 0


def _now() -> Counts:
    def of(library: ctypes.CDLL, name: str) -> int:
        return ctypes.c_longlong.in_dll(library, name).value

    return Counts(
        of(driver, "hc_launches"),
        of(blas, "bl_calls"),
        *(of(runtime_library, f"rt_{name}") for name in ("d2h", "h2d", "syncs")),
    )


@contextmanager
def counted() -> Iterator[Counts]:
    """Count; what was yielded has the counts when the block is left."""
    own, before = Counts(), _now()
    try:
        yield own
    finally:
        after = _now()
        for field in vars(own):
            setattr(own, field, getattr(after, field) - getattr(before, field))


@contextmanager
def _set(library: ctypes.CDLL, **values: int) -> Iterator[None]:
    cells = {ctypes.c_int.in_dll(library, name): value for name, value in values.items()}
    before = [cell.value for cell in cells]
    for cell, value in cells.items():
        cell.value = value
    try:
        yield
    finally:
        for cell, value in zip(cells, before, strict=True):
            cell.value = value


ORDERS = ("in order", "reversed", "shuffled")


def ordered(kind: str, seed: int = 0) -> AbstractContextManager[None]:
    """Threads, warps and blocks "in order", "reversed", or "shuffled" at every barrier."""
    return _set(driver, hc_order=ORDERS.index(kind), hc_seed=seed)


def executed(on: bool) -> AbstractContextManager[None]:
    """False: launches do nothing, which leaves the host's part of the time."""
    return _set(driver, hc_execute=int(on))


def shuffled_sums() -> AbstractContextManager[None]:
    """Transposed sparse products add in another order each time, as NVIDIA's page allows."""
    return _set(sparse, sp_shuffled=1)


def installed() -> bool:
    """Whether CuPy is on this device."""
    return driver is not None
