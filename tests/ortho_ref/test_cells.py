"""The cells' steps and `scan` [ncgru:1] [ncgru:19] [urnn:1] [bp:gru1] [bp:rnn] [bp:lstm] [bp:bptt]."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradients.finite_difference import check
from gradients.problem import Problem, random_problem, relative_error
from ortho_ref import backend, scan
from ortho_ref.cells import LSTM, Elman, GRUResetBefore
from scripts.check_gradients import cells

CELLS = cells()
SMOOTH = ["LSTM", "GRUResetBefore tanh", "Elman tanh"]

problems = {
    "seed": st.integers(0, 2**32 - 1),
    "T": st.integers(3, 5),
    "B": st.integers(3, 4),
    "m": st.integers(1, 3),
    "n": st.integers(1, 4),
    "tokens": st.booleans(),
}


@pytest.mark.parametrize("name", CELLS)
@settings(max_examples=25)
@given(**problems)
def test_every_gradient_against_finite_differences(device, name, seed, T, B, m, n, tokens):
    """Weights, x and h0, every entry, from upstream at every step and at the last, nonzero biases and h0."""
    problem = random_problem(CELLS[name], np.random.default_rng(seed), T=T, B=B, m=m, n=n, tokens=tokens)
    ours = backend.to_host(problem.on(device).gradients(scan))
    # a relu unit may be off throughout, and with n = 1 all of a weight's gradient with it
    report = check(problem.loss, problem.point, ours, kink_distance=problem.kink_distance, may_vanish=list(ours))
    assert set(ours) == set(problem.point)
    assert report.passed, f"\n{report}"


@pytest.mark.parametrize("name", SMOOTH)
@settings(max_examples=15)
@given(**problems)
def test_smooth_cells_against_the_complex_step(name, seed, T, B, m, n, tokens):
    """No cancellation: 1e-12, five digits past what differences can see."""
    problem = random_problem(CELLS[name], np.random.default_rng(seed), T=T, B=B, m=m, n=n, tokens=tokens)
    report = check(problem.loss, problem.point, problem.gradients(scan), complex_step=True, tolerance=1e-12)
    assert report.passed, f"\n{report}"


def test_gru_values_by_hand():
    """ncgru:1 with n = m = 1, in plain arithmetic: reset inside the product, u the weight of the new content."""
    sigmoid = lambda a: 1 / (1 + np.exp(-a))  # noqa: E731
    weights = {
        name: np.full(shape, value)
        for (name, shape), value in zip(
            GRUResetBefore().shapes(1, 1).items(), (0.5, -1.0, 0.3, 0.7, 0.4, -0.2, 1.5, -0.8, 0.1), strict=True
        )
    }
    x, h = np.array([[2.0]]), np.array([[0.6]])
    r = sigmoid(0.5 * 2 - 1.0 * 0.6 + 0.3)
    u = sigmoid(0.7 * 2 + 0.4 * 0.6 - 0.2)
    a = 1.5 * 2 - 0.8 * (r * 0.6)
    for activation, c in (
        ("tanh", np.tanh(a + 0.1)),
        ("relu", max(a + 0.1, 0)),
        ("modrelu", np.sign(a) * max(abs(a) + 0.1, 0)),
    ):
        ours, _ = GRUResetBefore(activation).step_forward(weights, x, h)
        np.testing.assert_allclose(ours, (1 - u) * 0.6 + u * c, rtol=1e-15)


def test_gru_gates_at_their_ends():
    """u = 1 takes all new content, u = 0 keeps all of the old (E-ncgru-06); r = 0 hides h from the candidate only."""
    rng = np.random.default_rng(0)
    cell = GRUResetBefore("tanh")
    problem = random_problem(cell, rng)
    w, x, h = problem.weights, problem.x[0], problem.h0
    keep, _ = cell.step_forward(w | {"b_u": np.full(5, -800.0)}, x, h)
    np.testing.assert_array_equal(keep, h)
    w = w | {"b_u": np.full(5, 800.0), "b_r": np.full(5, -800.0)}
    new, _ = cell.step_forward(w, x, h)
    np.testing.assert_allclose(new, np.tanh(x @ w["W_c"].T + w["b_c"]), rtol=1e-14)


def test_lstm_and_elman_values_by_hand():
    """bp:lstm and urnn:1 with n = m = 1, in plain arithmetic."""
    sigmoid = lambda a: 1 / (1 + np.exp(-a))  # noqa: E731
    values = (0.5, -1.0, 0.3, 0.7, 0.4, -0.2, 1.5, -0.8, 0.1, 0.9, 0.2, -0.6)
    w = {k: np.full(s, v) for (k, s), v in zip(LSTM().shapes(1, 1).items(), values, strict=True)}
    a = {g: float(w[f"W_{g}"][0, 0] * 2 + w[f"U_{g}"][0, 0] * 0.6 + w[f"b_{g}"][0]) for g in "ifgo"}
    c = sigmoid(a["f"]) * -0.4 + sigmoid(a["i"]) * np.tanh(a["g"])
    (h_t, c_t), _ = LSTM().step_forward(w, np.array([[2.0]]), (np.array([[0.6]]), np.array([[-0.4]])))
    np.testing.assert_allclose([h_t[0, 0], c_t[0, 0]], [sigmoid(a["o"]) * np.tanh(c), c], rtol=1e-14)
    w = {"W": np.array([[0.5]]), "U": np.array([[-1.5]]), "b": np.array([-0.3])}
    h, _ = Elman("modrelu").step_forward(w, np.array([[-2.0]]), np.array([[0.6]]))
    np.testing.assert_allclose(h, -(abs(0.5 * -2 - 1.5 * 0.6) - 0.3), rtol=1e-15)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("tokens", [False, True])
def test_shapes_dtypes_and_purity(device, name, tokens):
    """(T+1, B, n) with h[0] = h0; float32 in gives float32 out; nothing given is modified."""
    cell = CELLS[name]
    problem = random_problem(cell, np.random.default_rng(1), dtype=np.float32, tokens=tokens)
    given_problem = problem.on(device)
    before = [array.copy() for array in _arrays(given_problem)]
    h, tape = scan.forward(cell, given_problem.weights, given_problem.x, given_problem.h0)
    gradients = scan.backward(cell, given_problem.weights, tape, given_problem.dh, given_problem.dh_T)
    states, starts = (h, problem.h0) if isinstance(h, tuple) else ((h,), (problem.h0,))
    for state, start in zip(states, starts, strict=True):
        assert (state.shape, state.dtype) == ((5, 3, 5), np.float32)
        np.testing.assert_array_equal(backend.to_host(state)[0], start)
    for weight, gradient in gradients.weights.items():
        assert (gradient.shape, gradient.dtype) == (problem.weights[weight].shape, np.float32)
    assert (gradients.x is None) if tokens else (gradients.x.shape, gradients.x.dtype) == ((4, 3, 3), np.float32)
    assert all(relative_error(a, b) == 0 for a, b in zip(before, _arrays(given_problem), strict=True))


def _arrays(problem):
    last = problem.dh_T if isinstance(problem.dh_T, tuple) else (problem.dh_T,)
    return [*problem.point.values(), problem.x, problem.dh, *last]


@pytest.mark.parametrize("name", CELLS)
def test_tokens_are_one_hot_vectors(name):
    """bp:bptt/tokens: a token is the one-hot vector it names."""
    cell = CELLS[name]
    problem = random_problem(cell, np.random.default_rng(2), m=4, tokens=True)
    dense = Problem(cell, problem.weights, np.eye(4)[problem.x], problem.h0, problem.dh, problem.dh_T)
    ours, theirs = problem.gradients(scan), dense.gradients(scan)
    assert set(theirs) - set(ours) == {"x"}
    assert all(relative_error(ours[key], theirs[key]) < 1e-13 for key in ours)


@pytest.mark.parametrize("name", CELLS)
def test_no_h0_is_zeros_and_no_dh_T_is_none(name):
    """The defaults of scan are the zero state and no upstream at the last state beyond dh."""
    cell = CELLS[name]
    problem = random_problem(cell, np.random.default_rng(3))
    zero = scan.zero_state(cell, problem.weights, 3)
    h, tape = scan.forward(cell, problem.weights, problem.x)
    h_zero, _ = scan.forward(cell, problem.weights, problem.x, zero)
    np.testing.assert_array_equal(h, h_zero)
    ours = scan.backward(cell, problem.weights, tape, problem.dh)
    theirs = scan.backward(cell, problem.weights, tape, problem.dh, zero)
    assert all(np.array_equal(ours.weights[key], theirs.weights[key]) for key in ours.weights)


def test_kinks_carry_no_gradient():
    """At z = 0 and |z| + b = 0 modReLU's stated derivative 0 goes through the cell: dW, dU, db, dh_prev all vanish."""
    cell = Elman("modrelu")
    w = {"W": np.zeros((2, 1)), "U": np.eye(2), "b": np.array([0.5, -0.75])}
    h_prev = np.array([[0.0, 0.75]])  # z = 0 under b > 0; |z| + b = 0
    h, cache = cell.step_forward(w, np.ones((1, 1)), h_prev)
    np.testing.assert_array_equal(h, 0)
    dx, dh_prev, dw = cell.step_backward(w, np.ones((1, 2)), cache)
    assert not any(np.any(g) for g in (dx, dh_prev, *dw.values()))


@pytest.mark.parametrize("kind", [GRUResetBefore, Elman])
def test_unknown_activation(kind):
    """The error names the argument, the value and what is allowed."""
    with pytest.raises(ValueError, match=r"activation is 'gelu'; allowed: 'tanh', 'relu', 'modrelu'"):
        kind("gelu")


def test_initial_values():
    """Glorot range, zero biases, forget bias 1; a weight's draw does not depend on the other weights' sizes."""
    w = LSTM().init(np.random.default_rng(0), 3, 7, np.float32)
    assert all(value.dtype == np.float32 for value in w.values())
    assert np.all(w["b_f"] == 1)
    assert not w["b_i"].any()
    assert 0.5 * np.sqrt(6 / 10) < abs(w["W_g"]).max() <= np.sqrt(6 / 10)
    other = LSTM().init(np.random.default_rng(0), 9, 7, np.float32)
    np.testing.assert_array_equal(w["U_o"], other["U_o"])
