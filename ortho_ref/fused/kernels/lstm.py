"""The loops of `fused/lstm.py` on a device, held to it by test_kernels; the equations are stated there."""

from typing import Any

from ortho_ref.backend import Array, library_of
from ortho_ref.fused.kernels.launch import kernel
from ortho_ref.fused.sequence import sigmoid


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
    """dc and da of each gate, where dh meets the loss's own gradient; of_gates: F of o, y, i, f, g, then the da."""
    F_o, F_y, F_i, F_f, F_g, da_o, da_i, da_f, da_g = of_gates
    dh = dh + dh_own  # [bp:bptt/g]
    da_o[...] = dh * F_o  # [bp:lstm/1] [bp:lstm/4]
    dc[...] = dc + dh * F_y  # [bp:lstm/1]
    da_i[...] = dc * F_i  # [bp:lstm/2] [bp:lstm/4]
    da_f[...] = dc * F_f  # [bp:lstm/2] [bp:lstm/4]
    da_g[...] = dc * F_g  # [bp:lstm/2] [bp:lstm/4]
    dc[...] = dc * f  # [bp:lstm/3]


def forward_loop(h: Array, c: Array, y: Array, P: Array, U: Array) -> None:
    """As the host's."""
    library = library_of(h)
    xp, h_of, c_of, U = library.xp, list(h), list(c), library.xp.concatenate(list(U), axis=1)
    Uh, launch = xp.empty((len(h_of[0]), U.shape[1]), h.dtype), kernel(library, state)
    Uh_of, by_step = xp.split(Uh, len(P), axis=1), zip(h_of[:-1], h_of[1:], *P, c_of[:-1], c_of[1:], y, strict=True)
    for h_prev, h_t, *gates, c_prev, c_t, y_t in by_step:
        xp.dot(h_prev, U, out=Uh)  # [bp:lstm/o] [bp:lstm/i] [bp:lstm/f] [bp:lstm/g]
        launch(*gates, *Uh_of, c_prev, c_t, y_t, h_t)


def backward_loop(
    dh_t: Array, dc_t: Array, dh: Array, da: Array, F: Array, F_o: Array, F_y: Array, f: Array, U: Array
) -> None:
    """As the host's."""
    library = library_of(dh_t)
    xp, launch, U = library.xp, kernel(library, meet), U.reshape(-1, U.shape[-1])
    beside = xp.empty((*dh.shape[:2], len(da), dh.shape[2]), dh_t.dtype)
    by_step = zip(beside.reshape(*dh.shape[:2], -1), dh, f, F_o, F_y, *F, *xp.moveaxis(beside, 2, 0), strict=True)
    for da_t, *own in reversed(list(by_step)):
        launch(dh_t, dc_t, *own)
        xp.dot(da_t, U, out=dh_t)  # [bp:lstm/5]
    da[...] = xp.moveaxis(beside, 2, 0)
