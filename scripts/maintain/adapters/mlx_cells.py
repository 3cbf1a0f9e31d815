"""MLX's nn.RNN, nn.LSTM and nn.GRU on the CPU, forward and by mx.grad.  Tokens are given as one-hot vectors."""

from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn

from ortho_ref import converters
from ortho_ref.adapters.sequence import (
    Library,
    Style,
    Taken,
    arrays_of,
    loss_of,
    outputs_of,
    sequence_of,
    states_of,
)
from ortho_ref.adapters.weight_map import Converted

mx.set_default_device(mx.cpu)  # float64 is there alone

LAYERS = {"elman": nn.RNN, "lstm": nn.LSTM, "gru_reset_after": nn.GRU}
TAKES = {"elman": ("tanh", "relu"), "gru_reset_after": ("tanh",), "lstm": (None,)}
ACTIVATIONS = {"tanh": mx.tanh, "relu": nn.relu}


def array(a: np.ndarray) -> Any:
    """MLX's, in the same precision."""
    return mx.array(a, dtype=mx.float64 if a.dtype == np.float64 else mx.float32)


LIBRARY = Library(array, mx.stack, lambda a: mx.swapaxes(a, 0, 1), mx.sum)


def run(case: Any) -> dict[str, np.ndarray] | None:
    """States and gradients of the layer, its weights ours."""
    seq = sequence_of(case)
    if seq is None or seq.config["cell"] not in LAYERS:
        return None
    activation = seq.config.get("activation")
    if activation not in TAKES[seq.config["cell"]]:
        return None
    layout = Converted(converters.by_name("mlx"), seq.config)
    arrays = arrays_of(layout, seq)
    if arrays is None:
        return None
    options = {"nonlinearity": ACTIVATIONS[seq.config["activation"]]} if seq.config["cell"] == "elman" else {}
    layer = LAYERS[seq.config["cell"]](*seq.sizes, **options)

    def call(x: Any, state: Any) -> Any:
        return layer(x, *state) if isinstance(state, tuple) else layer(x, state)

    def loss(own: Any, x: Any, start: Any) -> Any:
        layer.update(own)
        every, last = states_of(call, seq, Style(batch_first=True), LIBRARY, x, start)
        return loss_of(every, last, seq, LIBRARY), (every, last)

    point = {name: array(a) for name, a in arrays.items()}, array(seq.x), tuple(map(array, seq.start))
    (_, (every, last)), (weights, d_x, d_start) = mx.value_and_grad(loss, argnums=(0, 1, 2))(*point)
    d_weights = {name: np.array(gradient) for name, gradient in weights.items()}
    states, start, ends = (tuple(map(np.array, group)) for group in (every, d_start, last))
    taken = Taken(list(states), ends, d_weights, np.array(d_x), start)
    return outputs_of(taken, case, seq, layout)
