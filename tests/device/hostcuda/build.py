"""What g++ makes once and keeps: the device's library, and libraries under NVIDIA's names, in a folder of the cache.

The folder's name is a digest of all that its content depends on: this package, CuPy's build, the compiler. CuPy's own
cache of kernels lies in it too, so that it is never that of a real GPU.
"""

import ctypes
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = ("scheduler", "memory", "driver", "runtime", "cublas", "cusolver", "cusparse", "cufft")
#: NVIDIA's libraries -> CuPy's module that is linked to it, relative to site-packages, and how its symbols begin.
LIBRARIES = {
    "libcublas": ("cupy_backends/cuda/libs/cublas", "cublas"),
    "libcusolver": ("cupy_backends/cuda/libs/cusolver", "cusolver"),
    "libcusparse": ("cupy_backends/cuda/libs/cusparse", "cusparse"),
    "libcurand": ("cupy_backends/cuda/libs/curand", "curand"),
    "libcufft": ("cupy/cuda/cufft", "cufft"),
}
TOOLS = ("g++", "nm", "readelf", "objdump")


class UnavailableError(RuntimeError):
    """The host device cannot be had on this machine; the message says why."""


def check_machine() -> None:
    """Raise UnavailableError where there is no compiler, or a processor of another kind."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise UnavailableError(f"the host device is for Linux on x86-64; this is {sys.platform} on {platform.machine()}")
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise UnavailableError(f"the host device needs a compiler: {', '.join(missing)} not found")
    if not re.search(r"^flags\b.*\bfma\b", Path("/proc/cpuinfo").read_text(), re.M):
        raise UnavailableError("the host device needs a processor with fused multiply-add (FMA)")


def site_packages() -> Path:
    """Where CuPy is installed; found without importing it."""
    found = next((Path(entry) for entry in sys.path if (Path(entry) / "cupy_backends").is_dir()), None)
    if found is None:
        raise UnavailableError("the host device needs CuPy: pip install cupy-cuda13x")
    return found


def output_of(*command: str) -> str:
    """What a program prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def folder_for(site: Path, flags: Iterable[str]) -> Path:
    """The cache's folder for this package, this CuPy, this compiler with these flags; it exists."""
    parts = [path.read_bytes() for path in sorted(HERE.rglob("*")) if path.suffix in (".py", ".h", ".cpp")]
    parts += [path.name.encode() for path in sorted(site.glob("cupy_cuda*.dist-info"))]
    parts += [str(site).encode(), sys.version.encode(), output_of("g++", "--version").encode(), " ".join(flags).encode()]
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    folder = Path(os.environ.get("HOSTCUDA_CACHE", Path.home() / ".cache" / "hostcuda")) / digest
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """While one process fills a folder, others wait."""
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def compiled(target: Path, *arguments: str) -> Path:
    """Compile with g++ what is not there yet."""
    if not target.exists():
        unfinished = target.with_suffix(".unfinished")
        subprocess.run(["g++", "-std=gnu++17", "-w", *arguments, "-o", str(unfinished)], check=True)
        unfinished.rename(target)
    return target


def symbols(path: Path, kind: str) -> set[str]:
    """Names that a shared object defines or wants."""
    return {line.split()[-1].partition("@")[0] for line in output_of("nm", "-D", kind, str(path)).splitlines()}


def needed(extension: Path, stem: str) -> str:
    """The name under which a CuPy extension wants a library: libcublas.so.12 or .13."""
    return re.search(rf"NEEDED.*\[({stem}\.so[\w.]*)\]", output_of("readelf", "-d", str(extension)))[1]


def device_library(folder: Path, cuda_version: int) -> ctypes.CDLL:
    """The driver, the runtime and the libraries in one."""
    sources = [str(HERE / f"{name}.cpp") for name in SOURCES]
    include = f"-I{sysconfig.get_paths()['include']}"
    flags = ["-O2", "-fPIC", "-shared", "-Wl,-soname,libhostcuda.so", include, f"-DHC_CUDA_VERSION={cuda_version}"]
    target = compiled(folder / "libhostcuda.so", *flags, *sources, "-ldl")
    return ctypes.PyDLL(str(target), mode=ctypes.RTLD_GLOBAL)


def named_library(folder: Path, soname: str, wanted: Iterable[str]) -> ctypes.CDLL:
    """A library under NVIDIA's name: the device's own functions, and for every other one a stub that says its name."""
    target = folder / soname
    if not target.exists():
        text = '#include <stdio.h>\nstatic int missing(const char* name) {\n  fprintf(stderr, "hostcuda: %s is not there\\n", name);\n  return 15;\n}\n'
        text += "".join(f'int {name}(void) {{ return missing("{name}"); }}\n' for name in sorted(wanted))
        stubs = folder / f"{soname}.c"
        stubs.write_text(text)
        own = ["-L", str(folder), "-Wl,--no-as-needed", "-l:libhostcuda.so"]
        compiled(target, "-x", "c", "-std=gnu11", "-fPIC", "-shared", f"-Wl,-soname,{soname}", str(stubs), *own)
    return ctypes.CDLL(str(target), mode=ctypes.RTLD_GLOBAL)


def libraries(site: Path, folder: Path, cuda_version: int) -> tuple[ctypes.CDLL, dict[str, ctypes.CDLL]]:
    """The device's library, and those under NVIDIA's names by CuPy's name for them ("cublas"), all of them loaded."""
    with only_one(folder):
        device = device_library(folder, cuda_version)
        ours = symbols(folder / "libhostcuda.so", "--defined-only")
        named_library(folder, "libcuda.so.1", ())
        found = {}
        for stem, (module, prefix) in LIBRARIES.items():
            extension = next(site.glob(f"{module}.cpython-*.so"))
            wanted = {name for name in symbols(extension, "--undefined-only") if name.startswith(prefix)}
            found[prefix] = named_library(folder, needed(extension, stem), wanted - ours)
        return device, found
