"""torch.nn.utils.parametrizations.orthogonal under the names of ours: what it gives for the same parameters.

torch_orthogonal_translated.py translates the parameters.
"""

from typing import Any

import numpy as np
from torch.nn.functional import pad

from scripts.maintain.scoreboard.torch_maps import outputs, parametrized

MAPS = {"scaled_cayley": "cayley", "exponential": "matrix_exp", "householder": "householder"}


def run(case: Any) -> dict[str, np.ndarray] | None:
    """U, and the gradient of A or V."""
    if case.kind != "parametrization" or case.config["parametrization"] not in MAPS:
        return None

    def map(parameters: Any) -> Any:
        (X,) = parameters.values()  # A, of which torch has the entries below the diagonal; of V the columns there are
        return parametrized(pad(X, (0, len(X) - X.shape[1])), MAPS[case.config["parametrization"]])

    return outputs(case, map)
