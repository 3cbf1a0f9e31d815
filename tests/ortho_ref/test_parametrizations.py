"""Cayley and Neumann-Cayley [ncgru:2] [ncgru:5] [ncgru:6] [ncgru:16] [ncgru:17] [ncgru:18] [ncgru:alg1]
[ncgru:init-A]."""

import re

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings, strategies as st

from gradients.problem import relative_error
from ortho_ref.backend import NotFiniteError, NotOrthogonalError, to_device, to_host
from ortho_ref.parametrizations import Exponential, NeumannCayley, ScaledCayley, defect
from ortho_ref.parametrizations.parametrization import check_orthogonal
from ortho_ref.training.optimizers import Adam

MAPS = {"cayley": ScaledCayley, "neumann": NeumannCayley}
sizes = {"seed": st.integers(0, 2**32 - 1), "n": st.integers(1, 8), "log_scale": st.floats(-2, 2)}


def random_skew(rng, n, scale=1.0):
    X = np.triu(rng.standard_normal((n, n)), 1) * scale
    return X - X.T


def drawn(p, n, A=None, dtype=np.float64):
    """Parameters and buffers of p: as `init` draws them, or those of A."""
    params, buffers = p.init(np.random.default_rng(0), n, dtype=dtype)
    return (params, buffers) if A is None else ({"A": A}, p.rebuild({"A": A}, buffers))


def exact_U(A, negative_ones=0):
    """ncgru:2 by an explicit inverse and an explicit D."""
    D = np.repeat([1.0, -1.0], [len(A) - negative_ones, negative_ones])
    return exact_inverse(A) @ (np.eye(len(A)) - A) * D


def exact_inverse(A):
    return np.linalg.inv(np.eye(len(A)) + A)


@pytest.mark.parametrize("kind", MAPS)
@settings(max_examples=15)
@given(**sizes)
def test_value_of_U(device, kind, seed, n, log_scale):
    """ncgru:2 against an explicit inverse and an explicit D, not only U^T U = I; det U = (-1)^k."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(0, n + 1))
    A = random_skew(rng, n, 10**log_scale)
    p = MAPS[kind](negative_ones=k)
    _, buffers = drawn(p, n)
    U = to_host(p.rebuild(to_device({"A": A}, device), to_device(buffers, device)))["U"]
    np.testing.assert_allclose(U, exact_U(A, k), atol=1e-11)
    assert defect(U) < 1e-12
    assert np.linalg.det(U) == pytest.approx((-1.0) ** k)


def test_value_by_hand():
    """A = (0, -s; s, 0), s = tan(t/2), gives the rotation (cos t, sin t; -sin t, cos t); D flips the last column."""
    t = 0.7
    s = np.tan(t / 2)
    rotation = np.array([[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]])
    for k, D in ((0, [1, 1]), (1, [1, -1])):
        _, buffers = drawn(ScaledCayley(k), 2, np.array([[0, -s], [s, 0]]))
        np.testing.assert_allclose(buffers["U"], rotation * D, rtol=1e-15)


def neumann_by_the_book(A, A_tilde, D, delta, order):
    """Lines 6 to 8 of Algorithm 1 with the powers written out."""
    P = A_tilde @ delta
    A = A - delta
    A_tilde = sum(np.linalg.matrix_power(P, i) for i in range(order + 1)) @ A_tilde
    return A, A_tilde, A_tilde @ (np.eye(len(A)) - A) @ np.diag(D)


@pytest.mark.parametrize("order", [1, 2, 3])
@settings(max_examples=8)
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


def test_resets_fall_due_at_the_start_and_every_reset_every(device):
    """ncgru:reset: the exact inverse at step 0 and after every third update, and nowhere else."""
    rng = np.random.default_rng(5)
    p = NeumannCayley(negative_ones=3, order=1, reset_every=3)
    params, buffers = to_device(p.init(rng, 8, dtype=np.float64), device)
    exact = [relative_error(buffers["A_tilde"], exact_inverse(to_host(params["A"]))) < 1e-14]
    for _ in range(7):
        delta = to_device({"A": random_skew(rng, 8, 0.05)}, device)
        params, buffers = p.retract(params, buffers, delta)
        exact.append(relative_error(buffers["A_tilde"], exact_inverse(to_host(params["A"]))) < 1e-12)
    assert exact == [True, False, False, True, False, False, True, False]
    assert buffers["forced_resets"] == 0


def test_divergence_forces_an_exact_reset_and_is_counted(device):
    """E-ncgru-10: A = 0, delta = (0, 1.5; -1.5, 0): the series diverges; the update is exact instead.  ||P||_2 = 1 is
    not below 1 either; forced resets and steps add up, through rebuilds."""
    p = NeumannCayley(negative_ones=0, order=2, reset_every=None)
    delta = np.array([[0, 1.5], [-1.5, 0]])
    start, first = to_device(drawn(p, 2, np.zeros((2, 2))), device)
    params, buffers = p.retract(start, first, to_device({"A": delta}, device))
    np.testing.assert_allclose(to_host(buffers["U"]), exact_U(-delta), atol=1e-15)
    assert p.health(buffers) == pytest.approx({"defect": 0, "condition": 1.5, "forced_resets": 1}, abs=1e-14)
    params, buffers = p.retract(params, buffers, to_device({"A": 0.01 * delta}, device))
    assert p.health(buffers)["forced_resets"] == 1
    buffers = p.rebuild(start, buffers)
    for k in (2, 3):
        _, buffers = p.retract(start, p.rebuild(start, buffers), to_device({"A": delta / 1.5}, device))
        assert (buffers["forced_resets"], buffers["step"]) == (k, k + 1)


def test_frobenius_bound_alone_forces_nothing():
    """||P||_F >= 1 but ||P||_2 < 1: the series converges and is used; the condition reported is the spectral norm."""
    p = NeumannCayley(negative_ones=0, order=3, reset_every=None)
    delta = 0.4 * np.kron(np.eye(4), [[0, 1], [-1, 0]])
    assert np.linalg.norm(delta) > 1
    _, buffers = p.retract(*drawn(p, 8, np.zeros((8, 8))), {"A": delta})
    figures = p.health(buffers)
    assert (figures["condition"], figures["forced_resets"]) == (pytest.approx(0.4), 0)
    assert 0.4**4 / 2 < figures["defect"] < 2.1 * 0.4**4


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
    params, buffers = drawn(ScaledCayley(2), 7)
    t = np.random.default_rng(0).uniform(0, np.pi / 2, 3)
    blocks = [np.tan(s / 2) * np.array([[0, -1], [1, 0]]) for s in t]
    np.testing.assert_allclose(params["A"], scipy.linalg.block_diag(*blocks, 0), rtol=1e-15)
    eigenvalues = np.linalg.eigvals(exact_U(params["A"]))
    np.testing.assert_allclose(np.sort(np.angle(eigenvalues)), np.sort([*t, *-t, 0]), atol=1e-14)
    np.testing.assert_array_equal(buffers["D"], [1, 1, 1, 1, 1, -1, -1])


@pytest.mark.parametrize("kind", MAPS)
def test_bad_parameters(device, kind):
    """Not skew, by one unit in the last place even, which element-wise optimizers keep off; by a delta too."""
    p = MAPS[kind](negative_ones=1)
    params, buffers = to_device(drawn(p, 3), device)
    with pytest.raises(ValueError, match=r"A is not skew: max \|A \+ A\^T\| is 0.02; allowed: exactly 0"):
        p.retract(params, buffers, to_device({"A": np.full((3, 3), 0.01)}, device))
    skew = random_skew(np.random.default_rng(0), 3)
    off, last_bit = skew.copy(), skew.copy()
    off[0, 1] += 1e-6
    last_bit[0, 1] = np.nextafter(skew[0, 1], 9)
    for A, message in (
        (off, r"A is not skew: max \|A \+ A\^T\| is 1e-06; allowed: exactly 0"),
        (last_bit, "A is not skew"),
    ):
        with pytest.raises(ValueError, match=message):
            p.rebuild(to_device({"A": A}, device), buffers)


ONES, ORDER, EVERY = "allowed: an integer from 0 to n", "allowed: 1, 2, 3", "allowed: an integer >= 1, or None"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((lambda kind=kind: drawn(kind(5), 4), "negative_ones is 5; allowed: 0 to n = 4") for kind in MAPS.values()),
        *(
            (lambda kind=kind, bad=bad: kind(bad), f"negative_ones is {bad!r}; {ONES}")
            for kind in MAPS.values()
            for bad in (-1, 1.5, "2")
        ),
        *((lambda bad=bad: NeumannCayley(0, order=bad), f"order is {bad!r}; {ORDER}") for bad in (4, 2.0, True)),
        *((lambda bad=bad: NeumannCayley(0, 2, bad), f"reset_every is {bad!r}; {EVERY}") for bad in (0, 2.5, True)),
    ],
)
def test_bad_options(make, message):
    """More -1 entries than n, or less than none; orders 1 to 3; a reset interval of at least 1."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        make()


def test_neumann_options_are_integers_of_python_or_numpy():
    """As negative_ones is."""
    assert NeumannCayley(0, np.int64(3), np.int64(20)) == NeumannCayley(0, order=3, reset_every=20)


def test_health_at_the_start_and_of_unitary_matrices():
    """No update yet: condition 0.  The defect of a unitary matrix is ||U^H U - I||, conjugate included."""
    p = NeumannCayley(1)
    figures = p.health(drawn(p, 4)[1])
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
