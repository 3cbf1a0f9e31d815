"""The loops of `fused/fastrnn.py` on a device, held to it by test_kernels; the equations are stated there."""

from typing import Any

from ortho_ref.backend import Array, library_of
from ortho_ref.fused.kernels.launch import Backwards, kernel
from ortho_ref.fused.sequence import value


def state(
    xp: Any, activation: str, f: Array, Uh: Array, b: Array, alpha: Array, beta: Array, h_prev: Array, h: Array
) -> None:
    """f in place of P, and h."""
    f[...] = value(xp, activation, f + Uh, b)  # [sgornn:1/z] [sgornn:1/f]
    h[...] = h_prev * beta + f * alpha  # [sgornn:1/h]


def meet(xp: Any, last: Array, dh: Array, F: Array, g: Array, dz: Array) -> None:
    """g and dz where the carried cotangent meets the loss's own."""
    g[...] = last + dh  # [bp:bptt/g]
    dz[...] = g * F  # [bp:fastrnn/1]


def carry(xp: Any, last: Array, g: Array, beta: Array, Udz: Array) -> None:
    """The cotangent handed on to the step before."""
    last[...] = g * beta + Udz  # [bp:fastrnn/2]


def forward_loop(activation: str, h: Array, P: Array, U: Array, b: Array, alpha: Array, beta: Array) -> None:
    """As the host's."""
    library = library_of(h)
    xp, Uh = library.xp, library.xp.empty_like(P[0])
    launch, states = kernel(library, state, activation), list(h)
    for h_prev, h_t, f_t in zip(states[:-1], states[1:], P, strict=True):
        xp.dot(h_prev, U, out=Uh)  # [sgornn:1/z]
        launch(f_t, Uh, b, alpha, beta, h_prev, h_t)


def backward_loop(last: Array, dh: Array, g: Array, dz: Array, F: Array, U: Array, beta: Array) -> None:
    """As the host's."""
    library = library_of(last)
    Udz, kernels = library.xp.empty_like(last), Backwards(library, carry, meet)
    for dh_t, g_t, dz_t, F_t in reversed(list(zip(dh, g, dz, F, strict=True))):
        kernels.step(last, (dh_t, F_t, g_t, dz_t), (g_t, beta, Udz))
        library.xp.dot(dz_t, U, out=Udz)  # [bp:fastrnn/2]
    kernels.last(last)
