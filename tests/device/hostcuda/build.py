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

from . import UnavailableError, libraries
from .state import State

HERE = Path(__file__).resolve().parent
SOURCES = ("scheduler", "memory", "driver", "runtime")
#: NVIDIA's libraries -> CuPy's module that is linked to it, relative to site-packages.
LIBRARIES = {name: f"cupy_backends/cuda/libs/{name}" for name in ("cublas", "cusolver", "cusparse", "curand")}
LIBRARIES["cufft"] = "cupy/cuda/cufft"
#: Their functions that do nothing here, and those that only prepare.
NOTHING, NO_WORK = re.compile("Destroy|Set"), re.compile("Create|Get|bufferSize|MakePlan")
TOOLS = ("g++", "nm", "readelf", "objdump")


def check_machine() -> None:
    """Raise UnavailableError where there is no compiler, or a processor of another kind."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise UnavailableError(f"the host device is for Linux on x86-64, not {sys.platform} on {platform.machine()}")
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
    parts = [path.read_bytes() for path in sorted(HERE.rglob("*")) if path.suffix in (".py", ".h", ".cpp", ".s")]
    parts += [path.name.encode() for path in sorted(site.glob("cupy_cuda*.dist-info"))]
    parts += [text.encode() for text in (str(site), sys.version, output_of("g++", "--version"), *flags)]
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


def named_library(folder: Path, soname: str, wanted: Iterable[str], counter: str) -> ctypes.CDLL:
    """A library under NVIDIA's name with an entry for each function; those that compute count."""
    target = folder / soname
    if not target.exists():
        counts = f"1, {getattr(State, counter).offset}, {State.executed.offset}"
        lines = [
            f"NOTHING {name}\n" if NOTHING.search(name) else f"ENTRY {name}, {0 if NO_WORK.search(name) else counts}\n"
            for name in sorted(wanted)
        ]
        own = folder / f"{soname}.s"
        own.write_text((HERE / "entry.s").read_text() + "".join(lines))
        flags = ["-shared", f"-Wl,-soname,{soname}", "-Wl,--default-symver,--no-as-needed,-rpath,$ORIGIN"]
        compiled(target, *flags, str(own), str(folder / "libhostcuda.so"))
    return ctypes.CDLL(str(target), mode=ctypes.RTLD_GLOBAL)


def load_libraries(site: Path, folder: Path, cuda_version: int) -> tuple[ctypes.CDLL, dict[str, ctypes.CDLL]]:
    """The device's library, and those under NVIDIA's names by CuPy's name for them ("cublas"), all of them loaded."""
    with only_one(folder):
        device = device_library(folder, cuda_version)
        named_library(folder, "libcuda.so.1", (), "libraries")
        found = {}
        for name, module in LIBRARIES.items():
            extension = next(site.glob(f"{module}.cpython-*.so"))
            wanted = {symbol for symbol in symbols(extension, "--undefined-only") if symbol.startswith(name)}
            counter = "products" if name == "cublas" else "libraries"
            found[name] = named_library(folder, needed(extension, f"lib{name}"), wanted, counter)
            libraries.fill(found[name], wanted)
        return device, found
