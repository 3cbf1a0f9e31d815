"""`fused.compiled` is `scan`, compiled: the same to 1e-12 in float64, to the same bits on any number of threads."""

import math
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import assume, example, given, settings, strategies as st

from gradients.checks import cells
from gradients.problem import Problem, largest_error, random_problem, relative_error
from ortho_ref import conformance, losses, models, scan
from ortho_ref.backend import NotFiniteError
from ortho_ref.fused import compiled
from ortho_ref.fused.compiled import elementary, pool, products, sequence
from ortho_ref.subnormals import subnormals_as_zero
from ortho_ref.training.optimizers import Adam
from scripts.grid.build import by_engine
from tests.ortho_ref.conformance.adapters import cell_by
from tests.ortho_ref.test_fused import Halved, assert_same

CELLS = {name: cell for name, cell in cells().items() if compiled.has_form(cell)}
SIZES = {"T": st.integers(1, 9), "B": st.integers(1, 6), "m": st.integers(1, 5), "n": st.integers(1, 18)}


@pytest.fixture(autouse=True)
def any_threads():
    yield
    compiled.set_threads(None)


def problem(name, seed, T=9, B=6, m=3, n=7, tokens=False) -> Problem:
    return random_problem(CELLS[name], np.random.default_rng(seed), T=T, B=B, m=m, n=n, tokens=tokens)


def states(own: Problem, engine):
    return np.asarray(engine.forward(own.cell, own.weights, own.x, own.h0)[0])


@pytest.mark.parametrize("name", CELLS)
@settings(max_examples=25)
@example(seed=0, T=1, B=1, m=1, n=1, tokens=False)
@example(seed=0, T=9, B=6, m=3, n=5, tokens=True)
@given(seed=st.integers(0, 2**32 - 1), tokens=st.booleans(), **SIZES)
def test_equals_scan(name, seed, T, B, m, n, tokens):
    """Any shape, vectors and tokens, h0 and dh_T that are not 0, every option of the cells."""
    try:
        own = problem(name, seed, T, B, m, n, tokens)
    except ValueError:  # no problem of this size is away from every kink
        assume(False)
    assert_same(own, engine=compiled)


@pytest.mark.parametrize(
    "name",
    ["GRUResetBefore tanh", "GRUResetAfter tanh", "LSTM", "Elman tanh", "Elman modrelu complex", "FastRNN tanh"],
)
@pytest.mark.parametrize("tokens", [False, True])
def test_several_slices_and_chunks(monkeypatch, name, tokens):
    """A batch in four slices, time in six chunks, the last of which is shorter."""
    monkeypatch.setattr(sequence, "CHUNK", 27)
    monkeypatch.setattr(sequence, "WORTH", 0)
    assert_same(problem(name, 1, T=17, B=33, n=19, tokens=tokens), engine=compiled)


def test_how_a_batch_is_cut():
    """By B and n alone: at most 8, of at least 8 rows, of a large U up to 16, but of a smaller batch; and even."""
    assert sequence.slices(1, 5) == [(0, 1)]
    assert sequence.slices(15, 5) == [(0, 15)]
    assert sequence.slices(16, 5) == [(0, 8), (8, 16)]
    assert sequence.slices(40, 335) == [(0, 13), (13, 26), (26, 40)]
    assert sequence.slices(50, 5000) == [(0, 16), (16, 33), (33, 50)]
    for B in range(1, 250):
        for n, least in ((1, 8), (215, 8), (240, 10), (1000, 16)):
            cut = sequence.slices(B, n)
            sizes = [stop - start for start, stop in cut]
            assert sum(sizes) == B
            assert len(cut) <= 8
            assert min(sizes) >= min(B, least)
            assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["GRUResetBefore modrelu", "LSTM"])
def test_the_bits_do_not_depend_on_the_threads(monkeypatch, name, dtype):
    rng = np.random.default_rng(3)
    T, B, m, n = 40, 35, 4, 13
    cell = CELLS[name]
    weights = cell.init(rng, m, n, dtype=dtype)
    x, dh = rng.normal(size=(T, B, m)).astype(dtype), rng.normal(size=(T, B, n)).astype(dtype)
    found = []
    monkeypatch.setattr(sequence, "WORTH", 0)
    for count in (1, 2, 4):
        compiled.set_threads(count)
        assert compiled.threads() == count
        h, tape = compiled.forward(cell, weights, x)
        own = compiled.backward(cell, weights, tape, dh)
        arrays = {"h": np.asarray(h), "x": own.x, "h0": np.asarray(own.h0)} | own.weights
        found.append({key: value.tobytes() for key, value in arrays.items()})
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", CELLS)
def test_float32(name):
    """To rounding, and no wider; what is given stays as it is, in any order of memory, and the tape serves twice."""
    rng, cell = np.random.default_rng(5), CELLS[name]
    T, B, m, n = 12, 17, 3, 10
    weights = cell.init(rng, m, n, dtype=np.float32)
    weights = {key: np.asfortranarray(value) if value.ndim == 2 else value for key, value in weights.items()}
    x = rng.normal(size=(B, T, m)).astype(np.float32).swapaxes(0, 1)
    wide = {key: value.astype(np.complex128 if value.dtype.kind == "c" else float) for key, value in weights.items()}
    h, tape = compiled.forward(cell, weights, x)
    theirs = scan.forward(cell, wide, x.astype(float))
    part = h[0] if isinstance(h, tuple) else h
    dh = rng.normal(size=(B, *part.shape[::2])).astype(np.float32).transpose(1, 0, 2)[1:].astype(part.dtype)
    assert part.dtype == (np.complex64 if cell.complex else np.float32)
    assert relative_error(np.asarray(h), np.asarray(theirs[0])) < 1e-5
    before = [value.copy() for value in (x, dh, *weights.values())]
    first, again = (compiled.backward(cell, weights, tape, dh) for _ in range(2))
    gradients = scan.backward(cell, wide, theirs[1], dh.astype(np.complex128 if cell.complex else float))
    for key, value in gradients.weights.items():
        assert first.weights[key].dtype == weights[key].dtype
        assert relative_error(first.weights[key], value) < 1e-5, key
        assert first.weights[key].tobytes() == again.weights[key].tobytes()
    assert all((one == other).all() for one, other in zip(before, (x, dh, *weights.values()), strict=True))


@pytest.mark.parametrize("name", CELLS)
def test_nan_goes_through(name):
    rng, cell = np.random.default_rng(6), CELLS[name]
    weights = cell.init(rng, 2, 5, dtype=np.float64)
    bias = next(key for key in weights if key.startswith("b"))
    weights[bias] = weights[bias] + np.nan
    h, _ = compiled.unroll(cell, weights, rng.normal(size=(3, 9, 2)))
    assert np.isnan(np.asarray(h)[..., 1:, :, :]).any(axis=(-1, -2)).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_kits_cells(dtype):
    """Every case of a cell, in both precisions."""
    report = conformance.check(partial(cell_by, compiled), "cell/*", dtype)
    assert report.ok, str(report)


# Products


@numba.njit
def _product(a, U, out, n, add):
    products.product(a, U, out, n, add)


@numba.njit
def _outer(a, b, out):
    products.outer(a, b, out)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("n", [1, 3, 4, 8, 9, 16, 17, 31])
def test_a_product_of_any_edges(dtype, add, n):
    """Every number of rows, K from 1 on; nothing beyond the tiles is written, and each sum is in rising order."""
    rng = np.random.default_rng(n)
    for R in range(1, 20):
        for K in (1, 2, 13):
            wide = products.width(n, dtype)
            whole = np.full((R + 2, wide + 3), 7.0, dtype)
            out = whole[1:-1, :wide]
            a, U = rng.normal(size=(R, 2 * K)).astype(dtype)[:, :K], rng.normal(size=(K, n)).astype(dtype)
            expected = a.astype(float) @ U + (7 if add else 0)
            _product(a, products.pack(U), out, n, add)
            np.testing.assert_allclose(out[:, :n], expected, rtol=0, atol=1e-5 if dtype == np.float32 else 1e-14)
            assert (whole[[0, -1]] == 7).all()
            assert (whole[:, wide:] == 7).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 8, 9, 17])
def test_an_outer_product_of_any_edges(dtype, n):
    rng = np.random.default_rng(n)
    for T, R, M in ((1, 1, 1), (3, 5, 2), (2, 8, 13), (4, 1, 9)):
        wide = products.width(n, dtype)
        whole = np.full((M + 2, wide), 7.0, dtype)
        a, b = rng.normal(size=(T, R, M)).astype(dtype), rng.normal(size=(T, R, wide)).astype(dtype)[:, :, :n]
        _outer(a, b, whole[1:-1])
        expected = 7 + np.einsum("tri,trj->ij", a.astype(float), b)
        np.testing.assert_allclose(whole[1:-1, :n], expected, rtol=0, atol=3e-5 if dtype == np.float32 else 1e-13)
        assert (whole[[0, -1]] == 7).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [8, 17])
def test_an_outer_product_that_is_packed_has_the_bits_of_one_that_is_not(dtype, n):
    """The first columns of a wide one, in more than one part, and of the same alone."""
    rng, M, few = np.random.default_rng(n), products.PACKED + 1, products.PACKED - 1
    wide = products.width(n, dtype)
    a, b = rng.normal(size=(3, 5, M)).astype(dtype), rng.normal(size=(3, 5, wide)).astype(dtype)[:, :, :n]
    whole, part = np.full((M + 2, wide), 7.0, dtype), np.full((few, wide), 7.0, dtype)
    _outer(a, b, whole[1:-1])
    _outer(a[:, :, :few], b, part)
    np.testing.assert_array_equal(whole[1 : few + 1, :n], part[:, :n])
    np.testing.assert_allclose(whole[few + 1, :n], 7 + np.einsum("tr,trj->j", a[:, :, -2], b), rtol=1e-5)
    assert (whole[[0, -1]] == 7).all()


# exp, sigmoid, tanh


@numba.njit
def _values(x, e, s, t):
    for i in range(len(x)):
        e[i] = elementary.exp(x[i])
    for i in range(len(x)):
        s[i] = elementary.sigmoid(x[i])
    for i in range(len(x)):
        t[i] = elementary.tanh(x[i])


def values(x):
    found = tuple(np.empty_like(x) for _ in range(3))
    _values(x, *found)
    return found


def ulps(found, expected):
    """The largest error, in units of the last place of what is expected."""
    return float((abs(found - expected) / np.spacing(abs(expected).astype(found.dtype))).max())


def test_elementary_functions_in_float32():
    """Every 509th float32 with exp(x) a normal number, beside float64: within what the header says of all of them."""
    bits = np.arange(0, np.float32(87.3).view(np.int32), 509, dtype=np.int32).view(np.float32)
    x = np.concatenate([-bits[::-1], bits])
    e, s, t = values(x)
    wide = x.astype(float)
    assert ulps(e, np.exp(wide)) < 1.02
    assert ulps(s, 1 / (1 + np.exp(-wide))) < 2.49
    assert ulps(t[x != 0], np.tanh(wide[x != 0])) < 1.34


def test_elementary_functions_in_float64():
    x = np.random.default_rng(0).uniform(-700, 700, 10**6)
    x[: 10**5] /= 700
    e, s, t = values(x)
    wide = x.astype(np.longdouble)  # NumPy's own in float64 is up to 2 off, on some processors
    assert ulps(e, np.exp(wide)) < 3
    assert ulps(s, 1 / (1 + np.exp(-wide))) < 4
    assert ulps(t, np.tanh(wide)) < 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_elementary_functions_at_their_ends(dtype):
    most = math.log(np.finfo(dtype).max)
    x = np.array([np.nan, np.inf, most + 1, 0.0, -most - 1, -np.inf], dtype)
    e, s, t = values(x)
    np.testing.assert_array_equal(e, [np.nan, np.inf, np.inf, 1, 0, 0])
    np.testing.assert_array_equal(s, [np.nan, 1, 1, 0.5, 0, 0])
    np.testing.assert_array_equal(t, [np.nan, 1, 1, 0, -1, -1])
    last = np.array([-87.6 if dtype == np.float32 else -708.6], dtype)  # of which exp is a normal number
    assert ulps(values(last)[0], np.exp(last.astype(float))) < 2


# The rest of an update


@pytest.mark.parametrize(("masked", "large"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("count", [1, 3])
def test_a_network_equals_that_of_scan(monkeypatch, masked, large, count):
    """Loss, gradients and outputs, readout and loss on threads; those of a large vocabulary too, without outputs."""
    monkeypatch.setattr(pool, "ROWS", 7)
    monkeypatch.setattr(losses, "CHUNK", 100)
    monkeypatch.setattr(losses, "LARGE", 10 if large else 10**6)
    compiled.set_threads(count)
    rng, found = np.random.default_rng(8), {}
    x, y, mask = rng.integers(0, 11, (6, 9)), rng.integers(0, 11, (6, 9)), rng.random((6, 9)) < 0.7
    for engine in ("compiled", "scan"):
        network = by_engine(models.network("nc-gru", 11, [5, 4], 11), engine)
        params, buffers = network.init(np.random.default_rng(0), dtype=np.float64)
        loss, gradients, result = network.loss_and_gradients(params, buffers, x, y, mask if masked else None)
        found[engine] = gradients | {"loss": loss} | ({} if large else {"outputs": result.outputs})
        assert (result.outputs is None) == large
    error, name = largest_error(found["compiled"], found["scan"])
    assert error < 1e-12, name


def test_a_loss_that_overflows_is_said_once():
    """On threads NumPy warns of nothing that it does not warn of here."""
    network = by_engine(models.network("gru", 3, [4], 5), "compiled")
    params, buffers = network.init(np.random.default_rng(0))
    params["readout.W"] = np.full_like(params["readout.W"], np.inf)
    x = np.ones((2, pool.ROWS, 3), np.float32)
    with pytest.raises(NotFiniteError, match=r"^loss is nan$"):
        network.loss_and_gradients(params, buffers, x, np.zeros((2, pool.ROWS), int))


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.lists(st.integers(1, 9), max_size=3),
    dtype=st.sampled_from([np.float32, np.float64, np.complex64]),
    order=st.sampled_from("CF"),
    decay=st.sampled_from([0.0, 0.01]),
)
def test_adam_to_the_bit(seed, shape, dtype, order, decay):
    """The plain one's deltas and buffers, small and large gradients, in any order of memory."""
    rng = np.random.default_rng(seed)
    plain, own = (Adam(1e-2, 0.8, 0.95, weight_decay=decay, compiled=fast) for fast in (False, True))
    parameter = np.asarray(rng.normal(size=shape), dtype, order=order)
    for _ in range(4):
        gradient = np.asarray(parameter * 10.0 ** rng.integers(-20, 9, size=shape), dtype, order=order)
        deltas = [optimizer.delta("U", parameter, gradient) for optimizer in (plain, own)]
        assert deltas[0].tobytes() == deltas[1].tobytes()
        assert deltas[0].strides == deltas[1].strides
    states = [optimizer.state()["buffers"]["U"] for optimizer in (plain, own)]
    assert all(states[0][name].tobytes() == states[1][name].tobytes() for name in "mv")


# Around them


def test_threads_compute_as_the_caller_does():
    """A number too small to be normal is 0 to a thread exactly where it is to the caller."""
    compiled.set_threads(2)
    small = np.float64(1e-308)

    def halves(*_):
        return float(small * np.float64(0.25)) > 0

    with subnormals_as_zero():
        assert pool.on_threads(halves, [(0,), (1,), (2,)]) == [False] * 3
    assert pool.on_threads(halves, [(0,), (1,), (2,)]) == [True] * 3


def test_what_numba_keeps_is_of_the_whole_room(tmp_path):
    """A function is compiled anew after a change in another file that it calls, whose code it has in it."""
    copy = shutil.copytree(Path(compiled.__file__).parents[2], tmp_path / "ortho_ref")
    program = (
        "import numpy as np; from ortho_ref import cells; from ortho_ref.fused import compiled\n"
        "cell = cells.by_name('elman'); w = cell.init(np.random.default_rng(0), 2, 3, dtype=np.float64)\n"
        "print(compiled.unroll(cell, w, np.ones((1, 1, 2)))[0][1, 0, 0])"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def value():
        command = [sys.executable, "-c", program]
        end = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
        return float(end.stdout)

    before, elementary_file = value(), copy / "fused" / "compiled" / "elementary.py"
    elementary_file.write_text(elementary_file.read_text().replace("return small if a <", "return small + 1 if a <"))
    assert value() == pytest.approx(before + 1)


def test_nothing_imports_numba_before_a_cell_is_run():
    program = "import sys, ortho_ref, ortho_ref.fused.compiled; print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


def test_without_numba(monkeypatch):
    monkeypatch.setattr(compiled, "_is_there", lambda module: module != "numba")
    message = r"^engine is 'compiled', which needs Numba: pip install 'ortho-ref\[fast\]'$"
    with pytest.raises(ValueError, match=message):
        states(problem("LSTM", 0), compiled)


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", True])
def test_a_number_of_threads_that_is_none(count):
    before = compiled.threads()
    with pytest.raises((ValueError, TypeError), match=r"^threads is "):
        compiled.set_threads(count)
    assert compiled.threads() == before


def test_a_cell_without_loops():
    assert not compiled.has_form(Halved())
    own = problem("Elman tanh", 0)
    message = r"^engine is 'compiled', which has no loops of Halved\(.*\); allowed for it: 'scan'$"
    with pytest.raises(ValueError, match=message):
        compiled.forward(Halved(), own.weights, own.x)
