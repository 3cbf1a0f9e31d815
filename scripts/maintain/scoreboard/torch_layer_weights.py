"""A step of PyTorch's over a case of kind `layer`: one layer, one direction, an initial state; autograd."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def outputs(case: Any, step: Callable[[Any, Any, dict[str, Any]], Any]) -> dict[str, np.ndarray]:
    """The output, the last state, and all gradients."""
    given = {name: torch.from_numpy(a).clone() for name, a in case.inputs.items()}
    wanted = [name for name in given if name in ("x", "h0") or name.startswith("weights.")]
    leaves = {name: given[name].requires_grad_() for name in wanted}
    weights = {name.removeprefix("weights.layer0."): leaf for name, leaf in leaves.items()}
    states, h = [], leaves["h0"][0]
    for x in leaves["x"]:
        h = step(x, h, weights)
        states.append(h)
    y = torch.stack(states)
    loss = (y * given["dy"]).sum() + (y[-1:] * given["dh_T"]).sum()
    gradients = torch.autograd.grad(loss, [*leaves.values()], allow_unused=True, materialize_grads=True)
    found = {f"d_{name}": gradient.numpy() for name, gradient in zip(leaves, gradients, strict=True)}
    return found | {"y": y.detach().numpy(), "h_T": y[-1:].detach().numpy()}


def draws(case: Any, make: Callable[[], dict[str, Any]]) -> dict[str, np.ndarray]:
    """Initial values of many cells, as a case of kind `initial` wants them."""
    torch.manual_seed(int(case.inputs["seed"]))
    made = [make() for _ in range(case.config["draws"])]
    return {
        name: torch.stack([own[name].detach() for own in made]).numpy().astype(np.float64)
        for name in case.config["values"]
    }
