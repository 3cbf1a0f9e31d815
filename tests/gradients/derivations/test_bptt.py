"""The steps of docs/derivations/bptt.md [bp:bptt] [ncgru:7]."""

import numpy as np
import pytest

from gradients.problem import random_problem
from ortho_ref import scan
from ortho_ref.cells import Elman, GRUResetBefore
from ortho_ref.cells.cell import input_product, input_pullback
from ortho_ref.parametrizations import Householder, ScaledCayley, StructuredUnitary
from tests.gradients.derivations.pairing import Draw, as_differences, drawn, paired, same

every = pytest.mark.parametrize("cell", [GRUResetBefore("modrelu"), Elman("modrelu", complex=True)], ids=str)


def run(problem, from_, h):
    """The states after time from_, from h there, and what the loss says of them."""
    states, _ = scan.forward(problem.cell, problem.weights, problem.x[from_:], h)
    return paired(problem.dh[from_:], states[1:]) + paired(problem.dh_T, states[-1])


def by_the_recursion(problem):
    """g_0 .. g_T, and the parts of the weights' gradients, step by step."""
    _, tape = scan.forward(problem.cell, problem.weights, problem.x, problem.h0)
    g, parts = [problem.dh[-1] + problem.dh_T], []
    for t in range(len(problem.x), 0, -1):
        _, back, dw = problem.cell.step_backward(problem.weights, g[0], tape.caches[t - 1])
        g.insert(0, back + (problem.dh[t - 2] if t > 1 else 0))
        parts.append(dw)
    return g, parts


@every
def test_the_recursion(cell):
    """bp:bptt/forward, bp:bptt/g: a change of h_t alone changes the loss, of it and of later states, by <g_t, change>;
    without l_t it is another number."""
    problem = random_problem(cell, np.random.default_rng(0), T=4, B=2)
    h, _ = scan.forward(cell, problem.weights, problem.x, problem.h0)
    g, _ = by_the_recursion(problem)
    for t in range(4):
        change, l_t = Draw(t).like(h[t]), problem.dh[t - 1] if t else 0 * h[0]

        def loss(s, t=t, change=change, l_t=l_t):
            return paired(l_t, h[t] + s * change) + run(problem, t, h[t] + s * change)

        assert as_differences(paired(g[t], change), loss)
        assert t == 0 or not as_differences(paired(g[t] - l_t, change), loss)
    assert same(g[0], problem.gradients(scan)["h0"])


@every
def test_weights(cell):
    """bp:bptt/sum: the sum of the steps' parts; the last step's alone is not the gradient."""
    problem = random_problem(cell, np.random.default_rng(1), T=4, B=2)
    _, parts = by_the_recursion(problem)
    theirs = problem.gradients(scan)
    for name in problem.weights:
        assert same(sum(part[name] for part in parts), theirs[name])
        assert not same(parts[0][name], theirs[name])


@drawn
def test_a_pullback_is_linear(draw, n):
    """bp:bptt/sum: of a sum of dU it is the sum of those of its terms."""
    for p in (ScaledCayley(n // 2), Householder(n), StructuredUnitary()):
        params, buffers = p.init(draw.rng, n, dtype=np.float64)
        one, two = draw.like(buffers["U"]), draw.like(buffers["U"])
        whole, first, second = (p.pullback(params, buffers, dU) for dU in (one + two, one, two))
        assert all(same(whole[name], first[name] + second[name], 10) for name in params)


@drawn
def test_the_input_product(draw, n):
    """bp:bptt/W, bp:bptt/tokens: the pairing of W x over a batch; a token is the row of the identity it stands for."""
    W, x, da = draw.real(n, 4), draw.real(3, 4), draw.real(3, n)
    dotW, dotx = draw.real(n, 4), draw.real(3, 4)
    dx, dW = input_pullback(W, x, da)
    assert same(paired(da, input_product(dotW, x) + input_product(W, dotx)), paired(dW, dotW) + paired(dx, dotx), 10)
    tokens = draw.rng.integers(0, 4, 3)
    assert same(input_product(W, tokens), input_product(W, np.eye(4)[tokens]))
    nothing, of_tokens = input_pullback(W, tokens, da)
    assert nothing is None
    assert same(of_tokens, input_pullback(W, np.eye(4)[tokens], da)[1])
