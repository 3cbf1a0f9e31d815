"""What a conformance case is made from.

Inputs are drawn from a seed that is made of the case's name, so that a case does not change when others are added.
They are multiples of 1/4096 that float32 has exactly.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from ortho_ref.cells import Cell
from ortho_ref.conformance.cases import drawing, reference
from ortho_ref.conformance.cases.case import Arrays, Case, Config, parted
from ortho_ref.conformance.compare import MINIMUM
from ortho_ref.parametrizations import Parametrization
from scripts.maintain.equations.tags import tags_of

Draw: TypeAlias = Callable[[np.random.Generator], Arrays]
Ranges: TypeAlias = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Spec:
    """How a case is made.

    draw: a generator -> inputs, complex ones complex; called again where what comes out is badly conditioned.  Or, of a
    case that is not stored, of every array what the kit draws (`ortho_ref.conformance.cases.drawing`).
    sources: modules whose headers state the equations.  why: what the case is there for.
    zeros: outputs that are 0 throughout.  smooth: False on a kink, where `between` says between
    which two numbers each output may be.
    least: how large an answer has to be to be above noise.
    """

    id: str
    kind: str
    config: Config
    draw: Draw | Ranges
    sources: tuple[ModuleType, ...]
    why: str
    zeros: tuple[str, ...] = ()
    smooth: bool = True
    between: Callable[[Arrays], tuple[Arrays, Arrays]] | None = None
    least: float = MINIMUM

    @property
    def equations(self) -> list[str]:
        """The tags in the headers."""
        return list(dict.fromkeys(tag for source in self.sources for tag in tags_of(source.__doc__ or "")))

    def seed(self, attempt: int) -> str:
        """What a draw is made of."""
        return f"{self.id} {attempt}"

    def inputs(self, attempt: int) -> Arrays:
        """Drawn, on the grid, complex arrays in two parts."""
        if isinstance(self.draw, dict):
            return drawing.inputs_of({"seed": self.seed(attempt), "arrays": self.draw})
        seed = int.from_bytes(hashlib.sha256(self.seed(attempt).encode()).digest()[:8])
        return {name: on_grid(parted(np.asarray(a))) for name, a in self.draw(np.random.default_rng(seed)).items()}

    def case(self, inputs: Arrays) -> Case:
        """The case of these inputs."""
        return Case(self.id, self.kind, self.config, inputs)

    def outputs(self, inputs: Arrays) -> Arrays:
        """The answer."""
        return reference.outputs(self.case(inputs))


def beside(id: str, name: str) -> str:
    """The id of a further case of what another is of: cell/lstm/small, cell/elman/tanh-small."""
    return f"{id}{'-' if id.count('/') > 1 else '/'}{name}"


def source_of(own: Cell | Parametrization) -> ModuleType:
    """The module of a cell or a map."""
    return sys.modules[type(own).__module__]


def ranged(shape: Iterable[int], low: float, high: float, **more: Any) -> dict[str, Any]:
    """An array's shape and between which numbers it is drawn, as `drawing.Range` has them."""
    return {"shape": list(shape), "low": low, "high": high, **more}


def on_grid(array: np.ndarray) -> np.ndarray:
    """Floats to the nearest multiple of 1 / drawing.GRID, large ones as float32 has them; tokens as int64."""
    if array.dtype.kind == "f":
        near = np.asarray(np.round(array.astype(np.float64) * drawing.GRID) / drawing.GRID)
        return near.astype(np.float32).astype(np.float64)
    return array if array.dtype.kind == "b" else array.astype(np.int64)
