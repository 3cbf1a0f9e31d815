"""PEFT's OFT rotation from its skew Q, by default by a Neumann series, `use_cayley_neumann`.

By formula: `OFTRotationModule._cayley_batch` of PEFT 0.21.2, num_cayley_neumann_terms = 5.
"""

from typing import Any

import torch

from ortho_ref.adapters import map_from_torch


def rotation(Q: Any) -> Any:
    """I + 2 A + 2 A^2 + 2 A^3 + A^4."""
    R = torch.triu(Q, 1)
    A = R - R.mT
    powers = [A, A @ A, A @ A @ A, A @ A @ A @ A]
    return torch.eye(Q.shape[-1], dtype=Q.dtype) + 2 * (powers[0] + powers[1] + powers[2]) + powers[3]


map, pullback = map_from_torch(rotation)
