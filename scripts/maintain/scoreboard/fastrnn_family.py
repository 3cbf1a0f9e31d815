"""The run of a PyTorch library that has FastRNN, FastGRNN and UGRNN: cells, layers, and FastRNN's initial values."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ortho_ref.adapters import either, from_torch
from ortho_ref.conformance.running.implementation import Run
from scripts.maintain.scoreboard.torch_layer_weights import draws, outputs

Step = Callable[[Any, Any, dict[str, Any]], Any]


def run_of(
    fastrnn: Callable[[str], Step], layers: dict[str, Step], initial: Callable[[int, int], dict[str, Any]]
) -> Run:
    """The run of such a library."""

    def layer(case: Any) -> dict[str, np.ndarray] | None:
        if case.kind != "layer" or case.config["cell"] not in layers:
            return None
        return outputs(case, layers[case.config["cell"]])

    def drawn(case: Any) -> dict[str, np.ndarray] | None:
        if case.kind != "initial" or case.config["model"] != "fastrnn":
            return None
        return draws(case, lambda: initial(case.config["input_size"], case.config["hidden_size"]))

    def config(activation: str) -> dict[str, Any]:
        return {"cell": "fastrnn", "activation": activation, "constraint": None}

    cells = (from_torch(fastrnn(name), cell=config(name), step=True) for name in ("tanh", "relu"))
    return either(*cells, layer, drawn)
