"""What a new conformance case is made from: the kit draws it, by sizes and ranges, and its answer is not stored."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

from ortho_ref import activations, losses, scan
from ortho_ref.cells import Cell
from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.cases.case import Arrays, Case, Config
from ortho_ref.conformance.compare import MINIMUM
from ortho_ref.parametrizations import Parametrization, exponential
from ortho_ref.training import optimizers
from scripts.maintain.equations.tags import tags_of

Ranges: TypeAlias = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Spec:
    """How a case is made.

    arrays: of every array what is drawn (`ortho_ref.conformance.cases.drawing`), from a seed made of the case's name,
    so that a case does not change when others are added.  why: what the case is there for.
    zeros: outputs that are 0 throughout.  least: how large an answer has to be to be above noise.
    """

    id: str
    kind: str
    config: Config
    arrays: Ranges
    why: str
    zeros: tuple[str, ...] = ()
    least: float = MINIMUM

    def drawn(self, attempt: int) -> dict[str, Any]:
        """What a draw is made of."""
        return {"seed": f"{self.id} {attempt}", "arrays": self.arrays}

    def case(self, inputs: Arrays) -> Case:
        """The case of these inputs."""
        return Case(self.id, self.kind, self.config, inputs)


def equations_of(case: Case) -> list[str]:
    """The tags in the headers of the modules that a case is of."""
    return list(dict.fromkeys(tag for source in _sources(case) for tag in tags_of(source.__doc__ or "")))


def _sources(case: Case) -> list[ModuleType]:
    kind, config = case.kind, case.config
    if kind in ("cell", "layer"):
        kept = [_module(reference.parametrization_of(config["parametrized"]))] if config.get("parametrized") else []
        return [*([scan] if kind == "cell" else []), _module(reference.cell_of(config)), *kept]
    if kind == "parametrization":
        return [_module(reference.parametrization_of(config))]
    if kind == "update":
        rebased = config["algorithm"] == "dynamic_trivialization"
        return [exponential if rebased else _module(reference.parametrization_of(config)), optimizers]
    return {"optimizer": [optimizers], "activation": [activations], "loss": [losses]}.get(kind, [])


def _module(own: Cell | Parametrization) -> ModuleType:
    return sys.modules[type(own).__module__]


def beside(id: str, name: str) -> str:
    """The id of a further case of what another is of: cell/lstm/small, cell/elman/tanh-small."""
    return f"{id}{'-' if id.count('/') > 1 else '/'}{name}"


def ranged(shape: Iterable[int], low: float, high: float, **more: Any) -> dict[str, Any]:
    """An array's shape and between which numbers it is drawn, as `drawing.Range` has them."""
    return {"shape": list(shape), "low": low, "high": high, **more}
