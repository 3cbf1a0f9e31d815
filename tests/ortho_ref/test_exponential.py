"""The matrix exponential [sgornn:2-alt] [bp:expm]."""

import math

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from gradients.problem import relative_error
from ortho_ref.backend import library_of, to_device, to_host
from ortho_ref.parametrizations import Exponential
from ortho_ref.parametrizations.cayley import initial_A
from ortho_ref.parametrizations.exponential import exponential_derivative, henaff_A
from tests.ortho_ref.maps import one, problems, pulled_back, rebuilt


def by_eigenvalues(A):
    """exp(A) = V diag(e^{-i w}) V^H of the Hermitian iA = V diag(w) V^H."""
    w, V = np.linalg.eigh(1j * A)
    return (V * np.exp(-1j * w)) @ V.conj().T


def by_series(A, terms=60):
    """The sum of A^k / k!."""
    return sum(np.linalg.matrix_power(A, k) / math.factorial(k) for k in range(terms))


@settings(max_examples=40)
@given(data=st.data())
def test_value_of_U(device, data):
    """sgornn:2-alt against the eigendecomposition and the power series, not only U^T U = I; det U = 1."""
    problem = data.draw(problems("exponential"))
    A, U = problem.params["A"], rebuilt(problem, device)
    np.testing.assert_allclose(U, by_eigenvalues(A), atol=1e-12)
    np.testing.assert_allclose(U, by_series(A), atol=1e-8)
    assert np.linalg.det(U) == pytest.approx(1)


def test_value_by_hand():
    """exp(0, t; -t, 0) = (cos t, sin t; -sin t, cos t), and exp(-A) = exp(A)^T is another matrix."""
    t = 2.5
    A = np.array([[0, t], [-t, 0]])
    _, buffers = Exponential().init(np.random.default_rng(0), 2, np.float64)
    U = Exponential().rebuild({"A": A}, buffers)["U"]
    np.testing.assert_allclose(U, [[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]], atol=1e-15)
    assert np.abs(U - Exponential().rebuild({"A": -A}, buffers)["U"]).max() > 1


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 8))
def test_derivative_in_both_forms(device, seed, n):
    """bp:expm/1 where the library has it, the block-triangular form where it has not, against each other and a central
    difference; for any A, skew or not."""
    rng = np.random.default_rng(seed)
    A, E, h = rng.standard_normal((n, n)), rng.standard_normal((n, n)), 1e-5
    ours = to_host(exponential_derivative(*to_device((A, E), device)))
    assert relative_error(ours, scipy.linalg.expm_frechet(A, E, compute_expm=False)) < 1e-12
    block = scipy.linalg.expm(np.block([[A, E], [np.zeros((n, n)), A]]))[:n, n:]
    assert relative_error(ours, block) < 1e-12
    difference = (scipy.linalg.expm(A + h * E) - scipy.linalg.expm(A - h * E)) / (2 * h)
    assert relative_error(ours, difference) < 1e-7


def test_which_form_runs_where():
    """SciPy has expm_frechet, CuPy has not: the stand-in runs the block form."""
    assert hasattr(library_of(np.eye(2)).linalg, "expm_frechet")
    assert not hasattr(library_of(to_device(np.eye(2), "stand-in")).linalg, "expm_frechet")


def test_gradient_is_exactly_skew_and_at_the_transpose(device):
    """dA = L - L^T of L at A^T, to the bit skew; L at A is another matrix."""
    problem = one("exponential")
    A, dA = problem.params["A"], pulled_back(problem, device)["A"]
    assert not np.any(dA + dA.T)
    L = scipy.linalg.expm_frechet(A.T, problem.dU, compute_expm=False)
    np.testing.assert_allclose(dA, L - L.T, atol=1e-12)
    wrong = scipy.linalg.expm_frechet(A, problem.dU, compute_expm=False)
    assert relative_error(dA, wrong - wrong.T) > 0.1


def test_initial_A():
    """Henaff: blocks (0, t; -t, 0), t uniform on +-pi, last row and column 0 for odd n; "cayley": scoRNN's A."""
    A = henaff_A(np.random.default_rng(0), 7, np.float64)
    t = np.random.default_rng(0).uniform(-np.pi, np.pi, 3)
    blocks = [s * np.array([[0, 1], [-1, 0]]) for s in t]
    np.testing.assert_array_equal(A, scipy.linalg.block_diag(*blocks, 0))
    many = henaff_A(np.random.default_rng(1), 8000, np.float32)[np.arange(0, 8000, 2), np.arange(1, 8000, 2)]
    assert many.dtype == np.float32
    assert scipy.stats.kstest(many, scipy.stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 0.01
    for initial, theirs in (("henaff", henaff_A), ("cayley", initial_A)):
        params, _ = Exponential(initial).init(np.random.default_rng(2), 7, np.float64)
        np.testing.assert_array_equal(params["A"], theirs(np.random.default_rng(2), 7, np.float64))
    assert Exponential() == Exponential("henaff")


def test_bad_values(device):
    """A that is not skew, in `rebuild` and by a delta; an initial value by another name."""
    problem = one("exponential").on(device)
    p, params, buffers = problem.p, problem.params, problem.buffers
    off = to_device(0.01 * np.eye(6), device)
    with pytest.raises(ValueError, match=r"^A is not skew: max \|A \+ A\^T\| is 0.02; allowed: exactly 0$"):
        p.rebuild({"A": params["A"] + off}, buffers)
    with pytest.raises(ValueError, match=r"^A is not skew"):
        p.retract(params, buffers, {"A": off})
    with pytest.raises(ValueError, match=r"^initial is 'zero'; allowed: 'henaff', 'cayley'$"):
        Exponential("zero")
