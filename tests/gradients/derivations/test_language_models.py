"""The steps of docs/derivations/language-models.md [bp:lm-embedding] [bp:lm-dropout] [bp:lm-penalty] [bp:lm-average]
[bp:reader]."""

import numpy as np

from ortho_ref.language.embedding import Embedding
from ortho_ref.language.regularizers import Regularizers
from ortho_ref.layers import dropout_scale
from ortho_ref.training.averaging import Averaging
from tests.gradients.derivations.pairing import as_differences, drawn, paired, same


@drawn
def test_the_embedding(draw, n):
    """bp:lm-embedding/rows, gradient, tied: rows that repeat add up, rows that do not occur have 0; E used twice."""
    layer, words = Embedding(4, n), np.array([[0, 2], [2, 2], [3, 0]])
    E, dotE, scale = draw.real(4, n), draw.real(4, n), draw.gates(4, 1)
    de, do = draw.real(3, 2, n), draw.real(3, 2, 4)
    dE = layer.backward(words, de, scale)["E"]
    assert same(paired(de, layer.forward({"E": dotE}, words, scale)), paired(dE, dotE), 10)
    assert not dE[1].any()
    assert same(dE[3], scale[3] * de[2, 0])

    def loss(s):
        e = layer.forward({"E": E + s * dotE}, words, scale)
        return paired(do, e @ (E + s * dotE).T)

    e = layer.forward({"E": E}, words, scale)
    of_readout = do.reshape(-1, 4).T @ e.reshape(-1, n)
    of_rows = layer.backward(words, do @ E, scale)["E"]
    assert as_differences(paired(of_rows + of_readout, dotE), loss)
    assert not as_differences(paired(of_readout, dotE), loss)


@drawn
def test_dropout(draw, n):
    """bp:lm-dropout: of what is read and of a weight used at all steps; the mean of s is 1."""
    x, dy, dotx = draw.real(5, n), draw.real(5, n), draw.real(5, n)
    s = dropout_scale(draw.rng, 0.25, x)
    assert set(np.unique(s)) <= {0.0, 1 / 0.75}
    assert same(paired(dy, s * dotx), paired(s * dy, dotx), 10)
    U, dotU, scale = draw.real(n, n), draw.real(n, n), dropout_scale(draw.rng, 0.25, np.zeros((n, n)))
    dU = scale * sum(np.outer(dy[t], x[t]) for t in range(5))
    assert as_differences(paired(dU, dotU), lambda t: paired(dy, x @ (scale * (U + t * dotU)).T))
    assert abs(dropout_scale(draw.rng, 0.25, np.zeros(40_000)).mean() - 1) < 0.03


@drawn
def test_penalties(draw, n):
    """bp:lm-penalty/ar, tar and their gradients, by both arrays; with the ends' differences it is wrong."""
    k, h, dotk, doth = (draw.real(4, 2, n) for _ in range(4))
    own = Regularizers(alpha=2.0, beta=0.7)
    dk, dh = own.penalty_gradients(k, h)
    d = np.concatenate([np.zeros((1, 2, n)), h[1:] - h[:-1], np.zeros((1, 2, n))])
    assert same(dk, 2 * 2.0 / k.size * k)
    assert same(dh, 2 * 0.7 / (3 * 2 * n) * (d[:-1] - d[1:]))
    assert as_differences(paired(dk, dotk) + paired(dh, doth), lambda s: own.penalty(k + s * dotk, h + s * doth))
    assert not as_differences(paired(dk, dotk) - paired(dh, doth), lambda s: own.penalty(k + s * dotk, h + s * doth))


@drawn
def test_the_average(draw, n):
    """bp:lm-average/mean: the mean of what came after the trigger; of skew matrices skew to the bit."""
    own = Averaging(1)
    for loss in (1.0, 1.0, 2.0):
        own.note(loss)
    assert own.on
    taken = [draw.skew(n) for _ in range(4)]
    for A in taken:
        own.add({"A": A})
    assert same(own.params["A"], sum(taken) / 4)
    assert not (own.params["A"] + own.params["A"].T).any()


@drawn
def test_joining(draw, n):
    """bp:reader/last, bp:reader/join and their gradients: the state at each text's own end, beside every word; q's
    gradient is the sum over the steps."""
    ends, rows = np.array([3, 1]), np.arange(2)
    dots, dotq, dread, dv = draw.real(4, 2, n), draw.real(2, 3), draw.real(2, n), draw.real(4, 2, n + 3)
    ds = np.zeros_like(dots)
    ds[ends, rows] = dread
    assert same(paired(dread, dots[ends, rows]), paired(ds, dots), 10)
    joined = np.concatenate([dots, np.broadcast_to(dotq, (4, 2, 3))], axis=-1)
    assert same(paired(dv, joined), paired(dv[..., :n], dots) + paired(dv[..., n:].sum(axis=0), dotq), 10)
    assert not same(paired(dv, joined), paired(dv[..., :n], dots) + paired(dv[-1, :, n:], dotq), 1e-3)
