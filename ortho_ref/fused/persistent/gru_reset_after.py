"""The loops of `fused/gru_reset_after.py`, each a launch of gru_reset_after.cu; the equations are stated there."""

from typing import Any

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.gru_reset_after import GRUResetAfter
from ortho_ref.fused.persistent.launch import ACTIVATIONS, backward_factor, forward_factor, launch

_OPTIONS = np.dtype([(name, "i4") for name in ("reset", "update", "recurrent_bias")])


def _options(G: str, recurrent_bias: bool) -> Any:
    return np.array(("r" in G, "z" in G, recurrent_bias), _OPTIONS)[()]


def forward_loop(cell: GRUResetAfter, weights: Weights, h: Array, p: Array, P: Array, U_G: Array, U_h: Array) -> None:
    """As the host's."""
    G, b_h = "".join(cell.products[:-1]), weights["b_h"]
    read = (b_h, *(weights.get(name, b_h) for name in ("b_hh", "r", "z")))  # one that there is for one that is not
    options = ACTIVATIONS[cell.activation], _options(G, cell.recurrent_bias)
    factor = forward_factor(*((U_G,) if G else ()), U_h)
    launch("gru_reset_after", "forward", p, 1, (factor,), read, P, p, h, *options)


def backward_loop(
    G: str, g: Array, dh: Array, da: Array, others: tuple[Array, ...], F: tuple[Array, ...], U_G: Array, U_h: Array
) -> None:
    """As the host's; G are the gates that are on."""
    factor = backward_factor(*((U_G,) if G else ()), U_h)
    written = (da[-1], *others, g, _options(G, False))
    launch("gru_reset_after", "backward", dh, factor.slots, (factor,), (dh, *F), *written)
