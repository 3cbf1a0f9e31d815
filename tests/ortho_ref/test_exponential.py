"""The matrix exponential [sgornn:2-alt] [bp:expm]."""

import math

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from hypothesis import given, settings, strategies as st

from gradients.problem import relative_error
from ortho_ref.backend import to_device, to_host
from ortho_ref.parametrizations import Exponential, ScaledCayley
from ortho_ref.parametrizations.exponential import exponential_derivative
from tests.ortho_ref.maps import one, problems, rebuilt


def initial(seed, n, p=Exponential(), dtype=np.float64):  # noqa: B008
    """The A that p draws."""
    return p.init(np.random.default_rng(seed), n, dtype=dtype)[0]["A"]


def by_eigenvalues(A):
    """exp(A) = V diag(e^{-i w}) V^H of the Hermitian iA = V diag(w) V^H."""
    w, V = np.linalg.eigh(1j * A)
    return (V * np.exp(-1j * w)) @ V.conj().T


def by_series(A, terms=60):
    """The sum of A^k / k!."""
    return sum(np.linalg.matrix_power(A, k) / math.factorial(k) for k in range(terms))


@settings(max_examples=10)
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
    _, buffers = Exponential().init(np.random.default_rng(0), 2, dtype=np.float64)
    U = Exponential().rebuild({"A": A}, buffers)["U"]
    np.testing.assert_allclose(U, [[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]], atol=1e-15)
    assert np.abs(U - Exponential().rebuild({"A": -A}, buffers)["U"]).max() > 1


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 8), norm=st.floats(-4, 1.5).map(lambda power: 10**power))
def test_derivative(device, seed, n, norm):
    """bp:expm: against SciPy's, the block-triangular form and a central difference; for any A, skew or not, of every
    degree and number of squarings."""
    rng = np.random.default_rng(seed)
    A, E = rng.standard_normal((n, n)), rng.standard_normal((n, n))
    A *= norm / np.linalg.norm(A, 1)
    ours = to_host(exponential_derivative(*to_device((A, E), device)))
    assert relative_error(ours, scipy.linalg.expm_frechet(A, E, compute_expm=False)) < 1e-12 * max(1, norm)
    block = scipy.linalg.expm(np.block([[A, E], [np.zeros((n, n)), A]]))[:n, n:]
    assert relative_error(ours, block) < 1e-12 * max(1, norm)
    h = 1e-5 * min(1, 1 / norm)
    difference = (scipy.linalg.expm(A + h * E) - scipy.linalg.expm(A - h * E)) / (2 * h)
    assert relative_error(ours, difference) < 1e-7


@pytest.mark.parametrize(("dtype", "allowed"), [("float32", 1e-6), ("float64", 3e-15)])
def test_every_degree_is_exact_to_its_bound(dtype, allowed):
    """bp:expm/pade: for 1 x 1 matrices exp(a) is its own derivative; nowhere up to the largest degree's bound, beyond
    which a is halved, is one off by more than rounding."""
    for a in np.geomspace(1e-3, 6, 250).astype(dtype).reshape(-1, 1, 1):
        ours = exponential_derivative(a, np.ones_like(a)).astype(np.float64)
        assert abs(ours / np.exp(a.astype(np.float64)) - 1) < allowed * max(1, a.item())


@pytest.mark.parametrize(("dtype", "allowed"), [("float32", 1e-6), ("float64", 1e-12)])
@pytest.mark.parametrize("halved", [False, True])
def test_no_digit_is_lost_in_a_large_direction(device, halved, dtype, allowed):
    """The derivative is linear in E, to rounding, whatever its size; of the block form digits are lost."""
    rng = np.random.default_rng(0)
    A = (initial(0, 24) * (1 if halved else 0.2)).astype(dtype)
    E = rng.standard_normal((24, 24)).astype(dtype)
    exact = scipy.linalg.expm_frechet(A.astype(np.float64), E.astype(np.float64), compute_expm=False)
    for scale in 10.0 ** np.arange(-6, 7, 2):
        ours = to_host(exponential_derivative(*to_device((A, E.dtype.type(scale) * E), device)))
        assert ours.dtype == dtype
        assert relative_error(ours.astype(np.float64) / scale, exact) < allowed


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_answered_so(value):
    """No error about a logarithm of infinity: the trainer names what is not finite."""
    with np.errstate(all="ignore"):
        assert not np.isfinite(exponential_derivative(np.full((2, 2), value), np.eye(2))).any()


def test_initial_A():
    """Henaff: blocks (0, t; -t, 0), t uniform on +-pi, last row and column 0 for odd n; "cayley": scoRNN's A."""
    t = np.random.default_rng(0).uniform(-np.pi, np.pi, 3)
    blocks = [s * np.array([[0, 1], [-1, 0]]) for s in t]
    np.testing.assert_array_equal(initial(0, 7), scipy.linalg.block_diag(*blocks, 0))
    many = initial(1, 400, dtype=np.float32)[np.arange(0, 400, 2), np.arange(1, 400, 2)]
    assert many.dtype == np.float32
    assert scipy.stats.kstest(many, scipy.stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 0.01
    np.testing.assert_array_equal(initial(2, 7, Exponential("cayley")), initial(2, 7, ScaledCayley(0)))
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
