"""A case of kind `layer` of one layer in one direction, for a library's layer: absent states and biases alone."""

from typing import Any, NamedTuple

import numpy as np

from ortho_ref.adapters.layers import layer_of, of_way
from ortho_ref.conformance.cases.case import Arrays


class PlainLayer(NamedTuple):
    """What a library's layer is made of and given."""

    config: dict[str, Any]
    weights: Arrays  # all of the cell's; biases that are absent are 0
    bias: bool  # whether the layer has biases
    sizes: tuple[int, int]
    start: tuple[np.ndarray, ...]  # the initial states; empty where there is none
    names: tuple[str, ...]  # ("h",), of an LSTM ("h", "c")


def plain(case: Any) -> PlainLayer | None:
    """A case as a plain layer."""
    layer = layer_of(case)
    if layer is None or len(layer.ways) > 1 or layer.padding or layer.kept or case.config["batch_first"]:
        return None
    weights = of_way(layer.weights, layer.ways[0])
    return PlainLayer(layer.config, weights, layer.bias, layer.sizes, layer.start, layer.names)
