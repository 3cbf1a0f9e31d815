"""What GORU's rotations reach [goru:2.5] [goru:tunable] [goru:fft], and its Jacobian [goru:jac]."""

import itertools

import numpy as np
import pytest

from gradients import gru_reset_after
from gradients.map_problem import random_map_problem
from gradients.problem import relative_error
from ortho_ref import scan
from ortho_ref.cells import GRUResetAfter
from ortho_ref.parametrizations import FFTRotations, TunableRotations, by_name

CELLS = {
    "-".join(map(str, options)): GRUResetAfter(*options)
    for options in itertools.product(("tanh", "modrelu"), (True, False), (True, False), (False, True))
}
NAMES = ["scaled_cayley", "neumann_cayley", "exponential", "householder:3", "tunable_rotations:4", "fft_rotations"]
NAMES += ["volume_preserving", "structured_unitary", "geodesic_unitary"]


@pytest.mark.parametrize("name", NAMES)
def test_norms_are_kept(name):
    """goru:2.5: |U x| = |x|; not of a free matrix."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(8)
    for p, kept in ((by_name(name, 8), True), (by_name("free", 8), False)):
        U = p.init(rng, 8, dtype=np.float64)[1]["U"]
        assert (abs(np.linalg.norm(U @ x) / np.linalg.norm(x) - 1) < 1e-13) == kept


def rank_of(p, n):
    """The dimension of what the angles move U to, to first order, at a random point."""
    problem = random_map_problem(p, n, np.random.default_rng(5))
    rows = [p.pullback(problem.params, problem.buffers, E.reshape(n, n)) for E in np.eye(n * n)]
    return np.linalg.matrix_rank(
        np.array([np.concatenate([v.ravel() for v in row.values()]) for row in rows]), tol=1e-8
    )


@pytest.mark.parametrize("n", [2, 4, 6, 8])
def test_the_reach_of_the_tunable_style(n):
    """goru:tunable: with L = n layers n (n - 1) / 2 angles, each of them needed; with fewer layers, or in FFT style
    from n = 4 on, there are too few for all of SO(n)."""
    whole = n * (n - 1) // 2
    assert TunableRotations(n).count(n) == rank_of(TunableRotations(n), n) == whole
    for L in range(2, n, 2):
        assert rank_of(TunableRotations(L), n) <= TunableRotations(L).count(n) == L * (n - 1) // 2 < whole
    if n & (n - 1) == 0:
        count = n // 2 * (n.bit_length() - 1)
        assert FFTRotations().count(n) == rank_of(FFTRotations(), n) == count
        assert (count < whole) == (n > 2)


def random_point(cell, rng, n=4, m=3):
    """Weights of random size, gates switched off within [0, 1], an input, a state."""
    size = 10 ** rng.uniform(-1, 1)
    w = {name: size * rng.standard_normal(shape) for name, shape in cell.shapes(m, n).items()}
    w |= {name: rng.uniform(0, 1, n) for name in ("r", "z") if name in w}
    return w, rng.standard_normal(m), 3 * rng.standard_normal(n)


@pytest.mark.parametrize("name", CELLS)
def test_the_jacobian(name):
    """goru:jac: its transpose is the backward pass of `scan`, for every switch; its parts are in derivations."""
    cell, rng = CELLS[name], np.random.default_rng(1)
    w, x, h = random_point(cell, rng)
    J = gru_reset_after.jacobian(cell, w, x, h)
    assert abs(J).max() > 0
    g = rng.standard_normal(4)
    h1, tape = scan.forward(cell, w, x[None, None], h[None])
    back = scan.backward(cell, w, tape, g[None, None]).h0[0]
    assert relative_error(J.T @ g, back) < 1e-12
    own = gru_reset_after.step(cell, w, x, h)
    np.testing.assert_array_equal(own.J, J)
    np.testing.assert_allclose(own.h, h1[1, 0], rtol=1e-13)
