"""What every framework's converter does: blocks by gate in between, checks at both ends."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from ortho_ref.boundary import nearest
from ortho_ref.cells.cell import Shapes, gate_shapes, weight_name
from ortho_ref.converters.config import Config, config_of

Array: TypeAlias = np.ndarray
Arrays: TypeAlias = dict[str, Array]

BOTH = ("tanh", "relu")


class UnsupportedError(ValueError):
    """The framework has no such layer."""


class Kept(NamedTuple):
    """What the arrays of stacked gates are called."""

    W: str
    U: str
    b: str
    b_hh: str = ""  # of recurrent biases that are an array
    inner: bool = False  # whether that is the candidate's alone
    rows: int = 0  # of b, where it holds the recurrent ones too


class Layout(NamedTuple):
    """How a framework has one of our cells."""

    gates: tuple[str, ...]  # ours, in the framework's order; ("",) for a cell with one W and U
    activations: tuple[str, ...] = ("tanh",)  # those it can have, its default first
    flipped: str = ""  # the gate that the framework has as 1 - ours; "" for none
    recurrent_bias: bool = True  # whether its candidate has a recurrent bias of its own, where the cell has that option
    kept: Kept = Kept("", "", "")  # where gates are stacked

    @property
    def inner(self) -> int | None:
        """The row of the candidate whose recurrent bias is a weight of its own, b_hh."""
        return self.gates.index("h") if "h" in self.gates else None

    @property
    def signs(self) -> tuple[int, ...]:
        """By gate: -1 for the one that is flipped."""
        return tuple(-1 if gate and gate == self.flipped else 1 for gate in self.gates)


Layouts: TypeAlias = dict[str, Layout]


class Blocks(NamedTuple):
    """All weights, by gate in the framework's order and with its signs."""

    W: Array  # (G, n, m): of the input
    U: Array  # (G, n, n): of the state
    b: Array  # (G, n): the bias of the input
    b_hh: Array  # (G, n): the recurrent one


class Framework(ABC):
    """A framework's recurrent layers.  A file for each says how its arrays are laid out; the rest is here."""

    title: ClassVar[str]  # the framework, in words
    layouts: ClassVar[Layouts]  # how it has our cells, by their names

    @abstractmethod
    def sizes(self, layout: Layout) -> tuple[tuple[str, int], tuple[str, int]]:
        """The name and the axis of the array that n is read off, and of that for m."""

    @abstractmethod
    def unpack(self, layout: Layout, w: Arrays) -> Blocks:
        """The framework's arrays, which have been checked, as blocks; recurrent biases it does not have are zeros."""

    @abstractmethod
    def pack(self, layout: Layout, blocks: Blocks) -> Arrays:
        """The inverse of `unpack`."""

    def shapes(self, layout: Layout, n: int, m: int) -> Shapes:
        """Name in `flat` -> shape of each of the framework's arrays: of blocks that take no memory, packed."""
        shapes = [(len(layout.gates), *shape) for shape in ((n, m), (n, n), (n,), (n,))]
        packed = self.pack(layout, Blocks(*(np.broadcast_to(0.0, shape) for shape in shapes)))
        return {name: array.shape for name, array in packed.items()}

    def flat(self, tree: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the framework keeps as name -> array; here, where it is no tree, as it is."""
        return tree

    def nested(self, arrays: Arrays) -> dict[str, Any]:
        """The inverse of `flat`."""
        return arrays

    def has(self, config: Config) -> bool:
        """Whether the framework's layer has the config's cell, with its options."""
        try:
            self._layout(config)
        except UnsupportedError:
            return False
        return True

    def to_framework(self, config: str | Config, weights: Mapping[str, Any]) -> dict[str, Any]:
        """Our weights in the framework's layout.

        Parameters
        ----------
        config : mapping or str
            The cell and its options, as of a conformance case: {"cell": "lstm"}; or the name of a cell or of a model.
            With "bias": False the framework's arrays are without biases.
        weights : mapping of str to array
            Ours, W (n, m), U (n, n), b (n,) by gate.

        Returns
        -------
        dict
            Fresh arrays under the framework's names; of Flax a tree of them.

        Raises
        ------
        UnsupportedError
            The framework's layer does not have this cell or one of its options.
        TypeError
            An option is misspelt.
        ValueError
            A name is missing or unknown, a shape is wrong, an array is not floating-point.
        """
        config = config_of(config) if isinstance(config, str) else config
        layout = self._layout(config)
        inner = layout.inner is not None and config.get("recurrent_bias", False)

        def shapes(n: int, m: int) -> Shapes:
            return gate_shapes(layout.gates, m, n) | ({"b_hh": (n,)} if inner else {})

        first = layout.gates[0]
        bias = config.get("bias", True)
        sizes = (weight_name("U", first), -1), (weight_name("W", first), -1)
        ours = _checked("weights", weights, shapes, *sizes, bias)
        W, U, b = (
            np.stack(
                [sign * ours[weight_name(kind, gate)] for sign, gate in zip(layout.signs, layout.gates, strict=True)]
            )
            for kind in "WUb"
        )
        b_hh = np.zeros_like(b)
        if inner:
            b_hh[layout.inner] = ours["b_hh"]
        packed = self.pack(layout, Blocks(W, U, b, b_hh))
        kept = {name: np.array(a, order="C") for name, a in packed.items() if bias or not is_bias(name)}
        return self.nested(kept)

    def from_framework(self, config: str | Config, weights: Mapping[str, Any]) -> Arrays:
        """The framework's weights in our layout.

        Parameters
        ----------
        config : mapping or str
            The cell and its options, as of a conformance case; or the name of a cell or of a model.
        weights : mapping
            The framework's arrays under its names; of Flax the tree of them.

        Returns
        -------
        dict of str to array
            Fresh arrays under our names.

        Raises
        ------
        UnsupportedError
            The framework's layer does not have this cell or one of its options.
        TypeError
            An option is misspelt.
        ValueError
            A name is missing or unknown, a shape is wrong, an array is not floating-point, or the candidate of a GRU
            has a recurrent bias other than 0 and the config no `recurrent_bias`.
        """
        return self._ours(config, weights, gradients=False)

    def gradients_from(self, config: str | Config, gradients: Mapping[str, Any]) -> Arrays:
        """Gradients by the framework's weights -> gradients by ours.

        Arguments and errors are as of `from_framework`, except that a recurrent bias may have any gradient.
        """
        return self._ours(config, gradients, gradients=True)

    def _ours(self, config: str | Config, arrays: Mapping[str, Any], gradients: bool) -> Arrays:
        config = config_of(config) if isinstance(config, str) else config
        layout = self._layout(config)
        bias, sizes = config.get("bias", True), self.sizes(layout)
        given = _checked(self.title, self.flat(arrays), lambda n, m: self.shapes(layout, n, m), *sizes, bias)
        W, U, b, b_hh = self.unpack(layout, given)
        ours: Arrays = {}
        for k, (gate, sign) in enumerate(zip(layout.gates, layout.signs, strict=True)):
            summed = b[k] if gradients or k == layout.inner else b[k] + b_hh[k]
            ours |= {weight_name(kind, gate): sign * a for kind, a in (("W", W[k]), ("U", U[k]), ("b", summed))}
        if layout.inner is not None:
            if config.get("recurrent_bias", False):
                ours["b_hh"] = b_hh[layout.inner]
            elif not gradients and b_hh[layout.inner].any():
                raise ValueError(f"{self.title}: the candidate's recurrent bias is not 0; allowed: recurrent_bias true")
        return {name: np.array(a, order="C") for name, a in ours.items() if bias or not (gradients and is_bias(name))}

    def _layout(self, config: Config) -> Layout:
        """The layout of the config's cell.  UnsupportedError if the framework does not have it with those options."""
        cell = config.get("cell")
        if cell not in self.layouts:
            raise UnsupportedError(f"cell is {cell!r}; {self.title} has: {', '.join(self.layouts)}")
        layout = self.layouts[cell]
        options = {"activation": layout.activations, "complex": (False,), "reset_gate": (True,), "update_gate": (True,)}
        if not layout.recurrent_bias:
            options["recurrent_bias"] = (False,)
        for option, allowed in options.items():
            if config.get(option, allowed[0]) not in allowed:
                listed = ", ".join(map(repr, allowed))
                raise UnsupportedError(f"{option} is {config[option]!r}; {self.title} has, as {cell}: {listed}")
        known = config_of(str(cell))
        for option in config:  # of a layer there are others, near to none of these
            if option not in known and nearest(option, known):
                config_of({"cell": cell, option: config[option]})  # its error names the option that is meant
        return layout


def on_host(array: Any) -> Array:
    """As NumPy has it; bfloat16, which it does not have, in float32, whose upper half it is."""
    kind = str(getattr(array, "dtype", ""))
    if kind == "torch.bfloat16":
        return np.asarray(array.float())
    if kind == "bfloat16":  # ml_dtypes', of JAX and of safetensors
        return (np.asarray(array).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.asarray(array)


def is_bias(name: str) -> bool:
    """Whether a bias, of ours and of every framework's arrays."""
    last = name.rpartition("/")[2]
    return last in ("b", "B", "bhn") or last.startswith("b_") or "bias" in last


def _checked(
    what: str,
    arrays: Mapping[str, Any],
    shapes: Callable[[int, int], Shapes],
    n: tuple[str, int],
    m: tuple[str, int],
    bias: bool,
) -> Arrays:
    """The arrays, by the names and shapes expected of them; n and m are read off where these two say.

    Without biases these are 0, given or not.  ValueError for other names, shapes, or dtypes.
    """
    names = shapes(1, 1)
    arrays = {name: array for name, array in arrays.items() if array is not None}
    lacking = [f"no {name}" for name in names if name not in arrays and (bias or not is_bias(name))]
    unknown = [f"{name!r}{nearest(name, names)}" for name in arrays if name not in names]
    if lacking or unknown:
        without = "; without biases: bias=False in the config" if not any(map(is_bias, arrays)) else ""
        raise ValueError(
            f"{what}: the arrays hold {', '.join(lacking + unknown)}; expected {', '.join(names)}{without}"
        )
    given = {name: on_host(array) for name, array in arrays.items()}
    sizes = [np.atleast_1d(given[name]).shape[axis] for name, axis in (n, m)]
    for name, shape in shapes(*sizes).items():
        own = given.setdefault(name, np.zeros(shape, given[n[0]].dtype))
        if own.shape != shape:
            raise ValueError(f"{what}: {name} has shape {own.shape}; expected {shape}")
        if own.dtype.kind != "f":
            raise ValueError(f"{what}: {name} is {own.dtype}; expected a floating-point array")
        if not bias and is_bias(name) and own.any():
            raise ValueError(f"{what}: {name} is not 0; allowed with bias=False in the config: 0, or none")
    return given
