"""NVIDIA's own compiler on kernels, without a device: python -m tests.device.nvrtc FOLDER

FOLDER has sources as HOSTCUDA_DUMP leaves them, their options in the first line. Each is compiled for every
architecture of ARCHITECTURES. Exit code 1 where one does not compile, a kernel keeps registers in local memory, or one
of float32 alone has a double instruction.

NVRTC and the host device must not be in one process: NVRTC looks for private tables in libcuda.so.1.
"""

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
DOUBLE = re.compile(r"\b(?:D(?:ADD|MUL|FMA|SETP|MNMX|MMA)|MUFU\.\w+64\w*|F2F\.F64\S*|I2F\.F64\S*|F2I\.F64\S*)\b")
SPILL = re.compile(r"\b(?:STL|LDL)\b")


def installed(pattern: str) -> Path:
    """A file of NVIDIA's wheels."""
    for entry in sys.path:
        if found := sorted(Path(entry).glob(f"nvidia/*/{pattern}")):
            return found[0]
    raise SystemExit(f"{pattern} of NVIDIA's wheels is not installed: make nvrtc")


class Compiler:
    """NVRTC, of its wheel."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(installed("lib/libnvrtc.so.*")))

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


def instructions(cubin: bytes) -> str:
    """What NVIDIA's nvdisasm says of an image."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.check_output([installed("bin/nvdisasm"), "--print-code", file.name], text=True)


def single(source: str) -> bool:
    """Whether a source names float and not double, comments aside."""
    code = re.sub(r"//.*|#include.*", "", source)
    return re.search(r"\bfloat\b", code) is not None and re.search(r"\bdouble\b", code) is None


def faults(source: str, code: str) -> list[str]:
    """What is wrong with a source's instructions."""
    found = {"local loads and stores": len(SPILL.findall(code))}
    found["double instructions in float32"] = len(DOUBLE.findall(code)) if single(source) else 0
    return [f"{count} {what}" for what, count in found.items() if count]


def compiled(compiler: Compiler, path: Path) -> list[str]:
    """What is wrong with a source, a line each."""
    first, _, source = path.read_text().partition("\n")
    options = [option for option in first[3:].split() if not option.startswith("-arch")]
    wrong: list[str] = []
    for architecture in ARCHITECTURES:
        try:
            own = faults(source, instructions(compiler.cubin(source, [*options, f"-arch={architecture}"])))
        except ValueError as error:
            own = [str(error)]
        wrong += [f"{path.name}, {architecture}: {what}" for what in own]
    return wrong


def main() -> int:
    """Compile, and say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="files whose names begin so")
    given = parser.parse_args()
    paths = sorted(given.folder.glob(f"{given.only}*.cu"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = list(chain.from_iterable(pool.map(partial(compiled, Compiler()), paths)))
    print("\n".join(wrong) or f"{len(paths)} sources, for {', '.join(ARCHITECTURES)}: nothing is wrong")
    return len(wrong) + (not paths)


if __name__ == "__main__":
    sys.exit(bool(main()))
