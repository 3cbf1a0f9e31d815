"""torch.nn.utils.parametrizations.orthogonal under the names of ours: what it gives for the same parameters.

torch_orthogonal_translated.py translates the parameters.
"""

from typing import Any

import numpy as np
import torch
from torch.nn import Linear
from torch.nn.utils.parametrizations import orthogonal

MAPS = {"scaled_cayley": "cayley", "exponential": "matrix_exp", "householder": "householder"}


def run(case: Any) -> dict[str, np.ndarray] | None:
    """U, and the gradient of A or V."""
    if case.kind != "parametrization" or case.config["parametrization"] not in MAPS:
        return None
    dU = torch.from_numpy(case.inputs["dU"])
    n = len(dU)
    name = "V" if case.config["parametrization"] == "householder" else "A"
    parameter = torch.zeros(n, n, dtype=dU.dtype)
    given = case.inputs[f"params.{name}"]
    parameter[:, : given.shape[1]] = torch.from_numpy(given)

    layer: Any = Linear(n, n, bias=False, dtype=dU.dtype)
    orthogonal(layer, "weight", MAPS[case.config["parametrization"]], use_trivialization=False)
    original = layer.parametrizations.weight.original
    with torch.no_grad():
        original.copy_(parameter)
    U = layer.weight
    U.backward(dU)
    gradient = original.grad.numpy()
    if name == "A":
        gradient = gradient - gradient.T  # torch has the free entries below the diagonal, A = tril(X) - tril(X)^T
    return {"U": U.detach().numpy(), f"d_params.{name}": gradient[:, : given.shape[1]]}
