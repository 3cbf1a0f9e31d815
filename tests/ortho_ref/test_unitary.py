"""uRNN's structured matrix [urnn:6] [urnn:blocks] [bp:urnnW], and the full-capacity one [goru:2.9] [goru:2.10]."""

import dataclasses

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings, strategies as st

from gradients.map_problem import random_map_problem
from gradients.problem import relative_error
from ortho_ref.backend import to_device, to_host
from ortho_ref.parametrizations import GeodesicUnitary, StructuredUnitary
from tests.ortho_ref.maps import one, problems, pulled_back, rebuilt, updated

# The structured matrix


def factors(params, permutation, conjugate=False, identity=False):
    """The eight dense factors of urnn:6, the first acting last: D_3, R_2, F^{-1}, D_2, Pi, R_1, F, D_1."""
    n = len(permutation)

    def D(w):
        return np.diag(np.exp(1j * w))

    def R(v):
        v = v.conj() if conjugate else v
        return np.eye(n) - 2 * np.outer(v, v.conj()) / np.sum(np.abs(v) ** 2)

    F = np.array([[np.exp(-2j * np.pi * j * k / n) for k in range(n)] for j in range(n)])
    Pi = np.zeros((n, n))
    for k in range(n):
        Pi[k, k if identity else permutation[k]] = 1
    p = params
    return [D(p["w_3"]), R(p["v_2"]), np.linalg.inv(F), D(p["w_2"]), Pi, R(p["v_1"]), F, D(p["w_1"])]


@settings(max_examples=12)
@given(data=st.data())
def test_value_of_the_structured_matrix(device, data):
    """urnn:6 against dense factors multiplied in order; det U = e^{i (sum of all w)} times the sign of Pi [urnn:blocks]
    [goru:2.8]."""
    problem = data.draw(problems("structured"))
    params, Pi = problem.params, np.eye(len(problem.dU))[problem.buffers["permutation"]]
    U = rebuilt(problem, device)
    np.testing.assert_allclose(U, np.linalg.multi_dot(factors(params, problem.buffers["permutation"])), atol=1e-12)
    angle = sum(params[f"w_{j}"].sum() for j in (1, 2, 3))
    np.testing.assert_allclose(np.linalg.det(U), np.exp(1j * angle) * np.linalg.det(Pi), atol=1e-12)


def test_the_structured_matrix_in_one_dimension(device):
    """n = 1: both reflections are -1 and their gradient is 0 to rounding; U = e^{i (w_1 + w_2 + w_3)}."""
    problem = random_map_problem(StructuredUnitary(), 1, np.random.default_rng(0))
    angle = sum(problem.params[f"w_{j}"] for j in (1, 2, 3))
    np.testing.assert_allclose(rebuilt(problem, device), np.exp(1j * angle)[None], atol=1e-15)
    ours = pulled_back(problem, device)
    np.testing.assert_allclose(np.concatenate([ours["v_1"], ours["v_2"]]), 0, atol=1e-14)
    assert problem.compare({name: ours[name] for name in ("w_1", "w_2", "w_3")}).passed


def test_the_value_test_sees_wrong_factors():
    """Another order, the conjugate v of the released code, the printed identity for Pi, the inverse permutation, F for
    its inverse: each is another matrix."""
    problem = one("structured")
    params, permutation, U = problem.params, problem.buffers["permutation"], problem.buffers["U"]
    right = factors(params, permutation)
    swapped = [right[k] for k in (0, 1, 2, 4, 3, 5, 6, 7)]  # Pi before D_2
    exchanged = [right[k] for k in (0, 1, 6, 3, 4, 5, 2, 7)]  # F^{-1} first
    wrong = [right[::-1], swapped, exchanged, factors(params, permutation.argsort())]
    wrong += [factors(params, permutation, conjugate=True), factors(params, permutation, identity=True)]
    assert not np.array_equal(permutation, permutation.argsort())
    np.testing.assert_allclose(U, np.linalg.multi_dot(right), atol=1e-12)
    for product in wrong:
        assert np.abs(np.linalg.multi_dot(product) - U).max() > 0.1


@settings(max_examples=8)
@given(data=st.data(), log_scale=st.floats(-140, 140), angle=st.floats(-3, 3))
def test_length_and_phase_of_v_do_not_matter(device, data, log_scale, angle):
    """U is the same for every c v, and the gradient is c dv / |c|^2."""
    problem, c = data.draw(problems("structured")), 10**log_scale * np.exp(1j * angle)
    scaled = {name: value * c if name[0] == "v" else value for name, value in problem.params.items()}
    other = dataclasses.replace(problem, params=scaled)
    np.testing.assert_allclose(rebuilt(other, device), problem.buffers["U"], atol=1e-12)
    ours, theirs = pulled_back(other, device), pulled_back(problem, device)
    for name, value in theirs.items():
        factor = c.conjugate() if name[0] == "v" else 1  # |c|^2 / c
        np.testing.assert_allclose(ours[name] * factor, value, atol=1e-12 * np.abs(value).max(initial=1))


def test_initial_structured_parameters():
    """urnn:init: w uniform on +-pi, both parts of v on +-1; a uniform permutation that is drawn once and kept."""
    params, buffers = StructuredUnitary().init(np.random.default_rng(0), 500, dtype=np.float64)
    parts = [part for v in (params["v_1"], params["v_2"]) for part in (v.real, v.imag)]
    for limit, values in ((np.pi, [params[f"w_{j}"] for j in (1, 2, 3)]), (1, parts)):
        for i, own in enumerate(values):
            assert scipy.stats.kstest(own, scipy.stats.uniform(-limit, 2 * limit).cdf).pvalue > 0.01
            assert not any(np.isin(own, other).any() for other in values[:i])
    np.testing.assert_array_equal(np.sort(buffers["permutation"]), np.arange(500))
    rngs = map(np.random.default_rng, range(400))
    firsts = [StructuredUnitary().init(rng, 4, dtype=np.float64)[1]["permutation"][0] for rng in rngs]
    assert scipy.stats.chisquare(np.bincount(firsts)).pvalue > 0.01


@pytest.mark.parametrize("name", ["v_1", "v_2"])
def test_v_of_zero(device, name):
    """No reflection belongs to v = 0, nor to one whose square underflows; of a delta that leads there too."""
    problem = one("structured").on(device)
    message = f"^the square of {name} is 0.0; allowed: at least 2.2250738585072014e-308, finite$"
    for scale in (0, 1e-170):
        with pytest.raises(ValueError, match=message):
            problem.p.rebuild({**problem.params, name: scale * problem.params[name]}, problem.buffers)
    delta = {key: value if key == name else 0 * value for key, value in problem.params.items()}
    with pytest.raises(ValueError, match=message):
        problem.p.retract(problem.params, problem.buffers, delta)


# The full-capacity matrix


def random_G(problem, seed=1):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(problem.dU.shape) + 1j * rng.standard_normal(problem.dU.shape)


def step(A, X, rate):
    """goru:2.10 by an explicit inverse."""
    I = np.eye(len(X))
    return np.linalg.inv(I + rate / 2 * A) @ (I - rate / 2 * A) @ X


@settings(max_examples=10)
@given(data=st.data(), log_rate=st.floats(-3, 1))
def test_the_geodesic_step(device, data, log_rate):
    """goru:2.9 and goru:2.10, corrected, against an explicit inverse, and against the form that multiplies from the
    right."""
    problem, rate = data.draw(problems("geodesic")), 10**log_rate
    X, G = problem.params["X"], random_G(problem)
    params, buffers = updated(problem, {"X": rate * G}, device)
    np.testing.assert_array_equal(params["X"], buffers["U"])
    A = G @ X.conj().T - X @ G.conj().T
    assert relative_error(params["X"], step(A, X, rate)) < 1e-11
    A, I = X.conj().T @ G - G.conj().T @ X, np.eye(len(X))
    from_the_right = X @ np.linalg.inv(I + rate / 2 * A) @ (I - rate / 2 * A)
    assert relative_error(params["X"], from_the_right) < 1e-11


def test_initial_X():
    """A draw of urnn:6 by the same generator."""
    X, theirs = (
        p.init(np.random.default_rng(0), 6, dtype=np.float64) for p in (GeodesicUnitary(), StructuredUnitary())
    )
    np.testing.assert_array_equal(X[0]["X"], theirs[1]["U"])


def test_X_that_is_not_unitary(device):
    """Refused from a defect of 1e-2 on, with the figure; rounding of float32 passes."""
    problem = one("geodesic").on(device)
    for scale, away in ((1.01, "0.0201"), (0.9, "0.19")):
        message = rf"^X is not unitary: \|\|X\^H X - I\|\|_2 is {away}; allowed: at most 0.01$"
        with pytest.raises(ValueError, match=message):
            problem.p.rebuild({"X": scale * problem.params["X"]}, problem.buffers)
    X = to_host(problem.params["X"]).astype(np.complex64).astype(complex)
    np.testing.assert_array_equal(
        to_host(problem.p.rebuild({"X": to_device(1.004 * X, device)}, problem.buffers)["U"]), 1.004 * X
    )


def test_U_of_the_geodesic_is_in_memory_of_its_own():
    """goru:2.9 and goru:2.10: X and U are equal after each of the three that make U; who overwrites the one has the
    other."""
    p, rng = GeodesicUnitary(), np.random.default_rng(0)
    made = [p.init(rng, 4, dtype=np.float64)]
    params, buffers = made[0]
    made.append((params, p.rebuild(params, buffers)))
    made.append(p.retract(params, buffers, {"X": 0.1 * rng.standard_normal((4, 4)) + 0j}))
    for own, kept in made:
        np.testing.assert_array_equal(own["X"], kept["U"])
        assert not np.shares_memory(own["X"], kept["U"])
