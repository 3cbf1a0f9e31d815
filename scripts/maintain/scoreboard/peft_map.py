"""PEFT's own rotations of one block, from its package: PEFT_ROTATION is oft, oft-neumann (its default) or boft."""

import os
from typing import Any

import torch
from peft.tuners.boft.layer import BOFTLayer
from peft.tuners.oft.layer import OFTRotationModule

ROTATION = os.environ.get("PEFT_ROTATION", "oft-neumann")


def rotation(Q: Any) -> Any:
    """The rotation of a skew-symmetric Q (n, n)."""
    if ROTATION == "boft":
        layer = BOFTLayer.__new__(BOFTLayer)  # its map needs nothing of a layer
        return torch.squeeze(BOFTLayer.cayley_batch(layer, Q[None]), 0)
    n = len(Q)
    module: Any = OFTRotationModule(1, n * (n - 1) // 2, n, n, use_cayley_neumann=ROTATION == "oft-neumann")
    del module.weight
    module.weight = Q[module.rows, module.cols][None]
    return module.get_weight()
