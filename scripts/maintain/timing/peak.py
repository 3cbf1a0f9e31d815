"""How much memory a forward + backward has at once, over what was there: python -m scripts.maintain.timing.peak < cases

In a process of its own, in which freed arrays go back to the system at once (glibc's M_MMAP_THRESHOLD), by the largest
resident set that Linux saw between two moments: the same ruler for every library.  `tracemalloc` beside it counts what
NumPy alone asks for, to the byte.
"""

import ctypes
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ortho_ref import fused
from ortho_ref.fused import compiled
from scripts.maintain.timing import peers_jax, peers_torch
from scripts.maintain.timing.steps import CellProblem, Contender, Size, numpy_contender, problem
from scripts.program.malloc import is_glibc

#: Above this many bytes an array is a mapping of its own.
_OWN_MAPPING = 1 << 14
_M_MMAP_THRESHOLD = -3
#: Seconds that a process of its own may take.
_PATIENCE = 600
_ROOT = Path(__file__).parents[3]

MAKERS: Mapping[str, Callable[[CellProblem], Contender | None]] = {
    "compiled": lambda own: numpy_contender(compiled, own, keep=False),
    "fused": lambda own: numpy_contender(fused, own, keep=False),
    "torch.nn": peers_torch.module,
    **{name: partial(peers_torch.eager, form=form) for name, form in peers_torch.EAGER.items()},
    "jax": peers_jax.contender,
}


def resident(model: str, size: Size, names: list[str], dtype: str) -> dict[str, int] | str:
    """Bytes of each contender's step, measured in a process of its own; or why not."""
    if not (sys.platform == "linux" and is_glibc()):  # it can be begun again, and the allocator can be told
        return "no largest resident set here"
    asked = json.dumps({"model": model, "size": size, "names": names, "dtype": dtype})
    command = [sys.executable, "-m", "scripts.maintain.timing.peak"]
    try:
        end = subprocess.run(command, input=asked, cwd=_ROOT, capture_output=True, text=True, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return f"it took more than {_PATIENCE} s"
    if end.returncode:
        return f"its process ended with {end.returncode}: {end.stderr.strip().rpartition(chr(10))[2][:200]}"
    found: dict[str, int] = json.loads(end.stdout)
    return found


def traced(step: Callable[[], object]) -> int:
    """The most bytes that NumPy had while a step ran here, over what was there, by tracemalloc."""
    tracemalloc.start()
    try:
        step()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def _most(libc: ctypes.CDLL, step: Callable[[], object]) -> int:
    for _ in range(2):
        step()
    libc.malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the largest resident set begins again
    before = _status("VmRSS")
    step()
    return max(_status("VmHWM") - before, 0)


def main() -> None:
    """In the process of its own."""
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_THRESHOLD, _OWN_MAPPING)
    asked = json.load(sys.stdin)
    compiled.set_threads(1)
    if "jax" in asked["names"]:
        peers_jax.jax_version()
    if any(name.startswith("torch") for name in asked["names"]):
        import torch

        torch.set_num_threads(1)
    own = problem(Size(*asked["size"]), asked["model"], asked["dtype"])
    found = {}
    for name in asked["names"]:
        contender = MAKERS[name](own)
        if contender is not None:
            found[name] = _most(libc, contender.step)
        del contender
    print(json.dumps(found))


if __name__ == "__main__":
    main()
