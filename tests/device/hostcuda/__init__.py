"""CuPy's real wheel on a machine without a GPU: a device made of the host's memory, whose kernels g++ compiles.

    python -m pytest -p tests.device.hostcuda.plugin ...      # a suite on it
    python -m tests.device.hostcuda.run MODULE ...            # a program on it
    install()                                                 # before cupy is imported for the first time

Real are CuPy's Python and Cython, its kernel generator (ufuncs, fuse, reductions), its headers (CArray, complex,
float16), how it packs arguments and shapes launches, its memory pool, its copies and waits. Replaced are the driver,
NVRTC (by g++), the runtime, cuBLAS, cuSOLVER, cuSPARSE and cuFFT (by SciPy's BLAS and LAPACK and plain loops, as far as
they go: what is not there says its name) and Thrust's sorts. Not imitated: streams and races between launches, memory
order, CUB and NCCL, the rounding of NVIDIA's mathematical functions, time.

Memory that an array gets is NaN. Reads and writes outside of an allocation are errors that name the kernel; `guarded`
makes each array an allocation. Float32 kernels flush subnormal numbers; products and sums are contracted.

In the environment: HOSTCUDA_CACHE, a folder; HOSTCUDA_MEMORY, the device's bytes; HOSTCUDA_GUARD=1, `guarded` always;
HOSTCUDA_ORDER and HOSTCUDA_SEED, as `ordered` takes them; HOSTCUDA_SHUFFLED_SUMS=1; HOSTCUDA_DUMP, a folder for the
source of every kernel; HOSTCUDA_TRACE=1, the Python stack of each copy to the host; HOSTCUDA_FLAGS, of g++.
"""

import ctypes
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ORDERS = ("in order", "reversed", "shuffled")
#: Of `counted`: calls of cuBLAS are products, those of cuSOLVER, cuSPARSE and cuFFT libraries.
COUNTERS = ("kernels", "products", "libraries", "to_host", "to_device", "waits")

_state: Any = None  #: build.State, once there is a device


class UnavailableError(RuntimeError):
    """The host device cannot be had on this machine; the message says why."""


def installed() -> bool:
    """Whether CuPy is on this device."""
    return _state is not None


def install() -> None:
    """Put CuPy on this device, before it is imported for the first time.

    Raises
    ------
    UnavailableError
        No compiler, no CuPy, another kind of machine, or a CuPy whose private parts are not the expected ones.
    """
    global _state
    if installed():
        return
    if "cupy" in sys.modules:
        raise RuntimeError("hostcuda.install() comes before the first import of cupy")
    from . import build, compiler, libraries, parts, replace

    build.check_machine()
    site, given = build.site_packages(), os.environ.get
    folder = build.folder_for(site, compiler.FLAGS)
    os.environ["CUPY_ACCELERATORS"] = ""  # no CUB: device code within the wheel
    os.environ["CUPY_CACHE_DIR"] = str(Path(given("HOSTCUDA_DUMP", folder)) / "kernels")
    version = importlib.import_module("cupy_backends.cuda.api.driver").get_build_version()
    parts.check(parts.BEFORE_IMPORT)
    device, found = build.load_libraries(site, folder, version)
    replace.runtime(device, version)
    replace.loader(found)
    parts.check(parts.AFTER_IMPORT)
    replace.compiler(compiler.Compiler(folder, site), version)
    replace.sorts()
    state = build.State.in_dll(device, "hc_state")
    state.memory = int(given("HOSTCUDA_MEMORY", 1 << 34))
    state.order, state.seed = ORDERS.index(given("HOSTCUDA_ORDER", ORDERS[0])), int(given("HOSTCUDA_SEED", 0))
    state.shuffled_sums, state.traced = (int(given(f"HOSTCUDA_{name}", 0)) for name in ("SHUFFLED_SUMS", "TRACE"))
    libraries.shuffled_sums = lambda: state.shuffled_sums
    _state = state
    allocator = _own_allocation if int(given("HOSTCUDA_GUARD", 0)) else _from_pool
    importlib.import_module("cupy").cuda.set_allocator(allocator)


def _device() -> Any:
    if _state is None:
        raise RuntimeError("hostcuda.install() has not been called")
    return _state


@contextmanager
def _set(**values: int) -> Iterator[None]:
    state = _device()
    before = {name: getattr(state, name) for name in values}
    try:
        for name, value in values.items():
            setattr(state, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(state, name, value)


@contextmanager
def counted() -> Iterator[SimpleNamespace]:
    """Count what is asked of the device; what was yielded has `COUNTERS` when the block is left."""
    state, counts = _device(), SimpleNamespace()
    before = {name: getattr(state, name) for name in COUNTERS}
    try:
        yield counts
    finally:
        vars(counts).update({name: getattr(state, name) - value for name, value in before.items()})


def ordered(kind: str, seed: int = 0) -> AbstractContextManager[None]:
    """Threads, warps and blocks run "in order", "reversed", or "shuffled", by a seed, again at every barrier."""
    if kind not in ORDERS:
        raise ValueError(f"kind is {kind!r}; allowed: {', '.join(map(repr, ORDERS))}")
    return _set(order=ORDERS.index(kind), seed=seed, turn=0)


def shuffled_sums() -> AbstractContextManager[None]:
    """Transposed sparse products add in another order each time, as NVIDIA's documentation allows."""
    return _set(shuffled_sums=1)


def memory(size: int) -> AbstractContextManager[None]:
    """The device has so many bytes, those that are in use included."""
    return _set(memory=size)


def _from_pool(size: int) -> Any:
    """For CuPy's set_allocator: its pool, and NaN in place of what was there."""
    import cupy

    memory = cupy.get_default_memory_pool().malloc(size)
    ctypes.memset(memory.ptr, 0xFF, size)
    return memory


def _own_allocation(size: int) -> Any:
    """For CuPy's set_allocator: no pool."""
    import cupy

    try:
        return cupy.cuda.MemoryPointer(cupy.cuda.Memory(size), 0)
    except cupy.cuda.runtime.CUDARuntimeError:
        raise cupy.cuda.memory.OutOfMemoryError(size, _device().allocated, _device().memory) from None


@contextmanager
def guarded() -> Iterator[None]:
    """Every array is an allocation of its own, whose end is guarded, and which is gone when it is freed: no pool."""
    import cupy

    with cupy.cuda.using_allocator(_own_allocation):
        yield
