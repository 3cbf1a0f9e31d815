"""The simple recurrent network: dh_t/dh_{t-1} = D_t U, and of complex states its form in real pairs.

    h_t = Phi(z_t, b),  z_t = W x_t + U h_{t-1}                                 [urnn:1]
    dh_t/dh = D U,  D = diag(Phi'(z_t))                                         [urnn:2]
    complex: z as (Re z, Im z), U as (Re U, -Im U; Im U, Re U)                  [urnn:7]
        D of blocks: along e = z/|z| the slope is 1, across it 1 + b/|z|        [bp:modrelu-complex]
    ||dh_t/dh|| <= ||D|| ||U||                                                  [urnn:3]

urnn:2 is printed with U^T beside a row gradient (E-urnn-01).
"""

import numpy as np

from gradients.bptt import Bound, Matrix, Step, Vector, Weights, norm, one_step
from ortho_ref.activations import activation, modrelu
from ortho_ref.cells import Elman


def real_pairs(M: Matrix) -> Matrix:
    """A complex matrix (n, m) as the real one (2n, 2m) that acts on (Re, Im); of a vector (n,) these, (2n,)."""
    if M.ndim == 1:
        return np.concatenate([M.real, M.imag])
    return np.block([[M.real, -M.imag], [M.imag, M.real]])  # [urnn:7]


def modrelu_jacobian(z: Vector, b: Vector) -> Matrix:
    """D of complex modReLU in real pairs (2n, 2n), at z and b (n,); 0 for a unit that is off."""
    rho = abs(z)
    on = (rho + b > 0) & (rho > 0)
    rho = np.where(on, rho, 1)
    x, y, across = on * z.real / rho, on * z.imag / rho, on * (1 + b / rho)
    return np.block(  # [bp:modrelu-complex]
        [
            [np.diag(x * x + across * y * y), np.diag((1 - across) * x * y)],
            [np.diag((1 - across) * x * y), np.diag(y * y + across * x * x)],
        ]
    )


def step(cell: Elman, w: Weights, x: Vector, h: Vector) -> Step:
    """One step for `bptt`.

    Of a complex cell the weights are complex, and h a real pair (2n,); J and S, and so the gradients of
    `bptt.by_jacobians`, are of the pairs W (2n, m), U (2n, 2n).
    """
    w, x, h = one_step(cell, w, x, h)
    if cell.complex:
        return _complex_step(w, x, h)
    phi = activation(cell.activation)
    z = w["W"] @ x + w["U"] @ h  # [urnn:1]
    value = phi.value(z, w["b"])  # [urnn:1]
    slope, bias_slope = phi.pullback(np.ones_like(z), z, w["b"], value)
    D = np.diag(slope)
    return Step(value, D @ w["U"], {"W": (D, x), "U": (D, h), "b": (np.diag(bias_slope), None)})  # [urnn:2]


def bound(cell: Elman, w: Weights, x: Vector, h: Vector) -> Bound:
    """||D_t|| ||U||, of dh_t/dh_{t-1}; h is complex for a complex cell."""
    own = step(cell, w, x, real_pairs(h) if cell.complex else h)
    return Bound(norm(own.S["U"][0]) * norm(w["U"]), norm(own.J))  # [urnn:3]


def _complex_step(w: Weights, x: Vector, pairs: Vector) -> Step:
    re, im = np.split(pairs, 2)
    h = re + 1j * im
    z = w["W"] @ x + w["U"] @ h  # [urnn:1]
    value = modrelu(z, w["b"])  # [urnn:1]
    D = modrelu_jacobian(z, w["b"])
    e = np.where(abs(value) > 0, z, 0) / np.where(abs(z) > 0, abs(z), 1)
    S = {
        "W": (D, x),
        "U": (D, pairs),
        "b": (np.vstack([np.diag(e.real), np.diag(e.imag)]), None),
    }
    return Step(real_pairs(value), D @ real_pairs(w["U"]), S)  # [urnn:2]
