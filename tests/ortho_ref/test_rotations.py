"""EURNN and VPRNN [goru:tunable] [goru:fft] [goru:rot] [sgornn:2] [bp:rotation] [bp:phase] [bp:perm]."""

import cmath
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings, strategies as st

from gradients.map_problem import random_map_problem
from ortho_ref.parametrizations import FFTRotations, TunableRotations, VolumePreserving
from tests.ortho_ref.maps import one, problems, pulled_back, rebuilt


def rotation(n, i, j, theta, phi=0.0):
    """I (n, n) with (cos, -sin e^{ip}; sin, cos e^{ip}) in rows and columns i, j."""
    M = np.eye(n, dtype=complex)
    M[i, i], M[i, j] = math.cos(theta), -math.sin(theta) * cmath.exp(1j * phi)
    M[j, i], M[j, j] = math.sin(theta), math.cos(theta) * cmath.exp(1j * phi)
    return M


def with_diagonal(M, params):
    return np.diag([cmath.exp(1j * w) for w in params["omega"]]) @ M if "omega" in params else M


def tunable(params, n, styles="AB", diagonal_first=False):
    """goru:tunable, pair by pair: A rotates (2j, 2j + 1) by theta_A[k, j], then B (2j + 1, 2j + 2) by theta_B[k, j]."""
    M = with_diagonal(np.eye(n), params) if diagonal_first else np.eye(n)
    for k in range(len(params["theta_A"])):
        for style in styles:
            first = {"A": 0, "B": 1}[style]
            for j in range(n // 2 - first):
                i = 2 * j + first
                phi = params[f"phi_{style}"][k, j] if "omega" in params else 0.0
                M = rotation(n, i, i + 1, params[f"theta_{style}"][k, j], phi) @ M
    return M if diagonal_first else with_diagonal(M, params)


def fft(params, n, reverse=False, column=lambda k, r, s, i: r * 2**i + k):
    """goru:fft, pair by pair: layer i has stride s = n / 2^(i + 1); q with bit s clear turns with q + s; the angle of
    block k = floor(q / 2s), offset r = q mod 2s, stands in column r 2^i + k of row i."""
    M = np.eye(n)
    layers = range(int(math.log2(n)))
    for i in reversed(layers) if reverse else layers:
        s = n // 2 ** (i + 1)
        for q in range(n):
            if (q // s) % 2 == 0:
                c = column(q // (2 * s), q % (2 * s), s, i)
                phi = params["phi"][i, c] if "omega" in params else 0.0
                M = rotation(n, q, q + s, params["theta"][i, c], phi) @ M
    return with_diagonal(M, params)


def volume(params, permutations, rotate_first=False, forwards=False, stride=None, inverse=False):
    """sgornn:2: R_1 Q_1 ... R_k Q_k, Q_j y = y[permutation j], R_j turns (i, i + n/2) by Theta[i, j]."""
    k, n = permutations.shape
    U = np.eye(n)
    for j in reversed(range(k)) if forwards else range(k):
        Q, R = np.zeros((n, n)), np.eye(n)
        for i in range(n):
            Q[i, permutations[j][i]] = 1
        for i in range(n // 2):
            pair = (i, i + n // 2) if stride is None else (2 * i, 2 * i + 1)
            R = rotation(n, *pair, params["Theta"][i, j]).real @ R
        U = U @ ((Q.T if inverse else Q) @ R if rotate_first else R @ (Q.T if inverse else Q))
    return U


def reference(name, problem):
    """The independent construction of a problem's U."""
    n, params = len(problem.dU), problem.params
    if name == "volume":
        return volume(params, problem.buffers["permutations"])
    return (tunable if name.startswith("tunable") else fft)(params, n)


def sign_of(permutation):
    """Its determinant: (-1)^(number of pairs in the wrong order)."""
    n = len(permutation)
    return (-1) ** sum(permutation[i] > permutation[j] for i in range(n) for j in range(i + 1, n))


NAMES = ("tunable", "tunable complex", "fft", "fft complex", "volume")


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10)
@given(data=st.data())
def test_value_of_U(device, name, data):
    """goru:tunable, goru:fft, goru:rot, sgornn:2 against products of dense rotations, pair by pair.  det U = 1 for
    EURNN, e^{i (all phases)} for a complex one, the product of the permutations' signs for VPRNN."""
    problem = data.draw(problems(name))
    U = rebuilt(problem, device)
    np.testing.assert_allclose(U, reference(name, problem), atol=1e-12)
    phases = sum(value.sum() for key, value in problem.params.items() if not key.lower().startswith("theta"))
    signs = math.prod(sign_of(permutation) for permutation in problem.buffers.get("permutations", []))
    np.testing.assert_allclose(np.linalg.det(U), signs * np.exp(1j * phases), atol=1e-12)


def test_values_at_a_real_size(device):
    """n = 64: six FFT layers and columns of theta that are no longer in the order of the pairs; L = 6; k = 12."""
    rng = np.random.default_rng(0)
    for p in (FFTRotations(complex=True), TunableRotations(6, complex=True)):
        problem = random_map_problem(p, 64, rng)
        name = "fft" if isinstance(p, FFTRotations) else "tunable"
        np.testing.assert_allclose(rebuilt(problem, device), reference(name, problem), atol=1e-12)
    problem = random_map_problem(VolumePreserving(), 20, rng)
    assert problem.buffers["permutations"].shape == (10, 20)
    np.testing.assert_allclose(rebuilt(problem, device), reference("volume", problem), atol=1e-12)


WRONG = {
    "B before A": ("tunable", lambda p, Q: tunable(p, 6, styles="BA")),
    "the diagonal first": ("tunable complex", lambda p, Q: tunable(p, 6, diagonal_first=True)),
    "stride 1 first": ("fft", lambda p, Q: fft(p, 8, reverse=True)),
    "columns in the order of the pairs": ("fft", lambda p, Q: fft(p, 8, column=lambda k, r, s, i: k * s + r)),
    "rotation before permutation": ("volume", lambda p, Q: volume(p, Q, rotate_first=True)),
    "Q_1 first": ("volume", lambda p, Q: volume(p, Q, forwards=True)),
    "the inverse permutations": ("volume", lambda p, Q: volume(p, Q, inverse=True)),
    "pairs (2i, 2i + 1)": ("volume", lambda p, Q: volume(p, Q, stride=1)),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_value_test_sees_a_wrong_pattern(what):
    """Each of these mistakes makes another matrix than the one the value test asks for."""
    name, wrong = WRONG[what]
    problem = one(name)
    np.testing.assert_allclose(problem.buffers["U"], reference(name, problem), atol=1e-12)
    other = wrong(problem.params, problem.buffers.get("permutations"))
    assert np.abs(problem.buffers["U"] - other).max() > 0.1


def test_value_by_hand():
    """One pair: (cos, -sin e^{ip}; sin, cos e^{ip}), the phase on the lower input; then e^{iw} on the rows."""
    t, f, w = 0.7, 1.1, (0.3, -0.4)
    params = {"theta": np.array([[t]]), "phi": np.array([[f]]), "omega": np.array(w)}
    c, s, e = np.cos(t), np.sin(t), np.exp(1j * f)
    expected = np.diag(np.exp(1j * np.array(w))) @ [[c, -s * e], [s, c * e]]
    buffers = {"U": np.empty((2, 2))}
    np.testing.assert_allclose(FFTRotations(complex=True).rebuild(params, buffers)["U"], expected, atol=1e-15)
    params = {"Theta": np.array([[t]])}
    buffers |= {"permutations": np.array([[1, 0]])}
    U = VolumePreserving(1).rebuild(params, buffers)["U"]
    np.testing.assert_allclose(U, np.array([[c, -s], [s, c]]) @ [[0, 1], [1, 0]], atol=1e-15)


def test_each_derivative_by_an_angle_has_norm_one():
    """E-sgornn-03: dU/dtheta is a rotation times a matrix of rank 2 and norm 1 times a rotation, so that no entry is
    above M_phi = 1.  The printed M_phi is 4 sqrt(n) log2 n."""
    problem = random_map_problem(VolumePreserving(4), 8, np.random.default_rng(0))
    derivatives = np.empty((4, 4, 8, 8))  # row and column of Theta, row and column of U
    for i, j in np.ndindex(8, 8):
        dU = np.zeros((8, 8))
        dU[i, j] = 1
        derivatives[..., i, j] = problem.p.pullback(problem.params, problem.buffers, dU)["Theta"]
    assert abs(derivatives).max() <= 1 + 1e-12
    np.testing.assert_allclose(np.linalg.norm(derivatives, 2, axis=(2, 3)), 1, rtol=1e-12)
    np.testing.assert_array_equal(np.linalg.matrix_rank(derivatives), 2)


@pytest.mark.parametrize(
    ("p", "limit"),
    [
        (TunableRotations(40, complex=True), np.pi),
        (TunableRotations(40), np.pi),
        (FFTRotations(complex=True), np.pi),
        (VolumePreserving(40), 0.05),
    ],
)
def test_initial_angles(p, limit):
    """Uniform, EURNN's on +-pi and VPRNN's on +-0.05, every parameter by itself, in the dtype asked for."""
    params, _ = p.init(np.random.default_rng(0), 64, dtype=np.float32)
    for key, value in params.items():
        assert value.dtype == np.float32
        assert abs(value).max() < limit * (1 + 1e-6)
        assert scipy.stats.kstest(value.ravel(), scipy.stats.uniform(-limit, 2 * limit).cdf).pvalue > 0.01, key
    values = list(params.values())
    assert not any(np.isin(a, b).any() for i, a in enumerate(values) for b in values[:i])


def test_permutations():
    """Uniformly random, one for every sublayer, k = 2 ceil(log2 n) unless given."""
    for n, k in ((2, 2), (6, 6), (8, 6), (10, 8), (128, 14)):
        _, buffers = VolumePreserving().init(np.random.default_rng(0), n, dtype=np.float64)
        assert buffers["permutations"].shape == (k, n)
        np.testing.assert_array_equal(np.sort(buffers["permutations"]), np.arange(n)[None].repeat(k, 0))
        assert n == 2 or len({tuple(row) for row in buffers["permutations"]}) == k
    _, buffers = VolumePreserving(6000).init(np.random.default_rng(1), 4, dtype=np.float64)
    counts = np.array([np.bincount(column, minlength=4) for column in buffers["permutations"].T])
    np.testing.assert_allclose(counts / 6000, 0.25, atol=0.02)
    assert "permutations" not in FFTRotations().init(np.random.default_rng(0), 4, dtype=np.float64)[1]


EVEN, POWER = "allowed: an even number from 2 to n", "allowed for rotations in FFT style: a power of two, at least 2"


@pytest.mark.parametrize(
    ("make", "n", "message"),
    [
        (lambda: TunableRotations(2), 5, "n is 5; allowed for rotations in tunable style: an even number"),
        (lambda: TunableRotations(6), 4, f"capacity is 6; {EVEN} = 4"),
        *((lambda L=L: TunableRotations(L), 4, f"capacity is {L!r}; {EVEN}") for L in (3, 0, 2.0, "2")),
        # E-goru-04: 6, 7, 100 are what the paper's figure does not say
        *((FFTRotations, n, f"n is {n}; {POWER}") for n in (6, 7, 100, 1)),
        (VolumePreserving, 7, "n is 7; allowed for volume-preserving rotations: an even number"),
        *(
            (lambda k=k: VolumePreserving(k), 4, f"sublayers is {k!r}; allowed: an integer >= 1, or None")
            for k in (0, 1.5, "2")
        ),
    ],
)
def test_bad_options(make, n, message):
    """The message names the option, what was given and what is allowed; `count` refuses the same sizes."""
    for ask in (lambda p: p.init(np.random.default_rng(0), n, dtype=np.float64), lambda p: p.count(n)):
        with pytest.raises(ValueError, match=f"^{message}$"):
            ask(make())


def test_the_smallest_size(device):
    """n = 2, where layer B has no pair, and NumPy's integers as options."""
    for name, p in (("tunable", TunableRotations(np.int64(2))), ("volume", VolumePreserving(np.int64(1)))):
        problem = random_map_problem(p, 2, np.random.default_rng(0))
        np.testing.assert_allclose(rebuilt(problem, device), reference(name, problem), atol=1e-12)
        assert problem.compare(pulled_back(problem, device)).passed


def test_permutations_that_do_not_fit():
    """One for each of the sublayers, of n entries."""
    p = VolumePreserving(2)
    params, buffers = p.init(np.random.default_rng(0), 4, dtype=np.float64)
    for bad in (buffers["permutations"][:1], buffers["permutations"][:, :3]):
        shape = rf"\({bad.shape[0]}, {bad.shape[1]}\)"
        with pytest.raises(ValueError, match=rf"^permutations have the shape {shape}; expected \(2, 4\)$"):
            p.rebuild(params, {**buffers, "permutations": bad})
