"""The loops of `fused/gru_reset_after.py` on a device, held to it by test_kernels; the equations are stated there."""

from typing import Any

from ortho_ref.backend import Array, library_of
from ortho_ref.cells.gru_reset_after import GRUResetAfter
from ortho_ref.fused.kernels.launch import Backwards, kernel
from ortho_ref.fused.sequence import sigmoid, value


def state(
    xp: Any, activation: str, G: str, h_prev: Array, h: Array, p: Array, c: Array, r: Array, z: Array, *others: Array
) -> None:
    """r and z where they are on, p, c and h; others: U h of the gates that are on, U_h h, b_h, b_hh if there is one."""
    *Uh, p_h, b_h, b_hh = others if len(others) == len(G) + 3 else (*others, None)
    if "r" in G:
        r[...] = sigmoid(xp, r + Uh[0])  # [goru:2.4]
    if "z" in G:
        z[...] = sigmoid(xp, z + Uh[-1])  # [goru:2.3]
    p[...] = p_h if b_hh is None else p_h + b_hh  # [goru:2.2/p]
    c[...] = value(xp, activation, c + p * r, b_h)  # [goru:2.2/a] [goru:2.2/c]
    h[...] = (h_prev - c) * z + c  # [goru:2.2/h]


def meet(xp: Any, g: Array, dh: Array, F_h: Array, F_r: Array, F_z: Array, r: Array, z: Array, *das: Array) -> None:
    """g where it meets the loss's own gradient, das (da_h, dp, da_r, da_z), and what of g skips the products."""
    da_h, dp, da_r, da_z = das
    g[...] = g + dh  # [bp:bptt/g]
    da_h[...] = g * F_h  # [bp:gru2/1] [bp:gru2/2]
    dp[...] = da_h * r  # [bp:gru2/3]
    da_r[...] = da_h * F_r  # [bp:gru2/3] [bp:gru2/4]
    da_z[...] = g * F_z  # [bp:gru2/1] [bp:gru2/4]
    g[...] = g * z  # [bp:gru2/1]


def carry(xp: Any, g: Array, product: Array) -> None:
    """What came through the product, added to g."""
    g[...] = g + product  # [bp:gru2/3] [bp:gru2/4]


def forward_loop(
    cell: GRUResetAfter, weights: dict[str, Array], h: Array, p: Array, P: Array, U_G: Array, U_h: Array
) -> None:
    """As the host's."""
    library = library_of(h)
    xp, G, states = library.xp, "".join(cell.products[:-1]), list(h)
    U = xp.concatenate([*(U_G if G else ()), U_h], axis=1)
    Uh, launch = xp.empty((len(states[0]), U.shape[1]), h.dtype), kernel(library, state, cell.activation, G)
    others = (*xp.split(Uh, len(P), axis=1), weights["b_h"], *((weights["b_hh"],) if cell.recurrent_bias else ()))
    for h_prev, h_t, p_t, *gates, c in zip(states[:-1], states[1:], p, *P, strict=True):
        xp.dot(h_prev, U, out=Uh)  # [goru:2.4] [goru:2.3] [goru:2.2/p]
        r = gates[0] if cell.reset_gate else weights["r"]  # [goru:abl]
        z = gates[-1] if cell.update_gate else weights["z"]  # [goru:abl]
        launch(h_prev, h_t, p_t, c, r, z, *others)


def backward_loop(
    G: str, g: Array, dh: Array, da: Array, others: tuple[Array, ...], F: tuple[Array, ...], U_G: Array, U_h: Array
) -> None:
    """As the host's; G are the gates that are on."""
    library = library_of(g)
    xp, kernels, (dp, da_r, da_z) = library.xp, Backwards(library, carry, meet), others
    U, Uda = xp.concatenate([*(U_G if G else ()), U_h]), xp.empty_like(g)
    beside = xp.empty((*dh.shape[:2], len(da), dh.shape[2]), g.dtype)
    of_product = beside[:, :, -1], beside[:, :, 0] if "r" in G else da_r, beside[:, :, len(G) - 1] if "z" in G else da_z
    by_step = zip(dh, da[-1], *of_product, beside.reshape(*dh.shape[:2], -1), *F, strict=True)
    for dh_t, da_h, dp_t, da_r_t, da_z_t, beside_t, F_h, F_r, F_z, r, z in reversed(list(by_step)):
        kernels.step(g, (dh_t, F_h, F_r, F_z, r, z, da_h, dp_t, da_r_t, da_z_t), (Uda,))
        xp.dot(beside_t, U, out=Uda)  # [bp:gru2/3] [bp:gru2/4]
    kernels.last(g)
    dp[...] = beside[:, :, -1]
    da[:-1] = xp.moveaxis(beside[:, :, :-1], 2, 0)
