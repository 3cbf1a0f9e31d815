"""NVIDIA's own compiler on kernels, without a device: python -m tests.device.nvrtc FOLDER [--page docs/gpu.md]

FOLDER has sources as HOSTCUDA_DUMP leaves them: the first line has the options, the file's name begins with those of
the kernels. Each is compiled for every architecture of ARCHITECTURES; from NVIDIA's cuobjdump come registers and shared
memory, from its nvdisasm the instructions. Exit code 1 where a source does not compile, a kernel spills registers, or
one of float32 alone has a double instruction. With --page the table there is replaced; in it, by name, are all kernels
but CuPy's own.

NVRTC and the host device must not be in one process: NVRTC looks for private tables in libcuda.so.1.
"""

import argparse
import ctypes
import os
import re
import struct
import subprocess
import sys
import tempfile
from bisect import bisect
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
MARKS = "<!-- nvrtc: make nvrtc -->\n", "<!-- end of nvrtc -->\n"
#: Kernels that CuPy brings along have such names; all others are somebody's own, and have rows.
CUPYS = re.compile(r"cupy(x?)_|.*__(kernel|elementwise)")
DOUBLE = re.compile(r"\b(?:D(?:ADD|MUL|FMA|SETP|MNMX|MMA)|MUFU\.\w+64\w*|F2F\.F64\S*|I2F\.F64\S*|F2I\.F64\S*)\b")
SPILL = re.compile(r"\b(?:STL|LDL)\b")
REGISTERS, THREADS, BLOCKS = 65536, 2048, 32
#: Threads of a block in which a kernel is launched: the most that it says itself, or CuPy's of element-wise kernels.
BOUNDS, THREADS_OF_CUPY = re.compile(r"__launch_bounds__\s*\(\s*(\d+)"), 128


class Kernel(NamedTuple):
    """What the compiler made of one kernel, for one architecture."""

    name: str
    precision: str
    threads: int  #: of a block
    registers: int
    stack: int
    shared: int
    code: bytes = b""

    @property
    def occupancy(self) -> float:
        """The part of a multiprocessor's threads that its registers allow, in blocks of so many threads."""
        of_warp = -(-self.registers // 8) * 8 * 32  # granted in eights a thread, by the warp
        blocks = REGISTERS // (max(1, of_warp) * self.threads // 32)
        return min(blocks, BLOCKS, THREADS // self.threads) * self.threads / THREADS


def _installed(pattern: str) -> Path:
    """A file of NVIDIA's wheels."""
    for entry in sys.path:
        if found := sorted(Path(entry).glob(f"nvidia/*/{pattern}")):
            return found[0]
    raise SystemExit(f"{pattern} of NVIDIA's wheels is not installed: make nvrtc")


class Compiler:
    """NVRTC, of its wheel."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(_installed("lib/libnvrtc.so.*")))

    def _text(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvrtcGet{what}")(program, text)
        return text.raw

    def cubin(self, source: str, options: list[str]) -> bytes:
        """An image; ValueError with the compiler's words where there is none."""
        program = ctypes.c_void_p()
        if self.library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None):
            raise ValueError("NVRTC does not take the source")
        array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        failed = self.library.nvrtcCompileProgram(program, len(options), array)
        found = self._text(program, "ProgramLog" if failed else "CUBIN")
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        if failed:
            raise ValueError(found.decode(errors="replace").strip("\0\n"))
        return found


def output_of(tool: str, *arguments: str) -> str:
    """What a program of NVIDIA's wheels prints."""
    return subprocess.check_output([_installed(f"bin/{tool}"), *arguments], text=True)


def kernels_of(cubin: bytes, source: str) -> list[Kernel]:
    """What cuobjdump says of a source's image."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage = output_of("cuobjdump", "-res-usage", file.name)
    bounds = BOUNDS.search(source)
    of_all = precision_of(source), int(bounds[1]) if bounds else THREADS_OF_CUPY
    found = re.findall(r"Function (\S+):\s*REG:(\d+) STACK:(\d+) SHARED:(\d+)", usage)
    code = sections(cubin)
    return [Kernel(name, *of_all, *map(int, numbers), code[f".text.{name}"]) for name, *numbers in found]


def sections(elf: bytes) -> dict[str, bytes]:
    """The sections of an ELF file of 64 bits, by name."""
    (table,), (size, count, names) = struct.unpack_from("<Q", elf, 0x28), struct.unpack_from("<3H", elf, 0x3A)
    entries = [struct.unpack_from("<I20xQQ", elf, table + i * size) for i in range(count)]
    text = elf[entries[names][1] :]
    return {text[name : text.index(b"\0", name)].decode(): elf[at : at + size] for name, at, size in entries}


def instructions(kernels: list[Kernel], architecture: str) -> list[str]:
    """The instructions of each kernel. nvdisasm takes seconds to begin with, so it gets all of them, in a row."""
    if not kernels:
        return []
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"".join(kernel.code for kernel in kernels))
        file.flush()
        listing = output_of("nvdisasm", "--binary", architecture.replace("_", "").upper(), file.name)
    return by_kernel(listing, [len(kernel.code) for kernel in kernels])


def by_kernel(listing: str, sizes: list[int]) -> list[str]:
    """A listing in parts, by the addresses of pieces of code of these sizes, one behind the other."""
    parts: list[list[str]] = [[] for _ in sizes]
    ends = list(accumulate(sizes))
    for address, instruction in re.findall(r"/\*([0-9a-f]{4,})\*/\s+([^;]*);", listing):
        parts[bisect(ends, int(address, 16))].append(instruction)
    return ["\n".join(part) for part in parts]


def precision_of(source: str) -> str:
    """float32, float64, or both, by the types that the source names."""
    code = re.sub(r"//.*|#include.*", "", source)
    single, double = (re.search(rf"\b{name}\b", code) is not None for name in ("float", "double"))
    return "both" if single and double else "float32" if single else "float64"


def images(compiler: Compiler, path: Path) -> list[list[Kernel] | ValueError]:
    """A source's kernels for each architecture, or what the compiler has against it."""
    first, _, source = path.read_text().partition("\n")
    options = [option for option in first[3:].split() if not option.startswith("-arch")]
    made: list[list[Kernel] | ValueError] = []
    for architecture in ARCHITECTURES:
        try:
            made.append(kernels_of(compiler.cubin(source, [*options, f"-arch={architecture}"]), source))
        except ValueError as error:
            made.append(error)
    return made


def compiled(paths: list[Path]) -> tuple[dict[str, list[Kernel]], list[str]]:
    """The kernels by architecture, and what is wrong, a line each."""
    compiler, wrong = Compiler(), []
    found: dict[str, list[Kernel]] = {architecture: [] for architecture in ARCHITECTURES}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, made in zip(paths, pool.map(partial(images, compiler), paths), strict=True):
            for architecture, own in zip(ARCHITECTURES, made, strict=True):
                if isinstance(own, ValueError):
                    wrong.append(f"{path.name}, {architecture}: {own}")
                else:
                    found[architecture] += own
            print(path.name, flush=True)
    return found, wrong + [line for architecture, own in found.items() for line in faults(own, architecture)]


def faults(kernels: list[Kernel], architecture: str) -> Iterator[str]:
    """What is wrong with kernels' instructions."""
    for kernel, code in zip(kernels, instructions(kernels, architecture), strict=True):
        where = f"{kernel.name}, {kernel.precision}, {architecture}"
        if spills := len(SPILL.findall(code)):
            yield f"{where} has {spills} local loads and stores"
        if kernel.precision == "float32" and (doubles := len(DOUBLE.findall(code))):
            yield f"{where} has {doubles} double instructions"


def table(found: dict[str, list[Kernel]]) -> str:
    """Markdown: each kernel of one's own by name and precision, the largest of its variants; all of CuPy's in a row."""
    names = {(k.name, k.precision) for kernels in found.values() for k in kernels}
    head = f"| kernel | precision | variants | {' | '.join(ARCHITECTURES)} | stack | shared | block | occupancy |"
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    groups: list[tuple[str, str, Callable[[Kernel], bool]]] = [
        (f"`{name}`", precision, lambda k, pair=(name, precision): (k.name, k.precision) == pair)
        for name, precision in sorted(names)
        if not CUPYS.match(name)
    ]
    for name, precision, belongs in [*groups, ("CuPy's own", "all", lambda k: bool(CUPYS.match(k.name)))]:
        chosen = {architecture: [k for k in kernels if belongs(k)] for architecture, kernels in found.items()}
        every = [kernel for kernels in chosen.values() for kernel in kernels]
        if not every:
            continue
        registers = " | ".join(str(max((k.registers for k in kernels), default="-")) for kernels in chosen.values())
        largest = f"{max(k.stack for k in every)} | {max(k.shared for k in every)}"
        variants, least = max(map(len, chosen.values())), min(k.occupancy for k in every)
        block = max(k.threads for k in every)
        lines.append(f"| {name} | {precision} | {variants} | {registers} | {largest} | {block} | {least:.0%} |")
    return "\n".join(lines) + "\n"


def replaced(page: str, text: str) -> str:
    """A page with another table between its marks."""
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}"


def main() -> int:
    """Compile, print, write; how much is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", type=Path, help="the tables in this page are replaced")
    parser.add_argument("--only", default="", help="files whose names begin so")
    given = parser.parse_args()
    paths = sorted(given.folder.glob(f"{given.only}*.cu"))
    found, wrong = compiled(paths)
    print(table(found))
    print("\n".join(wrong) or f"{len(paths)} sources, for {', '.join(ARCHITECTURES)}: nothing is wrong")
    if given.page and not wrong and paths:
        given.page.write_text(replaced(given.page.read_text(), table(found)))
    return len(wrong) + (not paths)


if __name__ == "__main__":
    sys.exit(bool(main()))
