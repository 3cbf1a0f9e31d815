"""The loops of `fused/elman.py`, each a launch of elman.cu; held to them by test_persistent."""

from ortho_ref.backend import Array
from ortho_ref.fused.persistent.launch import ACTIVATIONS, backward_factor, forward_factor, launch


def forward_loop(activation: str, h: Array, P: Array, U: Array, b: Array) -> None:
    """As the host's."""
    launch("elman", "forward", P, 1, (forward_factor(U),), (b, P), h, ACTIVATIONS[activation])


def backward_loop(g: Array, dh: Array, dz: Array, F: Array, U: Array) -> None:
    """As the host's."""
    launch("elman", "backward", dh, 1, (backward_factor(U),), (dh, F), dz, g)
