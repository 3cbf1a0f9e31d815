"""PEFT's rotations: OFT's exact Cayley map and its series (Cayley-Neumann, the default), and BOFT's Cayley map.

PEFT_ROTATION is oft, oft-neumann or boft.  One block of the size of the matrix; there is no D, so that only the case
without one is run.
"""

from typing import Any

import numpy as np

from scripts.maintain.scoreboard.peft_map import rotation
from scripts.maintain.scoreboard.torch_maps import outputs


def run(case: Any) -> dict[str, np.ndarray] | None:
    """The rotation of skew-symmetric parameters, and their gradient."""
    if case.kind != "parametrization" or case.config["parametrization"] != "scaled_cayley":
        return None
    if case.config["negative_ones"]:
        return None
    return outputs(case, lambda parameters: rotation(parameters["A"]))
