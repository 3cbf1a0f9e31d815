"""What GORU's rotations reach [goru:tunable] [goru:fft]; its Jacobian is in test_jacobians.py."""

import numpy as np
import pytest

from gradients.map_problem import random_map_problem
from ortho_ref.parametrizations import FFTRotations, TunableRotations


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
