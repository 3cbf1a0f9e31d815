"""Cayley and Neumann-Cayley [ncgru:2] [ncgru:5] [ncgru:6] [ncgru:16] [ncgru:17] [ncgru:18] [ncgru:alg1]
[ncgru:init-A]."""

import re

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from gradients.problem import relative_error
from ortho_ref.backend import NotFiniteError, NotOrthogonalError, to_device, to_host
from ortho_ref.checks import Checks
from ortho_ref.conformance.differences import compare_gradients
from ortho_ref.optimizers import Adam
from ortho_ref.parametrizations import Exponential, Free, NeumannCayley, ScaledCayley, defect
from ortho_ref.parametrizations.cayley import exact_buffers, initial_A, inverse, signs
from ortho_ref.parametrizations.parametrization import check_orthogonal

MAPS = {"cayley": ScaledCayley, "neumann": NeumannCayley}
sizes = {"seed": st.integers(0, 2**32 - 1), "n": st.integers(1, 8), "log_scale": st.floats(-2, 2)}


def random_skew(rng, n, scale=1.0):
    X = np.triu(rng.standard_normal((n, n)), 1) * scale
    return X - X.T


@pytest.mark.parametrize("kind", MAPS)
@settings(max_examples=50)
@given(**sizes)
def test_value_of_U(device, kind, seed, n, log_scale):
    """ncgru:2 against an explicit inverse and an explicit D, not only U^T U = I; det U = (-1)^k."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(0, n + 1))
    A = random_skew(rng, n, 10**log_scale)
    p = MAPS[kind](negative_ones=k)
    _, buffers = p.init(rng, n, dtype=np.float64)
    U = to_host(p.rebuild(to_device({"A": A}, device), to_device(buffers, device)))["U"]
    I, D = np.eye(n), np.diag([1.0] * (n - k) + [-1.0] * k)
    np.testing.assert_allclose(U, np.linalg.inv(I + A) @ (I - A) @ D, atol=1e-11)
    np.testing.assert_allclose(U, (I - A) @ np.linalg.inv(I + A) @ D, atol=1e-11)
    assert defect(U) < 1e-12
    assert np.linalg.det(U) == pytest.approx((-1.0) ** k)


def test_value_by_hand():
    """A = (0, -s; s, 0), s = tan(t/2), gives the rotation (cos t, sin t; -sin t, cos t); D flips the last column."""
    t = 0.7
    s = np.tan(t / 2)
    A = np.array([[0, -s], [s, 0]])
    rotation = np.array([[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]])
    np.testing.assert_allclose(exact_buffers(A, np.array([1.0, 1.0]))["U"], rotation, rtol=1e-15)
    np.testing.assert_allclose(exact_buffers(A, np.array([1.0, -1.0]))["U"], rotation * [1, -1], rtol=1e-15)


@pytest.mark.parametrize("kind", MAPS)
@settings(max_examples=30)
@given(**sizes)
def test_pullback_against_the_free_upper_entries(device, kind, seed, n, log_scale):
    """ncgru:5 and ncgru:6: V^T - V is the derivative by a_ij = A_ij = -A_ji, at the exact inverse; exactly skew."""
    rng = np.random.default_rng(seed)
    A, dU = random_skew(rng, n, 10 ** min(log_scale, 0.5)), rng.standard_normal((n, n))
    p = MAPS[kind](negative_ones=n // 2)
    _, buffers = p.init(rng, n, dtype=np.float64)
    params, on_device = to_device({"A": A}, device), to_device(buffers, device)
    ours = to_host(p.pullback(params, p.rebuild(params, on_device), to_device(dU, device)))
    assert not np.any(ours["A"] + ours["A"].T)
    report = compare_gradients(
        lambda point: (dU * p.rebuild(point, buffers)["U"]).sum(),
        {"A": A},
        ours,
        skew=("A",),
        kink_distance=lambda point: float("inf"),
        may_vanish=("A",) if n == 1 else (),
    )
    assert report.passed, f"\n{report}"


def test_gradient_is_twice_the_projection():
    """E-ncgru-09: V^T - V is twice the Frobenius projection of the unconstrained gradient -V."""
    rng = np.random.default_rng(0)
    A, dU = random_skew(rng, 5), rng.standard_normal((5, 5))
    p = ScaledCayley(2)
    buffers = p.rebuild({"A": A}, p.init(rng, 5, dtype=np.float64)[1])
    V = np.linalg.inv(np.eye(5) + A).T @ dU @ (np.diag(buffers["D"]) + buffers["U"].T)
    np.testing.assert_allclose(p.pullback({"A": A}, buffers, dU)["A"], 2 * (V.T - V) / 2, rtol=1e-12)
    np.testing.assert_allclose((-V - (-V).T) / 2, p.pullback({"A": A}, buffers, dU)["A"] / 2, rtol=1e-12)


def neumann_by_the_book(A, A_tilde, D, delta, order):
    """Lines 6 to 8 of Algorithm 1 with the powers written out."""
    P = A_tilde @ delta
    A = A - delta
    A_tilde = sum(np.linalg.matrix_power(P, i) for i in range(order + 1)) @ A_tilde
    return A, A_tilde, A_tilde @ (np.eye(len(A)) - A) @ np.diag(D)


@pytest.mark.parametrize("order", [1, 2, 3])
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 7))
def test_algorithm_1_line_by_line(device, order, seed, n):
    """Five updates without a reset follow the printed lines; A stays exactly skew; V takes A_tilde as it is
    [ncgru:alg1] [ncgru:16] [ncgru:17] [ncgru:18]."""
    rng = np.random.default_rng(seed)
    p = NeumannCayley(negative_ones=n // 2, order=order, reset_every=None)
    params, buffers = to_device(p.init(rng, n, dtype=np.float64), device)
    A, A_tilde, D, U = to_host((params["A"], buffers["A_tilde"], buffers["D"], buffers["U"]))
    for _ in range(5):
        dU = rng.standard_normal((n, n))
        V = A_tilde.T @ dU @ (np.diag(D) + U.T)
        ours = to_host(p.pullback(params, buffers, to_device(dU, device))["A"])
        np.testing.assert_allclose(ours, V.T - V, rtol=1e-10, atol=1e-12)
        delta = random_skew(rng, n, 0.05)
        params, buffers = p.retract(params, buffers, to_device({"A": delta}, device))
        A, A_tilde, U = neumann_by_the_book(A, A_tilde, D, delta, order)
        for name, theirs in (("A_tilde", A_tilde), ("U", U)):
            assert relative_error(buffers[name], theirs) < 1e-13
        np.testing.assert_array_equal(to_host(params["A"]), A)
    assert not np.any(A + A.T)
    assert buffers["step"] == 5


@pytest.mark.parametrize("order", [1, 2, 3])
def test_error_law_of_one_step(order):
    """ncgru:neumann-q: halving the step cuts the error of A_tilde by 2^(order + 1)."""
    rng = np.random.default_rng(3)
    A, step = random_skew(rng, 12), random_skew(rng, 12)
    step /= np.linalg.norm(step, 2)
    p = NeumannCayley(negative_ones=6, order=order, reset_every=None)
    state = p.rebuild({"A": A}, p.init(rng, 12, dtype=np.float64)[1])
    errors = []
    for size in (0.08, 0.04, 0.02, 0.01):
        params, new = p.retract({"A": A}, state, {"A": size * step})
        errors.append(np.linalg.norm(new["A_tilde"] - np.linalg.inv(np.eye(12) + params["A"]), 2))
    ratios = np.array(errors[:-1]) / errors[1:]
    np.testing.assert_allclose(ratios, 2.0 ** (order + 1), rtol=1e-2)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_defect_law_without_resets(order):
    """E-ncgru-12: R_k = P^(q+1) + (sum P^i) R_(k-1), U = (I - R_k) U_exact, defect <= 2 ||R|| + ||R||^2."""
    rng = np.random.default_rng(4)
    n, p = 10, NeumannCayley(negative_ones=4, order=order, reset_every=None)
    params, buffers = p.init(rng, n, dtype=np.float64)
    R, I = np.zeros((n, n)), np.eye(n)
    for _ in range(30):
        params, buffers = p.retract(params, buffers, {"A": random_skew(rng, n, 0.02)})
        P = buffers["P"]
        R = np.linalg.matrix_power(P, order + 1) + sum(np.linalg.matrix_power(P, i) for i in range(order + 1)) @ R
        np.testing.assert_allclose(I - buffers["A_tilde"] @ (I + params["A"]), R, atol=1e-13)
        norm = np.linalg.norm(R, 2)
        assert p.health(buffers)["defect"] <= 2 * norm + norm**2 + 1e-14
        exact = exact_buffers(params["A"], buffers["D"])["U"]
        np.testing.assert_allclose(buffers["U"], (I - R) @ exact, atol=1e-13)


def test_resets_fall_due_at_the_start_and_every_reset_every(device):
    """ncgru:reset: the exact inverse at step 0 and after every third update, and nowhere else."""
    rng = np.random.default_rng(5)
    p = NeumannCayley(negative_ones=3, order=1, reset_every=3)
    params, buffers = to_device(p.init(rng, 8, dtype=np.float64), device)
    exact = [relative_error(buffers["A_tilde"], inverse(to_host(params["A"]))) < 1e-14]
    for _ in range(7):
        delta = to_device({"A": random_skew(rng, 8, 0.05)}, device)
        params, buffers = p.retract(params, buffers, delta)
        exact.append(relative_error(buffers["A_tilde"], inverse(to_host(params["A"]))) < 1e-12)
    assert exact == [True, False, False, True, False, False, True, False]
    assert buffers["forced_resets"] == 0


def test_divergence_forces_an_exact_reset_and_is_counted(device):
    """E-ncgru-10: A = 0, delta = (0, 1.5; -1.5, 0): the series diverges; the update is exact instead."""
    p = NeumannCayley(negative_ones=0, order=2, reset_every=None)
    _, buffers = p.init(np.random.default_rng(0), 2, dtype=np.float64)
    A, delta = np.zeros((2, 2)), np.array([[0, 1.5], [-1.5, 0]])
    on_device = to_device({"A": A}, device)
    buffers = p.rebuild(on_device, to_device(buffers, device))
    params, buffers = p.retract(on_device, buffers, to_device({"A": delta}, device))
    np.testing.assert_allclose(to_host(buffers["U"]), exact_buffers(-delta, np.ones(2))["U"], atol=1e-15)
    assert p.health(buffers) == pytest.approx({"defect": 0, "condition": 1.5, "forced_resets": 1}, abs=1e-14)
    params, buffers = p.retract(params, buffers, to_device({"A": 0.01 * delta}, device))
    assert p.health(buffers)["forced_resets"] == 1


def test_frobenius_bound_alone_forces_nothing():
    """||P||_F >= 1 but ||P||_2 < 1: the series converges and is used; the condition reported is the spectral norm."""
    p = NeumannCayley(negative_ones=0, order=3, reset_every=None)
    _, buffers = p.init(np.random.default_rng(0), 8, dtype=np.float64)
    A, delta = np.zeros((8, 8)), 0.4 * np.kron(np.eye(4), [[0, 1], [-1, 0]])
    buffers = p.rebuild({"A": A}, buffers)
    assert np.linalg.norm(delta) > 1
    _, buffers = p.retract({"A": A}, buffers, {"A": delta})
    assert p.health(buffers)["condition"] == pytest.approx(0.4)
    assert p.health(buffers)["forced_resets"] == 0
    assert 0.4**4 / 2 < p.health(buffers)["defect"] < 2.1 * 0.4**4


def test_a_delta_that_is_not_finite():
    """No silent divergence, neither of a delta that is not finite nor of one whose norm overflows."""
    p = NeumannCayley(negative_ones=0)
    params, buffers = p.init(np.random.default_rng(0), 4, dtype=np.float64)
    with pytest.raises(FloatingPointError, match="delta of A has an entry that is not finite"):
        p.retract(params, buffers, {"A": np.full((4, 4), np.nan)})
    huge = random_skew(np.random.default_rng(0), 4, 1e300)
    with (
        np.errstate(over="ignore"),
        pytest.raises(FloatingPointError, match=r"\|\|A_tilde delta\|\| is inf in update 1"),
    ):
        p.retract(params, buffers, {"A": huge})


@pytest.mark.parametrize("kind", MAPS)
def test_a_delta_that_is_not_skew(device, kind):
    """Refused at once: A would stop being skew, and U leave the orthogonal matrices, updates before anyone looks."""
    p = MAPS[kind](negative_ones=2)
    params, buffers = to_device(p.init(np.random.default_rng(0), 4, dtype=np.float64), device)
    with pytest.raises(ValueError, match=r"A is not skew: max \|A \+ A\^T\| is 0.02; allowed: exactly 0"):
        p.retract(params, buffers, to_device({"A": np.full((4, 4), 0.01)}, device))


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_run_with_adam(kind, dtype):
    """500 Adam steps of 1e-3 on noise: A bit-exactly skew, U as orthogonal as E-ncgru-12 says, own precision."""
    rng = np.random.default_rng(6)
    n, p, adam = 56, MAPS[kind](negative_ones=40), Adam(1e-3)
    params, buffers = p.init(rng, n, dtype=dtype)
    worst = 0.0
    for _ in range(500):
        gradient = p.pullback(params, buffers, rng.standard_normal((n, n)).astype(dtype))
        delta = {"A": adam.delta("A", params["A"], gradient["A"])}
        params, buffers = p.retract(params, buffers, delta)
        assert not np.any(params["A"] + params["A"].T)
        worst = max(worst, defect(buffers["U"]))
    assert all(value.dtype == dtype for value in (params["A"], buffers["U"], buffers["A_tilde"]))
    limit = {"cayley": 1e-13, "neumann": 1e-5}[kind]
    assert worst < (limit if dtype == np.float64 else max(limit, 1e-5))


def test_series_fed_with_another_step_leaves_the_orthogonal_matrices():
    """E-ncgru-12, released code: A moved by Adam, the series fed lr * gradient; the test above must not pass for it."""
    rng = np.random.default_rng(6)
    n, adam = 56, Adam(1e-3)
    p = NeumannCayley(negative_ones=40, reset_every=None)
    params, buffers = p.init(rng, n, dtype=np.float64)
    for _ in range(48):
        gradient = p.pullback(params, buffers, 1e-3 * rng.standard_normal((n, n)))["A"]
        moved = params["A"] - adam.delta("A", params["A"], gradient)
        _, buffers = p.retract(params, buffers, {"A": 1e-3 * gradient})
        params = {"A": moved}
        buffers = {**buffers, "U": buffers["A_tilde"] @ (np.eye(n) - moved) * buffers["D"]}
    assert defect(buffers["U"]) > 1e-2


def test_initial_A():
    """ncgru:init-A: blocks (0, -tan(t/2); tan(t/2), 0), t in [0, pi/2); last row and column 0 for odd n."""
    A = initial_A(np.random.default_rng(0), 7, np.float64)
    t = np.random.default_rng(0).uniform(0, np.pi / 2, 3)
    blocks = [np.tan(s / 2) * np.array([[0, -1], [1, 0]]) for s in t]
    np.testing.assert_allclose(A, scipy.linalg.block_diag(*blocks, 0), rtol=1e-15)
    eigenvalues = np.linalg.eigvals(exact_buffers(A, np.ones(7))["U"])
    np.testing.assert_allclose(np.sort(np.angle(eigenvalues)), np.sort([*t, *-t, 0]), atol=1e-14)
    np.testing.assert_array_equal(signs(5, 2, np.float64), [1, 1, 1, -1, -1])


@pytest.mark.parametrize("kind", MAPS)
def test_bad_parameters(device, kind):
    """Not skew, not finite, complex, not square: errors that say what A is and what is allowed."""
    p = MAPS[kind](negative_ones=1)
    _, buffers = p.init(np.random.default_rng(0), 3, dtype=np.float64)
    buffers = to_device(buffers, device)
    skew = random_skew(np.random.default_rng(0), 3)
    off, nan = skew.copy(), skew.copy()
    off[0, 1] += 1e-6
    nan[1, 0] = np.nan
    for A, message in (
        (off, r"A is not skew: max \|A \+ A\^T\| is 1e-06; allowed: exactly 0"),
        (nan, "A has an entry that is not finite"),
        (skew * (1 + 0j), r"A is complex128 of shape \(3, 3\); allowed: a real matrix of shape \(3, 3\)"),
        (skew[:2], r"A is float64 of shape \(2, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            p.rebuild(to_device({"A": A}, device), buffers)


@pytest.mark.parametrize("kind", MAPS)
def test_bad_options(kind):
    """More -1 entries than n, or less than none."""
    with pytest.raises(ValueError, match="negative_ones is 5; allowed: 0 to n = 4"):
        MAPS[kind](negative_ones=5).init(np.random.default_rng(0), 4, dtype=np.float64)
    for bad in (-1, 1.5, "2"):
        with pytest.raises(ValueError, match=r"negative_ones is .*; allowed: an integer from 0 to n"):
            MAPS[kind](negative_ones=bad)


def test_bad_neumann_options():
    """Orders 1 to 3 and a reset interval of at least 1."""
    with pytest.raises(ValueError, match="order is 4; allowed: 1, 2, 3"):
        NeumannCayley(0, order=4)
    for bad in (0, 2.5):
        with pytest.raises(ValueError, match=f"reset_every is {bad}; allowed: an integer >= 1, or None"):
            NeumannCayley(0, reset_every=bad)
    with pytest.raises(ValueError, match=r"order is 2\.0; allowed: 1, 2, 3"):
        NeumannCayley(0, order=2.0)


def test_neumann_options_are_integers_of_python_or_numpy():
    """As negative_ones is; True is none."""
    p = NeumannCayley(0, order=np.int64(3), reset_every=np.int64(20))
    assert p == NeumannCayley(0, order=3, reset_every=20)
    for options in ({"order": True}, {"reset_every": True}):
        with pytest.raises(ValueError, match="is True; allowed: "):
            NeumannCayley(0, **options)


def test_counts_and_free():
    """n (n - 1) / 2 free entries of a skew matrix; Free is the matrix itself."""
    assert ScaledCayley(0).count(56) == NeumannCayley(0).count(56) == 1540
    free = Free()
    params, buffers = free.init(np.random.default_rng(0), 3, dtype=np.float64)
    new, buffers = free.retract(params, buffers, {"": np.ones((3, 3))})
    np.testing.assert_array_equal(buffers["U"], params[""] - 1)
    assert free.pullback(new, buffers, np.eye(3))[""] is not None
    assert (free.count(3), free.health(buffers)) == (9, {})


def test_huge_A_is_still_orthogonal():
    """E-ncgru-13: I + A is never singular for skew A; entries up to 1e6 give a defect of rounding size."""
    A = random_skew(np.random.default_rng(7), 20, 1e6)
    assert defect(exact_buffers(A, np.ones(20))["U"]) < 1e-12


def test_a_condition_of_exactly_one_is_forced_and_every_one_counts():
    """||P||_2 = 1 is not below 1; forced resets and steps add up, through rebuilds."""
    p = NeumannCayley(0, reset_every=None)
    params = {"A": np.zeros((2, 2))}
    buffers = p.rebuild(params, p.init(np.random.default_rng(0), 2, dtype=np.float64)[1])
    for k in (1, 2):
        _, buffers = p.retract(params, p.rebuild(params, buffers), {"A": np.array([[0, 1.0], [-1, 0]])})
        assert (buffers["forced_resets"], buffers["step"]) == (k, k)


def test_skew_means_to_the_bit():
    """One unit in the last place off is refused: element-wise optimizers keep skewness exactly, so it never arises."""
    with pytest.raises(ValueError, match="A is not skew"):
        exact_buffers(np.array([[0, 0.3], [-np.nextafter(0.3, 1), 0]]), np.ones(2))


def test_health_at_the_start_and_of_unitary_matrices():
    """No update yet: condition 0.  The defect of a unitary matrix is ||U^H U - I||, conjugate included."""
    p = NeumannCayley(1)
    figures = p.health(p.init(np.random.default_rng(0), 4, dtype=np.float64)[1])
    assert (figures["condition"], figures["forced_resets"]) == (0, 0)
    rng = np.random.default_rng(0)
    assert defect(np.linalg.qr(rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4)))[0]) < 1e-14


# An A that is finite, and too large

REFUSED = {  # entries of a 3 x 3 A for which U is not orthogonal, by rounding
    "cayley": {(np.float64, 1e17), (np.float32, 1e10)},
    "exponential": {(np.float64, 1e17), (np.float64, 1e300), (np.float32, 1e10), (np.float32, 1e38)},
}
#: I + A is A to the last digit, of which every 3 x 3 is singular: with one kernel of the BLAS U is orthogonal all the
#: same, with another it is not.
EITHER = {(np.float64, 1e300), (np.float32, 1e38)}
ENTRIES = [(np.float64, s) for s in (1e3, 1e8, 1e17, 1e300)] + [(np.float32, s) for s in (1e3, 1e10, 1e38)]


def large_skew(largest, dtype):
    a, b, c = (largest * np.array([1.0, 0.6180339887, 0.3678794411])).astype(dtype)
    return np.array([[0, a, b], [-a, 0, c], [-b, -c, 0]], dtype)


@pytest.mark.parametrize(("dtype", "largest"), ENTRIES)
@pytest.mark.parametrize("p", [ScaledCayley(1), NeumannCayley(1), NeumannCayley(1, 2, 1), Exponential()], ids=repr)
def test_an_A_that_is_too_large(device, p, dtype, largest):
    """Refused where rounding leaves a U that is not orthogonal, else U is; told by its entry, what was seen, what may
    be.  An A that training leads to is never refused."""
    params, buffers = to_device(p.init(np.random.default_rng(0), 3, dtype=dtype), device)
    A = to_device({"A": large_skew(largest, dtype)}, device)
    refused = (dtype, largest) in REFUSED["exponential" if isinstance(p, Exponential) else "cayley"]
    told = r"A is too large: its largest entry is \S+, and U is not .*; allowed: entries for which .* is at most 0.001"
    if not refused:
        U, said = None, ""
        try:
            U = p.rebuild(A, buffers)["U"]
        except (NotOrthogonalError, NotFiniteError) as error:
            said = str(error)
        if U is None:
            assert (dtype, largest) in EITHER
            assert re.match(told, said)
        else:
            assert defect(to_host(U)) < 1e-3
        return
    with pytest.raises((NotOrthogonalError, NotFiniteError), match=told):
        p.rebuild(A, buffers)
    if not isinstance(p, NeumannCayley) or p.reset_every == 1:
        with pytest.raises(ValueError, match=told):
            p.retract(params, buffers, {"A": params["A"] - A["A"]})


@pytest.mark.parametrize("n", [3, 8, 57, 118])
@pytest.mark.parametrize("p", [ScaledCayley(1), Exponential()], ids=repr)
def test_a_legitimate_A_is_never_refused(p, n):
    """||A||_2 = 1e3 in float32, of any kind."""
    rng = np.random.default_rng(n)
    _, buffers = p.init(rng, n, dtype=np.float32)
    for kind in (np.ones((n, n)), rng.standard_normal((n, n)), np.exp(3 * rng.standard_normal((n, n)))):
        for low_rank in (False, True):
            A = np.triu(np.outer(kind[0], kind[1]) if low_rank else kind, 1)
            A = A - A.T
            A = (1e3 * A / np.linalg.norm(A, 2)).astype(np.float32)
            assert defect(p.rebuild({"A": A}, buffers)["U"]) < 1e-3


@pytest.mark.parametrize("p", [ScaledCayley(1), Exponential()], ids=repr)
def test_too_large_on_a_device_that_nobody_waits_for(gpu, p):
    """Found with all other checks, in their one copy, and due to its turn."""
    buffers = to_device(p.init(np.random.default_rng(0), 3, dtype=np.float32)[1], gpu)
    checks = Checks()
    for turn, largest in enumerate((1.0, 1e10, 1.0), 1):
        with checks.deferred(turn):
            p.rebuild(to_device({"A": large_skew(largest, np.float32)}, gpu), buffers)
    _, failure = checks.settle()
    assert failure.turn == 2
    assert str(failure.error).startswith("A is too large: U is not ")


def test_a_probe_sees_no_more_than_the_defect():
    """||U^T U v - v|| <= ||U^T U - I||_2: nothing is refused that is less than 1e-3 from orthogonal; and more is."""
    rng = np.random.default_rng(0)
    for n in (2, 3, 50, 200):
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        for scale in (1 + 4e-4, 1 - 4e-4):
            check_orthogonal("A", Q, scale * Q)
        for wrong in (1.01 * Q, np.vstack([Q[:-1], 0 * Q[-1:]]), np.ones((n, n)) / n, 0 * Q):
            with pytest.raises(NotOrthogonalError, match="A is too large"):
                check_orthogonal("A", Q, wrong)
