"""geotorch's SO with the base I; GEOTORCH_MAP is cayley, or expm."""

import os
from typing import Any

import torch
from geotorch.so import SO

from ortho_ref.adapters import map_from_torch


def _weight(Q: Any) -> Any:
    manifold = SO(Q.shape, triv=os.environ.get("GEOTORCH_MAP", "cayley")).to(Q.dtype)
    manifold.base = torch.eye(Q.shape[-1], dtype=Q.dtype).expand(Q.shape).clone()
    return manifold(Q)


map, pullback = map_from_torch(_weight)
