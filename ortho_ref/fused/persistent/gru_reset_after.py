"""The loops of `fused/gru_reset_after.py`, each a launch of gru_reset_after.cu; held to them by test_persistent."""

from ortho_ref.backend import Array
from ortho_ref.cells.cell import Weights
from ortho_ref.cells.gru_reset_after import GRUResetAfter
from ortho_ref.fused.persistent.launch import ACTIVATIONS, backward_factor, by_value, forward_factor, launch


def forward_loop(cell: GRUResetAfter, weights: Weights, h: Array, p: Array, P: Array, U_G: Array, U_h: Array) -> None:
    """As the host's."""
    G, b_h = "".join(cell.products[:-1]), weights["b_h"]
    read = (b_h, *(weights.get(name, b_h) for name in ("b_hh", "r", "z")))  # one that there is for one that is not
    on = by_value(reset="r" in G, update="z" in G, recurrent_bias=cell.recurrent_bias)
    factor = forward_factor(*((U_G,) if G else ()), U_h)
    launch("gru_reset_after", "forward", p, 1, (factor,), read, P, p, h, ACTIVATIONS[cell.activation], on)


def backward_loop(
    G: str, g: Array, dh: Array, da: Array, others: tuple[Array, ...], F: tuple[Array, ...], U_G: Array, U_h: Array
) -> None:
    """As the host's; G are the gates that are on."""
    factor = backward_factor(*((U_G,) if G else ()), U_h)
    on = by_value(reset="r" in G, update="z" in G, recurrent_bias=False)
    launch("gru_reset_after", "backward", dh, factor.slots, (factor,), (dh, *F), da[-1], *others, g, on)
