"""BPTT by dense Jacobians beside `scan`, `fused` and finite differences, for every cell and option; and each gate's own
derivative [ncgru:7] [ncgru:29] [ncgru:30] [ncgru:31] [ncgru:32] [ncgru:33] [ncgru:34] [ncgru:35] [ncgru:36] [ncgru:37]
[ncgru:38] [ncgru:39] [ncgru:40] [bp:bptt] [bp:lstm] [bp:modrelu-complex] [goru:jac] [sgornn:25]."""

from dataclasses import replace

import numpy as np
import pytest

from gradients import bptt, elman, gru_reset_before, lstm
from gradients.checks import cells
from gradients.problem import Problem, largest_error, random_problem, relative_error
from ortho_ref import fused, scan
from ortho_ref.activations import ACTIVATIONS, modrelu
from ortho_ref.cells import LSTM, Elman, FastRNN, GRUResetAfter, GRUResetBefore
from ortho_ref.cells.cell import parts_of
from ortho_ref.finite_differences import compare_gradients

CELLS = {name: cell for name, cell in cells().items() if bptt.has_step(cell)}


def flat(cell, state):
    """A state, or dL/d of one, as bptt takes it: all parts one after the other, (..., N)."""
    parts = parts_of(cell, state)
    if cell.complex:
        parts = (parts[0].real, parts[0].imag)
    return np.concatenate(parts, -1)


def steps_of(problem):
    """The problem's steps; a batch of one sequence."""
    cell = problem.cell
    return bptt.run(bptt.step_of(cell), cell, problem.weights, problem.x[:, 0], flat(cell, problem.h0)[0])


def upstream(problem):
    """dh (T, N) of the losses of every step and of the last."""
    cell = problem.cell
    dh = problem.dh[:, 0]
    if cell.complex:
        dh = np.concatenate([dh.real, dh.imag], -1)
    dh = np.concatenate([dh, np.zeros((len(dh), flat(cell, problem.h0).shape[-1] - dh.shape[-1]))], -1)
    dh[-1] += flat(cell, problem.dh_T)[0]
    return dh


def in_pairs(problem):
    """The weights as bptt's gradients are shaped: of a complex cell W (2n, m) and U (2n, 2n)."""
    w = problem.weights
    if not problem.cell.complex:
        return w
    return {"W": np.vstack([w["W"].real, w["W"].imag]), "U": elman.real_pairs(w["U"]), "b": w["b"]}


def by_jacobians(problem, dh=None):
    """bptt's gradients under the names of the problem's point, without x."""
    cell = problem.cell
    own = bptt.by_jacobians(steps_of(problem), in_pairs(problem), upstream(problem) if dh is None else dh)
    weights, n = own.weights, problem.dh.shape[-1]
    if cell.complex:  # dL/dRe + i dL/dIm; Re U and Im U each stand in two of the four blocks
        W, U = weights["W"], weights["U"]
        U = U[:n, :n] + U[n:, n:] + 1j * (U[n:, :n] - U[:n, n:])
        weights = {"W": W[:n] + 1j * W[n:], "U": U, "b": weights["b"]}
        parts = [own.g[0][:n] + 1j * own.g[0][n:]]
    else:
        parts = np.split(own.g[0], len(cell.states))
    return weights | {f"{name}0": part[None] for name, part in zip(cell.states, parts, strict=True)}


def without_x(gradients):
    return {name: value for name, value in gradients.items() if name != "x"}


def drawn(cell, losses):
    """The first draw with something to check: units of relu that are off at the last step leave nothing before it."""
    for seed in range(100):
        problem = random_problem(cell, np.random.default_rng(seed), T=5, B=1)
        if losses == "the last":
            problem = replace(problem, dh=np.zeros_like(problem.dh))
        if all(g.any() for name, g in problem.gradients(scan).items() if name not in problem.may_vanish):
            return problem
    return pytest.fail("no draw with every gradient")


@pytest.mark.parametrize("losses", ["every step", "the last"])
@pytest.mark.parametrize("name", CELLS)
def test_four_ways_agree(name, losses):
    """The product of Jacobians = scan = fused to 1e-12, and = finite differences to 1e-7: every weight, h0 and c0
    [bp:bptt]."""
    problem = drawn(CELLS[name], losses)
    ours = by_jacobians(problem)
    for engine in (scan, fused):
        theirs = without_x(problem.gradients(engine))
        error, where = largest_error(ours, theirs)
        assert error < 1e-12, where
    report = compare_gradients(
        problem.loss,
        problem.point,
        ours,
        kink_distance=problem.kink_distance,
        may_vanish=problem.may_vanish,
    )
    assert report.passed, f"\n{report}"
    # the case that must fail: the losses in the wrong order of time
    assert largest_error(by_jacobians(problem, upstream(problem)[::-1].copy()), ours)[0] > 1e-3


@pytest.mark.parametrize("name", CELLS)
def test_the_states_are_the_references(name):
    """h_1 .. h_T, and c of LSTM."""
    problem = random_problem(CELLS[name], np.random.default_rng(0), T=5, B=1)
    h, _ = scan.forward(problem.cell, problem.weights, problem.x, problem.h0)
    ours = np.array([step.h for step in steps_of(problem)])
    np.testing.assert_allclose(ours, flat(problem.cell, h)[1:, 0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", CELLS)
def test_a_loss_of_the_last_state(name):
    """ncgru:7 is the recursion's special case: all of dL/dh_i; with losses on the way it misses them (E-ncgru-08)."""
    last, rng = np.zeros((1, 1)), np.random.default_rng(1)
    while not last[0].any():  # relu may be off everywhere in one step
        problem = random_problem(CELLS[name], rng, T=4, B=1)
        steps, dh = steps_of(problem), upstream(problem)
        last = bptt.last_loss([step.J for step in steps], dh[-1])
    only = np.zeros_like(dh)
    only[-1] = dh[-1]
    assert relative_error(bptt.by_jacobians(steps, in_pairs(problem), only).g, last) < 1e-12
    assert relative_error(bptt.by_jacobians(steps, in_pairs(problem), dh).g, last) > 1e-2
    product = np.eye(len(dh[-1]))
    for step in steps:
        product = step.J @ product  # J_T .. J_1
    assert relative_error(dh[-1] @ product, last[0]) < 1e-12
    assert relative_error(bptt.last_loss([step.J for step in steps][::-1], dh[-1])[0], last[0]) > 1e-3


def test_the_wrong_order_of_the_product():
    """E-ncgru-08: (-1.823, -1.095) with t falling from left to right, (-1.219, -1.598) with t rising; losses at every
    step (-2.362, -2.807)."""
    cell = Elman("tanh")
    w = {"W": np.eye(2), "U": np.array([[0.6, -1.2], [0.9, 0.3]]), "b": np.zeros(2)}
    x = np.array([[0.1 * t, -0.2] for t in range(3)])
    steps = bptt.run(elman.step, cell, w, x, np.array([0.3, -0.4]))
    J, dh_T = [step.J for step in steps], np.array([1.0, 2])
    np.testing.assert_allclose(bptt.last_loss(J, dh_T)[0], [-1.823, -1.095], atol=5e-4)
    np.testing.assert_allclose(bptt.last_loss(J[::-1], dh_T)[0], [-1.219, -1.598], atol=5e-4)
    dh = np.array([[1, -1], [0.5, 0.5], dh_T])
    own = bptt.by_jacobians(steps, w, dh)
    np.testing.assert_allclose(own.g[0], [-2.362, -2.807], atol=5e-4)
    problem = Problem(cell, w, x[:, None], np.array([[0.3, -0.4]]), dh[:, None], np.zeros((1, 2)))
    theirs = problem.gradients(scan)
    assert relative_error(own.g[0], theirs["h0"][0]) < 1e-12
    assert compare_gradients(problem.loss, problem.point, {"h0": own.g[:1]}).passed


def jacobian_by_differences(f, h, size=1e-3):
    """df/dh (len f, len h) by central differences of the fourth order."""
    columns = []
    for j in range(len(h)):
        e = size * np.eye(len(h))[j]
        columns.append((8 * (f(h + e) - f(h - e)) - (f(h + 2 * e) - f(h - 2 * e))) / (12 * size))
    return np.array(columns).T


def point_of(cell, seed, n=5):
    """Weights, x (m,) and h (n,) 1e-2 away from every kink of one step."""
    rng = np.random.default_rng(seed)
    while True:
        problem = random_problem(cell, rng, T=1, B=1, n=n)
        if problem.kink_distance(problem.point) > 2e-2:
            return problem.weights, problem.x[0, 0], flat(cell, problem.h0)[0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gates_of_the_gru(activation, seed):
    """ncgru:29, ncgru:32, ncgru:36 and ncgru:40 against differences of r, u, c and h_t themselves."""
    cell = GRUResetBefore(activation)
    w, x, h = point_of(cell, seed)
    v = gru_reset_before.values(cell, w, x, h)
    for name, ours in (
        ("r", gru_reset_before.dr_dh(w, v.r)),
        ("u", gru_reset_before.du_dh(w, v.u)),
        ("c", gru_reset_before.dc_dh(w, h, v.r, v.slope)),
        ("h", gru_reset_before.jacobian(cell, w, x, h)),
    ):
        numeric = jacobian_by_differences(lambda p, name=name: getattr(gru_reset_before.values(cell, w, x, p), name), h)
        assert relative_error(ours, numeric) < 1e-7, name
        assert relative_error(ours.T, numeric) > 1e-3, name
    # as if r did not depend on h
    assert relative_error(np.diag(v.slope) @ w["U_c"] @ np.diag(v.r), gru_reset_before.dc_dh(w, h, v.r, v.slope)) > 1e-3


@pytest.mark.parametrize("kind", [GRUResetAfter, Elman, FastRNN])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_jacobians_of_the_others(kind, activation):
    """goru:jac/h, urnn:2 and sgornn:25/J against differences of the step."""
    for seed in range(3):
        cell = kind(activation)
        w, x, h = point_of(cell, seed)
        step = bptt.step_of(cell)
        numeric = jacobian_by_differences(lambda p, f=step, c=cell, w=w, x=x: f(c, w, x, p).h, h)
        assert relative_error(step(cell, w, x, h).J, numeric) < 1e-7


def test_the_four_blocks_of_lstm():
    """bp:lstm: dh/dh, dh/dc, dc/dh and dc/dc, each against differences; dc/dc is diag(f)."""
    for seed in range(3):
        cell = LSTM()
        w, x, state = point_of(cell, seed)
        numeric = jacobian_by_differences(lambda p, w=w, x=x, c=cell: lstm.step(c, w, x, p).h, state)
        ours, n = lstm.step(cell, w, x, state).J, len(state) // 2
        for rows in (slice(n), slice(n, None)):
            for columns in (slice(n), slice(n, None)):
                assert relative_error(ours[rows, columns], numeric[rows, columns]) < 1e-7
        np.testing.assert_array_equal(ours[n:, n:], np.diag(lstm.values(w, x, *np.split(state, 2)).f))


def test_modrelu_in_real_pairs():
    """bp:modrelu-complex: singular values 1 along z and 1 + b/|z| across it; 0 and 0 where the unit is off."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        z, b = rng.standard_normal(1) + 1j * rng.standard_normal(1), rng.uniform(-1, 1, 1)
        D = elman.modrelu_jacobian(z, b)
        if abs(z)[0] + b[0] <= 0:
            np.testing.assert_array_equal(D, 0)
            continue
        across = (1 + b / abs(z))[0]
        np.testing.assert_allclose(np.linalg.svd(D)[1], sorted([1, across])[::-1], rtol=1e-12)
        e = elman.real_pairs(z / abs(z))
        np.testing.assert_allclose(D @ e, e, atol=1e-13)
        np.testing.assert_allclose(D @ [-e[1], e[0]], across * np.array([-e[1], e[0]]), atol=1e-12)
        np.testing.assert_array_equal(D, D.T)
    z, b = rng.standard_normal(6) + 1j * rng.standard_normal(6), rng.uniform(-0.5, 0.5, 6)
    assert (abs(z) + b > 0).any()
    f = lambda p: elman.real_pairs(modrelu(p[:6] + 1j * p[6:], b))  # noqa: E731
    numeric = jacobian_by_differences(f, elman.real_pairs(z), 1e-4)
    assert relative_error(elman.modrelu_jacobian(z, b), numeric) < 1e-7
    assert np.linalg.norm(elman.modrelu_jacobian(np.array([0.1j]), np.array([0.5])), 2) == pytest.approx(6)


def test_real_pairs():
    """urnn:7: products, inner products and the complex conjugate transpose carry over."""
    rng = np.random.default_rng(0)
    M, N = (rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4)) for _ in range(2))
    v = rng.standard_normal(4) + 1j * rng.standard_normal(4)
    np.testing.assert_allclose(elman.real_pairs(M) @ elman.real_pairs(v), elman.real_pairs(M @ v), rtol=1e-13)
    np.testing.assert_allclose(elman.real_pairs(M) @ elman.real_pairs(N), elman.real_pairs(M @ N), rtol=1e-12)
    np.testing.assert_array_equal(elman.real_pairs(M).T, elman.real_pairs(M.conj().T))
    assert relative_error(elman.real_pairs(M).T, elman.real_pairs(M.T)) > 0.1


def test_kinks_and_dead_units():
    """At z = 0 and at |z| + b = 0 modReLU's derivatives are 0, forward and backward; bptt carries no NaN there."""
    for z, b in ((0j, 0.5), (0j, 0.0), (0j, -0.5), (0.3 + 0.4j, -0.5), (0.1 + 0j, -0.5)):
        np.testing.assert_array_equal(elman.modrelu_jacobian(np.array([z]), np.array([b])), 0)
    w = {"W": np.zeros((2, 1), complex), "U": np.eye(2, dtype=complex), "b": np.array([0.5, -1.0])}
    step = elman.step(Elman("modrelu", complex=True), w, np.ones(1), np.zeros(4))
    assert not any(np.any(a) for a in (step.h, step.J, *(S for S, _ in step.S.values())))
    problem = random_problem(CELLS["Elman modrelu complex"], np.random.default_rng(0), T=4, B=1)
    problem.weights["b"][:2] = -50  # two units that never speak
    ours = by_jacobians(problem)
    assert largest_error(ours, without_x(problem.gradients(scan)))[0] < 1e-12
    assert not ours["U"][:2].any()


@pytest.mark.parametrize("name", cells())
def test_bad_input_is_named(name):
    """A weight too many, such as a b_hh that the cell would ignore, too few, a batch, a token; float32 is no error."""
    cell = cells()[name]
    problem = random_problem(cell, np.random.default_rng(0), B=1, T=1)
    step, w, x = bptt.step_of(cell), problem.weights, problem.x[0, 0]
    h = np.zeros(10 if cell.complex or isinstance(cell, LSTM) else 5)
    for wrong in (w | {"b_x": w[next(iter(w))]}, {k: v for k, v in w.items() if k != next(iter(w))}):
        with pytest.raises(ValueError, match=r"^the weights are .*; .* has "):
            step(cell, wrong, x, h)
    for bad_x, bad_h in ((x[None], h), (x, h[None]), (2, h)):
        with pytest.raises(ValueError, match=r"^x has shape .*; allowed: x \(m,\) and h \(n,\) of one sequence"):
            step(cell, w, bad_x, bad_h)
    rounded = {name: value.astype("c8" if value.dtype.kind == "c" else "f4") for name, value in w.items()}
    assert step(cell, rounded, x.astype("f4"), h).J.dtype == np.float64
