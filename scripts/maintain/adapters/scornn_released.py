"""scoRNN's released cell, from a checkout; TensorFlow 1 by a stand-in, float32.  Its W is a variable, set to ours."""

from typing import Any

import numpy as np

from scripts.maintain.scoreboard.sources import importable
from scripts.maintain.scoreboard.tensorflow_1 import cell_outputs, stand_in

stand_in()
importable("SpartinStuff/scoRNN", "d390c9bac62c510963ff90d386fb02beccff0a1e")
from scoRNN import scoRNNCell

CELL = {"cell": "elman", "activation": "modrelu"}
WEIGHTS = {"W": "U.T", "scoRNNCell/U": "W.T", "b": "b"}


def run(case: Any) -> dict[str, np.ndarray] | None:
    """The cell over a sequence."""
    return cell_outputs(case, CELL, WEIGHTS, scoRNNCell)
