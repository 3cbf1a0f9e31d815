"""The steps of docs/derivations/rotations.md [goru:rot] [bp:rotation] [bp:rotation-complex] [bp:phase] [bp:perm]
[bp:vprnn] [sgornn:2]."""

import numpy as np
import pytest

from gradients.map_problem import random_map_problem
from ortho_ref.parametrizations import FFTRotations, TunableRotations, VolumePreserving
from ortho_ref.parametrizations.rotations import phase, rotate
from tests.gradients.derivations.pairing import as_differences, drawn, paired, same


def rotated(x, theta):
    """x (2, columns), turned."""
    y = x.copy()
    rotate(y[0], y[1], np.asarray(theta))
    return y


@drawn
def test_one_rotation(draw, n):
    """bp:rotation, goru:rot: the change by the angle is (-y_j, y_i); dtheta by outputs; the adjoint is the inverse."""
    x, dy, dotx, theta = draw.complex(2, n), draw.complex(2, n), draw.complex(2, n), float(draw.real())
    y = rotated(x, theta)
    by_theta = np.stack([-y[1], y[0]])
    assert as_differences(by_theta, lambda s: rotated(x, theta + s))
    assert same((dy[1].conj() * y[0] - dy[0].conj() * y[1]).real.sum(), paired(dy, by_theta), 10)
    assert same(paired(dy, rotated(dotx, theta)), paired(rotated(dy, -theta), dotx), 10)
    assert same(rotated(y, -theta), x)


@drawn
def test_phases(draw, n):
    """bp:phase, both of phi and of omega: the change, dw from the output, dx; Im(conj(dy) y) has the wrong sign."""
    w, x, dy, dotw, dotx = draw.real(n), draw.complex(n, 2), draw.complex(n, 2), draw.real(n), draw.complex(n, 2)
    y = phase(w) * x
    doty = 1j * dotw[:, None] * y + phase(w) * dotx
    assert as_differences(doty, lambda s: phase(w + s * dotw) * (x + s * dotx))
    dw, dx = (dy * y.conj()).imag.sum(axis=1), phase(-w) * dy
    assert same(paired(dy, doty), paired(dw, dotw) + paired(dx, dotx), 10)
    assert not same(paired(dy, doty), paired(-dw, dotw) + paired(dx, dotx), 1e-3)
    assert same(phase(-w) * y, x)


@drawn
def test_permutations(draw, n):
    """bp:perm: dx[permutation] = dy; dx = dy[permutation] is the inverse's."""
    order, dy, dotx = draw.rng.permutation(n), draw.real(n), draw.real(n)
    dx = np.empty(n)
    dx[order] = dy
    assert same(paired(dy, dotx[order]), paired(dx, dotx), 10)
    cycle = np.array([1, 2, 0])
    dy, dotx = draw.real(3), draw.real(3)
    assert not same(paired(dy, dotx[cycle]), paired(dy[cycle], dotx), 1e-3)


@pytest.mark.parametrize(
    "p",
    [TunableRotations(4), TunableRotations(2, complex=True), FFTRotations(complex=True), VolumePreserving()],
    ids=str,
)
def test_layers(p):
    """bp:rotation-complex, bp:vprnn, sgornn:2: the pullback of the walk backwards pairs as U changes, for every angle,
    phase and diagonal; U's own transpose for dU gives another gradient."""
    problem = random_map_problem(p, 8, np.random.default_rng(0))
    gradients = problem.gradients()
    noise = np.random.default_rng(1)
    change = {name: noise.standard_normal(value.shape) for name, value in problem.params.items()}

    def loss(s):
        return problem.loss({name: value + s * change[name] for name, value in problem.params.items()})

    assert as_differences(sum(paired(gradients[name], change[name]) for name in change), loss)
    other = p.pullback(problem.params, problem.buffers, problem.dU.T)
    assert not as_differences(sum(paired(other[name], change[name]) for name in change), loss)
