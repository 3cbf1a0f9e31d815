"""The section of the benchmark that times cells: every model at every size."""

from collections.abc import Callable, Iterator

from ortho_ref import fused
from ortho_ref.fused import compiled
from scripts.maintain.timing import peers_jax, peers_torch
from scripts.maintain.timing.groups import Group, Settings, timed
from scripts.maintain.timing.steps import CellProblem, Contender, numpy_contender, problem


def cells(own: Settings) -> Iterator[Group]:
    """Forward + backward of every model's cell at every size."""
    for model in own.models:
        for name, size in own.sizes.items():
            cell = problem(size, model, own.dtype)
            steps: dict[str, Callable[[], object]] = {}
            if own.device == "cpu":
                steps["compiled"] = numpy_contender(compiled, cell, keep=own.keep).step
            steps["fused"] = numpy_contender(fused, cell, own.device, own.keep).step
            found, skipped = peers(cell, own)
            reference = next(iter(steps))
            steps |= {name: contender.step for name, contender in found.items()}
            case = {"model": model, "size": name, "threads": own.threads}
            yield timed("cells", case, reference, steps, own, skipped)


def peers(cell: CellProblem, own: Settings) -> tuple[dict[str, Contender], dict[str, str]]:
    """The contenders of other libraries, by name; and why others are not there."""
    found: dict[str, Contender] = {}
    skipped: dict[str, str] = {}
    if own.torch is None:
        skipped["torch"] = "PyTorch is not installed, or has no such device"
    else:
        found |= peers_torch.contenders(cell, "cuda" if own.device == "gpu" else "cpu", own.threads)
    if own.jax is None:
        skipped["jax"] = "JAX is not installed" if own.device == "cpu" else "it is compared on the host"
    else:
        found["jax"] = peers_jax.contender(cell)
    return found, skipped
