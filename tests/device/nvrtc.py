"""NVIDIA's own compiler on kernels, without a device: python -m tests.device.nvrtc FOLDER [--page docs/gpu.md]

FOLDER has sources as HOSTCUDA_DUMP leaves them: the first line has the options, the file's name begins with those of
the kernels. Each is compiled for every architecture of ARCHITECTURES; from NVIDIA's cuobjdump come registers, shared
memory and the instructions. Exit code 1 where a source does not compile, a kernel spills registers, or one of float32
alone has a double instruction. With --page the tables there are replaced, with the kernels of OWN in them by name.

NVRTC and the host device must not be in one process: NVRTC looks for private tables in libcuda.so.1.
"""

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
MARKS = "<!-- nvrtc: make nvrtc -->\n", "<!-- end of nvrtc -->\n"
#: Kernels that CuPy brings along have such names; all others are somebody's own, and have rows.
CUPYS = re.compile(r"cupy(x?)_|.*__(kernel|elementwise)")
DOUBLE = re.compile(r"\b(?:D(?:ADD|MUL|FMA|SETP|MNMX|MMA)|MUFU\.\w+64\w*|F2F\.F64\S*|I2F\.F64\S*|F2I\.F64\S*)\b")
REGISTERS, THREADS, BLOCKS, THREADS_PER_BLOCK = 65536, 2048, 32, 128


class Kernel(NamedTuple):
    """What the compiler made of one kernel, for one architecture."""

    name: str
    precision: str
    registers: int
    stack: int
    shared: int
    spills: int
    doubles: int

    @property
    def occupancy(self) -> float:
        """The part of a multiprocessor's threads that its registers allow, in blocks of THREADS_PER_BLOCK."""
        of_warp = -(-self.registers // 8) * 8 * 32  # granted in eights a thread, by the warp
        blocks = REGISTERS // (max(1, of_warp) * THREADS_PER_BLOCK // 32)
        return min(blocks, BLOCKS, THREADS // THREADS_PER_BLOCK) * THREADS_PER_BLOCK / THREADS


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


def kernels_of(cubin: bytes, precision: str) -> list[Kernel]:
    """What cuobjdump says of an image."""
    tool = _installed("bin/cuobjdump")
    environment = os.environ | {"PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}"}  # it calls nvdisasm
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage, code = (
            subprocess.check_output([tool, option, file.name], env=environment, text=True)
            for option in ("-res-usage", "-sass")
        )
    bodies = dict(re.findall(r"Function : (\S+)\n(.*?)(?=Function :|\Z)", code, re.S))
    found = []
    for name, *numbers in re.findall(r"Function (\S+):\s*REG:(\d+) STACK:(\d+) SHARED:(\d+)", usage):
        body = bodies.get(name, "")
        spills = len(re.findall(r"\b(?:STL|LDL)\b", body))
        found.append(Kernel(name, precision, *map(int, numbers), spills, len(DOUBLE.findall(body))))
    return found


def precision_of(source: str) -> str:
    """float32, float64, or both, by the types that the source names."""
    code = re.sub(r"//.*|#include.*", "", source)
    single, double = (re.search(rf"\b{name}\b", code) is not None for name in ("float", "double"))
    return "both" if single and double else "float32" if single else "float64"


def compiled(paths: Iterable[Path]) -> tuple[dict[str, list[Kernel]], list[str]]:
    """The kernels by architecture, and what is wrong, a line each."""
    compiler, wrong = Compiler(), []
    found: dict[str, list[Kernel]] = {architecture: [] for architecture in ARCHITECTURES}
    for path in paths:
        first, _, source = path.read_text().partition("\n")
        options = [option for option in first[3:].split() if not option.startswith("-arch")]
        for architecture, kernels in found.items():
            try:
                cubin = compiler.cubin(source, [*options, f"-arch={architecture}"])
            except ValueError as error:
                wrong.append(f"{path.name}, {architecture}: {error}")
                continue
            own = kernels_of(cubin, precision_of(source))
            kernels += own
            for kernel in own:
                where = f"{path.name}, {architecture}: {kernel.name}"
                if kernel.spills:
                    wrong.append(f"{where} has {kernel.spills} local loads and stores")
                if kernel.doubles and kernel.precision == "float32":
                    wrong.append(f"{where} has {kernel.doubles} double instructions")
        print(f"{path.name}: {'; '.join(f'{k.name} {k.registers} registers' for k in own)}", flush=True)
    return found, wrong


def table(found: dict[str, list[Kernel]]) -> str:
    """Markdown: each kernel of one's own by name and precision, the largest of its variants; all of CuPy's in a row."""
    names = {(k.name, k.precision) for kernels in found.values() for k in kernels}
    head = f"| kernel | precision | variants | {' | '.join(ARCHITECTURES)} | stack | shared | occupancy |"
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
        lines.append(f"| {name} | {precision} | {variants} | {registers} | {largest} | {least:.0%} |")
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
