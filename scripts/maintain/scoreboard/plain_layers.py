"""A case of kind `layer` of one layer in one direction, for a library's layer: absent states and biases alone."""

from typing import Any

from ortho_ref.adapters.layers import Layer, layer_of
from ortho_ref.trees import under


def plain(case: Any) -> Layer | None:
    """A case as a plain layer, its weights by the cell's names; biases that are absent are 0."""
    layer = layer_of(case)
    if layer is None or len(layer.ways) > 1 or layer.padding or layer.kept or case.config["batch_first"]:
        return None
    return layer._replace(weights=under(f"{layer.ways[0].name}.", layer.weights))
