"""PEFT's OFT rotation from its skew Q, exactly, `use_cayley_neumann=False`.

By formula: `OFTRotationModule._cayley_batch` of PEFT 0.21.2.
"""

from typing import Any

import torch

from ortho_ref.adapters import map_from_torch


def rotation(Q: Any) -> Any:
    """(I - A) (I + A)^-1."""
    R = torch.triu(Q, 1)
    A, I = R - R.mT, torch.eye(Q.shape[-1], dtype=Q.dtype)
    return torch.linalg.solve(I + A, I - A, left=False)


map, pullback = map_from_torch(rotation)
