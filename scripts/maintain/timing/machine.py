"""Which machine and which libraries a time is of."""

import os
import platform
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy

from scripts.program import blas
from scripts.program.usage import cpu_name

#: Variables that decide which code a library runs, or what its allocator does.
VARIABLES = re.compile(r"OPENBLAS_CORETYPE|MKL_ENABLE_INSTRUCTIONS|ONEDNN_MAX_CPU_ISA|ATEN_CPU_CAPABILITY|MALLOC_.*")
#: What has to agree for ratios to be compared.
KERNELS = ("cpu", "kernels", "variables")


def machine(torch: bool) -> dict[str, Any]:
    """The processor, the BLAS kernels of NumPy, SciPy and PyTorch, and the variables that choose them."""
    kernels = sorted({" ".join(text.split()[i] for i in (0, 2)) for text in blas() if len(text.split()) == 4})
    if torch:
        from torch.backends import cpu

        kernels.append(f"torch {cpu.get_cpu_capability()}")
    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count() or 1,
        "system": f"{platform.system()} {platform.machine()}",
        "kernels": kernels,
        "variables": {name: value for name, value in sorted(os.environ.items()) if VARIABLES.fullmatch(name)},
    }


def libraries(torch: str | None, jax: str | None) -> dict[str, str]:
    """Versions, and every BLAS with its threads."""
    own = {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}
    others = {name: version for name, version in (("torch", torch), ("jax", jax)) if version}
    return own | others | {"blas": ", ".join(sorted(blas()))}


def name_of(machine: Mapping[str, Any]) -> str:
    """A name for files: the processor's, and the kernels of NumPy's and SciPy's BLAS."""
    kernels = dict.fromkeys(kernel.partition(" ")[2] for kernel in machine["kernels"] if not kernel.startswith("torch"))
    words = re.sub(r"\((r|tm)\)|processor|cpu|@", " ", f"{machine['cpu']} {' '.join(kernels)}", flags=re.IGNORECASE)
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def difference(stored: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """In what two machines differ that ratios depend on; empty where they do not."""
    return "; ".join(
        f"{name}: {_words(stored[name])} there, {_words(here[name])} here"
        for name in KERNELS
        if stored[name] != here[name]
    )


def _words(value: Any) -> str:
    if isinstance(value, dict):
        value = [f"{name}={text}" for name, text in value.items()]
    return (", ".join(value) or "none") if isinstance(value, list) else str(value)
