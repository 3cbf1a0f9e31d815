"""PyTorch's cross_entropy, binary_cross_entropy_with_logits and mse_loss; a mask by indexing.

Classes are one-hot vectors for the last.
"""

from typing import Any

import numpy as np
import torch
from torch.nn import functional

LOSSES: dict[str, Any] = {
    "cross_entropy": functional.cross_entropy,
    "binary_cross_entropy": functional.binary_cross_entropy_with_logits,
    "mean_squared_error": functional.mse_loss,
}


def run(case: Any) -> dict[str, np.ndarray] | None:
    """The loss and its gradient."""
    if case.kind != "loss":
        return None
    config = case.config
    outputs: Any = torch.from_numpy(case.inputs["outputs"]).requires_grad_()
    y = torch.from_numpy(case.inputs["y"])
    rows = outputs.unflatten(-1, (config["groups"], -1))  # (T, B, groups, classes)
    if config["targets"] == "classes":
        y = y.reshape(rows.shape[:-1])
        if config["loss"] == "mean_squared_error":
            y = functional.one_hot(y, rows.shape[-1]).to(rows.dtype)
    else:
        y = y.reshape(rows.shape).to(rows.dtype)
    mask = torch.from_numpy(case.inputs["mask"]) if config["masked"] else torch.ones(rows.shape[:2], dtype=torch.bool)
    rows, y = rows[mask].flatten(0, 1), y[mask].flatten(0, 1)
    value = LOSSES[config["loss"]](rows, y)
    value.backward()
    return {"loss": value.detach().numpy(), "d_outputs": outputs.grad.numpy()}
