"""A case of kind `layer`: several layers, two directions, biases and states that may be absent, padding."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.cells.by_name import CELLS
from ortho_ref.conformance.cases.layered import AROUND, Direction, directions, own_weights, time_first
from ortho_ref.converters.config import cell_of
from ortho_ref.converters.framework import Arrays, Framework
from ortho_ref.parametrizations.cayley import signs
from ortho_ref.trees import under


class Layer(NamedTuple):
    """What such a case gives, time first."""

    config: dict[str, Any]  # the cell and its options
    ways: tuple[Direction, ...]  # every direction of every layer, in the order of the states
    weights: Arrays  # "layer0.W_r": absent biases are 0
    bias: bool  # whether there are biases
    x: np.ndarray  # (T, B, m)
    n: int  # units
    names: tuple[str, ...]  # ("h",), of an LSTM ("h", "c")
    start: tuple[np.ndarray, ...]  # (L, B, n): the initial states; none where they are absent
    padding: str | None  # "lengths", "mask", "resets"
    keep: np.ndarray | None  # lengths (B,), or a mask or resets (T, B)
    dh: np.ndarray  # (T, B, n): upstream, of what the last layer gives
    d_last: tuple[np.ndarray, ...]  # (L, B, n): upstream, of the last states
    dtype: str  # of the case
    gradients: bool  # whether any is wanted
    kept: str | None = None  # the weight that is a map's, "U_c"

    @property
    def sizes(self) -> tuple[int, int]:
        """m and n."""
        return self.x.shape[2], self.n

    @property
    def widths(self) -> list[int]:
        """What each layer takes: above the first what the one below gives."""
        return [self.sizes[0], *[self.n * (1 + self.bidirectional)] * (self.layers - 1)]

    @property
    def layers(self) -> int:
        """How many, of however many directions."""
        return 1 + max(way.layer for way in self.ways)

    @property
    def bidirectional(self) -> bool:
        """Whether there are two directions."""
        return any(way.reverse for way in self.ways)


class ByWay:
    """A layout of several directions: each as a converter has one, under the direction's name."""

    def __init__(self, framework: Framework, layer: Layer) -> None:
        self.framework, self.layer = framework, layer
        self.config = {**layer.config, "bias": layer.bias}

    def to_framework(self, weights: Arrays) -> dict[str, Any]:
        """{"layer0": the framework's arrays, "layer0_reverse": ...}."""
        own = {way.name: under(f"{way.name}.", weights) for way in self.layer.ways}
        return {way: self.framework.to_framework(self.config, arrays) for way, arrays in own.items()}

    def gradients_from(self, gradients: Mapping[str, Any], weights: Arrays) -> Arrays:
        """Back, a direction after the other."""
        back = {name: self.framework.gradients_from(self.config, own) for name, own in gradients.items()}
        return {f"{way}.{name}": gradient for way, own in back.items() for name, gradient in own.items()}


def layer_of(case: Any) -> Layer | None:
    """The layer of a case.

    None for a case of another kind, of complex states, of a cell that is a layer's alone, or with factors of dropout,
    which a layer draws for itself.
    """
    config = case.config
    if case.kind != "layer" or config.get("complex") or config.get("dropout") or config["cell"] not in CELLS:
        return None
    own = {key: value for key, value in config.items() if key not in AROUND}
    cell, given, ways = cell_of(own), case.inputs, tuple(directions(config))
    x, n = time_first(config, given["x"]), given[f"d{cell.states[0]}_T"].shape[2]
    weights: Arrays = {}
    for way in ways:
        m = x.shape[2] if way.layer == 0 else n * (1 + config["bidirectional"])
        weights |= {f"{way.name}.{name}": a for name, a in own_weights(cell, way, given, m, n).items()}
    if (kept := config["parametrized"]) is not None:
        weights = _with_map(weights, kept, given, n)
    padding = config["padding"]
    keep = given["lengths"] if padding == "lengths" else time_first(config, given[padding]) if padding else None
    start = tuple(given[f"{name}0"] for name in cell.states) if config["initial_state"] else ()
    d_last = tuple(given[f"d{name}_T"] for name in cell.states)
    around = start, padding, keep, time_first(config, given["dy"]), d_last, str(case.dtype), wants_gradients(case)
    return Layer(own, ways, weights, config["bias"], x, n, cell.states, *around, (kept or {}).get("weight"))


def wants_gradients(case: Any) -> bool:
    """Whether a case is of more than the forward pass."""
    return any(name.startswith("d_") for name in case.outputs)


def _with_map(weights: Arrays, kept: Mapping[str, Any], given: Mapping[str, np.ndarray], n: int) -> Arrays:
    """The weights with a map's parameters in place of the matrix: "layer0.U_c.A", and D where it has one."""
    name = f"layer0.{kept['weight']}"
    own = {key.removeprefix("weights."): a for key, a in given.items() if key.startswith(f"weights.{name}.")}
    if "negative_ones" in kept:
        own[f"{name}.D"] = signs(n, kept["negative_ones"], given["x"].dtype)
    return {key: a for key, a in weights.items() if key != name} | own


def layer_outputs(
    case: Any, y: np.ndarray, last: tuple[np.ndarray, ...], gradients: Mapping[str, np.ndarray]
) -> Arrays:
    """The outputs of the case, under the kit's names.

    y (T, B, n) is what the last layer gives, last (L, B, n) the states in the cell's order; gradients are by "x", time
    first, "h0", "layer0.W_r", ...: those that the case does not want are left out.
    """
    states = CELLS[case.config["cell"]].states
    found = {"y": time_first(case.config, y)} | {f"{s}_T": a for s, a in zip(states, last, strict=True)}
    for name, gradient in gradients.items():
        ours = f"d_weights.{name}" if "." in name else f"d_{name}"
        if ours in case.outputs:
            found[ours] = time_first(case.config, gradient) if name == "x" else gradient
    return found
