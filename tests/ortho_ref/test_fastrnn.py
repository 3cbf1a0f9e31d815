"""FastRNN's gates, SGORNN's constraint on them [sgornn:1] [sgornn:3] [bp:fastrnn], and what it is for (E-sgornn-04)."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gradients.problem import random_problem
from ortho_ref import fused, models, scan
from ortho_ref.backend import is_array, to_host
from ortho_ref.cells import FastRNN
from ortho_ref.finite_differences import NearKinkError, compare_gradients

ENGINES = {"scan": scan, "fused": fused}

# constraint, alpha and beta before the sigmoid, alpha_t and beta_t as functions of sigmoid(alpha), sigmoid(beta)
REGIMES = {
    "no constraint": (None, 1.0, 3.0, lambda a, b: (a, b)),
    "sgornn, nothing clipped": ("sgornn", -2.0, -1.0, lambda a, b: (a, b)),
    "sgornn, beta clipped": ("sgornn", -1.0, 3.0, lambda a, b: (a, 1 - 2 * a)),
    "sgornn, alpha clipped": ("sgornn", 1.0, -3.0, lambda a, b: (0.5, 0.0)),
    "as printed, nothing clipped": ("sgornn-as-printed", -2.0, -1.0, lambda a, b: (a, b)),
    "as printed, beta clipped": ("sgornn-as-printed", -1.0, 3.0, lambda a, b: (a, 1 - 2 * a)),
    "as printed, beta negative": ("sgornn-as-printed", 1.0, -3.0, lambda a, b: (a, 1 - 2 * a)),
}


def sigmoid(a):
    return 1 / (1 + math.exp(-a))


def in_regime(regime, cell=None, T=4):
    """A problem whose scalar weights are the regime's."""
    constraint, alpha, beta, _ = REGIMES[regime]
    problem = random_problem(cell or FastRNN("tanh", constraint), np.random.default_rng(3), T=T)
    return replace(problem, weights=problem.weights | {"alpha": np.array(alpha), "beta": np.array(beta)})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("regime", REGIMES)
def test_values_by_hand(engine, regime):
    """sgornn:1 and sgornn:3 with n = m = 1 over two steps, in plain arithmetic."""
    constraint, alpha, beta, gates = REGIMES[regime]
    alpha_t, beta_t = gates(sigmoid(alpha), sigmoid(beta))
    w = {"W": [[0.5]], "U": [[-1.5]], "b": [0.3], "alpha": alpha, "beta": beta}
    w = {name: np.array(value) for name, value in w.items()}
    h = [0.6]
    for x in (2.0, -1.0):
        h.append(alpha_t * math.tanh(0.5 * x - 1.5 * h[-1] + 0.3) + beta_t * h[-1])
    cell = FastRNN("tanh", constraint)
    ours, _ = ENGINES[engine].forward(cell, w, np.array([[[2.0]], [[-1.0]]]), np.array([[0.6]]))
    np.testing.assert_allclose(ours[:, 0, 0], h, rtol=0, atol=1e-15)
    np.testing.assert_allclose(cell.gates(w), (alpha_t, beta_t), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("regime", REGIMES)
def test_gradients_of_every_regime(device, engine, regime):
    """bp:fastrnn/4 against differences.  A clipped beta gets exactly 0, alpha then dalpha_t - 2 dbeta_t, the two being
    those of free gates with the same alpha_t and beta_t; a clipped alpha gets exactly 0."""
    problem = in_regime(regime)
    ours = to_host(problem.on(device).gradients(ENGINES[engine]))
    clipped = {"sgornn, alpha clipped": ("alpha", "beta")}.get(regime, ("beta",) if "beta" in regime else ())
    report = compare_gradients(
        problem.loss, problem.point, ours, kink_distance=problem.kink_distance, margin=0.04, may_vanish=clipped
    )
    assert report.passed, f"\n{report}"
    for name in ("alpha", "beta"):
        assert is_array(ours[name])
        assert (ours[name] == 0) == (name in clipped)
    if regime in ("sgornn, beta clipped", "as printed, beta clipped"):
        a = sigmoid(-1.0)
        free = replace(problem, cell=FastRNN("tanh"))
        free.weights["beta"] = np.array(math.log((1 - 2 * a) / (2 * a)))  # sigmoid(beta) is the bound
        theirs = free.gradients(ENGINES[engine])
        dbeta_t = theirs["beta"] / ((1 - 2 * a) * 2 * a)
        expected = theirs["alpha"] - 2 * dbeta_t * a * (1 - a)
        np.testing.assert_allclose(ours["alpha"], expected, rtol=1e-12)
        assert abs(ours["alpha"] - theirs["alpha"]) > 0.1 * abs(theirs["alpha"])


@pytest.mark.parametrize("activation", ["relu", "modrelu"])
def test_regimes_under_kinked_activations(activation):
    """The kink distance sees the clips as well as the activation: near one of them nothing is measured."""
    for constraint, alpha in (("sgornn", 1e-4), ("sgornn", -1.0), ("sgornn-as-printed", -1.0)):
        problem = in_regime("no constraint", FastRNN(activation, constraint), T=2)
        bound = 1 - 2 * sigmoid(-1.0)
        beta = math.log(bound / (1 - bound)) + 1e-4
        w = problem.weights | {"alpha": np.array(alpha), "beta": np.array(beta)}
        near = replace(problem, weights=w)
        assert near.kink_distance(near.point) < 1e-3
        with pytest.raises(NearKinkError):
            compare_gradients(near.loss, near.point, near.gradients(scan), kink_distance=near.kink_distance)


@pytest.mark.parametrize("engine", ENGINES)
def test_kinks_of_the_clips(engine):
    """At beta_t = 1 - 2 alpha_t exactly nothing counts as clipped: the gradients are of free gates.  Nor does alpha
    at 1/2 exactly; beta, whose bound is then 0, is clipped."""
    problem = in_regime("no constraint")
    at_bound = problem.weights | {"alpha": np.array(-math.log(3)), "beta": np.array(0.0)}
    assert FastRNN("tanh").gates(at_bound) == (0.25, 0.5)  # without rounding
    for constraint in ("sgornn", "sgornn-as-printed"):
        exact = replace(problem, cell=FastRNN("tanh", constraint), weights=at_bound)
        free = replace(exact, cell=FastRNN("tanh"))
        ours, theirs = (p.gradients(ENGINES[engine]) for p in (exact, free))
        assert ours["alpha"] == theirs["alpha"] != 0
        assert ours["beta"] == theirs["beta"] != 0
        half = problem.weights | {"alpha": np.array(0.0), "beta": np.array(-1.0)}
        at_half = replace(exact, weights=half)
        # the same gates without a constraint: beta_t = 0 at beta = -800
        free = replace(free, weights=half | {"beta": np.array(-800.0)})
        ours, theirs = (p.gradients(ENGINES[engine]) for p in (at_half, free))
        np.testing.assert_array_equal(exact.cell.gates(half), (0.5, 0))
        states = [ENGINES[engine].forward(p.cell, p.weights, p.x, p.h0)[0] for p in (at_half, free)]
        np.testing.assert_array_equal(*states)
        _, tape = scan.forward(at_half.cell, half, at_half.x, at_half.h0)
        dbeta_t = 0.0
        g = at_half.dh_T
        for dh_t, cache in zip(at_half.dh[::-1], reversed(tape.caches), strict=True):
            g = g + dh_t
            dbeta_t += (g * cache.h_prev).sum()
            g = at_half.cell.step_backward(half, g, cache)[1]
        np.testing.assert_allclose(ours["alpha"], theirs["alpha"] - 2 * dbeta_t / 4, rtol=1e-12)
        assert ours["beta"] == 0


@settings(max_examples=30)
@given(alpha=st.floats(-900, 900), beta=st.floats(-900, 900), dtype=st.sampled_from([np.float32, np.float64]))
def test_the_constraint_holds_for_every_weight(alpha, beta, dtype):
    """alpha_t + |beta_t| <= 1, which gradients need, and 2 alpha_t + beta_t <= 1, which generalisation does, with both
    in [0, 1] (E-sgornn-04); as printed, the second alone."""
    w = {"U": np.zeros((1, 1), dtype), "alpha": np.array(alpha, dtype), "beta": np.array(beta, dtype)}
    alpha_t, beta_t = FastRNN("relu", "sgornn").gates(w)
    assert is_array(alpha_t) and is_array(beta_t)  # noqa: PT018
    assert alpha_t.dtype == beta_t.dtype == dtype
    assert 0 <= alpha_t <= 0.5
    assert 0 <= beta_t <= 1
    assert alpha_t + abs(beta_t) <= 1
    assert 2 * alpha_t + beta_t <= 1 + np.finfo(dtype).eps
    alpha_t, beta_t = FastRNN("relu", "sgornn-as-printed").gates(w)
    assert 2 * alpha_t + beta_t <= 1 + np.finfo(dtype).eps


def test_unknown_constraint():
    """The error names the argument, the value and what is allowed."""
    near = " (did you mean 'sgornn-as-printed'?)"
    for constraint, meant in (("vprnn", ""), (False, ""), ("sgornn-clipped", near)):
        with pytest.raises(ValueError) as caught:  # noqa: PT011  the whole message is compared
            FastRNN("relu", constraint)
        allowed = "None, 'sgornn', 'sgornn-as-printed'"
        assert str(caught.value) == f"constraint is {constraint!r}{meant}; allowed: {allowed}"


def test_the_start_is_just_inside_the_constraint():
    """alpha = -3.75 and beta = 3 are not clipped; alpha = -3.6 is."""
    cell = FastRNN("relu", "sgornn")
    w = cell.init(np.random.default_rng(0), 3, 7, dtype=np.float32)
    np.testing.assert_allclose(cell.gates(w), FastRNN("relu").gates(w))
    nearer = w | {"alpha": np.float32(-3.6) + np.zeros((), np.float32)}
    assert cell.gates(nearer)[1] < FastRNN("relu").gates(nearer)[1]


def test_plain_gradient_descent_on_a_scalar():
    """A rate times the 0-d gradient of alpha is a NumPy scalar, and a delta all the same; alpha stays a 0-d array."""
    layer = models.build("sgornn", 3, 4)
    params, buffers = layer.init(np.random.default_rng(0))
    deltas = {name: np.float32(0.5) * np.ones_like(p) for name, p in params.items()}
    moved, _ = layer.retract(params, buffers, deltas)
    assert is_array(moved["alpha"])
    assert (moved["alpha"].dtype, float(moved["alpha"])) == (np.float32, -4.25)
    with pytest.raises(TypeError, match="delta of W is float64; expected float32"):
        layer.retract(params, buffers, {name: np.float64(0.5) * np.ones_like(p) for name, p in params.items()})
