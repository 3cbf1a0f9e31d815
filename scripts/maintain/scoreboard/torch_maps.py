"""Maps in PyTorch from parameters to a matrix: as a case of kind `parametrization` wants them; PyTorch's own."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import Linear
from torch.nn.utils.parametrizations import orthogonal

from ortho_ref.trees import under


def outputs(case: Any, map: Callable[[dict[str, Any]], Any]) -> dict[str, np.ndarray]:
    """The matrix, and the gradients of its parameters."""
    given = under("params.", case.inputs)
    leaves = {name: torch.from_numpy(a).clone().requires_grad_() for name, a in given.items()}
    U = map(leaves)
    gradients = torch.autograd.grad(
        U, [*leaves.values()], torch.from_numpy(case.inputs["dU"]), allow_unused=True, materialize_grads=True
    )
    found = {"U": U.detach().numpy()}
    for name, gradient in zip(leaves, gradients, strict=True):
        found[f"d_params.{name}"] = (gradient - gradient.T if name == "A" else gradient).numpy()
    return found


def parametrized(X: Any, map: str) -> Any:
    """What torch.nn.utils.parametrizations.orthogonal makes of the parameter X by one of its maps, without a base."""
    rows, columns = X.shape[-2:]
    layer: Any = Linear(columns, rows, bias=False, dtype=X.dtype)
    orthogonal(layer, "weight", map, use_trivialization=False)
    return layer.parametrizations.weight[0](X)
