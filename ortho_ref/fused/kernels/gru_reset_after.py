"""The loops of `fused/gru_reset_after.py` on a device; the equations are stated there."""

from typing import Any

from ortho_ref.backend import Array, library_of
from ortho_ref.cells.gru_reset_after import GRUResetAfter
from ortho_ref.fused.kernels.launch import Backwards, kernel
from ortho_ref.fused.kernels.stages import sigmoid, value


def state(
    xp: Any, activation: str, G: str, h_prev: Array, h: Array, p: Array, c: Array, r: Array, z: Array, *others: Array
) -> None:
    """r and z where they are on, c and h; others: b_h, U h of the gates that are on, b_hh if there is one."""
    b_h, *Uh, b_hh = others if len(others) == len(G) + 2 else (*others, None)
    if "r" in G:
        r[...] = sigmoid(xp, r + Uh[0])  # [goru:2.4]
    if "z" in G:
        z[...] = sigmoid(xp, z + Uh[-1])  # [goru:2.3]
    if b_hh is not None:
        p[...] = p + b_hh  # [goru:2.2/p]
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


def carry(xp: Any, g: Array, *products: Array) -> None:
    """What came through the products, added to g."""
    for product in products:
        g[...] = g + product  # [bp:gru2/3] [bp:gru2/4]


def forward_loop(
    cell: GRUResetAfter, weights: dict[str, Array], h: Array, p: Array, P: Array, U_G: Array, U_h: Array
) -> None:
    """As the host's."""
    library = library_of(h)
    xp, G = library.xp, "".join(cell.products[:-1])
    Uh, launch = xp.empty_like(P[:-1, 0]), kernel(library, state, cell.activation, G)
    others = (weights["b_h"], *Uh, *((weights["b_hh"],) if cell.recurrent_bias else ()))
    for h_prev, h_t, p_t, *gates, c in zip(h[:-1], h[1:], p, *P, strict=True):
        if G:
            xp.matmul(h_prev, U_G, out=Uh)  # [goru:2.4] [goru:2.3]
        xp.matmul(h_prev, U_h, out=p_t)  # [goru:2.2/p]
        r = gates[0] if cell.reset_gate else weights["r"]  # [goru:abl]
        z = gates[-1] if cell.update_gate else weights["z"]  # [goru:abl]
        launch(h_prev, h_t, p_t, c, r, z, *others)


def backward_loop(
    g: Array, dh: Array, da: Array, others: tuple[Array, ...], F: tuple[Array, ...], U_G: Array, U_h: Array
) -> None:
    """As the host's."""
    library = library_of(g)
    xp, kernels = library.xp, Backwards(library, carry, meet)
    Udp, Uda = xp.empty_like(g), xp.empty_like(da[:-1, 0])
    by_step = zip(dh, da.swapaxes(0, 1), *others, *F, strict=True)
    for dh_t, da_t, dp_t, da_r, da_z, F_h, F_r, F_z, r, z in reversed(list(by_step)):
        kernels.step(g, (dh_t, F_h, F_r, F_z, r, z, da_t[-1], dp_t, da_r, da_z), (Udp, *Uda))
        xp.matmul(dp_t, U_h, out=Udp)  # [bp:gru2/3]
        if len(Uda):
            xp.matmul(da_t[:-1], U_G, out=Uda)  # [bp:gru2/4]
    kernels.last(g)
