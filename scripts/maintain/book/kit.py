"""Which cases of the conformance kit go through an equation, and which mistakes they show; beside a file, its own."""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import NamedTuple

from ortho_ref.cells.by_name import CELLS
from ortho_ref.conformance.cases.case import Config, Vector
from ortho_ref.parametrizations.by_name import PARAMETRIZATIONS
from scripts.maintain.equations.tags import id_of

#: Files that a kind of cases is about.
_KINDS = {
    "ortho_ref/activations.py": "activation",
    "ortho_ref/training/optimizers.py": "optimizer",
    "ortho_ref/losses.py": "loss",
}
#: Of updates whose algorithm is no map.
_MAPS = {"dynamic_trivialization": "exponential"}


class InKit(NamedTuple):
    """Of an equation: ids of cases, names of the mistakes that one of them shows."""

    cases: tuple[str, ...]
    mistakes: tuple[str, ...]


def by_equation(vectors: Iterable[Vector]) -> dict[str, tuple[Vector, ...]]:
    """For every id that a case names, those cases."""
    found: dict[str, list[Vector]] = {}
    for vector in vectors:
        for name in dict.fromkeys(map(id_of, vector.equations)):
            found.setdefault(name, []).append(vector)
    return {name: tuple(own) for name, own in found.items()}


def in_kit(vectors: Iterable[Vector], file: str = "") -> InKit:
    """The cases, each once, that concern a file, all of them without one, and what they show."""
    own = {vector.id: vector.kills for vector in vectors if concerns(vector, file)}
    return InKit(tuple(own), tuple(dict.fromkeys(mistake for kills in own.values() for mistake in kills)))


def concerns(vector: Vector, file: str) -> bool:
    """Whether a case is about a file: a cell's about the files of its name, a map's about the one that defines it.

    A file that is neither a cell's nor a map's, such as scan.py, all cases are about that go through its equations.
    """
    kind, config = vector.case.kind, vector.case.config
    if file in _KINDS:
        return kind == _KINDS[file]
    path = PurePosixPath(file)
    if path.stem in CELLS or path.stem == "elman_complex":
        cell = config.get("cell")
        if path.parts[:2] == ("ortho_ref", "fused") and cell == "elman" and config.get("complex"):
            return path.stem == "elman_complex"
        return bool(cell == path.stem)
    if path.parts[:2] == ("ortho_ref", "parametrizations"):
        name = _map_of(config)
        return name in PARAMETRIZATIONS and PARAMETRIZATIONS[name].__module__.rpartition(".")[2] == path.stem
    return True


def _map_of(config: Config) -> str:
    """The name of the map that keeps a weight; "" where there is none."""
    kept = config.get("parametrized") or config
    name = kept.get("parametrization") or kept.get("algorithm") or ""
    return _MAPS.get(name, name)
