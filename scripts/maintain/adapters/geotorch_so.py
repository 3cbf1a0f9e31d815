"""geotorch's SO under the names of ours: its Cayley map and its exponential, the base I, the parameters ours."""

from typing import Any

import numpy as np
import torch
from geotorch.so import SO

from scripts.maintain.scoreboard.torch_maps import outputs

MAPS = {"scaled_cayley": "cayley", "exponential": "expm"}


def run(case: Any) -> dict[str, np.ndarray] | None:
    """U and the gradient of A."""
    if case.kind != "parametrization" or case.config["parametrization"] not in MAPS:
        return None

    def map(parameters: Any) -> Any:
        A = parameters["A"]
        manifold = SO(A.shape, triv=MAPS[case.config["parametrization"]]).to(A.dtype)
        manifold.base = torch.eye(len(A), dtype=A.dtype)
        return manifold(A)

    return outputs(case, map)
