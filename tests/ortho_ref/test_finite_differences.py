"""The checker of gradients is checked: right ones pass, wrong ones are caught, and the report says where."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gradients.problem import random_problem
from ortho_ref import scan
from ortho_ref.cells import LSTM
from ortho_ref.finite_differences import NearKinkError, compare_gradients

RNG = np.random.default_rng(0)
W, B = RNG.standard_normal((6, 6)), RNG.standard_normal(6)
POINT = {"W": W, "b": B}


def f(p):
    return np.tanh(p["W"] @ p["W"] @ p["b"]).sum()


def gradient():
    y = 1 - np.tanh(W @ W @ B) ** 2
    return {"W": np.outer(y, W @ B) + np.outer(W.T @ y, B), "b": W.T @ W.T @ y}


WRONG = {
    "0.05 % off": ("W", lambda g: g * 1.0005),
    "one entry": ("W", lambda g: g + 0.05 * abs(g).max() * (np.arange(36).reshape(6, 6) == 16)),
    "all zero": ("b", np.zeros_like),
    "transposed": ("W", np.transpose),
    "sign of one entry": ("b", lambda g: g * [1, 1, -1, 1, 1, 1]),
    "not a number": ("b", lambda g: g * [1, np.nan, 1, 1, 1, 1]),
}
MODES = {"entries": {}, "directions": {"directions": 3}, "complex step": {"complex_step": True, "tolerance": 1e-13}}


@pytest.mark.parametrize("mode", MODES)
def test_a_right_gradient_passes(mode):
    """To 1e-9 by differences, to rounding by the complex step."""
    report = compare_gradients(f, POINT, gradient(), **MODES[mode])
    assert report.passed, f"\n{report}"
    assert report.largest < 1e-9
    assert [row.checked for row in report.rows] == ([3, 3] if mode == "directions" else [36, 6])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", WRONG)
def test_wrong_gradients_are_caught(mode, kind):
    """Each in the tensor that is wrong, and in no other; with its index, both numbers and the relative error."""
    (name, change), right = WRONG[kind], gradient()
    report = compare_gradients(f, POINT, right | {name: change(right[name])}, **MODES[mode])
    (row,) = report.failures
    assert row.tensor == name
    if (kind, mode) == ("one entry", "entries"):
        assert row.where == "[2, 4]"
        assert row.numeric == pytest.approx(right["W"][2, 4], rel=1e-6)
        assert row.error == pytest.approx(abs(row.analytic - row.numeric) / abs(right["W"]).max(), rel=0.06)
        assert "FAIL W at [2, 4] (36 checked): analytic" in str(report)
        assert "ok   b at" in str(report)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 6))
def test_linear_functions_are_exact(seed, size):
    """A linear function's differences are its coefficients, to rounding."""
    rng = np.random.default_rng(seed)
    c, x = rng.standard_normal(size), rng.standard_normal(size)
    assert compare_gradients(lambda p: c @ p["x"], {"x": x}, {"x": c}).largest < 1e-9


@pytest.mark.parametrize("options", [{}, {"directions": 4}])
def test_skew_matrices_move_in_their_free_entries(options):
    """f(A) = sum(C * A): the free entry's derivative is C_ij - C_ji, n (n - 1) / 2 of them; C itself is wrong."""
    C, X = RNG.standard_normal((5, 5)), np.triu(RNG.standard_normal((5, 5)), 1)

    def loss(p):
        assert not np.any(p["A"] + p["A"].T)
        return (C * p["A"]).sum()

    for given_, right in ((C - C.T, True), (C, False), ((C - C.T) / 2, False)):
        report = compare_gradients(loss, {"A": X - X.T}, {"A": given_}, skew=("A",), **options)
        assert report.passed == right
        assert report.rows[0].checked == options.get("directions", 10)
    alone = {"A": np.zeros((1, 1))}  # n = 1 has none, which is nothing left out
    assert compare_gradients(lambda p: 0.0, alone, alone, skew=("A",)).passed


@pytest.mark.parametrize("options", [{}, {"directions": 4}])
def test_complex_convention(options):
    """L = |z|^2 has the gradient 2 z (PyTorch's convention); JAX's and autograd's conjugate fails."""
    z = RNG.standard_normal(4) + 1j * RNG.standard_normal(4)
    loss = lambda p: (abs(p["z"]) ** 2).sum()  # noqa: E731
    assert compare_gradients(loss, {"z": z}, {"z": 2 * z}, **options).passed
    assert not compare_gradients(loss, {"z": z}, {"z": 2 * z.conj()}, **options).passed


def test_nothing_to_check_is_a_failure():
    """Both gradients 0 throughout prove nothing, unless that is what is expected."""
    zero = {"x": np.zeros(3)}
    report = compare_gradients(lambda p: 1.0, {"x": np.ones(3)}, zero)
    assert not report.passed
    assert "nothing to check, both are 0" in str(report)
    assert compare_gradients(lambda p: 1.0, {"x": np.ones(3)}, zero, may_vanish=("x",)).passed


def test_points_near_a_kink_are_rejected():
    """Below the margin no number is given; NaN counts as near."""
    for distance in (9e-4, 0.0, np.nan):
        with pytest.raises(NearKinkError, match=r"kink_distance is .*; allowed: at least 1e-03"):
            compare_gradients(f, POINT, gradient(), kink_distance=lambda p, d=distance: d)
    assert compare_gradients(f, POINT, gradient(), kink_distance=lambda p: 2e-3).passed


def test_bad_arguments():
    """float32, unknown names, wrong shapes: differences would mean nothing."""
    for point, analytic, message in (
        ({"x": np.ones(2, np.float32)}, {"x": np.ones(2)}, "x is float32; allowed: float64, complex128"),
        ({"x": np.ones(2)}, {"y": np.ones(2)}, "analytic names 'y'; the point has x"),
        ({"x": np.ones(2)}, {"x": np.ones(3)}, r"the gradient of x has shape \(3,\); expected \(2,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            compare_gradients(lambda p: 0.0, point, analytic)


def test_real_size_by_directions():
    """n = 56, m = 22, T = 10: seeded directions of every tensor, and an entry in 3,136 that is off is seen."""
    problem = random_problem(LSTM(), np.random.default_rng(1), T=10, m=22, n=56)
    right, options = problem.gradients(scan), {"directions": 3, "kink_distance": problem.kink_distance}
    assert compare_gradients(problem.loss, problem.point, right, **options).passed
    off = right["U_f"].copy()
    off[17, 33] += abs(off).max()
    assert not compare_gradients(problem.loss, problem.point, right | {"U_f": off}, **options).passed


def test_a_numeric_nan_fails_and_is_found():
    """f is not a number off x[1] = 0: the row names that entry; so it does for a NaN in the analytic gradient, beside
    zeros alone too."""
    f_nan = lambda p: p["x"].sum() if p["x"][1] == 0 else np.nan  # noqa: E731
    for function, gradient in (
        (f_nan, np.ones(3)),
        (lambda p: p["x"].sum(), np.array([1, np.nan, 1])),
        (lambda p: 0.0, np.array([0, np.nan, 0])),
    ):
        report = compare_gradients(function, {"x": np.zeros(3)}, {"x": gradient}, may_vanish=("x",))
        assert not report.passed
        assert report.rows[0].where == "[1]"


def test_scales_of_errors():
    """An entry's: the larger of both gradients' largest entries.  A direction's: at least the gradient's norm."""
    (row,) = compare_gradients(lambda p: 0.0, {"x": np.zeros(3)}, {"x": np.ones(3)}).rows
    assert (row.error, row.vacuous) == (1, False)
    g, off = np.array([3.0, 4.0]), np.array([0, 1e-3])
    rng = np.random.default_rng(0)
    (row,) = compare_gradients(lambda p: g @ p["x"], {"x": np.zeros(2)}, {"x": g + off}, directions=1, rng=rng).rows
    d = np.random.default_rng(0).standard_normal(2)
    scale = max(np.linalg.norm(g + off), abs(d @ (g + off)), abs(d @ g))
    assert row.error == pytest.approx(1e-3 * abs(d[1]) / scale, rel=1e-3)
    C = np.zeros((5, 5))
    C[0, 1] = 1
    off = C - C.T + 1e-3 * (np.eye(5, k=2) - np.eye(5, k=-2))
    options = {"skew": ("A",), "directions": 1, "rng": np.random.default_rng(3)}
    (row,) = compare_gradients(lambda p: (C * p["A"]).sum(), {"A": np.zeros((5, 5))}, {"A": off}, **options).rows
    d = np.random.default_rng(3).standard_normal((5, 5))
    d = np.triu(d - d.T, 1)
    slope = (off * d).sum()
    scale = max(abs(slope), abs(d[0, 1]), np.linalg.norm(np.triu(off, 1)))
    assert row.error == pytest.approx(abs(slope - d[0, 1]) / scale, rel=1e-6)


def test_a_slope_that_rounding_hides():
    """Of 1000 + 1e-9 x a difference shows rounding alone: the right slope passes, and one that is off by more fails."""
    point = {"x": np.ones(1)}

    def report(slope):
        return compare_gradients(lambda p: 1000.0 + 1e-9 * float(p["x"][0]), point, {"x": np.full(1, slope)})

    rounding = 2 * np.finfo(float).eps * 1000 / 2e-5
    assert report(1e-9).passed
    assert not report(1e-9 + 2 * rounding).passed
    steep = compare_gradients(lambda p: 1000.0 * float(p["x"][0]), point, {"x": np.full(1, 1000.0 * (1 + 2e-7))})
    assert not steep.passed
    assert steep.largest == pytest.approx(2e-7, rel=1e-2)
