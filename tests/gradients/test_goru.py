"""GORU's rotations [goru:2.5] [goru:rot] [goru:tunable] [goru:fft], the full-capacity step [goru:2.9] [goru:2.10], the
Jacobian [goru:jac]."""

import itertools

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from gradients import gru_reset_after
from gradients.map_problem import random_map_problem
from gradients.problem import relative_error
from ortho_ref import scan
from ortho_ref.cells import GRUResetAfter
from ortho_ref.finite_differences import compare_gradients
from ortho_ref.parametrizations import FFTRotations, GeodesicUnitary, TunableRotations, by_name
from ortho_ref.parametrizations.parametrization import defect

SEEDS = st.integers(0, 2**32 - 1)
CELLS = {
    "-".join(map(str, options)): GRUResetAfter(*options)
    for options in itertools.product(("tanh", "modrelu"), (True, False), (True, False), (False, True))
}
NAMES = ["scaled_cayley", "neumann_cayley", "exponential", "householder:3", "tunable_rotations:4", "fft_rotations"]
NAMES += ["volume_preserving", "structured_unitary", "geodesic_unitary"]


@pytest.mark.parametrize("name", NAMES)
@given(seed=SEEDS)
def test_norms_are_kept(name, seed):
    """goru:2.5: |U x| = |x|; not of a free matrix."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(8)
    for p, kept in ((by_name(name, 8), True), (by_name("free", 8), False)):
        U = p.init(rng, 8, dtype=np.float64)[1]["U"]
        assert (abs(np.linalg.norm(U @ x) / np.linalg.norm(x) - 1) < 1e-13) == kept


def dense_rotation(n, i, j, theta):
    """goru:rot as a matrix."""
    R = np.eye(n)
    R[i, i] = R[j, j] = np.cos(theta)
    R[i, j], R[j, i] = -np.sin(theta), np.sin(theta)
    return R


@given(theta=st.floats(-4, 4), phi=st.floats(-4, 4), w=st.floats(-4, 4))
def test_one_rotation(theta, phi, w):
    """goru:rot: y_i = cos x_i - sin x_j, y_j = sin x_i + cos x_j; the phase is on x_j, a diagonal follows."""
    one = np.array([[theta]])
    for p in (TunableRotations(2), FFTRotations()):
        params, buffers = p.init(np.random.default_rng(0), 2, dtype=np.float64)
        name = next(iter(params))
        U = p.rebuild(params | {name: one}, buffers)["U"]
        np.testing.assert_allclose(U, dense_rotation(2, 0, 1, theta), rtol=0, atol=1e-15)
    params = {"theta": one, "phi": np.array([[phi]]), "omega": np.array([w, 0])}
    U = FFTRotations(complex=True).rebuild(params, {"U": np.empty((2, 2))})["U"]
    expected = np.diag(np.exp([1j * w, 0])) @ dense_rotation(2, 0, 1, theta) @ np.diag(np.exp([0, 1j * phi]))
    np.testing.assert_allclose(U, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("n", "L"), [(2, 2), (6, 2), (6, 6), (8, 4)])
def test_tunable_layers(n, L):
    """goru:tunable: layers of (0, 1), (2, 3) .. and (1, 2), (3, 4) .. in turn, from dense rotations."""
    p = TunableRotations(L)
    params, buffers = p.init(np.random.default_rng(0), n, dtype=np.float64)
    U = np.eye(n)
    for layer in range(L):
        first, own = layer % 2, params["theta_B" if layer % 2 else "theta_A"][layer // 2]
        for angle, i in zip(own, range(first, n - first, 2), strict=True):
            U = dense_rotation(n, i, i + 1, angle) @ U
    assert relative_error(buffers["U"], U) < 1e-13


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


def test_a_rotation_is_reached():
    """goru:tunable, L = n = 4: a random matrix of SO(4), to rounding."""
    rng, p = np.random.default_rng(3), TunableRotations(4)
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    Q[:, 0] *= np.linalg.det(Q)
    buffers = p.init(rng, 4, dtype=np.float64)[1]

    def residual(x):
        own = {"theta_A": x[:4].reshape(2, 2), "theta_B": x[4:].reshape(2, 1)}
        return (p.rebuild(own, buffers)["U"] - Q).ravel()

    starts = [rng.uniform(-np.pi, np.pi, 6) for _ in range(6)]
    assert min(np.linalg.norm(scipy.optimize.least_squares(residual, x).fun) for x in starts) < 1e-6


@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_fft_layers(n):
    """goru:fft: log2(n) layers of strides n/2 .. 1, pairs (q, q + s) with bit s of q clear: every entry is mixed;
    without the first layer n^2 / 2 entries are 0."""
    p = FFTRotations()
    params, buffers = p.init(np.random.default_rng(0), n, dtype=np.float64)
    U, left_out, layers = np.eye(n), np.eye(n), n.bit_length() - 1
    for i in range(layers):
        s = n >> (i + 1)
        for q in (q for q in range(n) if not q & s):
            R = dense_rotation(n, q, q + s, params["theta"][i, (q % (2 * s)) * 2**i + q // (2 * s)])
            U = R @ U
            left_out = R @ left_out if i else left_out
    assert relative_error(buffers["U"], U) < 1e-13
    assert params["theta"].size == p.count(n) == n // 2 * layers
    assert (U != 0).all()
    assert (left_out == 0).sum() == n * n // 2


@given(seed=SEEDS, complex=st.booleans(), n=st.integers(2, 6))
def test_the_slope_of_the_full_capacity_step(seed, complex, n):
    """goru:2.9 and goru:2.10: -|A|^2 / 2 at rate 0; the printed A (E-goru-03) has another one from n = 3 on."""
    rng = np.random.default_rng(seed)
    G = rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n))
    X = np.linalg.qr(rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n)))[0]
    if not complex:
        G, X = G.real + 0j, np.linalg.qr(X.real)[0] + 0j
    p, d = GeodesicUnitary(), 1e-5

    def loss(rate):
        U = p.retract({"X": X}, {"U": X}, {"X": rate * G})[1]["U"]
        assert defect(U) < 1e-13
        return (G.conj() * U).real.sum()

    A = G @ X.conj().T - X @ G.conj().T
    slope = -(np.linalg.norm(A) ** 2) / 2
    assert (loss(d) - loss(-d)) / (2 * d) == pytest.approx(slope, rel=1e-6, abs=1e-8)
    printed = G.conj().T @ X - X.conj().T @ G
    assert n == 2 or (G.conj() * (-printed @ X)).real.sum() != pytest.approx(slope, rel=1e-6)


def random_point(cell, rng, n=4, m=3):
    """Weights of random size, gates switched off within [0, 1], an input, a state."""
    size = 10 ** rng.uniform(-1, 1)
    w = {name: size * rng.standard_normal(shape) for name, shape in cell.shapes(m, n).items()}
    w |= {name: rng.uniform(0, 1, n) for name in ("r", "z") if name in w}
    return w, rng.standard_normal(m), 3 * rng.standard_normal(n)


@pytest.mark.parametrize("name", CELLS)
def test_the_jacobian(name):
    """goru:jac against finite differences of a step, and its transpose against `scan`, for every switch."""
    cell, rng = CELLS[name], np.random.default_rng(1)
    w, x, h = random_point(cell, rng)
    J = gru_reset_after.jacobian(cell, w, x, h)

    def stepped(state):
        return scan.forward(cell, w, x[None, None], state[None])[0][1, 0]

    for i, row in enumerate(J):
        report = compare_gradients(lambda point, i=i: stepped(point["h"])[i], {"h": h}, {"h": row}, may_vanish=("h",))
        assert report.passed, f"\n{report}"
    assert abs(J).max() > 0
    g = rng.standard_normal(4)
    h1, tape = scan.forward(cell, w, x[None, None], h[None])
    back = scan.backward(cell, w, tape, g[None, None]).h0[0]
    assert relative_error(J.T @ g, back) < 1e-12
    own = gru_reset_after.step(cell, w, x, h)
    np.testing.assert_array_equal(own.J, J)
    np.testing.assert_allclose(own.h, h1[1, 0], rtol=1e-13)


@pytest.mark.parametrize("name", CELLS)
def test_the_bound_of_the_jacobian(name):
    """goru:jac/bound: nothing exceeds it in 200 random points, and something comes near it."""
    cell, rng = CELLS[name], np.random.default_rng(2)
    nearest = 0.0
    for _ in range(200):
        n = int(rng.integers(1, 5))
        limit, norm = gru_reset_after.bound(cell, *random_point(cell, rng, n))
        assert norm <= limit * (1 + 1e-12)
        nearest = max(nearest, norm / limit)
    assert nearest > 0.9


def test_the_bound_of_the_jacobian_is_attained():
    """goru:jac/bound of one unit that keeps (z = 1) or writes (z = 0, r = 1): 1, which is |dh/dh|."""
    cell = GRUResetAfter("modrelu", reset_gate=False, update_gate=False)
    w = {"W_h": np.zeros((1, 1)), "U_h": np.ones((1, 1)), "b_h": np.zeros(1), "r": np.ones(1)}
    for z in (0.0, 1.0):
        assert gru_reset_after.bound(cell, w | {"z": np.array([z])}, np.ones(1), np.ones(1)) == (1, 1)


@pytest.mark.parametrize("z", [-0.5, 1.5, 4.0])
def test_the_bound_where_a_trained_vector_has_left_the_interval(z):
    """goru:abl trains z as it is, nothing keeps it in [0, 1]: the bound holds there too."""
    rng = np.random.default_rng(4)
    cell = GRUResetAfter("modrelu", update_gate=False)
    for _ in range(100):
        w, x, h = random_point(cell, rng)
        w["z"] = np.array([z, 0.3, 0.9, -z])
        limit, norm = gru_reset_after.bound(cell, w, x, h)
        assert norm <= limit * (1 + 1e-12)
