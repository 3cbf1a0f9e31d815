"""The loops of `fused/lstm.py` on a device; the equations are stated there."""

from typing import Any

from ortho_ref.backend import Array, library_of
from ortho_ref.fused.kernels.launch import Backwards, kernel
from ortho_ref.fused.kernels.stages import sigmoid


def state(
    xp: Any, o: Array, i: Array, f: Array, g: Array, Uh_o: Array, Uh_i: Array, Uh_f: Array, Uh_g: Array, *states: Array
) -> None:
    """o, i, f, g in place of their P, and c, y, h; states: c_prev, c, y, h."""
    c_prev, c, y, h = states
    o[...] = sigmoid(xp, o + Uh_o)  # [bp:lstm/o]
    i[...] = sigmoid(xp, i + Uh_i)  # [bp:lstm/i]
    f[...] = sigmoid(xp, f + Uh_f)  # [bp:lstm/f]
    g[...] = xp.tanh(g + Uh_g)  # [bp:lstm/g]
    c[...] = f * c_prev + i * g  # [bp:lstm/c]
    y[...] = xp.tanh(c)  # [bp:lstm/h]
    h[...] = o * y  # [bp:lstm/h]


def meet(xp: Any, dh: Array, dc: Array, dh_own: Array, f: Array, *of_gates: Array) -> None:
    """dh where it meets the loss's own gradient, dc, and da of each gate; of_gates: F of o, y, i, f, g, then the da."""
    F_o, F_y, F_i, F_f, F_g, da_o, da_i, da_f, da_g = of_gates
    dh[...] = dh + dh_own  # [bp:bptt/g]
    da_o[...] = dh * F_o  # [bp:lstm/1] [bp:lstm/4]
    dc[...] = dc + dh * F_y  # [bp:lstm/1]
    da_i[...] = dc * F_i  # [bp:lstm/2] [bp:lstm/4]
    da_f[...] = dc * F_f  # [bp:lstm/2] [bp:lstm/4]
    da_g[...] = dc * F_g  # [bp:lstm/2] [bp:lstm/4]
    dc[...] = dc * f  # [bp:lstm/3]


def carry(xp: Any, dh: Array, Uda_o: Array, Uda_i: Array, Uda_f: Array, Uda_g: Array) -> None:
    """dh from the products."""
    dh[...] = Uda_o + Uda_i + Uda_f + Uda_g  # [bp:lstm/5]


def forward_loop(h: Array, c: Array, y: Array, P: Array, U: Array) -> None:
    """As the host's."""
    library = library_of(h)
    Uh = library.xp.empty_like(P[:, 0])
    launch, Uh_of = kernel(library, state), tuple(Uh)
    for h_prev, h_t, *gates, c_prev, c_t, y_t in zip(h[:-1], h[1:], *P, c[:-1], c[1:], y, strict=True):
        library.xp.matmul(h_prev, U, out=Uh)  # [bp:lstm/o] [bp:lstm/i] [bp:lstm/f] [bp:lstm/g]
        launch(*gates, *Uh_of, c_prev, c_t, y_t, h_t)


def backward_loop(
    dh_t: Array, dc_t: Array, dh: Array, da: Array, F: Array, F_o: Array, F_y: Array, f: Array, U: Array
) -> None:
    """As the host's."""
    library = library_of(dh_t)
    Uda, kernels = library.xp.empty_like(da[:, 0]), Backwards(library, carry, meet)
    Uda_of, by_step = tuple(Uda), zip(dh, da.swapaxes(0, 1), F_o, F_y, F.swapaxes(0, 1), f, strict=True)
    for dh_own, da_t, F_o_t, F_y_t, F_t, f_t in reversed(list(by_step)):
        kernels.step(dh_t, (dc_t, dh_own, f_t, F_o_t, F_y_t, *F_t, *da_t), Uda_of)
        library.xp.matmul(da_t, U, out=Uda)  # [bp:lstm/5]
    kernels.last(dh_t)
