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

from . import COUNTERS, UnavailableError, libraries

HERE = Path(__file__).resolve().parent
#: NVIDIA's libraries -> CuPy's module that is linked to it, relative to site-packages.
LIBRARIES = {name: f"cupy_backends/cuda/libs/{name}" for name in ("cublas", "cusolver", "cusparse", "curand")}
LIBRARIES["cufft"] = "cupy/cuda/cufft"
#: Their functions that do nothing here, also when Python is gone, and those that only prepare.
NOTHING, NO_WORK = re.compile("Destroy|Set"), re.compile("Create|Get|bufferSize|MakePlan")
TOOLS = ("g++", "objdump")
SWITCHES = ("order", "seed", "turn", "shuffled_sums", "traced", "memory", "allocated")


class State(ctypes.Structure):
    """The device's switches and counters: `hc_State` of common.h."""

    _fields_ = [(name, ctypes.c_int64) for name in SWITCHES + COUNTERS]


#: A function under NVIDIA's name goes on in its slot, which Python fills; what computes is counted before.
ENTRY = """.globl {name}
.type {name}, @function
{name}: {first}
  jmp *table+{slot}(%rip)
"""
COUNTED = """
  movq hc_state@GOTPCREL(%rip), %rax
  incq {counter}(%rax)"""
LIBRARY = """.text
{entries}nothing: xorl %eax, %eax
  ret
.data
.globl slots
slots:
table: .zero {size}
.section .note.GNU-stack, "", @progbits
"""


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
    parts = [path.read_bytes() for path in sorted(HERE.rglob("*")) if path.suffix in (".py", ".h", ".cpp")]
    parts += [path.name.encode() for path in sorted(site.glob("cupy_cuda*.dist-info"))]
    parts += [text.encode() for text in (str(site), sys.version, output_of("g++", "--version"), *flags)]
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    folder = Path(os.environ.get("HOSTCUDA_CACHE", Path.home() / ".cache" / "hostcuda")) / digest
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def made_once(target: Path) -> Iterator[Path | None]:
    """A file to make for a target, or None where that is there; while one process makes it, others wait."""
    with open(target.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unfinished = target.with_suffix(".unfinished")
        yield None if target.exists() else unfinished
        if unfinished.exists():
            unfinished.rename(target)


def linked(target: Path, *arguments: str, source: str = "") -> str:
    """A shared object, by g++, where it is not there yet; source: what it reads as its standard input."""
    with made_once(target) as unfinished:
        if unfinished:
            command = ["g++", "-std=gnu++17", "-w", "-O2", "-fPIC", "-shared", f"-Wl,-soname,{target.name}", *arguments]
            subprocess.run([*command, "-o", str(unfinished)], check=True, input=source, text=True)
    return str(target)


def device_library(folder: Path, cuda_version: int) -> ctypes.CDLL:
    """The driver, the runtime and the scheduler in one."""
    include, version = f"-I{sysconfig.get_paths()['include']}", f"-DHC_CUDA_VERSION={cuda_version}"
    path = linked(folder / "libhostcuda.so", include, version, *map(str, sorted(HERE.glob("*.cpp"))), "-ldl")
    return ctypes.PyDLL(path, mode=ctypes.RTLD_GLOBAL)


def named_library(folder: Path, soname: str, names: list[str], counter: str = "libraries") -> ctypes.CDLL:
    """A library under NVIDIA's name, with an entry and a slot for each function, in this order."""
    counted, entries = COUNTED.format(counter=getattr(State, counter).offset), ""
    for i, name in enumerate(names):
        first = "jmp nothing" if NOTHING.search(name) else "" if NO_WORK.search(name) else counted
        entries += ENTRY.format(name=name, slot=8 * i, first=first)
    source = LIBRARY.format(entries=entries, size=8 * len(names))
    inputs = ["-x", "assembler", "-", "-x", "none", str(folder / "libhostcuda.so")]
    flags = ["-Wl,--default-symver,--no-as-needed,-rpath,$ORIGIN"]
    return ctypes.CDLL(linked(folder / soname, *flags, *inputs, source=source), mode=ctypes.RTLD_GLOBAL)


def wanted(extension: Path, library: str) -> tuple[str, list[str]]:
    """The name under which a CuPy extension wants a library, libcublas.so.12 or .13, and what it calls of it."""
    found = output_of("objdump", "-pT", str(extension))
    (soname,) = re.findall(rf"NEEDED\s+(lib{library}\.so\S*)", found)
    return soname, sorted(set(re.findall(rf"\*UND\*.*\s({library}\w+)$", found, re.M)))


def load_libraries(site: Path, folder: Path, cuda_version: int) -> tuple[ctypes.CDLL, dict[str, ctypes.CDLL]]:
    """The device's library, and those under NVIDIA's names by CuPy's name for them ("cublas"), all of them loaded."""
    device, found = device_library(folder, cuda_version), {}
    named_library(folder, "libcuda.so.1", [])
    for name, module in LIBRARIES.items():
        soname, names = wanted(next(site.glob(f"{module}.cpython-*.so")), name)
        found[name] = named_library(folder, soname, names, "products" if name == "cublas" else "libraries")
        libraries.fill(found[name], names)
    return device, found
