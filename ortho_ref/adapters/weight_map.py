"""Which of the kit's weights an implementation's arrays are made of, and the way back for their gradients."""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ortho_ref.conformance.cases.layered import Direction
from ortho_ref.converters.config import Config, cell_of
from ortho_ref.converters.framework import Arrays, Framework, is_bias

#: An array -> "W_r", "W_r.T", "-W_u", "0", a list of them that is joined, or a list of lists.
Spec: TypeAlias = Mapping[str, str | Sequence[str] | Sequence[Sequence[str]]]

#: Inputs m and units n of what is made only to see whether it fits.
TRIAL = (3, 4)


class Layout(Protocol):
    """The kit's weights as a framework's arrays; gradients back."""

    def to_framework(self, weights: Arrays) -> Any:
        """The framework's arrays, a dict or a tree."""

    def gradients_from(self, gradients: Any, weights: Arrays) -> Arrays:
        """The gradients by the kit's names; its weights are given for their shapes."""


class Converted(NamedTuple):
    """A layout of `ortho_ref.converters`, of one cell."""

    framework: Framework  # the converter
    config: Config  # the cell's, with "bias" where it may have none

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
    upper: bool = False  # whether the entries above the diagonal alone, of a skew matrix


class WeightMap:
    """A layout by a table: array -> what it is made of; without one, the kit's own names and shapes.

    Of several layers or two directions every name has its direction before it, "layer0.W_r", "layer1_reverse.b_c".  All
    biases may be left out: the implementation has none.  "U_c.A" is the skew A of U_c = (I + A)^-1 (I - A) D, or of
    exp(A), "U_c.A.triu" what is above its diagonal, "U_c.D" the signs, which need not be given.

    ValueError for a weight that the cell does not have, one that is left out, and an entry that cannot be read.
    """

    def __init__(self, spec: Spec | None, config: Config, ways: Sequence[Direction] = ()) -> None:
        self._cell = cell_of(config)
        self._ways, self.kept = ways, self._map_in(spec)  # kept: the weight in whose place there are a map's parameters
        self._shapes = self._sized(1, 1)
        spec = {name: name for name in self._shapes} if spec is None else spec
        self._rows = {array: self._read(array, given) for array, given in spec.items()}
        used = {piece.name for rows in self._rows.values() for row in rows for piece in row}
        biases = [name for name in self._shapes if is_bias(name.rpartition(".")[2])]
        self.bias = not biases or any(name in used for name in biases)
        self.signed = f"{self.kept}.D" in used  # whether it is of a map with signs: not of exp(A)
        free = {f"{self.kept}.D", *(() if self.bias else biases)}
        if left_out := [name for name in self._shapes if name not in used | free]:
            has = ", ".join(self._shapes)
            raise ValueError(f"weights leaves out {', '.join(left_out)}; {config['cell']} has {has}")
        self.to_framework(self.zeros(*TRIAL))  # what does not fit is said now

    def _read(self, array: str, given: Any) -> list[list[Piece]]:
        """An entry as a list of lists."""
        flat = list(given) if isinstance(given, list | tuple) else [given]
        nested = bool(flat) and all(isinstance(row, list | tuple) for row in flat)
        rows = [[self._piece(array, text) for text in row] for row in (flat if nested else [flat])]
        if not rows or not all(rows) or len({piece.transposed for row in rows for piece in row}) > 1:
            raise ValueError(f"weights[{array!r}] is {given!r}; allowed: weights' names, all transposed or none")
        return rows

    def _piece(self, array: str, entry: Any) -> Piece:
        text = entry.strip() if isinstance(entry, str) else ""
        name, transposed, upper = text.removeprefix("-").removesuffix(".T"), text.endswith(".T"), False
        if name.endswith(".A.triu"):
            name, upper = name.removesuffix(".triu"), True
        if name not in (*self._shapes, "0") or (transposed and len(self._shapes.get(name, ())) < 2):
            raise ValueError(
                f"weights[{array!r}] has {entry!r}; allowed: {', '.join(self._shapes)}, '0', and as W.T or -W"
            )
        if array.rpartition(".")[2] == "A" and name.startswith("U") and "." not in name:
            own = f"{name} = (I + A)^-1 (I - A) D"
            warnings.warn(
                f"weights[{array!r}] is {entry!r}, the matrix; say '{name}.A' if A is that of {own}", stacklevel=2
            )
        return Piece("" if name == "0" else name, transposed, -1 if text.startswith("-") else 1, upper)

    def _map_in(self, spec: Spec | None) -> str | None:
        """The weight of which A is given in its place."""
        names = {name.removeprefix("-") for given in (spec or {}).values() for name in _words(given)}
        found = {name.partition(".A")[0] for name in names if re.fullmatch(r"U\w*\.A(\.triu)?(\.T)?", name)}
        if len(found) > 1:
            raise ValueError(f"weights has A of {', '.join(sorted(found))}; allowed: of one weight")
        return found.pop() if found else None

    def zeros(self, m: int, n: int) -> Arrays:
        """The kit's weights for a trial with m inputs and n units; complex ones have a last axis of 2."""
        parts = {name: (2,) if self._cell.complex and len(shape) == 2 else () for name, shape in self._shapes.items()}
        return {name: np.zeros(shape + parts[name]) for name, shape in self._sized(m, n).items()}

    def _sized(self, m: int, n: int) -> dict[str, tuple[int, ...]]:
        """Every weight's shape; of a layer above the first m is n, of both directions 2 n."""
        if not self._ways:
            own = dict(self._cell.shapes(m, n))
            return own if self.kept is None else own | {f"{self.kept}.A": own.pop(self.kept), f"{self.kept}.D": (n,)}
        above = n * (2 if any(way.reverse for way in self._ways) else 1)
        return {
            f"{way.name}.{name}": shape
            for way in self._ways
            for name, shape in self._cell.shapes(above if way.layer else m, n).items()
        }

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
            if array not in gradients:  # a buffer
                continue
            inner, outer = _axes(rows)
            like = [[_part(piece, weights) for piece in row] for row in rows]
            bands = _cut(gradients[array], [_joined(parts, inner) for parts in like], outer)
            for row, parts, band in zip(rows, like, bands, strict=True):
                for piece, part in zip(row, _cut(band, parts, inner), strict=True):
                    if piece.name:
                        back = piece.sign * (part.swapaxes(0, 1) if piece.transposed else part)
                        ours[piece.name] += _skew(back, piece.upper) if piece.name.endswith(".A") else back
        return ours


def _skew(gradient: np.ndarray, upper: bool) -> np.ndarray:
    """The gradient of a skew A, [ncgru:6], from that of a full one, or of its entries above the diagonal."""
    own = np.triu(gradient, 1) if upper else gradient
    is_skew = np.abs(own + own.T).max(initial=0) <= 1e-5 * np.abs(own).max(initial=0)
    return own if is_skew else own - own.T


def _words(given: Any) -> list[str]:
    if isinstance(given, str):
        return [given.strip()]
    return [word for inner in given for word in _words(inner)] if isinstance(given, list | tuple) else []


def _axes(rows: list[list[Piece]]) -> tuple[int, int]:
    """That along which a list is joined, and that for a list of lists."""
    return (1, 0) if rows[0][0].transposed else (0, 1)


def _part(piece: Piece, weights: Arrays) -> np.ndarray:
    if not piece.name:
        W = next(weight for name, weight in weights.items() if name.rpartition(".")[2].startswith("W"))
        return np.zeros(W.shape[0], W.dtype)
    a = np.triu(weights[piece.name], 1) if piece.upper else weights[piece.name]
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
