"""The loops of `fused/gru_reset_before.py` on a device, held to it by test_kernels; the equations are stated there."""

from typing import Any

from ortho_ref.backend import Array, library_of
from ortho_ref.fused.kernels.launch import Backwards, kernel
from ortho_ref.fused.sequence import sigmoid, value


def gates(xp: Any, r: Array, u: Array, Uh_r: Array, Uh_u: Array, h_prev: Array, s: Array) -> None:
    """r and u in place of their P, and s."""
    r[...] = sigmoid(xp, r + Uh_r)  # [ncgru:1/r]
    u[...] = sigmoid(xp, u + Uh_u)  # [ncgru:1/u]
    s[...] = r * h_prev  # [ncgru:1/s]


def state(xp: Any, activation: str, c: Array, u: Array, Us: Array, b_c: Array, h_prev: Array, h: Array) -> None:
    """c in place of its P, and h."""
    c[...] = value(xp, activation, c + Us, b_c)  # [ncgru:35] [ncgru:1/c] [ncgru:19/c]
    h[...] = (c - h_prev) * u + h_prev  # [ncgru:1/h]


def meet(xp: Any, g: Array, dh: Array, F_u: Array, F_c: Array, da_u: Array, da_c: Array) -> None:
    """g where it meets the loss's own gradient, da_u and da_c."""
    g[...] = g + dh  # [bp:bptt/g]
    da_u[...] = g * F_u  # [bp:gru1/1] [bp:gru1/4]
    da_c[...] = g * F_c  # [bp:gru1/1] [bp:gru1/2]


def carry(xp: Any, g: Array, keep: Array, ds: Array, r: Array, Uda: Array) -> None:
    """The cotangent handed on to the step before."""
    g[...] = g * keep + ds * r + Uda  # [bp:gru1/1] [bp:gru1/3] [bp:gru1/5]


def forward_loop(activation: str, h: Array, P: Array, U_ru: Array, U_c: Array, b_c: Array) -> None:
    """As the host's."""
    library = library_of(h)
    xp, states = library.xp, list(h)
    s, Us, U_ru = xp.empty_like(h[0]), xp.empty_like(h[0]), xp.concatenate(list(U_ru), axis=1)
    Uh_r, Uh_u = xp.split(Uh := xp.empty((len(s), U_ru.shape[1]), h.dtype), 2, axis=1)
    of_gates, of_state = kernel(library, gates), kernel(library, state, activation)
    for h_prev, h_t, r, u, c in zip(states[:-1], states[1:], *P, strict=True):
        xp.dot(h_prev, U_ru, out=Uh)  # [ncgru:1/r] [ncgru:1/u]
        of_gates(r, u, Uh_r, Uh_u, h_prev, s)
        xp.dot(s, U_c, out=Us)  # [ncgru:35]
        of_state(c, u, Us, b_c, h_prev, h_t)


def backward_loop(
    g: Array, dh: Array, da: Array, F: tuple[Array, ...], r: Array, keep: Array, U_ru: Array, U_c: Array
) -> None:
    """As the host's."""
    library = library_of(g)
    xp = library.xp
    ds, Uda, kernels = xp.empty_like(g), xp.empty_like(g), Backwards(library, carry, meet)
    U_ru, beside = U_ru.reshape(-1, U_ru.shape[-1]), xp.empty((*dh.shape[:2], 2, dh.shape[2]), g.dtype)
    da_r, da_u, da_ru = beside[:, :, 0], beside[:, :, 1], beside.reshape(*dh.shape[:2], -1)
    by_step = zip(dh, da_r, da_u, da_ru, da[2], *F, r, keep, strict=True)
    for dh_t, da_r_t, da_u_t, da_ru_t, da_c_t, F_u, F_c, F_r, r_t, keep_t in reversed(list(by_step)):
        kernels.step(g, (dh_t, F_u, F_c, da_u_t, da_c_t), (keep_t, ds, r_t, Uda))
        xp.dot(da_c_t, U_c, out=ds)  # [bp:gru1/2]
        xp.multiply(ds, F_r, out=da_r_t)  # [bp:gru1/3] [bp:gru1/4]
        xp.dot(da_ru_t, U_ru, out=Uda)  # [bp:gru1/5]
    kernels.last(g)
    da[:2] = xp.moveaxis(beside, 2, 0)
