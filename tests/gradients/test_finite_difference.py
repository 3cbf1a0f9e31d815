"""The checker is checked: right gradients pass, wrong ones are caught, and the report says where."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradients.finite_difference import NearKinkError, check
from gradients.problem import (
    Problem,
    admissible,
    largest_error,
    network_kink_distance,
    perturbed,
    random_problem,
    relative_error,
    single,
    skew,
)
from ortho_ref import models, scan
from ortho_ref.cells import LSTM, Elman, FastRNN, GRUResetBefore
from ortho_ref.network import Network

RNG = np.random.default_rng(0)
W, B = RNG.standard_normal((6, 6)), RNG.standard_normal(6)
POINT = {"W": W, "b": B}


def f(p):
    return np.tanh(p["W"] @ p["W"] @ p["b"]).sum()


def gradient():
    y = 1 - np.tanh(W @ W @ B) ** 2
    return {"W": np.outer(y, W @ B) + np.outer(W.T @ y, B), "b": W.T @ W.T @ y}


def wrong(kind):
    """The right gradient but for the one mistake."""
    g = gradient()
    if kind == "0.05 % off":
        g["W"] = g["W"] * 1.0005
    elif kind == "one entry":
        g["W"] = g["W"].copy()
        g["W"][2, 4] += 0.05 * abs(g["W"]).max()
    elif kind == "all zero":
        g["b"] = np.zeros(6)
    elif kind == "transposed":
        g["W"] = g["W"].T
    elif kind == "sign of one entry":
        g["b"] = g["b"] * [1, 1, -1, 1, 1, 1]
    elif kind == "not a number":
        g["b"] = g["b"] * [1, np.nan, 1, 1, 1, 1]
    return g


MODES = {"entries": {}, "directions": {"directions": 3}, "complex step": {"complex_step": True, "tolerance": 1e-13}}
KINDS = ["0.05 % off", "one entry", "all zero", "transposed", "sign of one entry", "not a number"]


@pytest.mark.parametrize("mode", MODES)
def test_a_right_gradient_passes(mode):
    """To 1e-9 by differences, to rounding by the complex step."""
    report = check(f, POINT, gradient(), **MODES[mode])
    assert report.passed, f"\n{report}"
    assert report.largest < 1e-9
    assert [row.checked for row in report.rows] == ([3, 3] if mode == "directions" else [36, 6])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_wrong_gradients_are_caught(mode, kind):
    """Each in the tensor that is wrong, and in no other."""
    report = check(f, POINT, wrong(kind), **MODES[mode])
    assert [row.tensor for row in report.failures] == ["W" if kind in (KINDS[0], KINDS[1], KINDS[3]) else "b"]


def test_the_report_says_where_and_by_how_much():
    """Tensor, index, both numbers, relative error."""
    report = check(f, POINT, wrong("one entry"))
    (row,) = report.failures
    assert (row.tensor, row.where) == ("W", "[2, 4]")
    right = gradient()["W"]
    assert row.numeric == pytest.approx(right[2, 4], rel=1e-6)
    assert row.error == pytest.approx(abs(row.analytic - row.numeric) / abs(right).max(), rel=0.06)
    assert "FAIL W at [2, 4] (36 checked): analytic" in str(report)
    assert "ok   b at" in str(report)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 6))
def test_linear_functions_are_exact(seed, size):
    """A linear function's differences are its coefficients, to rounding."""
    rng = np.random.default_rng(seed)
    c, x = rng.standard_normal(size), rng.standard_normal(size)
    assert check(lambda p: c @ p["x"], {"x": x}, {"x": c}).largest < 1e-9


@pytest.mark.parametrize("options", [{}, {"directions": 4}])
def test_skew_matrices_move_in_their_free_entries(options):
    """f(A) = sum(C * A): the free entry's derivative is C_ij - C_ji; the unconstrained gradient C is wrong."""
    C, X = RNG.standard_normal((5, 5)), np.triu(RNG.standard_normal((5, 5)), 1)

    def loss(p):
        assert not np.any(p["A"] + p["A"].T)
        return (C * p["A"]).sum()

    assert check(loss, {"A": X - X.T}, {"A": C - C.T}, skew=("A",), **options).passed
    assert not check(loss, {"A": X - X.T}, {"A": C}, skew=("A",), **options).passed
    assert not check(loss, {"A": X - X.T}, {"A": (C - C.T) / 2}, skew=("A",), **options).passed


@pytest.mark.parametrize("options", [{}, {"directions": 4}])
def test_complex_convention(options):
    """L = |z|^2 has the gradient 2 z (PyTorch's convention); JAX's and autograd's conjugate fails."""
    z = RNG.standard_normal(4) + 1j * RNG.standard_normal(4)
    loss = lambda p: (abs(p["z"]) ** 2).sum()  # noqa: E731
    assert check(loss, {"z": z}, {"z": 2 * z}, **options).passed
    assert not check(loss, {"z": z}, {"z": 2 * z.conj()}, **options).passed


def test_nothing_to_check_is_a_failure():
    """Both gradients 0 throughout prove nothing, unless that is what is expected."""
    zero = {"x": np.zeros(3)}
    report = check(lambda p: 1.0, {"x": np.ones(3)}, zero)
    assert not report.passed
    assert "nothing to check, both are 0" in str(report)
    assert check(lambda p: 1.0, {"x": np.ones(3)}, zero, may_vanish=("x",)).passed


def test_points_near_a_kink_are_rejected():
    """Below the margin no number is given; NaN counts as near."""
    for distance in (9e-4, 0.0, np.nan):
        with pytest.raises(NearKinkError, match=r"the nearest kink is .* away; allowed: at least 1e-03"):
            check(f, POINT, gradient(), kink_distance=lambda p, d=distance: d)
    assert check(f, POINT, gradient(), kink_distance=lambda p: 2e-3).passed


def test_why_kinks_are_rejected():
    """|x| at 1e-6: differences say 0.07 where the derivative is 1."""
    report = check(lambda p: abs(p["x"]).sum(), {"x": np.array([1e-6])}, {"x": np.ones(1)})
    assert not report.passed


def test_bad_arguments():
    """float32, unknown names, wrong shapes: differences would mean nothing."""
    for point, analytic, message in (
        ({"x": np.ones(2, np.float32)}, {"x": np.ones(2)}, "x is float32; allowed: float64, complex128"),
        ({"x": np.ones(2)}, {"y": np.ones(2)}, "analytic names 'y'; the point has x"),
        ({"x": np.ones(2)}, {"x": np.ones(3)}, r"the gradient of x has shape \(3,\); expected \(2,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            check(lambda p: 0.0, point, analytic)


MISTAKES = {
    "du without its sign": lambda g: g | {"b_u": -g["b_u"]},
    "U_r transposed": lambda g: g | {"U_r": g["U_r"].T},
    "W_r and W_u swapped": lambda g: g | {"W_r": g["W_u"], "W_u": g["W_r"]},
    "only the last step's db_c": lambda g: g | {"b_c": 0.5 * g["b_c"]},
    "no dh0": lambda g: g | {"h0": np.zeros_like(g["h0"])},
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_people_make_in_a_gru(mistake):
    """A generic problem kills them: random weights, biases and h0, T >= 3, random upstream."""
    problem = random_problem(GRUResetBefore("modrelu"), np.random.default_rng(0))
    options = {"kink_distance": problem.kink_distance}
    right = problem.gradients(scan)
    assert check(problem.loss, problem.point, right, **options).passed
    assert not check(problem.loss, problem.point, MISTAKES[mistake](right), **options).passed


def test_real_size_by_directions():
    """n = 56, m = 22, T = 10: seeded directions of every tensor, and an entry in 3,136 that is off is seen."""
    problem = random_problem(LSTM(), np.random.default_rng(1), T=10, m=22, n=56)
    right = problem.gradients(scan)
    options = {"directions": 3, "kink_distance": problem.kink_distance}
    assert check(problem.loss, problem.point, right, **options).passed
    off = right["U_f"].copy()
    off[17, 33] += abs(off).max()
    assert not check(problem.loss, problem.point, right | {"U_f": off}, **options).passed


def test_problems_are_off_the_kinks():
    """Every drawn problem keeps the promised distance; one that cannot be had is refused."""
    for seed in range(20):
        problem = random_problem(Elman("modrelu"), np.random.default_rng(seed))
        assert problem.kink_distance(problem.point) >= 1e-3
    with pytest.raises(ValueError, match=r"no problem 1e-03 away from every kink in 200 draws"):
        random_problem(Elman("relu"), np.random.default_rng(0), T=50, B=20, n=40)


def test_a_numeric_nan_fails_and_is_found():
    """f is not a number off x[1] = 0: the row names that entry; so it does for a NaN in the analytic gradient."""
    f_nan = lambda p: p["x"].sum() if p["x"][1] == 0 else np.nan  # noqa: E731
    for function, gradient in ((f_nan, np.ones(3)), (lambda p: p["x"].sum(), np.array([1, np.nan, 1]))):
        report = check(function, {"x": np.zeros(3)}, {"x": gradient})
        assert not report.passed
        assert report.rows[0].where == "[1]"


def test_scales_of_errors():
    """An entry's: the larger of both gradients' largest entries.  A direction's: at least the gradient's norm."""
    (row,) = check(lambda p: 0.0, {"x": np.zeros(3)}, {"x": np.ones(3)}).rows
    assert (row.error, row.vacuous) == (1, False)
    g, off = np.array([3.0, 4.0]), np.array([0, 1e-3])
    rng = np.random.default_rng(0)
    (row,) = check(lambda p: g @ p["x"], {"x": np.zeros(2)}, {"x": g + off}, directions=1, rng=rng).rows
    d = np.random.default_rng(0).standard_normal(2)
    scale = max(np.linalg.norm(g + off), abs(d @ (g + off)), abs(d @ g))
    assert row.error == pytest.approx(1e-3 * abs(d[1]) / scale, rel=1e-3)
    C = np.zeros((5, 5))
    C[0, 1] = 1
    off = C - C.T + 1e-3 * (np.eye(5, k=2) - np.eye(5, k=-2))
    options = {"skew": ("A",), "directions": 1, "rng": np.random.default_rng(3)}
    (row,) = check(lambda p: (C * p["A"]).sum(), {"A": np.zeros((5, 5))}, {"A": off}, **options).rows
    d = np.random.default_rng(3).standard_normal((5, 5))
    d = np.triu(d - d.T, 1)
    slope = (off * d).sum()
    scale = max(abs(slope), abs(d[0, 1]), np.linalg.norm(np.triu(off, 1)))
    assert row.error == pytest.approx(abs(slope - d[0, 1]) / scale, rel=1e-6)


def test_a_skew_matrix_has_n_n_minus_1_halves_entries():
    """3 of 9 for n = 3; none for n = 1, which is nothing left out."""
    C = np.triu(np.ones((3, 3)), 1)
    (row,) = check(lambda p: (C * p["A"]).sum(), {"A": np.zeros((3, 3))}, {"A": C - C.T}, skew=("A",)).rows
    assert row.checked == 3
    assert check(lambda p: 0.0, {"A": np.zeros((1, 1))}, {"A": np.zeros((1, 1))}, skew=("A",)).passed


def test_relative_errors():
    """Over the tensor's largest entry, or the floor of sums that cancel; NaN and a wrong zero are infinitely wrong."""
    one, small = np.ones(2), np.full(2, 1e-6)
    assert largest_error({"a": one, "b": 2 * small}, {"a": one, "b": small}) == (pytest.approx(1e-3), "b")
    assert largest_error({"a": 1.5 * one, "b": small}, {"a": one, "b": small}) == (0.5, "a")
    assert relative_error(np.array([np.nan]), np.ones(1)) == np.inf
    assert relative_error(np.ones(1), np.zeros(1)) == np.inf
    assert relative_error(2 * one, one) == 1
    for wrong in ({"a": one}, {"a": one, "c": one}):
        with pytest.raises(ValueError, match="gradients of"):
            largest_error(wrong, {"a": one, "b": one})
    with pytest.raises(ValueError, match="shapes differ"):
        relative_error(np.ones(2), np.ones(3))


def test_problems_are_generic():
    """No zero anywhere: weights, biases, inputs, h0, upstream at every step and at the last."""
    problem = random_problem(LSTM(), np.random.default_rng(0))
    assert all(np.all(array != 0) for array in (*problem.point.values(), problem.dh, *problem.dh_T))


def test_complex_problems_are_generic_in_both_parts():
    """Weights W and U, h0, dh and dh_T complex, b and x real; the loss is Re of the inner product."""
    problem = random_problem(Elman("modrelu", complex=True), np.random.default_rng(0))
    by_kind = {"c": (*(problem.weights[name] for name in "WU"), problem.h0, problem.dh, problem.dh_T)}
    by_kind["f"] = (problem.weights["b"], problem.x)
    for kind, arrays in by_kind.items():
        assert all(array.dtype.kind == kind and (array.real * array.real).all() for array in arrays)
    assert all(array.imag.all() for array in by_kind["c"])
    h = 2j * np.ones((5, 3, 5))
    expected = 2 * (problem.dh.imag.sum() + problem.dh_T.imag.sum())
    assert problem.weigh(h) == pytest.approx(expected, rel=1e-13)


def test_clipped_gates_have_kinks():
    """alpha_t = 1/2 and beta_t = 1 - 2 alpha_t of the constraints; a gate that no constraint sees has none."""
    logit = lambda p: np.array(np.log(p / (1 - p)))  # noqa: E731
    for constraint, alpha, beta, distance in (
        (None, 0.499, 0.001, np.inf),
        ("sgornn", 0.2, 0.55, 0.05),
        ("sgornn", 0.2, 0.63, 0.03),
        ("sgornn", 0.49, 0.5, 0.01),
        ("sgornn", 0.7, 0.1, 0.1),
        ("sgornn", 0.53, 0.1, 0.03),
        ("sgornn-as-printed", 0.2, 0.55, 0.05),
        ("sgornn-as-printed", 0.7, 0.1, 0.5),
    ):
        problem = random_problem(FastRNN("tanh", constraint), np.random.default_rng(0))
        point = problem.point | {"alpha": logit(alpha), "beta": logit(beta)}
        assert problem.kink_distance(point) == pytest.approx(distance)
    assert random_problem(FastRNN(), np.random.default_rng(0)).may_vanish == ()
    assert random_problem(FastRNN("tanh", "sgornn"), np.random.default_rng(0)).may_vanish == ("alpha", "beta")


def test_perturbed_parameters_stay_in_their_sets():
    """Skew A, lower trapezoidal V, unitary X, complex W in both parts, scalars anew; all but X move, no input."""
    rng = np.random.default_rng(0)
    V, X = np.tril(rng.standard_normal((4, 2))), np.linalg.qr(rng.standard_normal((3, 3)) + 1j)[0]
    params = {"U.A": np.zeros((3, 3)), "layer0.U.V": V, "U.X": X, "W": np.ones((2, 2), np.complex64)}
    params |= {"b": np.zeros(3, np.float32), "alpha": np.array(-30.0)}
    before = {name: value.copy() for name, value in params.items()}
    moved = perturbed(params, rng, 0.1)
    for name, value in moved.items():
        assert (value.shape, value.dtype, type(value)) == (params[name].shape, params[name].dtype, np.ndarray)
        np.testing.assert_array_equal(params[name], before[name])
        assert (value != params[name]).any() == (name != "U.X")
    np.testing.assert_array_equal(moved["U.A"], -moved["U.A"].T)
    np.testing.assert_array_equal(moved["layer0.U.V"], np.tril(moved["layer0.U.V"]))
    assert moved["W"].imag.all()
    assert 0 < abs(moved["alpha"]) < 5
    assert skew(params) == ("U.A",)
    upper = admissible({"U.V": np.ones((3, 2)), "W": np.ones((3, 2))})
    np.testing.assert_array_equal(upper["U.V"], [[1, 0], [1, 1], [1, 1]])
    assert upper["W"].all()


def test_single_precision_of_a_tree():
    """Floats and complex numbers halve, integers and what is no array stay."""
    halved = single({"a": (np.ones(1), np.ones(1, complex)), "step": 3, "p": np.arange(2)})
    assert [value.dtype for value in halved["a"]] == [np.float32, np.complex64]
    assert (halved["step"], halved["p"].dtype.kind) == (3, "i")


def test_kink_distances_are_the_least_over_all():
    """Over units, steps and batch of a cell, and over the layers of a network."""
    w = {"W": np.eye(2), "U": np.zeros((2, 2)), "b": np.zeros(2)}
    x = np.array([[[0.5, -0.01]], [[-3.0, 2]]])
    problem = Problem(Elman("relu"), w, x, np.zeros((1, 2)), np.ones((2, 1, 2)), np.ones((1, 2)))
    assert problem.kink_distance(problem.point) == 0.01
    rng = np.random.default_rng(0)
    network = Network((models.build("scornn", 2, 3), models.build("scornn", 3, 3)), 2)
    params, buffers = network.init(rng, np.float64)
    params = {name: value + rng.standard_normal(value.shape) * (value.ndim == 1) for name, value in params.items()}
    inputs = x = rng.standard_normal((3, 2, 2))
    distances = []
    for i, layer in enumerate(network.layers):
        own = network.layer_weights(i, params, buffers)
        h, tape = scan.forward(layer.cell, own, inputs)
        distances.append(min(np.minimum(abs(c.a), abs(abs(c.a) + own["b"])).min() for c in tape.caches))
        inputs = h[1:]
    assert distances[0] != distances[1]
    assert network_kink_distance(network, params, buffers, x) == min(distances)
