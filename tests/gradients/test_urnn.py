"""uRNN's bound on gradients through time [urnn:2] [urnn:3] [urnn:4], its lemma and matrix [urnn:5] [urnn:6] [urnn:7],
its start and reversal."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings, strategies as st

from gradients import bptt, elman
from gradients.problem import random_problem, relative_error
from gradients.urnn import modrelu_norm, propagate
from ortho_ref import scan
from ortho_ref.activations import activation, modrelu
from ortho_ref.cells import Elman
from ortho_ref.finite_differences import compare_gradients
from ortho_ref.parametrizations.parametrization import defect
from tests.gradients.matrices import SLACK, unitary

CELLS = {"tanh": Elman("tanh"), "relu": Elman("relu"), "complex modrelu": Elman("modrelu", complex=True)}
SEEDS = st.integers(0, 2**32 - 1)


def network(cell, rng, *, T=6, n=4, m=3, b=None):
    """Weights with an orthogonal or unitary U, inputs, h0, dh_T; b: None, or the sign all biases have."""

    def normal(*shape):
        return rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if cell.complex else 0)

    bias = 0.3 * rng.standard_normal(n)
    bias = bias if b is None else b * abs(bias)
    w = {"W": normal(n, m) / np.sqrt(m), "U": unitary(rng, n, cell.complex), "b": bias}
    return w, rng.standard_normal((T, m)), normal(n), normal(n)


def column_form(cell, w, x, h0, dh_T):
    """dh_0 .. dh_T by urnn:2, D as the derivative of the units."""
    n = len(h0)
    pairs = elman.real_pairs if cell.complex else np.array
    U_H = pairs(w["U"].conj().T)
    steps = bptt.run(elman.step, cell, w, x, pairs(h0))
    gradients = [pairs(dh_T)]
    for step in reversed(steps):
        gradients.append(U_H @ step.S["U"][0] @ gradients[-1])
    gradients = np.array(gradients[::-1])
    return gradients[:, :n] + 1j * gradients[:, n:] if cell.complex else gradients


@pytest.mark.parametrize("name", CELLS)
def test_the_column_form_against_differences_and_scan(name):
    """urnn:2 at every t: dL/dh_t is that of the rest of the sequence begun at h_t.  U need not be orthogonal."""
    cell = CELLS[name]
    problem = random_problem(cell, np.random.default_rng(9), T=5, B=1)
    w, x, h0, dh_T = problem.weights, problem.x, problem.h0, problem.dh_T
    gradients = column_form(cell, w, x[:, 0], h0[0], dh_T[0])
    h, _ = scan.forward(cell, w, x, h0)
    for t in range(5):
        _, tape = scan.forward(cell, w, x[t:], h[t])
        theirs = scan.backward(cell, w, tape, np.zeros_like(h[t + 1 :]), dh_T).h0
        assert relative_error(gradients[t][None], theirs) < 1e-12

        def loss(point, t=t):
            last = scan.forward(cell, w, x[t:], point["h"])[0][-1]
            return (dh_T.conj() * last).real.sum()

        report = compare_gradients(loss, {"h": h[t]}, {"h": gradients[t][None]})
        assert report.passed, f"\n{report}"
    steps = bptt.run(elman.step, cell, w, x[:, 0], elman.real_pairs(h0[0]) if cell.complex else h0[0])
    rows = bptt.last_loss([step.J for step in steps], elman.real_pairs(dh_T[0]) if cell.complex else dh_T[0])
    assert relative_error(np.linalg.norm(rows, axis=1), np.linalg.norm(gradients, axis=1)) < 1e-12
    np.testing.assert_allclose(propagate(cell, w, x[:, 0], h0[0], dh_T[0]).norms, np.linalg.norm(gradients, axis=1))


def slope_norm(cell, z, b):
    """||D||_2 at a pre-activation z (n,), unit by unit."""
    if cell.complex:
        return modrelu_norm(z, b)
    phi = activation(cell.activation)
    return abs(phi.pullback(np.ones_like(z), z, b, phi.value(z, b))[0]).max()


@given(seed=SEEDS, name=st.sampled_from(list(CELLS)), sign=st.sampled_from([None, -1, 1]), T=st.integers(1, 12))
def test_the_bound_holds(seed, name, sign, T):
    """urnn:3 for relu and tanh, and for complex modReLU whatever the sign of b; ||D_k|| is what the units say."""
    cell, rng = CELLS[name], np.random.default_rng(seed)
    w, x, h0, dh_T = network(cell, rng, T=T, n=int(rng.integers(1, 6)), b=sign)
    norms, bounds, slopes = propagate(cell, w, x, h0, dh_T)
    assert (norms <= bounds * SLACK).all()
    np.testing.assert_allclose(bounds[:-1], norms[-1] * np.cumprod(slopes[::-1])[::-1], rtol=1e-12)
    assert norms[-1] == bounds[-1] == pytest.approx(np.linalg.norm(dh_T), rel=1e-14)
    h = h0
    for t in range(T):
        z = w["W"] @ x[t] + w["U"] @ h
        assert slopes[t] == pytest.approx(slope_norm(cell, z, w["b"]), rel=1e-10, abs=1e-300)
        h = scan.forward(cell, w, x[t : t + 1, None], h[None])[0][-1, 0]
    if name == "tanh":  # urnn:3-tau
        assert (norms <= slopes.max() ** np.arange(T, -1, -1) * norms[-1] * SLACK).all()


@given(seed=SEEDS)
def test_without_orthogonality_there_is_no_such_bound(seed):
    """urnn:3 as printed needs ||U|| <= 1: U scaled by 3 grows past the product of the slopes; times ||U|| it holds."""
    w, x, h0, dh_T = network(CELLS["tanh"], np.random.default_rng(seed), T=1)
    w["W"], h0 = 0 * w["W"], 0 * h0
    norms, bounds, slopes = propagate(CELLS["tanh"], w | {"U": 3 * w["U"], "b": 0 * w["b"]}, x, h0, dh_T)
    assert norms[0] == pytest.approx(3 * slopes[0] * norms[1], rel=1e-13)
    assert bounds[0] == pytest.approx(norms[0], rel=1e-13)


@pytest.mark.parametrize("name", CELLS)
def test_the_bound_is_attained(name):
    """urnn:3 with equality: tanh at z = 0, relu with every unit on, complex modReLU with one unit, turned across."""
    cell, T = CELLS[name], 5
    rng = np.random.default_rng(0)
    w, x, h0, dh_T = network(cell, rng, T=T)
    if name == "tanh":
        w["b"], x, h0 = 0 * w["b"], 0 * x, 0 * h0
        slope = 1.0
    elif name == "relu":
        w, x, h0, slope = w | {"U": np.eye(4), "W": abs(w["W"]), "b": abs(w["b"])}, abs(x), abs(h0), 1.0
    else:
        w = {"W": np.array([[-0.1 + 0j]]), "U": np.ones((1, 1), complex), "b": np.array([0.1])}
        x, h0, dh_T, slope = np.ones((T, 1)), np.array([0.2 + 0j]), np.array([1j]), 2.0
    norms, bounds, slopes = propagate(cell, w, x, h0, dh_T)
    np.testing.assert_allclose(slopes, slope, rtol=1e-12)
    np.testing.assert_allclose(norms, bounds, rtol=1e-12)
    np.testing.assert_allclose(norms, slope ** np.arange(T, -1, -1) * norms[-1], rtol=1e-12)


@settings(max_examples=30)
@given(seed=SEEDS, name=st.sampled_from(["relu", "complex modrelu"]))
def test_gradients_do_not_grow(seed, name):
    """urnn:4 for relu with any b, and for complex modReLU with b <= 0: |dh_t| <= |dh_{t+1}| at every step."""
    cell = CELLS[name]
    w, x, h0, dh_T = network(cell, np.random.default_rng(seed), T=20, b=-1 if cell.complex else None)
    norms, _, slopes = propagate(cell, w, x, h0, dh_T)
    assert (norms[:-1] <= norms[1:] * SLACK).all()
    assert slopes.max() <= SLACK


@given(seed=SEEDS, n=st.integers(1, 6), sign=st.sampled_from([-1, 1]))
def test_the_norm_of_complex_modrelu(seed, n, sign):
    """urnn:4/modrelu: the largest singular value of D; 0 where every unit is off and where z = 0."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(n) + 1j * rng.standard_normal(n)
    b = sign * abs(rng.standard_normal(n))
    assert modrelu_norm(z, b) == pytest.approx(np.linalg.norm(elman.modrelu_jacobian(z, b), 2), rel=1e-12)
    assert modrelu_norm(z, -abs(z) - 0.1) == modrelu_norm(0 * z, b) == 0
    on = (abs(z) + b) > 0
    if sign > 0:
        assert modrelu_norm(z, b) == pytest.approx(1 + (b / abs(z)).max(), rel=1e-13)
    else:
        assert modrelu_norm(z, b) == on.any()


@settings(max_examples=30)
@given(seed=SEEDS, n=st.integers(1, 7))
def test_unitary_matrices_have_unitary_eigenvectors_and_phases(seed, n):
    """urnn:lem1, both ways, and urnn:5.  An eigenvalue off the circle, or eigenvectors that are not unitary, fail."""
    rng = np.random.default_rng(seed)
    U = unitary(rng, n, True)
    triangular, V = scipy.linalg.schur(U, output="complex")
    values = np.diag(triangular)
    assert relative_error(V @ np.diag(values) @ V.conj().T, U) < 1e-12
    np.testing.assert_allclose(abs(values), 1, rtol=1e-12)
    assert defect(V) < 1e-12

    V, w = unitary(rng, n, True), rng.uniform(-np.pi, np.pi, n)
    assert defect(V @ np.diag(np.exp(1j * w)) @ V.conj().T) < 1e-12
    off = np.exp(1j * w)
    off[0] *= 1.1
    assert defect(V @ np.diag(off) @ V.conj().T) == pytest.approx(0.21, rel=1e-9)
    if n > 1:
        skewed = V + 0.3 * np.outer(V[:, 0], V[:, 1].conj())
        assert defect(skewed @ np.diag(np.exp(1j * np.arange(n))) @ skewed.conj().T) > 1e-3


@given(seed=SEEDS)
def test_real_pairs(seed):
    """urnn:7: products become products, U^H the transpose, a unitary matrix an orthogonal one; conj U does not do."""
    rng = np.random.default_rng(seed)
    U, h, pairs = unitary(rng, 4, True), rng.standard_normal(4) + 1j * rng.standard_normal(4), elman.real_pairs
    np.testing.assert_allclose(pairs(U) @ pairs(h), pairs(U @ h), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(pairs(U).T, pairs(U.conj().T))
    assert defect(pairs(U)) < 1e-13
    assert abs(pairs(U.conj()) @ pairs(h) - pairs(U @ h)).max() > 1e-3


def reversed_states(w, x, h_T):
    """urnn:reverse: h_T .. h_0 by z = h / |h| (|h| - b), h_{t-1} = U^H (z - W x)."""
    states = [h_T]
    for x_t in x[::-1]:
        h = states[-1]
        z = h / abs(h) * (abs(h) - w["b"])
        assert np.allclose(modrelu(z, w["b"]), h)
        states.append(w["U"].conj().T @ (z - w["W"] @ x_t))
    return np.array(states[::-1])


@settings(max_examples=30)
@given(seed=SEEDS)
def test_states_run_backwards(seed):
    """urnn:reverse: with b >= 0 no unit is ever off and every state can be had from the last, over 50 steps."""
    rng = np.random.default_rng(seed)
    w, x, h0, _ = network(CELLS["complex modrelu"], rng, T=50)
    w["b"] = abs(w["b"]) * rng.integers(0, 2, len(w["b"]))
    h = scan.forward(CELLS["complex modrelu"], w, x[:, None], h0[None])[0][:, 0]
    assert relative_error(reversed_states(w, x, h[-1]), h) < 1e-8


def test_states_of_units_that_are_off_are_lost():
    """urnn:reverse with b < 0: two states with one successor."""
    w = {"W": np.zeros((1, 1), complex), "U": np.ones((1, 1), complex), "b": np.array([-0.5])}
    cell, x = CELLS["complex modrelu"], np.zeros((1, 1, 1))
    for h0, h1 in ((0.4, 0), (0.3j, 0), (0.7j, 0.2j)):
        h = scan.forward(cell, w, x, np.array([[h0 + 0j]]))[0]
        np.testing.assert_allclose(h[1], h1)
    np.testing.assert_allclose(reversed_states(w, x[:, 0], np.array([0.2j]))[0], 0.7j)
