"""Problems to check gradients on are generic and off the kinks; how errors are measured."""

import dataclasses

import numpy as np
import pytest

from gradients.map_problem import random_map_problem
from gradients.problem import (
    Problem,
    admissible,
    largest_error,
    network_kink_distance,
    perturbed,
    random_problem,
    relative_error,
    skew,
)
from ortho_ref import models, scan
from ortho_ref.cells import LSTM, Elman, FastRNN
from ortho_ref.network import Network
from ortho_ref.parametrizations import ScaledCayley


def test_problems_are_off_the_kinks():
    """Every drawn problem keeps the promised distance; one that cannot be had is refused."""
    for seed in range(20):
        problem = random_problem(Elman("modrelu"), np.random.default_rng(seed))
        assert problem.kink_distance(problem.point) >= 1e-3
    with pytest.raises(ValueError, match=r"no problem 1e-03 away from every kink in 200 draws"):
        random_problem(Elman("relu"), np.random.default_rng(0), T=50, B=20, n=40)


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


def test_kink_distances_are_the_least_over_all():
    """Over units, steps and batch of a cell, and over the layers of a network."""
    w = {"W": np.eye(2), "U": np.zeros((2, 2)), "b": np.zeros(2)}
    x = np.array([[[0.5, -0.01]], [[-3.0, 2]]])
    problem = Problem(Elman("relu"), w, x, np.zeros((1, 2)), np.ones((2, 1, 2)), np.ones((1, 2)))
    assert problem.kink_distance(problem.point) == 0.01
    rng = np.random.default_rng(0)
    network = Network((models.build("scornn", 2, 3), models.build("scornn", 3, 3)), 2)
    params, buffers = network.init(rng, dtype=np.float64)
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


def test_map_problems_are_generic():
    """Every entry of a skew A but its diagonal is drawn, of size 1, where `init` has blocks; none can be changed."""
    problem = random_map_problem(ScaledCayley(3), 8, np.random.default_rng(0))
    A = problem.params["A"]
    assert problem.gradients().keys() == {"A"}
    np.testing.assert_array_equal(A, -A.T)
    above = A[np.triu_indices(8, 1)]
    assert above.all()
    assert 0.7 < above.std() < 1.3
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem.dU = None
