"""Products of Householder reflections [goru:householder] [bp:householder]."""

import dataclasses
import re

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings, strategies as st

from gradients.map_problem import random_map_problem
from ortho_ref.backend import to_device
from ortho_ref.parametrizations import Householder
from tests.ortho_ref.maps import one, problems, pulled_back, rebuilt


def reflections(V):
    """H_j = I - 2 v_j v_j^T / |v_j|^2 one by one; for m = n diag(1, ..., 1, sign of v_n) in place of the last."""
    n, m = V.shape
    factors = []
    for j in range(m):
        v = V[:, j : j + 1]
        factors.append(np.eye(n) - 2 * v @ v.T / np.sum(v * v))
    if m == n:
        factors[-1] = np.diag([1.0] * (n - 1) + [1.0 if V[-1, -1] > 0 else -1.0])
    return factors


def product(factors):
    U = np.eye(len(factors[0]))
    for factor in factors:
        U = U @ factor
    return U


@settings(max_examples=15)
@given(data=st.data())
def test_value_of_U(device, data):
    """goru:householder against explicit reflections multiplied in order, H_m first on a vector; det U = (-1)^m, for
    m = n (-1)^(n - 1) times the sign of v_n."""
    problem = data.draw(problems("householder"))
    V, U = problem.params["V"], rebuilt(problem, device)
    np.testing.assert_allclose(U, product(reflections(V)), atol=1e-12)
    n, m = V.shape
    expected = (-1) ** m if m < n else (-1) ** (n - 1) * np.sign(V[-1, -1])
    assert np.linalg.det(U) == pytest.approx(expected)


def test_value_by_hand():
    """One reflection in (1, 1) swaps the axes with a sign; m = n keeps v_n's sign and nothing else of it."""
    _, buffers = Householder(1).init(np.random.default_rng(0), 2, dtype=np.float64)
    np.testing.assert_allclose(
        Householder(1).rebuild({"V": np.array([[3.0], [3.0]])}, buffers)["U"], [[0, -1], [-1, 0]]
    )
    for last in (-2.0, 0.1):
        U = Householder(2).rebuild({"V": np.array([[1.0, 0], [0, last]])}, buffers)["U"]
        np.testing.assert_array_equal(U, np.diag([-1, np.sign(last)]))
    _, buffers = Householder(1).init(np.random.default_rng(0), 1, dtype=np.float64)
    np.testing.assert_array_equal(Householder(1).rebuild({"V": np.array([[-0.3]])}, buffers)["U"], [[-1]])


def test_the_order_of_the_reflections_shows():
    """The value test is not blind: the reversed product, and one with 1 for 2 or an unnormalised v, are others."""
    V, U = one("householder").params["V"], one("householder").buffers["U"]
    assert np.abs(product(reflections(V)[::-1]) - U).max() > 0.1
    unnormalised = product([np.eye(6) - 2 * np.outer(v, v) for v in V.T])
    assert np.abs(unnormalised - U).max() > 0.1


@settings(max_examples=10)
@given(data=st.data())
def test_where_the_gradient_is_zero(device, data):
    """Exactly 0 above the diagonal and, for m = n, in v_n; orthogonal to v_j; not 0 in any other entry."""
    problem = data.draw(problems("householder"))
    V, dV = problem.params["V"], pulled_back(problem, device)["V"]
    n, m = V.shape
    assert not np.triu(dV, 1).any()
    np.testing.assert_allclose(np.sum(V * dV, axis=0), 0, atol=1e-12)
    if m == n:
        assert not dV[:, -1].any()
    moved = np.tril(np.ones((n, m), bool))[:, : n - 1]
    assert (dV[:, : n - 1] != 0)[moved].all()


@settings(max_examples=10)
@given(data=st.data(), log_scale=st.floats(-6, 6))
def test_length_does_not_matter(device, data, log_scale):
    """U is the same for v_j of any length, and the gradient is divided by it."""
    problem = data.draw(problems("householder"))
    scales = 10 ** (log_scale * np.linspace(-1, 1, problem.params["V"].shape[1]))
    other = dataclasses.replace(problem, params={"V": problem.params["V"] * scales})
    np.testing.assert_allclose(rebuilt(other, device), problem.buffers["U"], atol=1e-12)
    dV, scaled = pulled_back(problem, device)["V"], pulled_back(other, device)["V"] * scales
    np.testing.assert_allclose(scaled, dV, atol=1e-12 * np.abs(dV).max(initial=1))


def test_many_reflections_in_the_same_direction(device):
    """Parallel and nearly parallel v_j, where V^T V is singular: U and the gradient stay right."""
    rng = np.random.default_rng(0)
    problem = random_map_problem(Householder(10), 40, rng)
    for spread in (0.0, 1e-9, 1e-4):
        V = np.tril(np.ones((40, 10))) + spread * np.tril(rng.standard_normal((40, 10)))
        other = dataclasses.replace(problem, params={"V": V})
        np.testing.assert_allclose(rebuilt(other, device), product(reflections(V)), atol=1e-12)
        report = other.compare(pulled_back(other, device))
        assert report.passed, f"\n{report}"


def test_initial_V():
    """Lower trapezoidal columns of length 1, uniform in direction: v v^T is I / k on average, v_i^4 3 / (k (k + 2))."""
    rng = np.random.default_rng(0)
    draws = np.array([Householder(3).init(rng, 5, dtype=np.float64)[0]["V"] for _ in range(1000)])
    assert not np.triu(draws, 1).any()
    np.testing.assert_allclose(np.linalg.norm(draws, axis=1), 1, rtol=1e-14)
    for j in range(3):
        v = draws[:, j:, j]
        np.testing.assert_allclose(v.mean(axis=0), 0, atol=0.06)
        k = 5 - j
        np.testing.assert_allclose(v.T @ v / 1000, np.eye(k) / k, atol=0.04)
        assert np.mean(v**4) == pytest.approx(3 / (k * (k + 2)), rel=0.05)
    ends = Householder(5).init(rng, 5, dtype=np.float64)[0]["V"][:, -1]
    np.testing.assert_array_equal(abs(ends), [0, 0, 0, 0, 1])
    signs = [Householder(2).init(rng, 2, dtype=np.float64)[0]["V"][-1, -1] for _ in range(400)]
    assert scipy.stats.binomtest(signs.count(1.0), 400).pvalue > 0.01


SQUARE = "V has a column whose square is 0, subnormal or infinite; allowed: squares between"


@pytest.mark.parametrize(
    ("V", "message"),
    [
        ([[1.0, -1e-9], [1, 1], [1, 1]], "V has an entry above its diagonal; allowed: 0 there (column j begins at"),
        ([[1.0, 0], [1, 0], [1, 0]], SQUARE),
        ([[1.0, 0], [1, 1e-170], [1, 1e-170]], SQUARE),
    ],
)
def test_bad_V(device, V, message):
    """An entry above the diagonal, however small, and a column 0 or one whose square is; by a delta too."""
    p = Householder(2)
    _, buffers = to_device(p.init(np.random.default_rng(0), 3, dtype=np.float64), device)
    V = to_device(np.array(V), device)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        p.rebuild({"V": V}, buffers)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        p.retract({"V": V + V}, buffers, {"V": V})


def test_bad_options():
    """Reflections from 1 to n, an integer."""
    for bad in (0, -1, 1.5, "2", None):
        with pytest.raises(ValueError, match=rf"^reflections is {bad!r}; allowed: an integer from 1 to n$"):
            Householder(bad)
    with pytest.raises(ValueError, match=r"^reflections is 5; allowed: 1 to n = 4$"):
        Householder(5).init(np.random.default_rng(0), 4, dtype=np.float64)
    assert Householder(np.int64(4)).init(np.random.default_rng(0), 4, dtype=np.float64)[0]["V"].shape == (4, 4)
