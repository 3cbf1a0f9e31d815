"""`fused` is `scan`, faster: the same states and gradients to 1e-12 in float64."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given, settings, strategies as st

from gradients.checks import cells
from gradients.problem import Problem, largest_error, random_problem, relative_error
from ortho_ref import backend, fused, scan
from ortho_ref.backend import to_device, to_host
from ortho_ref.cells import LSTM, Elman, FastRNN, GRUResetAfter, GRUResetBefore
from ortho_ref.fused import sequence, tokens
from ortho_ref.recurrent import Recurrent
from tests.precision import single

CELLS = {name: cell for name, cell in cells().items() if fused.has_form(cell)}


def assert_same(problem: Problem, tolerance: float = 1e-12, engine=fused) -> None:
    """States and every gradient of an engine and of scan agree."""
    arguments = (problem.cell, problem.weights, problem.x, problem.h0)
    ours, theirs = backend.to_host(engine.forward(*arguments)[0]), backend.to_host(scan.forward(*arguments)[0])
    assert relative_error(np.asarray(ours), np.asarray(theirs)) < tolerance
    ours, theirs = problem.gradients(engine), problem.gradients(scan)
    assert ours.keys() == theirs.keys()
    assert all((ours[name].dtype, ours[name].shape) == (a.dtype, a.shape) for name, a in theirs.items())
    error, name = largest_error(ours, theirs)
    assert error < tolerance, name


sizes = {"T": st.integers(1, 9), "B": st.integers(1, 6), "m": st.integers(1, 5), "n": st.integers(1, 7)}


@pytest.mark.parametrize("name", CELLS)
@settings(max_examples=60)
@example(seed=0, T=1, B=1, m=1, n=1, tokens=False)
@example(seed=0, T=1, B=4, m=3, n=5, tokens=True)
@example(seed=0, T=6, B=1, m=3, n=5, tokens=False)
@example(seed=0, T=6, B=4, m=3, n=1, tokens=False)
@given(seed=st.integers(0, 2**32 - 1), tokens=st.booleans(), **sizes)
def test_equals_scan(device, name, seed, T, B, m, n, tokens):
    """Any shape, vectors and tokens, nonzero h0, upstream at every step and at the last."""
    rng = np.random.default_rng(seed)
    assert_same(random_problem(CELLS[name], rng, T=T, B=B, m=m, n=n, tokens=tokens).on(device))


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize(("rows", "cuts"), [(1, [1] * 8), (10, [3, 3, 2]), (10**6, [8])])
def test_equals_scan_however_time_is_cut(monkeypatch, device, name, tokens, rows, cuts):
    """Chunks of one step, of several with a shorter one left over, and a single one."""
    monkeypatch.setattr(sequence, "_CHUNK_ROWS" if device == "cpu" else "_DEVICE_ROWS", rows)
    problem = random_problem(CELLS[name], np.random.default_rng(5), T=8, B=3, tokens=tokens).on(device)
    assert [t.stop - t.start for t in sequence.chunks(problem.dh)] == cuts
    assert_same(problem)


@pytest.mark.parametrize("few", [0, tokens.FEW])
@pytest.mark.parametrize("name", CELLS)
def test_tokens_of_many_words(monkeypatch, device, name, few):
    """bp:bptt/tokens as of large vocabularies, few and many on a device; more words than rows, and fewer."""
    monkeypatch.setattr(tokens, "FEW", few)
    for m in (3, 40):
        assert_same(random_problem(CELLS[name], np.random.default_rng(7), T=8, B=3, m=m, tokens=True).on(device))


@pytest.mark.parametrize("name", CELLS)
def test_non_contiguous_input(device, name):
    """Transposed and strided views of every array, as a caller with batch-first data has them."""
    p = random_problem(CELLS[name], np.random.default_rng(6), T=6, B=4).on(device)
    xp = backend.xp_of(p.x)

    def view(a):
        axes = tuple(reversed(range(a.ndim)))
        return xp.ascontiguousarray(a.transpose(axes)).transpose(axes)

    def strided(a):
        return xp.repeat(a, 2, axis=-1)[..., ::2]

    for change in (view, strided):
        weights = {k: change(v) if v.ndim else v for k, v in p.weights.items()}
        tree = (weights, change(p.x), p.h0, change(p.dh), p.dh_T)
        problem = Problem(p.cell, *tree)
        ours, theirs = problem.gradients(fused), p.gradients(scan)
        assert all(relative_error(ours[key], theirs[key]) < 1e-12 for key in theirs)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("tokens", [False, True])
def test_float32_stays_float32_and_nothing_is_modified(device, name, tokens):
    """dtype in = dtype out within float32's rounding of float64; a tape serves twice; inputs keep their bits."""
    exact = random_problem(CELLS[name], np.random.default_rng(7), T=6, tokens=tokens)
    tree = (exact.weights, exact.x, exact.h0, exact.dh, exact.dh_T)
    problem = Problem(exact.cell, *single(tree)).on(device)
    before = [a.copy() for a in problem.point.values()]
    _, tape = fused.forward(problem.cell, problem.weights, problem.x, problem.h0)
    first, second = (fused.backward(problem.cell, problem.weights, tape, problem.dh, problem.dh_T) for _ in range(2))
    for key, gradient in first.weights.items():
        assert gradient.dtype == problem.weights[key].dtype
        assert gradient.real.dtype == np.float32
        assert gradient.flags.c_contiguous
        np.testing.assert_array_equal(backend.to_host(gradient), backend.to_host(second.weights[key]))
    assert all(relative_error(a, b) == 0 for a, b in zip(before, problem.point.values(), strict=True))
    theirs = exact.gradients(scan)
    assert all(relative_error(first.weights[key], theirs[key]) < 1e-4 for key in first.weights)


@pytest.mark.parametrize(("cell", "gate"), [(GRUResetBefore("tanh"), "b_u"), (GRUResetAfter("tanh"), "b_z")])
def test_saturated_gates(cell, gate):
    """Pre-activations of +-60: the tanh form of the sigmoid agrees with the exact one to 1e-12 of the largest entry."""
    problem = random_problem(cell, np.random.default_rng(8), T=6, scale=2.0)
    w = problem.weights | {"b_r": np.array([60.0, -60, 60, -60, 0]), gate: np.array([60.0, 60, -60, -60, 0])}
    assert_same(replace(problem, weights=w))


def test_nan_goes_through(device):
    """A NaN in x reaches the states and is not turned into a number by an activation."""
    for cell in CELLS.values():
        problem = random_problem(cell, np.random.default_rng(9))
        problem.x[1, 0, 0] = np.nan
        p = problem.on(device)
        h = backend.to_host(fused.form_of(cell).unroll(cell, p.weights, p.x, p.h0)[0])
        h = h[0] if isinstance(h, tuple) else h
        assert np.isnan(h[2:, 0]).any()
        assert not np.isnan(h[:, 1:]).any()


class Halved(Elman):
    """A cell of one's own, whose file is this one: there is no fast form of it."""

    def step_forward(self, weights, x, h_prev):
        return super().step_forward(weights, x, h_prev / 2)

    def step_backward(self, weights, dh, cache):
        dx, dh_prev, dweights = super().step_backward(weights, dh, cache)
        return dx, dh_prev / 2, dweights


def test_a_cell_without_a_fast_form_runs_through_scan(device):
    """By itself, bit for bit; a layer with the default engine takes it."""
    problem = random_problem(Halved("modrelu"), np.random.default_rng(0))
    assert not fused.has_form(problem.cell)
    assert fused.has_form(Elman("modrelu"))
    there = problem.on(device)
    ours, theirs = to_host(there.gradients(fused)), to_host(there.gradients(scan))
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name])
    params, buffers = to_device(Recurrent(problem.cell).init(np.random.default_rng(0), 3, 5, dtype=np.float64), device)
    h, tape = Recurrent(problem.cell).forward(params, buffers, there.x)
    Recurrent(problem.cell).backward(params, buffers, tape, there.dh)
    np.testing.assert_array_equal(to_host(h), to_host(scan.forward(problem.cell, params, there.x)[0]))


#: Cell -> the bias that shuts one of its gates.
SHUT = {
    GRUResetBefore("modrelu"): "b_u",
    GRUResetBefore("tanh"): "b_r",
    GRUResetBefore("relu"): "b_u",
    GRUResetAfter("modrelu"): "b_r",
    GRUResetAfter("tanh"): "b_z",
    LSTM(): "b_i",
}


def shut_to(cell, bias, seed):
    """A problem whose gate has this bias: off the kinks, and of candidates that are not saturated themselves."""
    problem = random_problem(cell, np.random.default_rng(seed), T=5, m=3, n=4, scale=0.3)
    return replace(problem, weights=problem.weights | {SHUT[cell]: np.full(4, float(bias))})


def single_problem(problem):
    """The problem in float32."""
    return Problem(problem.cell, *single((problem.weights, problem.x, problem.h0, problem.dh, problem.dh_T)))


def worst(problem, engine):
    """The largest relative error in float32, of each gradient by its own scale."""
    exact, ours = problem.gradients(scan), single_problem(problem).gradients(engine)
    return max(relative_error(ours[key].astype(np.float64), value) for key, value in exact.items())


GATED = pytest.mark.parametrize(
    "cell", SHUT, ids=lambda cell: f"{type(cell).__name__}-{getattr(cell, 'activation', '')}"
)


@GATED
@pytest.mark.parametrize("engine", [scan, fused])
@pytest.mark.parametrize("bias", [-6, -14, -20])
def test_shut_gates_keep_their_digits(engine, cell, bias):
    """In float32 every gradient is right to 1e-5 of its own scale, those too that a gate of e^-20 carries."""
    assert max(worst(shut_to(cell, bias, seed), engine) for seed in range(8)) < 1e-5


@GATED
@pytest.mark.parametrize("engine", [scan, fused])
@given(bias=st.floats(-40, -5), seed=st.integers(0, 2**32 - 1))
def test_shut_gates_of_any_size(engine, cell, bias, seed):
    """The pre-activation itself is rounded: e^-a has the relative error of a eps, and sums of it may cancel."""
    problem = shut_to(cell, bias, seed)
    assume(problem.kink_distance(problem.point) > 1e-3)
    assert worst(problem, engine) < 1e-4 - 100 * np.finfo(np.float32).eps * bias


@GATED
@pytest.mark.parametrize("engine", [scan, fused])
@given(bias=st.floats(2, 12), seed=st.integers(0, 2**32 - 1))
def test_open_gates_lose_what_one_minus_y_loses(engine, cell, bias, seed):
    """1 - y is formed from y, as in every framework: about eps / (1 - y), relative; docs/training.md states it."""
    problem = shut_to(cell, bias, seed)
    assume(problem.kink_distance(problem.point) > 1e-3)
    # pre-activations are within 4 of the bias: 1 - y is e^-(bias + 4) at the least
    assert worst(problem, engine) < 1e-4 + 4 * np.finfo(np.float32).eps * np.exp(bias + 4)


def test_a_listed_cell_without_a_fast_form(monkeypatch):
    """Of complex states the LSTM has none: `scan` runs it. A form that is there and lacks something is an error."""
    monkeypatch.setattr(LSTM, "complex", True)
    assert not fused.has_form(LSTM())

    def lacking(path):
        raise ModuleNotFoundError(f"No module named 'made_up', from {path}", name="made_up")

    monkeypatch.setattr(FastRNN, "complex", True)
    monkeypatch.setattr(importlib, "import_module", lacking)
    with pytest.raises(ModuleNotFoundError, match=r"'made_up', from ortho_ref\.fused\.fastrnn_complex"):
        fused.has_form(FastRNN())
