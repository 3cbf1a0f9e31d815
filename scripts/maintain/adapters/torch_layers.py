"""PyTorch's nn.RNN, nn.LSTM and nn.GRU as layers: bias=False, no state, two directions, two layers, packed sequences.

A mask with holes is not for them: a packed sequence is.  Forward alone in float16 and bfloat16:

python -m ortho_ref.conformance run --adapter scripts/maintain/adapters/torch_layers.py --forward --dtype bfloat16
"""

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ortho_ref import converters
from ortho_ref.conformance.layered import Direction, directions

LAYOUT = converters.by_name("pytorch")
LAYERS = {"elman": nn.RNN, "lstm": nn.LSTM, "gru_reset_after": nn.GRU}


def run(case: Any) -> dict[str, np.ndarray] | None:
    """Every output; None for another kind or cell."""
    config, given = case.config, case.inputs
    if case.kind != "layer" or config["cell"] not in LAYERS or config["padding"] == "mask" or config["parametrized"]:
        return None
    dtype = getattr(torch, str(case.dtype))
    layer = _layer(case, dtype)
    states = ("h", "c") if config["cell"] == "lstm" else ("h",)
    x = torch.from_numpy(given["x"]).to(dtype).requires_grad_()
    start = [torch.from_numpy(given[f"{s}0"]).to(dtype).requires_grad_() for s in states if f"{s}0" in given]
    packed: Any = x
    if config["padding"] == "lengths":
        packed = pack_padded_sequence(x, torch.from_numpy(given["lengths"]), config["batch_first"], False)
    y, last = layer(packed, (tuple(start) if len(start) > 1 else start[0]) if start else None)
    if config["padding"] == "lengths":
        y, _ = pad_packed_sequence(y, config["batch_first"])
    tensors = {"y": y} | dict(zip([f"{s}_T" for s in states], last if len(states) > 1 else [last], strict=True))
    found = {name: (a.float() if a.dtype.itemsize == 2 else a).detach().numpy() for name, a in tensors.items()}
    if "d_x" not in case.outputs:
        return found
    loss: Any = sum((torch.from_numpy(given["dy" if n == "y" else f"d{n}"]) * a).sum() for n, a in tensors.items())
    loss.backward()
    leaves = {"d_x": x} | {f"d_{name}0": a for name, a in zip(states, start, strict=False)}
    return found | {name: _gradient(leaf) for name, leaf in leaves.items()} | _of_weights(case, layer)


def _layer(case: Any, dtype: Any) -> Any:
    """The layer, with the case's weights."""
    config, given = case.config, case.inputs
    options = {"nonlinearity": config["activation"]} if config["cell"] == "elman" else {}
    options |= {name: config[name] for name in ("bias", "batch_first", "bidirectional")}
    sizes = given["x"].shape[2], given["dh_T"].shape[2], config["layers"]
    layer: Any = LAYERS[config["cell"]](*sizes, dtype=dtype, **options)
    with torch.no_grad():
        for way in directions(config):
            for name, array in LAYOUT.to_framework(config, _own(case, way.name)).items():
                if config["bias"] or not name.startswith("bias"):
                    getattr(layer, _name(name, way)).copy_(torch.from_numpy(array))
    return layer


def _of_weights(case: Any, layer: Any) -> dict[str, np.ndarray]:
    """The gradients of the weights that the case has."""
    found = {}
    for way in directions(case.config):
        arrays = LAYOUT.to_framework(case.config, _own(case, way.name))
        gradients = {
            name: _gradient(own)
            if (own := getattr(layer, _name(name, way), None)) is not None
            else np.zeros_like(array)
            for name, array in arrays.items()
        }
        for name, gradient in LAYOUT.gradients_from(case.config, gradients).items():
            if f"d_weights.{way.name}.{name}" in case.outputs:
                found[f"d_weights.{way.name}.{name}"] = gradient
    return found


def _name(name: str, way: Direction) -> str:
    return name.replace("_l0", f"_l{way.layer}{'_reverse' if way.reverse else ''}")


def _gradient(parameter: Any) -> np.ndarray:
    return np.asarray(parameter.grad.numpy())


def _own(case: Any, way: str) -> dict[str, np.ndarray]:
    """A direction's weights by the kit's names; biases that are absent are 0."""
    prefix = f"weights.{way}."
    own = {name.removeprefix(prefix): a for name, a in case.inputs.items() if name.startswith(prefix)}
    for name in list(own):
        gate = name[1:]
        if name.startswith("U") and f"b{gate}" not in own:
            own[f"b{gate}"] = np.zeros(len(own[name]), own[name].dtype)
    if case.config.get("recurrent_bias") and "b_hh" not in own:
        own["b_hh"] = np.zeros(len(own["U_h"]), own["U_h"].dtype)
    return own
