"""The loops of `fused/gru_reset_before.py`, each a launch of gru_reset_before.cu; held to them by test_persistent."""

from ortho_ref.backend import Array, library_of
from ortho_ref.fused.persistent.launch import ACTIVATIONS, backward_factor, forward_factor, launch


def forward_loop(activation: str, h: Array, P: Array, U_ru: Array, U_c: Array, b_c: Array) -> None:
    """As the host's."""
    s, factors = library_of(h).xp.empty_like(h[0]), (forward_factor(U_ru), forward_factor(U_c))
    launch("gru_reset_before", "forward", P[0], 1, factors, (b_c,), P, h, s, ACTIVATIONS[activation])


def backward_loop(
    g: Array, dh: Array, da: Array, F: tuple[Array, ...], r: Array, keep: Array, U_ru: Array, U_c: Array
) -> None:
    """As the host's."""
    factors = backward_factor(U_ru), backward_factor(U_c)
    launch("gru_reset_before", "backward", dh, 2, factors, (dh, *F, r, keep), da, g)
