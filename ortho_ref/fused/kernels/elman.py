"""The loops of `fused/elman.py` on a device, held to it by test_kernels; the equations are stated there."""

from typing import Any

from ortho_ref.backend import Array, library_of
from ortho_ref.fused.kernels.launch import kernel
from ortho_ref.fused.sequence import value


def state(xp: Any, activation: str, h: Array, P: Array, b: Array) -> None:
    """h from U h_prev, which stands in its place, and P."""
    h[...] = value(xp, activation, h + P, b)  # [urnn:1/z] [urnn:1/h] [goru:2.6]


def meet(xp: Any, g: Array, dh: Array, F: Array, dz: Array) -> None:
    """dz where the carried cotangent meets the loss's own."""
    dz[...] = (g + dh) * F  # [bp:bptt/g] [bp:rnn/1]


def forward_loop(activation: str, h: Array, P: Array, U: Array, b: Array) -> None:
    """As the host's."""
    library = library_of(h)
    launch, states = kernel(library, state, activation), list(h)
    for h_prev, h_t, P_t in zip(states[:-1], states[1:], P, strict=True):
        library.xp.dot(h_prev, U, out=h_t)  # [urnn:1/z]
        launch(h_t, P_t, b)


def backward_loop(g: Array, dh: Array, dz: Array, F: Array, U: Array) -> None:
    """As the host's."""
    library = library_of(g)
    launch = kernel(library, meet)
    for dh_t, dz_t, F_t in reversed(list(zip(dh, dz, F, strict=True))):
        launch(g, dh_t, F_t, dz_t)
        library.xp.dot(dz_t, U, out=g)  # [bp:rnn/2]
