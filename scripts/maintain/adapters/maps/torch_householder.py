"""torch.nn.utils.parametrizations.orthogonal with orthogonal_map="householder", without a base.

The diagonal of its parameter holds signs, which are not trained: they are 1 here.
"""

from typing import Any

import torch
from torch.nn import Linear
from torch.nn.utils.parametrizations import orthogonal

from ortho_ref.adapters import map_from_torch


def weight(Q: Any) -> Any:
    """The weight of a layer whose parameter is Q below its diagonal."""
    n = Q.shape[-1]
    layer: Any = Linear(n, n, bias=False, dtype=Q.dtype)
    orthogonal(layer, "weight", "householder", use_trivialization=False)
    return layer.parametrizations.weight[0](torch.tril(Q, -1) + torch.eye(n, dtype=Q.dtype))


map, pullback = map_from_torch(weight)
