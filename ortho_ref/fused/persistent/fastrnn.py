"""The loops of `fused/fastrnn.py`, each a launch of fastrnn.cu; held to them by test_persistent."""

from ortho_ref.backend import Array
from ortho_ref.fused.persistent.launch import ACTIVATIONS, backward_factor, forward_factor, launch


def forward_loop(activation: str, h: Array, P: Array, U: Array, b: Array, alpha: Array, beta: Array) -> None:
    """As the host's."""
    launch("fastrnn", "forward", P, 1, (forward_factor(U),), (b, alpha, beta), P, h, ACTIVATIONS[activation])


def backward_loop(last: Array, dh: Array, g: Array, dz: Array, F: Array, U: Array, beta: Array) -> None:
    """As the host's."""
    launch("fastrnn", "backward", dh, 1, (backward_factor(U),), (dh, F, beta), g, dz, last)
