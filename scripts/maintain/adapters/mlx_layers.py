"""MLX's nn.RNN, nn.LSTM and nn.GRU on the CPU as layers: with and without initial state, with and without biases."""

from typing import Any

import mlx.core as mx
import numpy as np

from ortho_ref import converters
from scripts.maintain.adapters.mlx_cells import LAYERS, array
from scripts.maintain.scoreboard.plain_layers import plain

LAYOUT = converters.by_name("mlx")


def run(case: Any) -> dict[str, np.ndarray] | None:
    """The output, the last states, and the gradients of what is given."""
    own = plain(case)
    if own is None or own.config["cell"] not in LAYERS:
        return None
    layer = LAYERS[own.config["cell"]](*own.sizes, bias=own.bias)
    has, whole = layer.parameters(), LAYOUT.to_framework(own.config, own.weights)
    arrays = {k: array(a) for k, a in whole.items() if k in has}
    given = {name: array(case.inputs[name]) for name in ("dy", *(f"d{name}_T" for name in own.names))}

    def loss(weights: Any, x: Any, start: Any) -> Any:
        layer.update(weights)
        states = layer(mx.swapaxes(x, 0, 1), *(part[0] for part in start))
        every = [mx.swapaxes(a, 0, 1) for a in (states if isinstance(states, tuple) else (states,))]
        total = mx.sum(every[0] * given["dy"])
        for name, a in zip(own.names, every, strict=True):
            total = total + mx.sum(a[-1] * given[f"d{name}_T"][0])
        return total, every

    point = arrays, array(case.inputs["x"]), tuple(map(array, own.start))
    (_, every), (d_weights, d_x, d_start) = mx.value_and_grad(loss, argnums=(0, 1, 2))(*point)
    found = {"y": np.array(every[0]), "d_x": np.array(d_x)}
    for i, name in enumerate(own.names):
        found[f"{name}_T"] = np.array(every[i])[-1:]
        found |= {f"d_{name}0": np.array(d_start[i])} if own.start else {}
    zeros = {k: np.zeros_like(a) for k, a in whole.items()}
    gradients = LAYOUT.gradients_from(own.config, zeros | {k: np.array(a) for k, a in d_weights.items()})
    return found | {f"d_weights.layer0.{k}": a for k, a in gradients.items() if f"weights.layer0.{k}" in case.inputs}
