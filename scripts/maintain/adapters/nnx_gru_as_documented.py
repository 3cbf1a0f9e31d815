"""Flax nnx's GRUCell held to its docstring, n = tanh(W_in x + b_in + r * (W_hn h + b_hn)): it has no b_hn to be given.

What the cases give for it is dropped, as a port of weights from linen or PyTorch would have to.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from flax import nnx

from ortho_ref.adapters import from_flax

without = from_flax(nnx.GRUCell)


def run(case: Any) -> dict[str, np.ndarray] | None:
    """The outputs, without a gradient of b_hh."""
    if case.kind != "cell" or not case.config.get("recurrent_bias"):
        return None
    inputs = {name: a for name, a in case.inputs.items() if name != "weights.b_hh"}
    return without(replace(case, config=case.config | {"recurrent_bias": False}, inputs=inputs))
