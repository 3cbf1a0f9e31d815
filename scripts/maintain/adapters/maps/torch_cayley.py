"""torch.nn.utils.parametrizations.orthogonal with orthogonal_map="cayley", without a base."""

from typing import Any

from torch.nn import Linear
from torch.nn.utils.parametrizations import orthogonal

from ortho_ref.adapters import map_from_torch


def weight(Q: Any) -> Any:
    """The weight of a layer whose parameter is Q."""
    layer: Any = Linear(Q.shape[-1], Q.shape[-1], bias=False, dtype=Q.dtype)
    orthogonal(layer, "weight", "cayley", use_trivialization=False)
    return layer.parametrizations.weight[0](Q)


map, pullback = map_from_torch(weight)
