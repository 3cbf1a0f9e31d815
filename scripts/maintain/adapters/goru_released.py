"""GORU's released code, from a checkout: its rotations, its modReLU, and its cell; TensorFlow 1 by a stand-in, float32.

The cell is run with a matrix of ours in the place of its rotation, as the kit's cell has one.
"""

from typing import Any

import numpy as np

from scripts.maintain.scoreboard.sources import importable
from scripts.maintain.scoreboard.tensorflow_1 import cell_outputs, map_outputs, stand_in

tf = stand_in()
importable("jingli9111/GORU-tensorflow", "0ea3c043afe4f28e603b29a5c046977492c88bfa")
import goru

CELL = {"cell": "gru_reset_after", "activation": "modrelu"}
WEIGHTS = {
    "goru_cell/U": ["W_h.T", "W_r.T", "W_z.T"],
    "goru_cell/W_r": "U_r.T",
    "goru_cell/W_g": "U_z.T",
    "goru_cell/bias_r": "b_r",
    "goru_cell/bias_g": "b_z",
    "goru_cell/bias_c": "b_h",
    "matrix": "U_h.T",
}


class WithMatrix(goru.GORUCell):
    """The cell, its rotation a variable of ours."""

    def __init__(self, n: int) -> None:
        super().__init__(2 * n, fft=False)  # a rotation that nothing uses, of an even size
        self._num_units = n
        self._matrix = tf.get_variable("matrix", [n, n])

    def loop(self, h: Any) -> Any:
        """H times the matrix."""
        return tf.matmul(h, self._matrix)


def run(case: Any) -> dict[str, np.ndarray] | None:
    """Cells, real rotations, modReLU."""
    if case.kind == "parametrization":
        return _map(case)
    if case.kind == "activation" and case.config["activation"] == "modrelu" and not case.config["complex"]:
        return _modrelu(case)
    return cell_outputs(case, CELL, WEIGHTS, WithMatrix)


def _map(case: Any) -> dict[str, np.ndarray] | None:
    config, n = case.config, len(case.inputs["dU"])
    if config["parametrization"] not in ("fft_rotations", "tunable_rotations") or config["complex"]:
        return None
    if case.inputs["dU"].dtype != np.float32:
        return None
    fft = config["parametrization"] == "fft_rotations"
    return map_outputs(case, lambda: goru.GORUCell(n, capacity=config.get("capacity", 2), fft=fft).loop)


def _modrelu(case: Any) -> dict[str, np.ndarray] | None:
    if case.inputs["a"].dtype != np.float32 or case.config["kinks"]:  # these are not where its own are
        return None
    with tf.Graph().as_default(), tf.Session() as session:
        a, b = (tf.constant(case.inputs[name]) for name in "ab")
        y = goru.modrelu(a, b)
        found = session.run([y, *tf.gradients(y, [a, b], case.inputs["dy"])])
    return dict(zip(("y", "d_a", "d_b"), found, strict=True))
