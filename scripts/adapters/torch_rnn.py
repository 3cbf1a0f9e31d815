"""PyTorch's nn.RNN, nn.LSTM and nn.GRU, forward and by autograd.  Tokens are given as one-hot vectors.

The layers return c of the last step only: that of every step is from a second run, one step at a time.
"""

from typing import Any

import numpy as np
import torch
from torch import nn

from ortho_ref import converters

LAYOUT = converters.by_name("pytorch")
LAYERS = {"elman": nn.RNN, "lstm": nn.LSTM, "gru_reset_after": nn.GRU}


def run(case: Any) -> dict[str, np.ndarray] | None:
    """h and c, and all gradients."""
    if case.kind != "cell":
        return None
    config, given = case.config, case.inputs
    ours = {name.removeprefix("weights."): a for name, a in given.items() if name.startswith("weights.")}
    try:
        weights = LAYOUT.to_framework(config, ours)
    except converters.UnsupportedError:
        return None
    (_, m), n = weights["weight_ih_l0"].shape, given["h0"].shape[1]
    options = {"nonlinearity": config["activation"]} if config["cell"] == "elman" else {}
    layer = LAYERS[config["cell"]](m, n, dtype=torch.from_numpy(given["h0"]).dtype, **options)
    layer.load_state_dict({name: torch.from_numpy(a) for name, a in weights.items()})

    tokens = given["x"].dtype.kind == "i"
    x = torch.from_numpy(np.eye(m, dtype=given["h0"].dtype)[given["x"]] if tokens else given["x"]).requires_grad_()
    names = ("h", "c") if "c0" in given else ("h",)
    state = tuple(torch.from_numpy(given[f"{name}0"]).requires_grad_() for name in names)
    y, last = layer(x, _packed(state))
    last = last if isinstance(last, tuple) else (last,)
    upstream = [torch.from_numpy(given[name]) for name in ("dh", *(f"d{name}_T" for name in names))]
    torch.autograd.backward([y, *(part[0] for part in last)], upstream)

    outputs: dict[str, Any] = {f"d_{name}0": part.grad for name, part in zip(names, state, strict=True)}
    outputs["h"] = torch.cat([state[0][None], y])
    if not tokens:
        outputs["d_x"] = x.grad
    if "c" in names:
        steps, packed = [state[1][None]], _packed(state)
        for t in range(len(x)):
            packed = layer(x[t : t + 1], packed)[1]
            steps.append(packed[1])
        outputs["c"] = torch.cat(steps)
    gradients = LAYOUT.gradients_from(config, {name: p.grad.numpy() for name, p in layer.named_parameters()})
    return {k: v.detach().numpy() for k, v in outputs.items()} | {f"d_weights.{k}": g for k, g in gradients.items()}


def _packed(state: tuple[Any, ...]) -> Any:
    """As the layers take a state: (1, B, n), or the pair of such."""
    return state[0][None] if len(state) == 1 else tuple(part[None] for part in state)
