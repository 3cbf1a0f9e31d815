"""The run of a PyTorch library that has FastRNN, FastGRNN and UGRNN: cells, layers, and FastRNN's initial values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ortho_ref.adapters import either, from_torch
from ortho_ref.conformance.running.implementation import Run

Step = Callable[[Any, Any, dict[str, Any]], Any]


def run_of(
    fastrnn: Callable[[str], Step], layers: dict[str, Step], initial: Callable[[int, int], dict[str, Any]]
) -> Run:
    """The run of such a library."""

    def layer(case: Any) -> dict[str, np.ndarray] | None:
        if case.kind != "layer" or case.config["cell"] not in layers:
            return None
        return _outputs(case, layers[case.config["cell"]])

    def drawn(case: Any) -> dict[str, np.ndarray] | None:
        if case.kind != "initial" or case.config["model"] != "fastrnn":
            return None
        return _draws(case, lambda: initial(case.config["input_size"], case.config["hidden_size"]))

    def config(activation: str) -> dict[str, Any]:
        return {"cell": "fastrnn", "activation": activation, "constraint": None}

    cells = (from_torch(fastrnn(name), cell=config(name), step=True) for name in ("tanh", "relu"))
    return either(*cells, layer, drawn)


def _outputs(case: Any, step: Step) -> dict[str, np.ndarray]:
    """Of one layer in one direction with an initial state: the output, the last state, and all gradients."""
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


def _draws(case: Any, make: Callable[[], dict[str, Any]]) -> dict[str, np.ndarray]:
    """The initial values of many cells."""
    torch.manual_seed(int(case.inputs["seed"]))
    made = [make() for _ in range(case.config["draws"])]
    return {
        name: torch.stack([own[name].detach() for own in made]).numpy().astype(np.float64)
        for name in case.config["values"]
    }
