"""NVRTC's part: CUDA C++ to an image that the driver loads, which is a shared object of g++."""

import os
import re
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from .build import HERE, made_once, output_of

#: As NVIDIA's compiler does, products and sums are contracted.
FLAGS = os.environ.get("HOSTCUDA_FLAGS", "-O1 -fexpensive-optimizations -ffp-contract=fast -mfma").split()
#: What no kernel of a source uses is left out: what it does is no property of the kernels.
ALWAYS = ["-std=gnu++17", "-w", "-fPIC", "-fno-strict-aliasing", "-fvisibility=hidden", "-ffunction-sections"]
ALWAYS += ["-D__CUDACC_VER_MAJOR__=12", f"-I{HERE / 'include'}"]
LINK = ["-shared", "-Wl,--gc-sections,-Bsymbolic"]
#: Headers that are compiled once: without CuPy's own for code that does not include them, so that this code shows it.
PLAIN = "#include <device.h>\n"
CUPYS = PLAIN + "".join(
    f"#include <cupy/{name}>\n" for name in ("complex.cuh", "carray.cuh", "atomics.cuh", "math_constants.h")
)
_BOUNDS = r"(?:__launch_bounds__\s*\([^)]*\)\s*)?"
KERNEL = re.compile(rf'extern\s+"C"\s+__global__\s+{_BOUNDS}void\s+{_BOUNDS}(\w+)\s*\(')
DYNAMIC_SHARED = re.compile(r"extern\s+__shared__\s+(?:__align__\(\d+\)\s+)?([\w:<> ]+?)\s+(\w+)\s*\[\s*\]\s*;")
#: What a kernel calls or has whose threads take turns; and double arithmetic, in the words of objdump.
TAKES_TURNS = re.compile(r"\bhc_(?:sync_\w+|yield|exchange|dynamic_shared)\b|\bhcshared\b")
DOUBLE = re.compile(r"\tv?(?:(?:add|sub|mul|div|sqrt|min|max|u?comi)[sp]d|fn?m(?:add|sub)\w*[sp]d|cvt\w*2[sp]d)\s")


def translate(source: str, expressions: dict[str, str]) -> str:
    """CUDA C++ as device.h takes it, line for line, and behind it what exports its kernels."""
    source = DYNAMIC_SHARED.sub(r"\1* \2 = reinterpret_cast<\1*>(hc_dynamic_shared);", source)
    source = re.sub(r"#pragma unroll.*", "", source)
    exports = {name: name for name in KERNEL.findall(source)} | {name: kernel for kernel, name in expressions.items()}
    lines = [f"HC_EXPORT({name}, ({kernel}))" for name, kernel in exports.items()]
    return "\n".join([source, *lines, "HC_EXPORT_SHARED", ""])


def _taken(option: str) -> bool:
    """Whether g++ takes an option of NVRTC's: definitions, and folders but for those of CUDA's own headers."""
    folder = Path(option[2:])
    of_cuda = "_cccl" in folder.parts or (folder / "cuda_runtime.h").exists()
    return option.startswith("-D") or (option.startswith("-I") and not of_cuda)


class Compiler:
    """g++ with the device's headers, which it compiles once into a folder; site: where CuPy is installed."""

    def __init__(self, folder: Path, site: Path):
        self.include = f"-I{site / 'cupy' / '_core' / 'include'}"
        self.headers = {text: folder / name for text, name in ((PLAIN, "plain.h"), (CUPYS, "cupy.h"))}
        for text, header in self.headers.items():
            with made_once(header.with_suffix(".h.gch")) as unfinished:
                if unfinished:
                    header.write_text(text)
                    self._run("-x", "c++-header", str(header), "-o", str(unfinished))

    def _run(self, *arguments: str, source: str | None = None) -> None:
        command = ["g++", *ALWAYS, *FLAGS, self.include, *arguments]
        result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        if result.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{result.stderr[:6000]}")

    def image(self, source: str, options: tuple[str, ...], expressions: dict[str, str]) -> bytes:
        """What the driver loads: a head, which driver.cpp describes, and the shared object."""
        header = self.headers[CUPYS if "<cupy/" in source else PLAIN]
        own = list(filter(_taken, options))
        own += ["-ffp-contract=off"] if {"-fmad=false", "--fmad=false"} & set(options) else []
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            self._run(
                "-include",
                str(header),
                *own,
                *LINK,
                "-x",
                "c++",
                "-",
                "-o",
                file.name,
                source=translate(source, expressions),
            )
            found, content = output_of("objdump", "-dhR", "--no-show-raw-insn", file.name), file.read()
        flush = "-ftz=true" in options and not DOUBLE.search(found)
        return struct.pack("<8sIIQ", b"HOSTCUDA", bool(TAKES_TURNS.search(found)), flush, len(content)) + content


def program_class(compiler: Compiler, error: type[Exception]) -> type:
    """What takes the place of CuPy's _NVRTCProgram; error: CuPy's CompileException."""

    class Program:
        def __init__(
            self, src, name="default_program", headers=(), include_names=(), name_expressions=None, method="ptx"
        ):
            self.src, self.name = src if isinstance(src, str) else src.decode(), name
            self.expressions = {kernel: f"expression_{i}" for i, kernel in enumerate(name_expressions or ())}

        def compile(self, options: tuple[str, ...] = (), log_stream: Any = None) -> tuple[bytes, dict[str, str] | None]:
            if not self.src.strip():
                return b"// the host device\n", None  # CuPy asks for the compiler's version so
            if dump := os.environ.get("HOSTCUDA_DUMP"):
                keep(Path(dump), self.src, options)
            try:
                return compiler.image(self.src, options, self.expressions), self.expressions or None
            except RuntimeError as failed:
                raise error(str(failed), self.src, self.name, options, "g++") from None

    return Program


def keep(folder: Path, source: str, options: tuple[str, ...]) -> None:
    """Keep a source and, in its first line, its options, under its kernels' names and a number."""
    folder.mkdir(parents=True, exist_ok=True)
    name = "-".join(KERNEL.findall(source))[:100] or "kernel"
    number = len(list(folder.glob(f"{name}.*.cu")))
    (folder / f"{name}.{number}.cu").write_text(f"// {' '.join(options)}\n{source}")
