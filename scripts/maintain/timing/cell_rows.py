"""Sections of the benchmark that time cells: every model at every size, and how time grows with T, n and B."""

from collections.abc import Callable, Iterator
from typing import Any

from ortho_ref import fused, scan
from scripts.maintain.timing import peers_compiled, peers_jax, peers_torch
from scripts.maintain.timing.floors import quickest
from scripts.maintain.timing.groups import Group, Settings, timed
from scripts.maintain.timing.peers_torch import EAGER
from scripts.maintain.timing.steps import CellProblem, Contender, Size, numpy_contender, problem

#: The models of the scaling section, of those that are asked for.
SCALED = ("nc-gru", "lstm")
#: What varies -> sizes; the rest is parenthesis's for T, and near copying's for n and B.
SERIES: dict[str, tuple[Size, ...]] = {
    "T": tuple(Size(16, T, 22, 56) for T in (100, 1000, 10_000)),
    "n": tuple(Size(50, 100, 10, n) for n in (32, 64, 128, 256, 512)),
    "B": tuple(Size(B, 100, 10, 96) for B in (1, 8, 32, 128, 512)),
}


def cells(own: Settings) -> Iterator[Group]:
    """Forward + backward of every model's cell at every size."""
    for model in own.models:
        for name, size in own.sizes.items():
            yield cell_group("cells", {"model": model, "size": name}, model, size, own)


def scaling(own: Settings) -> Iterator[Group]:
    """The same over T, n and B, ours, the best of PyTorch's forms, JAX's, and the floor."""
    for model in (model for model in own.models if model in SCALED):
        for over, sizes in SERIES.items():
            for size in sizes:
                B, T, _, n = size
                case = {"model": model, "over": over, "B": B, "T": T, "n": n}
                yield cell_group("scaling", case, model, size, own._replace(compile_seconds=0), few=True)


def cell_group(section: str, case: dict[str, Any], model: str, size: Size, own: Settings, few: bool = False) -> Group:
    """All contenders of a model at a size; few: without `scan`, and without eager cells where there is a module."""
    cell = problem(size, model, own.dtype)
    steps: dict[str, Callable[[], object]] = {"fused": numpy_contender(fused, cell, own.device, own.keep).step}
    if not few:
        steps["scan"] = numpy_contender(scan, cell, own.device, own.keep).step
    found, skipped = peers(cell, own)
    if few and "torch.nn" in found:
        found = {name: contender for name, contender in found.items() if name not in EAGER}
    steps |= {name: contender.step for name, contender in found.items()}
    note = ""
    if own.device == "cpu":
        floor = quickest(cell.cell, size, own.dtype, min(own.seconds, 0.05))
        steps |= {"floor: products": floor.products, "floor": floor}
        note = f"products of the floor: {floor.form}"
    return timed(section, case, "fused", steps, own, skipped, note)


def peers(cell: CellProblem, own: Settings) -> tuple[dict[str, Contender], dict[str, str]]:
    """The contenders of other libraries, by name; and why others are not there."""
    found: dict[str, Contender] = {}
    skipped: dict[str, str] = {}
    if own.torch is None:
        skipped["torch"] = "PyTorch is not installed, or has no such device"
    else:
        found |= peers_torch.contenders(cell, "cuda" if own.device == "gpu" else "cpu")
        try:
            if own.device != "cpu":
                raise peers_compiled.NotCompiledError("it is compared on the host")
            found["torch compiled"] = peers_compiled.compiled(cell, own.compile_seconds)
        except peers_compiled.NotCompiledError as error:
            skipped["torch compiled"] = str(error)
    if own.jax is None:
        skipped["jax"] = "JAX is not installed" if own.device == "cpu" else "it is compared on the host"
    else:
        found["jax"] = peers_jax.contender(cell)
    return found, skipped
