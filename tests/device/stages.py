"""Runs every kernel that CuPy makes of the cells: each cell, both precisions, every engine of a device, and tokens.

    HOSTCUDA_DUMP=FOLDER python -m tests.device.hostcuda.run tests.device.stages    # keeps their sources
    python -m tests.device.stages                                                   # on a GPU

Each engine's gradients are held to those of `scan` on the host; exit code 1 where one is off.
"""

import sys

import numpy as np

from gradients.checks import cells
from gradients.problem import Problem, largest_error, random_problem
from ortho_ref import fused, scan
from ortho_ref.backend import to_device, to_host
from ortho_ref.fused import persistent
from ortho_ref.fused.tokens import FEW, sums
from tests.precision import single

ALLOWED = {"float64": 1e-11, "float32": 2e-4}


def main() -> int:
    """Print each cell's largest error by engine; how many are off; and of sums by tokens."""
    off = 0
    for name, cell in cells().items():
        for dtype, allowed in ALLOWED.items():
            problem = random_problem(cell, np.random.default_rng(0), T=4, B=3, n=5)
            if dtype == "float32":
                parts = problem.weights, problem.x, problem.h0, problem.dh, problem.dh_T
                problem = Problem(problem.cell, *single(parts))
            expected, on_device = problem.gradients(scan), problem.on("gpu")
            for engine, module in {"fused": fused, "persistent": persistent}.items():
                if engine == "persistent" and not persistent.has_form(cell):
                    continue
                error, where = largest_error(to_host(on_device.gradients(module)), expected)
                off += not error <= allowed
                print(f"{name:40s} {dtype} {engine:10s} {error:.1e} of {where}", flush=True)
    rng = np.random.default_rng(0)
    words, rows = rng.integers(0, FEW + 1, 12), rng.standard_normal((1, 12, 5))
    for dtype, allowed in ALLOWED.items():
        given = words, rows.astype(dtype)
        (expected,), (found,) = (sums(*own, m=FEW + 1) for own in (given, to_device(given, "gpu")))
        error = abs(to_host(found) - expected).max()
        off += not error <= allowed
        print(f"{'sums by tokens':40s} {dtype} {error:.1e}")
    return off


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
