"""BPTT by dense Jacobians beside `scan`, `fused` and finite differences, for every cell and option [ncgru:7] [ncgru:40]
[bp:bptt] [bp:lstm] [goru:jac] [sgornn:25]; each gate's own derivative is in derivations."""

from dataclasses import replace

import numpy as np
import pytest

from gradients import bptt, elman
from gradients.checks import cells
from gradients.problem import largest_error, random_problem, relative_error
from ortho_ref import fused, scan
from ortho_ref.cells import LSTM, Elman
from ortho_ref.cells.cell import parts_of
from ortho_ref.finite_differences import compare_gradients

CELLS = cells()


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
    options = {"kink_distance": problem.kink_distance, "may_vanish": problem.may_vanish}
    report = compare_gradients(problem.loss, problem.point, ours, directions=3, **options)
    assert report.passed, f"\n{report}"
    # the case that must fail: the losses in the wrong order of time
    assert largest_error(by_jacobians(problem, upstream(problem)[::-1].copy()), ours)[0] > 1e-3


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
