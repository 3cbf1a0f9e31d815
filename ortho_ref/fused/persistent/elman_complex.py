"""The loops of `fused/elman_complex.py`, each a launch of elman_complex.cu; held to them by test_persistent."""

from ortho_ref.backend import Array, library_of
from ortho_ref.fused.persistent.launch import backward_factor, forward_factor, launch


def forward_loop(h: Array, z: Array, U: Array, b: Array) -> None:
    """As the host's."""
    factor = forward_factor(real_map(U))
    launch("elman_complex", "forward", parts(z), 1, (factor,), (b,), parts(z), parts(h), together=2)


def backward_loop(g: Array, dh: Array, dz: Array, g_t: Array, F: Array, G: Array, U: Array) -> None:
    """As the host's."""
    factor, read = backward_factor(real_map(U)), tuple(parts(library_of(U).xp.ascontiguousarray(x)) for x in (dh, F, G))
    launch("elman_complex", "backward", read[0], 1, (factor,), read, parts(dz), parts(g_t), parts(g), together=2)


def parts(x: Array) -> Array:
    """Real and imaginary parts in turn: complex, contiguous (..., n) -> a view (..., 2 n)."""
    return x.view(x.real.dtype)


def real_map(U: Array) -> Array:
    """The map h -> h U on real and imaginary parts in turn: complex (n, n) -> real (2 n, 2 n)."""
    M = library_of(U).xp.empty((len(U), 2, len(U), 2), U.real.dtype)
    M[:, 0, :, 0] = M[:, 1, :, 1] = U.real
    M[:, 0, :, 1], M[:, 1, :, 0] = U.imag, -U.imag
    return M.reshape(2 * len(U), -1)
