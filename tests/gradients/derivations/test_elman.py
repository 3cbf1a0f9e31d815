"""The steps of docs/derivations/elman.md [bp:rnn] [bp:urnn] [urnn:2] [urnn:3]."""

import numpy as np
import pytest

from gradients import bptt, elman
from gradients.problem import random_problem
from ortho_ref import scan
from ortho_ref.activations import activation
from ortho_ref.cells import Elman
from ortho_ref.finite_differences import compare_gradients
from tests.gradients.derivations.pairing import Draw, as_differences, one_step, paired, same


@pytest.mark.parametrize("name", ["tanh", "relu", "modrelu"])
@pytest.mark.parametrize("seed", range(3))
def test_the_real_step(name, seed):
    """bp:rnn/1, bp:rnn/2: dotz by the product rule, its pairing, and the cell's own backward pass."""
    w, x, h, g = one_step(Elman(name), seed)
    z = w["W"] @ x + w["U"] @ h
    draw, phi = Draw(seed), activation(name)
    dotW, dotU, dotx, doth = draw.real(*w["W"].shape), draw.real(*w["U"].shape), draw.real(len(x)), draw.real(len(h))
    dotz = dotW @ x + w["W"] @ dotx + dotU @ h + w["U"] @ doth
    assert as_differences(dotz, lambda s: (w["W"] + s * dotW) @ (x + s * dotx) + (w["U"] + s * dotU) @ (h + s * doth))
    dz, db = phi.pullback(g, z, w["b"], phi.value(z, w["b"]))
    pairs = ((np.outer(dz, x), dotW), (np.outer(dz, h), dotU), (w["W"].T @ dz, dotx), (w["U"].T @ dz, doth))
    assert same(paired(dz, dotz), sum(paired(*pair) for pair in pairs), 10)
    _, cache = Elman(name).step_forward(w, x[None], h[None])
    dx, dh, dw = Elman(name).step_backward(w, g[None], cache)
    ours = (np.outer(dz, x), np.outer(dz, h), w["W"].T @ dz, w["U"].T @ dz, db)
    assert all(map(same, (dw["W"], dw["U"], dx[0], dh[0], dw["b"]), ours))


@pytest.mark.parametrize("seed", range(5))
def test_the_complex_step(seed):
    """bp:urnn/U, bp:urnn/x: with the adjoint, Re of dx; the transpose in its place is wrong."""
    cell = Elman("modrelu", complex=True)
    w, x, h, g = one_step(cell, seed)
    z = w["W"] @ x + w["U"] @ h
    draw, phi = Draw(seed), activation("modrelu")
    dotW, dotU, dotx, doth = (
        draw.complex(*w["W"].shape),
        draw.complex(*w["U"].shape),
        draw.real(len(x)),
        draw.complex(len(h)),
    )
    dotz = dotW @ x + w["W"] @ dotx + dotU @ h + w["U"] @ doth
    dz, _ = phi.pullback(g, z, w["b"], phi.value(z, w["b"]))
    dx, dh = (w["W"].conj().T @ dz).real, w["U"].conj().T @ dz
    rest = paired(np.outer(dz, x), dotW) + paired(np.outer(dz, h.conj()), dotU) + paired(dx, dotx)
    assert same(paired(dz, dotz), rest + paired(dh, doth), 10)
    assert not same(paired(dz, dotz), rest + paired(w["U"].T @ dz, doth), 10)
    _, cache = cell.step_forward(w, x[None], h[None])
    theirs = cell.step_backward(w, g[None], cache)
    assert same(theirs[0][0], dx)
    assert same(theirs[1][0], dh)
    assert same(theirs[2]["U"], np.outer(dz, h.conj()))


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_product(complex, seed):
    """urnn:2, urnn:3: the product of U^H D_k in its order is all of dL/dh_0; in the other order it is not."""
    cell = Elman("modrelu", complex)
    problem = random_problem(cell, np.random.default_rng(seed), T=3, B=1)
    w, x, h = problem.weights, problem.x[:, 0], problem.h0[0]
    pairs = elman.real_pairs if complex else lambda U: U
    w["U"] = np.linalg.qr(w["U"])[0]
    flat = (lambda v: np.concatenate([v.real, v.imag])) if complex else (lambda v: v)
    steps = bptt.run(elman.step, cell, w, x, flat(h))
    D = [step.J @ pairs(w["U"]).T for step in steps]  # J_t = D_t U, U^T U = I
    assert all(same(D_k, D_k.T) for D_k in D)
    dh_T, product = flat(problem.dh_T[0]), np.eye(len(D[0]))
    for D_k in D:
        product = product @ pairs(w["U"]).T @ D_k
    zero = np.zeros_like(problem.dh)
    _, tape = scan.forward(cell, w, problem.x, problem.h0)
    theirs = flat(scan.backward(cell, w, tape, zero, problem.dh_T).h0[0])
    assert same(product @ dh_T, theirs)
    backwards = np.eye(len(D[0]))
    for D_k in D[::-1]:
        backwards = backwards @ pairs(w["U"]).T @ D_k
    assert not same(backwards @ dh_T, theirs)
    norms = np.prod([np.linalg.norm(D_k, 2) for D_k in D])
    assert np.linalg.norm(theirs) <= norms * np.linalg.norm(dh_T) * (1 + 1e-12)


def test_the_bias_is_of_all_sequences():
    """bp:rnn/1: db is the sum over the batch (R5), against differences."""
    problem = random_problem(Elman("tanh"), np.random.default_rng(0), T=1, B=4)
    gradient = problem.gradients(scan)["b"]
    assert compare_gradients(problem.loss, problem.point, {"b": gradient}).passed
    assert not compare_gradients(problem.loss, problem.point, {"b": gradient / 4}).passed
