"""torch.nn.utils.parametrizations.orthogonal with orthogonal_map="householder", without a base.

The diagonal of its parameter holds signs, which are not trained: they are 1 here.
"""

from typing import Any

import torch

from ortho_ref.adapters import map_from_torch
from scripts.maintain.scoreboard.torch_maps import parametrized


def weight(Q: Any) -> Any:
    """The weight of a layer whose parameter is Q below its diagonal; a wide one is transposed, above it."""
    rows, columns = Q.shape[-2:]
    triangle = torch.tril(Q, -1) if rows >= columns else torch.triu(Q, 1)
    return parametrized(triangle + torch.eye(rows, columns, dtype=Q.dtype), "householder")


map, pullback = map_from_torch(weight)
