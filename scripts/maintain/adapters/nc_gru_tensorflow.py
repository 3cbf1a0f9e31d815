"""NC-GRU's released cell of the denoise task, from a checkout; TensorFlow 1 by a stand-in, float32.

It has one orthogonal weight, a variable, set to ours.
"""

from typing import Any

import numpy as np

from ortho_ref.adapters.weight_map import Spec
from scripts.maintain.scoreboard.sources import importable
from scripts.maintain.scoreboard.tensorflow_1 import cell_outputs, stand_in

stand_in()
importable("emucllari1/NC-GRU", "a290214dd9d7f14c668376315252d8004d23b45d", "denoise_task")
from NCGRU import NCGRUCell

CELL = {"cell": "gru_reset_before", "activation": "modrelu"}
WEIGHTS: Spec = {
    "ncgru_cell/gate_kernel": [["W_r.T", "W_u.T"], ["U_r.T", "U_u.T"]],
    "ncgru_cell/gate_bias": ["b_r", "b_u"],
    "ncgru_cell/weight_WC": "U_c.T",
    "ncgru_cell/weight_UC": "W_c.T",
    "ncgru_cell/bias_C": "b_c",
}


def run(case: Any) -> dict[str, np.ndarray] | None:
    """The cell over a sequence."""
    return cell_outputs(case, CELL, WEIGHTS, lambda n: NCGRUCell(n, False))
