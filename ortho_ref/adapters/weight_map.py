"""Which of the kit's weights an implementation's arrays are made of, and the way back for their gradients."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ortho_ref.cells.by_name import by_name
from ortho_ref.converters.framework import Arrays, Framework

#: An array -> "W_r", "W_r.T", "-W_u", "0", a list of them that is joined, or a list of lists.
Spec: TypeAlias = Mapping[str, str | Sequence[str] | Sequence[Sequence[str]]]
Config: TypeAlias = Mapping[str, Any]


class Layout(Protocol):
    """The kit's weights as a framework's arrays; gradients back."""

    def to_framework(self, weights: Arrays) -> Any:
        """The framework's arrays, a dict or a tree."""

    def gradients_from(self, gradients: Any, weights: Arrays) -> Arrays:
        """The gradients by the kit's names; its weights are given for their shapes."""


class Converted(NamedTuple):
    """A layout of `ortho_ref.converters`, of one cell."""

    framework: Framework  # the converter
    config: Config  # the cell's

    def to_framework(self, weights: Arrays) -> Any:
        """As the converter's; UnsupportedError where the framework has no such layer."""
        return self.framework.to_framework(self.config, weights)

    def gradients_from(self, gradients: Any, weights: Arrays) -> Arrays:
        """As the converter's."""
        return self.framework.gradients_from(self.config, gradients)


class Piece(NamedTuple):
    """One entry of a list."""

    name: str  # the kit's weight; "" for zeros
    transposed: bool  # whether transposed
    sign: int  # 1 or -1


class WeightMap:
    """A layout by a table: array -> what it is made of; without one, the kit's own names and shapes.

    ValueError for a weight that the cell does not have, one that is left out, and an entry that cannot be read.
    """

    def __init__(self, spec: Spec | None, config: Config) -> None:
        cell = by_name(config["cell"], **{key: value for key, value in config.items() if key != "cell"})
        self._cell, self._shapes = cell, cell.shapes(1, 1)
        spec = {name: name for name in self._shapes} if spec is None else spec
        self._rows = {array: self._read(array, given) for array, given in spec.items()}
        used = {piece.name for rows in self._rows.values() for row in rows for piece in row}
        if left_out := [name for name in self._shapes if name not in used]:
            has = ", ".join(self._shapes)
            raise ValueError(f"weights leaves out {', '.join(left_out)}; {config['cell']} has {has}")
        self.to_framework(self.zeros(3, 4))  # what does not fit is said now

    def _read(self, array: str, given: Any) -> list[list[Piece]]:
        """An entry as a list of lists."""
        flat = list(given) if isinstance(given, list | tuple) else [given]
        rows = [[self._piece(array, text) for text in row] for row in (flat if _nested(flat) else [flat])]
        if not rows or not all(rows) or len({piece.transposed for row in rows for piece in row}) > 1:
            raise ValueError(f"weights[{array!r}] is {given!r}; allowed: weights' names, all transposed or none")
        return rows

    def _piece(self, array: str, entry: Any) -> Piece:
        text = entry.strip() if isinstance(entry, str) else ""
        name, transposed = text.removeprefix("-").removesuffix(".T"), text.endswith(".T")
        if name not in (*self._shapes, "0") or (transposed and len(self._shapes.get(name, ())) < 2):
            raise ValueError(
                f"weights[{array!r}] has {entry!r}; allowed: {', '.join(self._shapes)}, '0', and as W.T or -W"
            )
        return Piece("" if name == "0" else name, transposed, -1 if text.startswith("-") else 1)

    def zeros(self, m: int, n: int) -> Arrays:
        """The kit's weights for a trial with m inputs and n units; complex ones have a last axis of 2."""
        parts = {name: (2,) if self._cell.complex and len(shape) == 2 else () for name, shape in self._shapes.items()}
        return {name: np.zeros(shape + parts[name]) for name, shape in self._cell.shapes(m, n).items()}

    def to_framework(self, weights: Arrays) -> Arrays:
        """The arrays of the table, fresh."""
        made = {}
        for array, rows in self._rows.items():
            inner, outer = _axes(rows)
            like = [[_part(piece, weights) for piece in row] for row in rows]
            try:
                made[array] = np.array(_joined([_joined(parts, inner) for parts in like], outer), order="C")
            except ValueError:
                shapes = [part.shape for parts in like for part in parts]
                raise ValueError(f"weights[{array!r}] joins arrays that do not fit: {shapes}") from None
        return made

    def gradients_from(self, gradients: Mapping[str, np.ndarray], weights: Arrays) -> Arrays:
        """The transpose of `to_framework`: of a weight that stands in several places the sum."""
        ours = {name: np.zeros_like(weight) for name, weight in weights.items()}
        for array, rows in self._rows.items():
            inner, outer = _axes(rows)
            like = [[_part(piece, weights) for piece in row] for row in rows]
            bands = _cut(gradients[array], [_joined(parts, inner) for parts in like], outer)
            for row, parts, band in zip(rows, like, bands, strict=True):
                for piece, part in zip(row, _cut(band, parts, inner), strict=True):
                    if piece.name:
                        ours[piece.name] += piece.sign * (part.swapaxes(0, 1) if piece.transposed else part)
        return ours


def _nested(given: list[Any]) -> bool:
    return bool(given) and all(isinstance(row, list | tuple) for row in given)


def _axes(rows: list[list[Piece]]) -> tuple[int, int]:
    """That along which a list is joined, and that for a list of lists."""
    return (1, 0) if rows[0][0].transposed else (0, 1)


def _part(piece: Piece, weights: Arrays) -> np.ndarray:
    if not piece.name:
        W = next(weight for name, weight in weights.items() if name.startswith("W"))
        return np.zeros(W.shape[0], W.dtype)
    a = weights[piece.name]
    return piece.sign * (a.swapaxes(0, 1) if piece.transposed else a)


def _joined(parts: list[np.ndarray], axis: int) -> np.ndarray:
    return np.concatenate(parts, axis) if len(parts) > 1 else parts[0]


def _cut(array: np.ndarray, like: list[np.ndarray], axis: int) -> list[np.ndarray]:
    """The inverse of `_joined`, by the sizes of what was joined."""
    if len(like) == 1:
        return [array]
    return np.split(array, np.cumsum([part.shape[axis] for part in like])[:-1], axis)


def check_arrays(title: str, wanted: Mapping[str, tuple[int, ...]], given: Mapping[str, np.ndarray]) -> None:
    """ValueError where what `weights` makes is not what the implementation has: the parameters' shapes, `wanted`."""
    if unknown := [name for name in given if name not in wanted]:
        raise ValueError(f"weights names {_listed(unknown)}, which {title} does not have; it has {_listed(wanted)}")
    if left_out := [name for name in wanted if name not in given]:
        raise ValueError(f"weights leaves out {_listed(left_out)} of {title}; it has {_listed(wanted)}")
    for name, shape in wanted.items():
        if given[name].shape != tuple(shape):
            raise ValueError(f"weights[{name!r}] makes an array {given[name].shape}; {title} has {tuple(shape)}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
