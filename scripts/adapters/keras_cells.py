"""Keras 3's SimpleRNN, LSTM and GRU on its PyTorch backend, forward and by autograd.  Tokens as one-hot vectors.

The layers return c of the last step only: that of every step is from a second run, one step at a time.  On this
backend keras.ops.matmul gives float32 for float64 (3.15.1; Keras issue 23704): see it with --dtype float32 too.
"""

import os
from typing import Any

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch

from ortho_ref import converters

LAYOUT = converters.by_name("keras")
LAYERS = {"elman": "SimpleRNN", "lstm": "LSTM", "gru_reset_before": "GRU", "gru_reset_after": "GRU"}


def run(case: Any) -> dict[str, np.ndarray] | None:
    """h and c, and all gradients."""
    if case.kind != "cell":
        return None
    config, given = case.config, case.inputs
    try:
        ours = {name.removeprefix("weights."): a for name, a in given.items() if name.startswith("weights.")}
        weights = LAYOUT.to_framework(config, ours)
    except converters.UnsupportedError:
        return None
    m, n, dtype = weights["kernel"].shape[0], given["h0"].shape[1], str(given["h0"].dtype)
    options: dict[str, Any] = {} if config["cell"] == "lstm" else {"activation": config["activation"]}
    if LAYERS[config["cell"]] == "GRU":
        options["reset_after"] = config["cell"] == "gru_reset_after"
    options |= {"return_sequences": True, "return_state": True, "dtype": dtype}
    layer = getattr(keras.layers, LAYERS[config["cell"]])(n, **options)
    layer.build((None, None, m))
    layer.set_weights(list(weights.values()))

    tokens = given["x"].dtype.kind == "i"
    x = torch.from_numpy(np.eye(m, dtype=dtype)[given["x"]] if tokens else given["x"]).requires_grad_()
    names = ("h", "c") if "c0" in given else ("h",)
    state = [torch.from_numpy(given[f"{name}0"]).requires_grad_() for name in names]
    y, *last = layer(x.transpose(0, 1), initial_state=state)
    y = y.transpose(0, 1)
    upstream = [torch.from_numpy(given[name]) for name in ("dh", *(f"d{name}_T" for name in names))]
    torch.autograd.backward([y, *last], upstream)

    outputs: dict[str, Any] = {f"d_{name}0": part.grad for name, part in zip(names, state, strict=True)}
    outputs |= {"h": torch.cat([state[0][None], y])} | ({} if tokens else {"d_x": x.grad})
    if "c" in names:
        steps, current = [state[1]], state
        for x_t in x:
            current = list(layer(x_t[:, None], initial_state=current)[1:])
            steps.append(current[1])
        outputs["c"] = torch.stack(steps)
    by_name = {name: v.value.grad.numpy() for name, v in zip(weights, layer.trainable_variables, strict=True)}
    gradients = LAYOUT.gradients_from(config, by_name)
    return {k: a.detach().numpy() for k, a in outputs.items()} | {f"d_weights.{k}": g for k, g in gradients.items()}
