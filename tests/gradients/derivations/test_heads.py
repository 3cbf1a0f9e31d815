"""The steps of docs/derivations/heads.md [bp:heads] [bp:lm-chunks] [urnn:9]."""

import numpy as np

from ortho_ref.activations import sigmoid
from ortho_ref.layers import affine_pullback, real_features, real_features_pullback
from ortho_ref.losses import binary_cross_entropy, cross_entropy, cross_entropy_of_readout, mean_squared_error
from tests.gradients.derivations.pairing import as_differences, drawn, paired, same


@drawn
def test_the_readout(draw, n):
    """bp:heads/affine, bp:heads/complex, urnn:9: of complex states, from do to dh; without the i it is wrong."""
    w, h, do = {"W": draw.real(3, 2 * n), "b": draw.real(3)}, draw.complex(4, n), draw.real(4, 3)
    dotw, doth = {name: draw.like(value) for name, value in w.items()}, draw.complex(4, n)
    k, dotk = real_features(h), real_features(doth)
    doto = k @ dotw["W"].T + dotk @ w["W"].T + dotw["b"]
    dk, dw = affine_pullback(w["W"], k, do)
    dh = real_features_pullback(dk, True)
    assert same(dh, dk[:, :n] + 1j * dk[:, n:])
    of_weights = sum(paired(dw[name], dotw[name]) for name in w)
    assert same(paired(do, doto), of_weights + paired(dh, doth), 10)
    assert not same(paired(do, doto), of_weights + paired(dh.conj(), doth), 1e-3)


@drawn
def test_cross_entropy(draw, n):
    """bp:heads/loss, bp:heads/gradient: p - 1_y over the entries, against differences; nothing changes with o + c."""
    o, change, y = draw.real(n, 4), draw.real(n, 4), draw.rng.integers(0, 4, n)
    loss, do = cross_entropy(o, y)
    p = np.exp(o) / np.exp(o).sum(axis=1, keepdims=True)
    assert same(loss, (np.log(np.exp(o).sum(axis=1)) - o[np.arange(n), y]).mean())
    assert same(do, (p - np.eye(4)[y]) / n)
    assert as_differences(paired(do, change), lambda s: cross_entropy(o + s * change, y)[0])
    moved, again = cross_entropy(o + 1e3, y)
    assert abs(moved - loss) < 1e-10
    assert abs(again - do).max() < 1e-10
    assert not as_differences(paired(p / n, change), lambda s: cross_entropy(o + s * change, y)[0])


@drawn
def test_squared_error_and_one_logit(draw, n):
    """bp:heads/mse, bp:heads/bce and their gradients; one logit is two, (0, o); the form that overflows for no o."""
    o, change, y = draw.real(n, 2), draw.real(n, 2), draw.real(n, 2)
    loss, do = mean_squared_error(o, y)
    assert same(do, 2 * (o - y) / o.size)
    assert as_differences(paired(do, change), lambda s: ((o + s * change - y) ** 2).sum() / o.size)
    one, change, yes = 3 * draw.real(n, 1), draw.real(n, 1), draw.rng.integers(0, 2, (n, 1))
    loss, do = binary_cross_entropy(one, yes)
    both, of_both = cross_entropy(np.hstack([np.zeros_like(one), one]), yes[:, 0])
    assert same(loss, both)
    assert same(do[:, 0], of_both[:, 1])
    assert same(do, (sigmoid(one) - yes) / n)
    assert as_differences(
        paired(do, change), lambda s: (np.log1p(np.exp(one + s * change)) - yes * (one + s * change)).mean()
    )
    assert same(np.log(1 + np.exp(one)), np.maximum(one, 0) + np.log1p(np.exp(-abs(one))), 10)
    assert binary_cross_entropy(np.array([[2000.0]]), np.array([[0]]))[0] == 2000


@drawn
def test_chunks(draw, n):
    """bp:lm-chunks/o, do, dh, sums: rows two at a time give what all at once do."""
    h, W, b, y = draw.real(5, n), draw.real(4, n), draw.real(4), draw.rng.integers(0, 4, 5)
    loss, do = cross_entropy(h @ W.T + b, y)
    theirs = loss, do @ W, do.T @ h, do.sum(axis=0)
    for step in (1, 2, 5):
        ours = cross_entropy_of_readout(h, W, b, y, None, step)
        assert all(map(same, ours, theirs))
