"""What holds for every parametrization alike: the `Parametrization` protocol, unitarity, the pullback."""

import copy
import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gradients.problem import relative_error
from ortho_ref.backend import NotFiniteError, to_device, to_host
from ortho_ref.parametrizations import Free, GeodesicUnitary, Parametrization, StructuredUnitary, defect
from tests.ortho_ref.maps import ALL, ORTHOGONAL, one, problems, pulled_back, rebuilt, updated
from tests.precision import single


def same(a, b):
    """Equal to the bit, dtypes included, in everything a tree of dicts holds."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return np.array_equal(a, b, equal_nan=True) and np.asarray(a).dtype == np.asarray(b).dtype


def random_delta(problem, rng, size):
    """A step such as an optimizer takes: a gradient's shape, its zeros and its skewness."""
    gradient = problem.p.pullback(
        problem.params, problem.buffers, rng.standard_normal(problem.dU.shape) + 0 * problem.dU
    )
    return {name: size * value for name, value in gradient.items()}


@pytest.mark.parametrize("name", ORTHOGONAL)
@settings(max_examples=8)
@given(data=st.data())
def test_U_is_unitary(device, name, data):
    """goru:2.5, ||U^H U - I||_2 below 1e-12, as `health` says; real for a real one, complex for a complex one."""
    problem = data.draw(problems(name))
    U = rebuilt(problem, device)
    assert U.shape == problem.dU.shape
    assert U.dtype == (np.complex128 if problem.p.complex else np.float64)
    assert np.linalg.norm(U.conj().T @ U - np.eye(len(U)), 2) < 1e-12
    there = problem.on(device)
    assert there.p.health(there.buffers)["defect"] == pytest.approx(defect(problem.buffers["U"]), abs=1e-14)


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=8)
@given(data=st.data())
def test_pullback_against_finite_differences(name, data):
    """Every free entry of every parameter below 1e-7, and no parameter that the gradient does not reach [ncgru:5]
    [bp:householder] [bp:rotation] [bp:rotation-complex] [bp:phase] [bp:perm] [bp:dft] [bp:urnnW] [bp:vprnn]
    [bp:expm]; that of a skew A is skew to the bit."""
    problem = data.draw(problems(name))
    ours = problem.gradients()
    assert ours.keys() == problem.params.keys()
    assert "A" not in ours or not np.any(ours["A"] + ours["A"].T)
    report = problem.compare(ours)
    assert report.passed, f"\n{report}"


@pytest.mark.parametrize("name", ALL)
def test_the_pullback_test_sees_one_wrong_entry(name):
    """An entry off by a millionth of the largest fails: the test above is not blind to any parameter."""
    problem = one(name)
    for key, value in problem.gradients().items():
        wrong = value.copy()
        where = np.unravel_index(abs(wrong).argmax(), wrong.shape)
        wrong[where] *= 1 + 1e-6
        if key == "A":
            wrong[where[::-1]] = -wrong[where]
        assert not problem.compare({key: wrong}).passed, key


@pytest.mark.parametrize("name", ALL)
def test_inputs_are_not_modified(device, name):
    """Parameters, buffers, dU and delta are the same to the bit after every method, as is its first result."""
    problem = one(name).on(device)
    p, params, buffers, dU = problem.p, problem.params, problem.buffers, problem.dU
    delta = to_device(random_delta(one(name), np.random.default_rng(1), 0.1), device)
    before = copy.deepcopy(to_host((params, buffers, dU, delta)))
    new_params, new_buffers = p.retract(params, buffers, delta)
    kept = copy.deepcopy(to_host((new_params, new_buffers)))
    p.rebuild(params, buffers)
    p.pullback(params, buffers, dU)
    p.health(buffers)
    p.pullback(new_params, new_buffers, dU)
    p.retract(new_params, new_buffers, delta)
    for was, now in zip(before + kept, to_host((params, buffers, dU, delta, new_params, new_buffers)), strict=True):
        assert same({"": was}, {"": now})


@pytest.mark.parametrize("name", ALL)
def test_own_precision(device, name):
    """float32 in, float32 or complex64 out, of `init`, `rebuild`, `pullback` and `retract`; and close to float64."""
    problem = one(name)
    params, buffers = single(problem.params), single(problem.buffers)
    dtype = np.complex64 if problem.p.complex else np.float32
    drawn, first = problem.p.init(np.random.default_rng(0), len(problem.dU), dtype=np.float32)
    assert first["U"].dtype == dtype
    assert {key: value.dtype for key, value in drawn.items()} == {key: value.dtype for key, value in params.items()}
    there = dataclasses.replace(problem, params=params, buffers=buffers, dU=problem.dU.astype(dtype)).on(device)
    rebuilt_buffers = to_host(there.p.rebuild(there.params, there.buffers))
    gradients = to_host(there.p.pullback(there.params, to_device(rebuilt_buffers, device), there.dU))
    delta = single(random_delta(problem, np.random.default_rng(1), 0.01))
    moved, moved_buffers = to_host(there.p.retract(there.params, there.buffers, to_device(delta, device)))
    for key, value in params.items():
        assert gradients[key].dtype == moved[key].dtype == value.dtype
        assert relative_error(gradients[key], problem.gradients()[key]) < 1e-4
    assert rebuilt_buffers["U"].dtype == moved_buffers["U"].dtype == dtype
    assert relative_error(rebuilt_buffers["U"], problem.buffers["U"]) < 1e-5
    if name != "free":
        assert defect(moved_buffers["U"]) < 1e-5


@pytest.mark.parametrize("name", [name for name in ALL if name != "geodesic"])
@settings(max_examples=5)
@given(data=st.data())
def test_retract_subtracts_delta(device, name, data):
    """The parameters less delta, to the bit, and U of the new parameters; all else in the buffers stays as it was
    [ncgru:3] [ncgru:4]."""
    problem = data.draw(problems(name))
    delta = random_delta(problem, np.random.default_rng(data.draw(st.integers(0, 99))), 0.1)
    params, buffers = updated(problem, delta, device)
    for key, value in problem.params.items():
        np.testing.assert_array_equal(params[key], value - delta[key])
    # two programs' exp: at ||A||_1 = 8, near two halvings and squarings, SciPy's is off by 500 eps, CuPy's by 10
    allowed = 1e-12 if name == "exponential" and device != "cpu" else 1e-14
    assert relative_error(buffers["U"], problem.p.rebuild(params, problem.buffers)["U"]) < allowed
    assert buffers.keys() == problem.buffers.keys()
    for key in {"permutation", "permutations", "D"} & buffers.keys():
        assert same(buffers[key], problem.buffers[key])


@pytest.mark.parametrize("name", ORTHOGONAL)
def test_unitary_over_60_updates(device, name):
    """Random steps of many sizes: the defect stays below 1e-12, and U moves."""
    problem, rng = one(name).on(device), np.random.default_rng(1)
    params, buffers, first = problem.params, problem.buffers, to_host(problem.buffers["U"])
    for _ in range(60):
        dU = to_device(rng.standard_normal(first.shape) + 0 * first, device)
        size = 10 ** rng.uniform(-3, -1)
        delta = {key: size * value for key, value in problem.p.pullback(params, buffers, dU).items()}
        params, buffers = problem.p.retract(params, buffers, delta)
    assert problem.p.health(buffers)["defect"] < 1e-12
    assert np.abs(to_host(buffers["U"]) - first).max() > 0.03


@pytest.mark.parametrize("name", ALL)
def test_the_same_generator_draws_the_same(name):
    """The same seed gives the same parameters and buffers to the bit; another seed, or the next draw, another U."""
    problem = one(name)
    rngs = [np.random.default_rng(seed) for seed in (7, 7, 8)]
    draws = [problem.p.init(rng, 8, dtype=np.float64) for rng in rngs]
    draws.append(problem.p.init(rngs[0], 8, dtype=np.float64))
    assert same(dict(enumerate(draws[0])), dict(enumerate(draws[1])))
    for params, buffers in draws[2:]:
        assert not np.allclose(buffers["U"], draws[0][1]["U"])
        assert not any(np.allclose(params[key], value) for key, value in draws[0][0].items())


@pytest.mark.parametrize("name", ALL)
def test_memory_order_does_not_matter(device, name):
    """Parameters, U and dU by columns, as a checkpoint or a transposition leaves them, give the same gradient."""
    problem = one(name)
    by_columns = {
        key: {k: np.asfortranarray(v) if isinstance(v, np.ndarray) else v for k, v in getattr(problem, key).items()}
        for key in ("params", "buffers")
    }
    other = dataclasses.replace(problem, dU=np.asfortranarray(problem.dU), **by_columns)
    for key, value in pulled_back(other, device).items():
        np.testing.assert_allclose(value, problem.gradients()[key], atol=1e-13)
    np.testing.assert_allclose(rebuilt(other, device), problem.buffers["U"], atol=1e-13)


@pytest.mark.parametrize("name", ORTHOGONAL)
def test_parameters_that_do_not_fit(device, name):
    """Another shape, complex for real or real for complex, integers: the message names parameter, given and allowed."""
    there = one(name).on(device)
    host = one(name).params
    for key, value in host.items():
        kind = "complex" if value.dtype.kind == "c" else r"(real|a real matrix)"
        other = value.real if value.dtype.kind == "c" else value + 0j
        for wrong in (value[1:], value[None], other, np.ones(value.shape, int)):
            given, allowed = re.escape(str(wrong.shape)), re.escape(str(value.shape))
            message = f"^{key} is {wrong.dtype} of shape {given}; allowed: {kind},? of shape {allowed}$"
            with pytest.raises(ValueError, match=message):
                there.p.rebuild(to_device({**host, key: wrong}, device), there.buffers)


@pytest.mark.parametrize("name", ORTHOGONAL)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_parameters_that_are_not_finite(device, name, bad):
    """NotFiniteError naming the parameter, of `rebuild`, and of `retract` where delta brings it in."""
    there, host = one(name).on(device), one(name).params
    for key, value in host.items():
        wrong = value.copy()
        wrong[(-1,) * value.ndim] = bad
        with pytest.raises(NotFiniteError, match=f"^{key} has an entry that is not finite"):
            there.p.rebuild(to_device({**host, key: wrong}, device), there.buffers)
        delta = {other: 0 * v for other, v in host.items()} | {key: wrong}
        with (
            pytest.raises(NotFiniteError, match=rf"\b{key} has an entry that is not finite"),
            np.errstate(all="ignore"),
        ):
            there.p.retract(there.params, there.buffers, to_device(delta, device))


COUNTS = [
    ("free", 12, 1, 144),
    ("cayley", 12, 1, 66),
    ("neumann", 12, 1, 66),
    ("exponential", 12, 0, 66),
    ("householder", 12, 9, 12 * 3 - 3),  # m = 3
    ("householder", 12, 0, 12 * 12 - 66),  # m = 12
    ("tunable", 12, 4, 4 * 11 / 2),  # L = 4
    ("tunable", 12, 0, 66),  # L = n
    ("tunable complex", 12, 4, 4 * 11 + 12),
    ("fft", 16, 0, 8 * 4),
    ("fft complex", 16, 0, 16 * 4 + 16),
    ("volume", 12, 5, 5 * 6),  # k = 5
    ("volume", 128, 0, 14 * 64),  # k = 2 ceil(log2 n), adding's 896 angles
    ("volume", 256, 0, 16 * 128),
    ("structured", 12, 0, 84),
    ("geodesic", 12, 0, 144),
]


@pytest.mark.parametrize(("name", "n", "k", "expected"), COUNTS)
def test_counts(name, n, k, expected):
    """The papers' formulae: n (n - 1) / 2; n m - m (m - 1) / 2; L (n - 1) / 2 and L (n - 1) + n; (n / 2) log2 n and
    n log2 n + n; k n / 2; 7 n; n^2.  Where every entry is free, as many as there are real numbers in the parameters."""
    p = ALL[name][1](n, k)
    assert p.count(n) == expected
    if name not in ("cayley", "neumann", "exponential", "householder", "geodesic"):
        params, _ = p.init(np.random.default_rng(0), n, dtype=np.float64)
        assert sum(value.size * (1 + (value.dtype.kind == "c")) for value in params.values()) == expected


@pytest.mark.parametrize("name", ALL)
def test_a_parametrization_is_its_options(name):
    """Two of the same options are equal and can be keys; none can be changed."""
    p = one(name).p
    assert dataclasses.replace(p) == p
    assert hash(dataclasses.replace(p)) == hash(p)
    for option in [*(field.name for field in dataclasses.fields(p)), "more"]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(p, option, None)


def test_the_count_that_a_parametrization_has_by_itself():
    """Every entry of every parameter, a complex one twice."""
    assert Parametrization.count(Free(), 3) == 9
    assert Parametrization.count(GeodesicUnitary(), 3) == 18
    assert Parametrization.count(StructuredUnitary(), 3) == 3 * 3 + 2 * 2 * 3


def test_a_parameter_without_axes_stays_an_array():
    """One angle, say, of a parametrization of one's own: the difference of two 0-d arrays is a scalar to NumPy."""
    angle = np.ones(())
    params, _ = Free().retract({"": angle}, {"U": angle}, {"": angle})
    assert isinstance(params[""], np.ndarray)
