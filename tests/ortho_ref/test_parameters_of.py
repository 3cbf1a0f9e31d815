"""From U to the parameters of a map, ours and other libraries', and back; what cannot be reached is refused."""

import re

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings, strategies as st

from ortho_ref import converters, parametrizations
from ortho_ref.converters import matrix_of, params_of
from ortho_ref.converters.inverses import logarithm

SEEDS = st.integers(0, 2**32 - 1)
TOLERANCE = 1e-12
TURNS = st.sampled_from([0.0, np.pi, 1e-9, np.pi - 1e-9, 1.0])
#: What reaches every rotation; half turns are another matter of Cayley transforms.
OURS = ("scaled_cayley", "neumann_cayley:1", "exponential", "householder:{n}", "tunable_rotations:{n}")
CAYLEY = ("torch-cayley", "geotorch-cayley", "exprnn-cayley", "peft-oft", "peft-boft")
EXACT = tuple(name for name in converters.OTHER_MAPS if name != "peft-oft-neumann")


def rotation(rng, n, determinant=1.0, of_complex=False):
    """Uniform, of this determinant; or unitary."""
    X = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if of_complex else 0)
    Q, _ = np.linalg.qr(X)
    if not of_complex and np.linalg.det(Q) * determinant < 0:
        Q[:, 0] = -Q[:, 0]
    return Q


def gentle(rng, n):
    """Of angles up to 3, so that no transform is near a half turn."""
    A = rng.standard_normal((n, n))
    return scipy.linalg.expm((A - A.T) * min(1, 3 / np.linalg.norm(A - A.T, 2)))


def held(found, U):
    """The certificate is what it says, and small."""
    assert found.distance == pytest.approx(np.linalg.norm(found.U - U, 2), abs=1e-15)
    assert found.defect == pytest.approx(np.linalg.norm(found.U.conj().T @ found.U - np.eye(len(U)), 2), abs=1e-15)
    assert max(found.distance, found.defect) < TOLERANCE


@pytest.mark.parametrize("name", OURS)
@settings(max_examples=15)
@given(seed=SEEDS, half=st.integers(1, 9))
def test_every_rotation_has_parameters(name, seed, half):
    """The map's own `rebuild` makes U of them again, in a layer too."""
    U = rotation(np.random.default_rng(seed), 2 * half)
    found = params_of(name.format(n=2 * half), U)
    held(found, U)
    again = found.kept.rebuild(found.params, found.buffers)
    np.testing.assert_array_equal(again["U"], found.U)


@settings(max_examples=25)
@given(seed=SEEDS, n=st.integers(1, 12), turned=st.sampled_from([-1.0, 1.0]), kind=st.sampled_from(["any", "signed"]))
def test_cayley_finds_a_D_for_every_orthogonal_matrix(seed, n, turned, kind):
    """No entry of A above 1, I + U D well conditioned; as many -1 as det U says; -I and signed permutations too."""
    rng = np.random.default_rng(seed)
    U = rotation(rng, n, turned)
    if kind == "signed":
        U = np.eye(n)[rng.permutation(n)] * rng.choice([-1.0, 1.0], n)
    found = params_of("scaled_cayley:0", U)
    held(found, U)
    assert abs(found.params["A"]).max() <= 1 + 1e-8
    assert np.linalg.cond(np.eye(n) + U * found.buffers["D"]) < n + 1e-6
    assert found.kept.negative_ones == (found.buffers["D"] < 0).sum()
    assert np.linalg.det(U) == pytest.approx((-1) ** found.kept.negative_ones)


def test_a_given_D_stays_or_is_refused():
    """A layer's own; where U D has a half turn, none."""
    rng = np.random.default_rng(0)
    kept = parametrizations.ScaledCayley(2)
    params, buffers = kept.init(rng, 5, dtype=np.float64)
    found = params_of(kept, buffers["U"], D=buffers["D"])
    np.testing.assert_allclose(found.params["A"], params["A"], atol=1e-13)
    assert found.kept == kept
    with pytest.raises(ValueError, match="has the eigenvalue -1, or nearly; allowed: no eigenvalue -1 of U D"):
        params_of(kept, buffers["U"], D=-buffers["D"])
    with pytest.raises(ValueError, match=r"D is float64 of shape \(4,\); allowed: 1 and -1, of shape \(5,\)"):
        params_of(kept, buffers["U"], D=np.ones(4))


@settings(max_examples=25)
@given(seed=SEEDS, n=st.integers(2, 9), turns=st.lists(TURNS, min_size=4))
def test_logarithms_at_half_turns(seed, n, turns):
    """Angles at and beside 0 and pi, and repeated ones; none beyond pi."""
    Z = rotation(np.random.default_rng(seed), n)
    blocks = [[[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]] for t in turns[: n // 2]]
    U = Z @ scipy.linalg.block_diag(*blocks, np.eye(n - 2 * len(blocks))) @ Z.T
    held(params_of("exponential", U), U)
    assert np.linalg.norm(logarithm(U), 2) <= np.pi + 1e-12


@settings(max_examples=40)
@given(seed=SEEDS, n=st.integers(1, 9), data=st.data())
def test_a_product_of_reflections_is_found_again(seed, n, data):
    """Of m reflections; identities; signed permutations with m = n."""
    rng, m = np.random.default_rng(seed), data.draw(st.integers(1, n))
    name = f"householder:{m}"
    _, buffers = parametrizations.Householder(m).init(rng, n, dtype=np.float64)
    held(params_of(name, buffers["U"]), buffers["U"])
    if m % 2 == 0:
        held(params_of(name, np.eye(n)), np.eye(n))
    signed = np.eye(n)[rng.permutation(n)] * rng.choice([-1.0, 1.0], n)
    held(params_of(f"householder:{n}", signed), signed)


@settings(max_examples=20)
@given(seed=SEEDS, power=st.integers(1, 4), of_complex=st.booleans())
def test_rotations_of_either_style(seed, power, of_complex):
    """Tunable, with n layers: every unitary matrix, from the real ones those of determinant 1; FFT: its own alone."""
    rng, n = np.random.default_rng(seed), 2**power
    fft = parametrizations.FFTRotations(of_complex)
    own = fft.init(rng, n, dtype=np.float64)[1]["U"]
    held(params_of(fft, own), own)
    U = rotation(rng, n, of_complex=of_complex)
    held(params_of(parametrizations.TunableRotations(n, of_complex), U), U)
    few = parametrizations.TunableRotations(2, of_complex).init(rng, n, dtype=np.float64)[1]["U"]
    held(params_of(parametrizations.TunableRotations(n, of_complex), few), few)
    if n > 2:
        with pytest.raises(ValueError, match=r"\|\|U' - U\|\|_2 is .* for the U' found; allowed: products of its log2"):
            params_of(fft, U)


def test_full_unitary():
    """U itself."""
    U = rotation(np.random.default_rng(0), 5, of_complex=True)
    held(params_of("geodesic_unitary", U), U)


def literal(name, params, n):
    """U by the library's formula, written out once more with a solver and SciPy's exponential."""
    (X,) = (a for key, a in params.items() if key != "base")
    I = np.eye(n)
    if name == "torch-householder":
        U = np.eye(n)
        for j in range(n):
            v = np.concatenate([np.zeros(j), [1], X[j + 1 :, j]])
            U = U @ (I - 2 * np.outer(v, v) / (v @ v))
        U = U * np.diag(X)
    elif name in ("torch-matrix-exp", "geotorch-expm", "torch-cayley", "geotorch-cayley"):
        A = np.tril(X) - np.tril(X).conj().T
        U = scipy.linalg.expm(A) if "exp" in name else np.linalg.solve(I - A / 2, I + A / 2)
    elif name.startswith("exprnn"):
        A = np.triu(X, 1) - np.triu(X, 1).T
        U = scipy.linalg.expm(A) if name == "exprnn-expm" else np.linalg.solve(I + A, I - A)
    else:
        own = []
        for x in X[0] if name == "peft-boft" else X:
            b = round(n / (X.shape[1] if name == "peft-boft" else len(X)))
            A = np.zeros((b, b))
            A[np.triu_indices(b, 1)] = (x - x.T)[np.triu_indices(b, 1)] / 2 if name == "peft-boft" else x
            A = A - A.T
            own.append(np.linalg.solve((np.eye(b) + A).T, (np.eye(b) - A).T).T)
        U = scipy.linalg.block_diag(*own)
    return params.get("base", I) @ U


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=15)
@given(seed=SEEDS, n=st.integers(1, 7))
def test_other_libraries_maps(name, seed, n):
    """U by the formula, from random parameters whatever stands where the library does not look; and the way back."""
    rng, peft = np.random.default_rng(seed), name.startswith("peft")
    X, base = rng.standard_normal((n, n)) / np.sqrt(n), rotation(rng, n)
    if name == "torch-householder":
        X[np.diag_indices(n)] = rng.choice([-1.0, 1.0], n)
    key = next(iter(params_of(name, np.eye(n)).params))
    params = {key: {"peft-oft": X[None, np.triu_indices(n, 1)[0], np.triu_indices(n, 1)[1]]}.get(name, X)}
    params = {key: X[None, None]} if name == "peft-boft" else params
    params |= {} if peft else {"base": base}
    U = matrix_of(name, params)
    np.testing.assert_allclose(U, literal(name, params, n), atol=TOLERANCE)
    found = params_of(name, U, **({} if peft else {"base": base}))
    held(found, U)
    np.testing.assert_allclose(literal(name, found.params, n), U, atol=TOLERANCE)


@pytest.mark.parametrize("terms", range(1, 8))
def test_peft_s_series(terms):
    """Its powers, 3 as 4; for a small A as far from U as what is cut off, which the certificate tells."""
    rng = np.random.default_rng(terms)
    weight = 1e-2 * rng.standard_normal((2, 3))
    A = np.zeros((2, 3, 3))
    A[:, *np.triu_indices(3, 1)] = weight
    A = scipy.linalg.block_diag(*(A - A.transpose(0, 2, 1)))
    powers = [np.linalg.matrix_power(A, k) for k in range(8)]
    t = max(terms, 4) if terms > 2 else terms
    expected = powers[0] + 2 * sum(powers[1 : t - 1]) + (powers[t - 1] if t > 2 else 0)
    expected = {1: powers[0], 2: powers[0] + 2 * powers[1]}.get(t, expected)
    U = matrix_of("peft-oft-neumann", {"weight": weight}, terms=terms)
    np.testing.assert_allclose(U, expected, atol=1e-15)
    found = params_of("peft-oft-neumann", scipy.linalg.expm(A), blocks=2)
    assert 0 < found.defect < 1e-5
    assert 0 < found.distance < 1e-5


def test_blocks():
    """Of PEFT's: each its own; one that is shared; a U that has none."""
    rng = np.random.default_rng(0)
    U = scipy.linalg.block_diag(*(gentle(rng, 3) for _ in range(4)))
    for name in ("peft-oft", "peft-boft"):
        held(params_of(name, U, blocks=4), U)
    shared = params_of("peft-oft", U[:3, :3]).params
    np.testing.assert_allclose(
        matrix_of("peft-oft", shared, blocks=2), scipy.linalg.block_diag(U[:3, :3], U[:3, :3]), atol=TOLERANCE
    )
    with pytest.raises(ValueError, match=r"U has an entry of .* outside of its 6 blocks; allowed: 0"):
        params_of("peft-oft", U, blocks=6)


@pytest.mark.parametrize("name", ["torch-matrix-exp", "torch-cayley"])
def test_complex_parameters_of_pytorch(name):
    """The diagonal's imaginary part counts."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4))
    U = matrix_of(name, {"original": X})
    np.testing.assert_allclose(U, literal(name, {"original": X}, 4), atol=TOLERANCE)
    held(params_of(name, U), U)


@pytest.mark.parametrize("name", [*EXACT, "scaled_cayley", "exponential", "householder:6", "tunable_rotations:6"])
def test_single_precision_and_a_U_that_is_nearly_orthogonal(name):
    """dtype in is dtype out; as far from U as U is from orthogonal."""
    U = gentle(np.random.default_rng(1), 6)
    found = params_of(name, U.astype(np.float32))
    assert all(a.dtype == np.float32 for a in (*found.params.values(), found.U))
    assert max(found.defect, found.distance) < 1e-5
    near = params_of(name, U * (1 + 1e-3))
    assert near.defect < TOLERANCE
    assert near.distance == pytest.approx(1e-3, rel=1e-6)


R4 = rotation(np.random.default_rng(0), 4)
M4 = rotation(np.random.default_rng(0), 4, -1)
REFUSED = [
    ("exponential", M4, {}, r"U is not reached by Exponential\(.*\): \|\|U' - U\|\|_2 is 2 .*; allowed: determinant 1"),
    ("tunable_rotations:4", M4, {}, r"\|\|U' - U\|\|_2 is 2 for the U' found; allowed: determinant 1"),
    ("torch-matrix-exp", M4, {}, r"\|\|U' - U\|\|_2 is 2 .*; allowed: determinant 1, or that of the base"),
    (
        "householder:2",
        R4,
        {},
        r"\|\|U' - U\|\|_2 is .*; allowed: rank\(I - U\) <= m and determinant \(-1\)\^m",
    ),
    ("householder:3", R4, {}, r"\|\|U' - U\|\|_2 is 2 .*; allowed: rank\(I - U\) <= m and determinant"),
    ("householder:5", R4, {}, "reflections is 5; allowed: 1 to n = 4"),
    ("tunable_rotations:2", R4, {}, "capacity is 2; allowed: n = 4, as fewer layers reach a subset alone"),
    ("tunable_rotations:2", R4[:3, :3] @ np.eye(3), {}, "U is not orthogonal"),
    ("fft_rotations", R4, {}, r"is 0\.\d+ for the U' found; allowed: products of its log2\(n\) layers, a subset"),
    ("fft_rotations", np.eye(3), {}, "n is 3; allowed for rotations in FFT style: a power of two"),
    *((name, M4, {}, "has the eigenvalue -1, or nearly; allowed: no eigenvalue -1 of ") for name in CAYLEY),
    *((name, -np.eye(4), {}, "has the eigenvalue -1, or nearly; allowed: no eigenvalue -1 of ") for name in CAYLEY),
    ("peft-oft-neumann", -np.eye(4), {}, "has the eigenvalue -1, or nearly; allowed: another"),
    ("volume_preserving", R4, {}, "kept is 'volume_preserving'; allowed: scaled_cayley, .*, torch-matrix-exp, "),
    ("structured_unitary", R4, {}, "kept is 'structured_unitary'; allowed: "),
    ("torch-caley", R4, {}, r"kept is 'torch-caley' \(did you mean 'torch-cayley'\?\); allowed: "),
    (7, R4, {}, "kept is 7; allowed: "),
    ("exponential", R4 * 1.1, {}, r"U is not orthogonal: \|\|U\^H U - I\|\|_2 is 0.21; allowed: at most 0.01"),
    ("exponential", R4[:3], {}, r"U has shape \(3, 4\); allowed: \(n, n\)"),
    ("exponential", R4[0], {}, r"U has shape \(4,\); allowed: \(n, n\)"),
    ("exponential", np.eye(2, dtype=int), {}, "U is int64; allowed: float32, float64, complex64, complex128"),
    ("exponential", np.full((2, 2), np.nan), {}, "U has an entry that is not finite"),
    ("exponential", R4 + 0j, {}, r"U is complex128; allowed for Exponential\(.*\): real"),
    ("geotorch-expm", R4 + 0j, {}, "U is complex128; allowed for geotorch-expm: real"),
    ("exponential", R4, {"D": np.ones(4)}, r"D is given; Exponential\(.*\) has none"),
    ("torch-cayley", R4, {"D": np.ones(4)}, "D is given; torch-cayley has none"),
    ("torch-cayley", R4, {"blocks": 2}, "blocks is given; torch-cayley has none"),
    ("peft-oft", R4, {"base": R4}, "base is given; peft-oft has none"),
    ("peft-oft", R4, {"blocks": 3}, "blocks is 3; allowed: a divisor of n = 4"),
    ("torch-cayley", R4, {"base": np.eye(3)}, r"base has shape \(3, 3\); allowed: \(4, 4\)"),
    ("torch-cayley", R4, {"base": 2 * np.eye(4)}, "base is not orthogonal"),
    ("torch-cayley", R4, {"base": np.eye(4) + 0j}, "base is complex128; allowed: float32, float64"),
]


@pytest.mark.parametrize(("kept", "U", "options", "message"), REFUSED)
def test_what_is_refused(kept, U, options, message):
    """In one line: the argument, what was given, what is allowed."""
    with pytest.raises(ValueError, match=message) as raised:
        params_of(kept, U, **options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "params", "options", "message"),
    [
        ("torch-caley", {}, {}, "name is 'torch-caley' (did you mean 'torch-cayley'?); allowed: "),
        ("torch-cayley", {"A": R4}, {}, "params holds A; allowed: original, base"),
        ("peft-oft", {"weight": np.ones((1, 3)), "base": R4}, {}, "params holds weight, base; allowed: weight"),
        ("torch-cayley", {"original": R4, "base": np.eye(3)}, {}, "base has shape (3, 3); expected (4, 4)"),
        ("peft-oft", {"weight": np.ones((1, 4))}, {}, "weight has shape (1, 4); expected as in `other_maps`"),
        ("peft-boft", {"boft_R": np.ones((2, 1, 3, 3))}, {}, "boft_R has shape (2, 1, 3, 3); expected "),
        ("torch-cayley", {"original": R4[:3]}, {}, "original has shape (3, 4); expected "),
        ("peft-oft", {"weight": np.ones((2, 3))}, {"blocks": 3}, "blocks is 3; allowed: 2, as weight has"),
        ("peft-oft-neumann", {"weight": np.ones((2, 3))}, {"terms": 0}, "terms is 0; allowed: an integer >= 1"),
    ],
)
def test_what_matrix_of_refuses(name, params, options, message):
    """Names, shapes, options."""
    with pytest.raises(ValueError, match=re.escape(message)):
        matrix_of(name, params, **options)
