"""The loops of `fused/lstm.py`, each a launch of lstm.cu; held to them by test_persistent."""

from ortho_ref.backend import Array
from ortho_ref.fused.persistent.launch import backward_factor, forward_factor, launch


def forward_loop(h: Array, c: Array, y: Array, P: Array, U: Array) -> None:
    """As the host's."""
    launch("lstm", "forward", y, 1, (forward_factor(U),), (), P, h, c, y)


def backward_loop(
    dh_t: Array, dc_t: Array, dh: Array, da: Array, F: Array, F_o: Array, F_y: Array, f: Array, U: Array
) -> None:
    """As the host's."""
    launch("lstm", "backward", dh, 4, (backward_factor(U),), (dh, F, F_o, F_y, f), da, dh_t, dc_t)
