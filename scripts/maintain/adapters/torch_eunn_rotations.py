"""torch_eunn's EUNN, a tunable rotation, and its modReLU.

It has no diagonal of phases, and in each second layer a rotation more, of the last unit with the first: its angles are
0 here.  Its angles: phi in the even rows and theta in the odd ones, the layers side by side.
"""

from typing import Any

import numpy as np
import torch
from torch.func import functional_call
from torch_eunn import EUNN, ModReLU

from scripts.maintain.scoreboard.torch_maps import outputs


def run(case: Any) -> dict[str, np.ndarray] | None:
    """U of the complex tunable rotations and the gradients of the angles, or modReLU of complex numbers."""
    if case.kind == "parametrization" and case.config["parametrization"] == "tunable_rotations":
        return outputs(case, _map) if case.config["complex"] else None
    if case.kind == "activation" and case.config["activation"] == "modrelu" and case.config["complex"]:
        return None if case.config["kinks"] else _modrelu(case)  # the kinks are not where its own are
    return None


def _map(parameters: Any) -> Any:
    columns = []
    for layer in range(2 * len(parameters["theta_A"])):
        own, row = "AB"[layer % 2], layer // 2
        phi, theta = (parameters[f"{name}_{own}"][row] for name in ("phi", "theta"))
        if own == "B":
            phi, theta = (torch.cat([angles, angles.new_zeros(1)]) for angles in (phi, theta))
        columns.append(torch.stack([phi, theta], 1).flatten())
    angles = torch.stack(columns, 1)
    n, capacity = angles.shape
    identity = torch.stack([torch.eye(n, dtype=angles.dtype), torch.zeros(n, n, dtype=angles.dtype)], -1)
    return functional_call(EUNN(n, capacity), {"angles": angles}, (identity,)).transpose(0, 1)


def _modrelu(case: Any) -> dict[str, np.ndarray]:
    a, b, dy = (torch.from_numpy(case.inputs[name]) for name in ("a", "b", "dy"))
    a, b = a.requires_grad_(), b.requires_grad_()
    y = functional_call(ModReLU(len(b)), {"bias": b[None]}, (a,))
    d_a, d_b = torch.autograd.grad(y, (a, b), dy)
    return {"y": y.detach().numpy(), "d_a": d_a.numpy(), "d_b": d_b.numpy()}
