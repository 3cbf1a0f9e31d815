"""Flax linen's recurrent cells, forward and by jax.grad, step by step.  Tokens are given as one-hot vectors.

SimpleCell, LSTMCell or OptimizedLSTMCell (FLAX_LSTM=OptimizedLSTMCell), and GRUCell.
"""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen

from ortho_ref import converters

jax.config.update("jax_enable_x64", True)

LAYOUT = converters.by_name("flax")
LSTM = getattr(linen, os.environ.get("FLAX_LSTM", "LSTMCell"))
CELLS = {"elman": linen.SimpleCell, "lstm": LSTM, "gru_reset_after": linen.GRUCell}
ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu}


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
    n, dtype = given["h0"].shape[1], given["h0"].dtype
    options = {} if config["cell"] == "lstm" else {"activation_fn": ACTIVATIONS[config["activation"]]}
    cell = CELLS[config["cell"]](n, dtype=dtype, param_dtype=dtype, **options)
    tokens, m = given["x"].dtype.kind == "i", next(iter(weights.values()))["kernel"].shape[0]
    x = np.eye(m, dtype=dtype)[given["x"]] if tokens else given["x"]
    names = ("h", "c") if "c0" in given else ("h",)

    def states(weights: Any, x: Any, start: tuple[Any, ...]) -> dict[str, Any]:
        """h (T+1, B, n), and c."""
        history = [start]
        for x_t in x:
            carry = history[-1][::-1] if len(names) == 2 else history[-1][0]  # Flax has c first
            carry, _ = cell.apply({"params": weights}, carry, x_t)
            history.append(carry[::-1] if len(names) == 2 else (carry,))
        return {name: jnp.stack(steps) for name, steps in zip(names, zip(*history, strict=True), strict=True)}

    def loss(*point: Any) -> Any:
        outputs = states(*point)
        return (given["dh"] * outputs["h"][1:]).sum() + sum((given[f"d{k}_T"] * outputs[k][-1]).sum() for k in names)

    point = (weights, x, tuple(given[f"{name}0"] for name in names))
    d_weights, d_x, d_start = jax.grad(loss, argnums=(0, 1, 2))(*point)
    outputs = states(*point) | {f"d_{name}0": d for name, d in zip(names, d_start, strict=True)}
    outputs |= {} if tokens else {"d_x": d_x}
    outputs |= {f"d_weights.{name}": d for name, d in LAYOUT.gradients_from(config, d_weights).items()}
    return {name: np.asarray(a) for name, a in outputs.items()}
