"""A case of kind `layer` of one layer in one direction, for a library's layer: absent states and biases alone."""

from typing import Any, NamedTuple

import numpy as np

from ortho_ref.cells.by_name import CELLS, by_name
from ortho_ref.conformance.case import Arrays


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
    config = dict(case.config)
    if case.kind != "layer" or config["layers"] > 1 or config["cell"] not in CELLS:
        return None
    if any(config[option] for option in ("bidirectional", "padding", "batch_first", "parametrized")):
        return None
    own = {k: config[k] for k in config if k not in _AROUND}
    cell = by_name(own["cell"], **{k: v for k, v in own.items() if k != "cell"})
    given = {k.removeprefix("weights.layer0."): a for k, a in case.inputs.items() if k.startswith("weights.")}
    m, n = case.inputs["x"].shape[2], case.inputs["dy"].shape[2]
    dtype = case.inputs["x"].dtype
    weights = {k: given.get(k, np.zeros(shape, dtype)) for k, shape in cell.shapes(m, n).items()}
    start = tuple(case.inputs[f"{name}0"] for name in cell.states) if config["initial_state"] else ()
    return PlainLayer(own, weights, config["bias"], (m, n), start, cell.states)


_AROUND = ("layers", "bidirectional", "bias", "initial_state", "padding", "batch_first", "parametrized")
