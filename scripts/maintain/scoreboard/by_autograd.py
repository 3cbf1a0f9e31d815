"""A case of kind `linear` by a forward pass in PyTorch; autograd takes the gradients."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ortho_ref.conformance import Case


def by_autograd(case: Case, forward: Callable[[dict[str, Any]], dict[str, Any] | None]) -> dict[str, np.ndarray] | None:
    """The outputs of forward(inputs) -> {"o": ..., "S_T": ...}, and the gradients; None where it gives None."""
    x = {name: torch.tensor(a, requires_grad=a.dtype.kind == "f") for name, a in case.inputs.items()}
    found = forward(x)
    if found is None:
        return None
    torch.stack([(x[f"d{name}"] * a).sum() for name, a in found.items()]).sum().backward()
    found |= {name: x[name.removeprefix("d_")].grad for name in case.outputs if name.startswith("d_")}
    return {name: a.detach().numpy() for name, a in found.items() if a is not None}


def chunk(T: int) -> int:
    """The largest size of a chunk up to 64 that divides T."""
    return max(size for size in range(1, 65) if T % size == 0)
