"""The uRNN paper's bound on gradients through time, and where complex modReLU breaks it.

    column form: dh_t = U^H D_{t+1} ... U^H D_T dh_T                            [urnn:2]
    U orthogonal or unitary: |dh_t| <= |dh_T| prod_k ||D_k||_2;
        of any other U each factor times ||U||_2                                [urnn:3]
    relu: ||D_k||_2 <= 1, hence |dh_t| <= |dh_T|                                [urnn:4]
    |Phi'| up to tau: |dh_t| <= tau^{T-t} |dh_T|                                [urnn:3-tau]
    complex modReLU: ||D_k||_2 = max_j max(1, 1 + b_j / |z_{k,j}|) over active units, so that urnn:4 holds if
        b <= 0 and fails where b > 0                                            [urnn:4/modrelu]

urnn:2 is printed with W^T beside a row gradient, which is the gradient of another network (E-urnn-01), and urnn:3 with
the "spectral radius norm (or operator 2-norm)", of which the second is the norm (E-urnn-02), the largest singular
value.
"""

from typing import NamedTuple

import numpy as np

from gradients import bptt, elman
from gradients.bptt import Matrix, Vector, Weights, norm
from ortho_ref.cells import Elman


class Propagation(NamedTuple):
    """Gradients through time of a loss of h_T: |dL/dh_t| for t = 0 .. T, their bounds by urnn:3, and ||D_t||_2 (T,)."""

    norms: Vector
    bounds: Vector
    slopes: Vector


def modrelu_norm(z: Vector, b: Vector) -> float:
    """||D||_2 of complex modReLU at z and b (n,); 0 where every unit is off."""
    rho = abs(z)
    on = (rho + b > 0) & (rho > 0)
    if not on.any():
        return 0.0
    return float(np.maximum(1, 1 + b[on] / rho[on]).max())  # [urnn:4/modrelu]


def propagate(cell: Elman, w: Weights, x: Matrix, h0: Vector, dh_T: Vector) -> Propagation:
    """Back through time from dh_T = dL/dh_T (n,), with the bound beside it; both states complex for a complex cell."""
    h = elman.real_pairs(h0) if cell.complex else h0
    g = elman.real_pairs(dh_T) if cell.complex else dh_T
    steps = bptt.run(elman.step, cell, w, x, h)
    size = norm(w["U"])  # 1 for an orthogonal or unitary U, of which urnn:3 is
    slopes = [norm(step.S["U"][0]) for step in steps]
    norms, bounds = [float(np.linalg.norm(g))], [float(np.linalg.norm(g))]
    for step, slope in zip(reversed(steps), reversed(slopes), strict=True):
        g = step.J.T @ g  # [urnn:2]
        norms.append(float(np.linalg.norm(g)))
        bounds.append(bounds[-1] * slope * size)  # [urnn:3] [urnn:4] [urnn:3-tau]
    return Propagation(np.array(norms[::-1]), np.array(bounds[::-1]), np.array(slopes))
