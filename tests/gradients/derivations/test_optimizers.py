"""The steps of docs/derivations/optimizers.md [bp:opt] [ncgru:skew]."""

import numpy as np
import pytest

from ortho_ref.training.optimizers import OPTIMIZERS, SGD, Adam, RMSprop, clip_by_global_norm, clip_by_value
from tests.gradients.derivations.pairing import drawn, same


def last_delta(optimizer, gradients, p=None):
    """The delta of the last of these gradients, all of one parameter that does not move."""
    p = np.zeros_like(gradients[0]) if p is None else p
    return [optimizer.delta("p", p, g) for g in gradients][-1]


@drawn
def test_running_sums(draw, n):
    """bp:opt/g, momentum, sgd, square, outside, inside, m, v: each recursion put into itself, k = 5; the weights."""
    g, p, k = [draw.real(n) for _ in range(5)], draw.real(n), 5
    assert same(last_delta(SGD(0.1, weight_decay=0.3), g, p), 0.1 * (g[-1] + 0.3 * p))
    m = sum(0.9 ** (k - j) * g[j - 1] for j in range(1, k + 1))
    assert same(last_delta(SGD(0.1, momentum=0.9), g), 0.1 * m)
    weights = [(1 - 0.8) * 0.8 ** (k - j) for j in range(1, k + 1)]
    assert sum(weights) == pytest.approx(1 - 0.8**k, rel=1e-12)
    mean = sum(weight * g[j] ** 2 for j, weight in enumerate(weights))
    for inside, root in ((False, lambda v: np.sqrt(v) + 1e-3), (True, lambda v: np.sqrt(v + 1e-3))):
        own = RMSprop(0.1, decay=0.8, initial=0.5, epsilon=1e-3, epsilon_inside=inside)
        assert same(last_delta(own, g), 0.1 * g[-1] / root(0.8**k * 0.5 + mean))
    m = sum((1 - 0.7) * 0.7 ** (k - j) * g[j - 1] for j in range(1, k + 1))
    own = 0.1 * m / (1 - 0.7**k) / (np.sqrt(mean / (1 - 0.8**k)) + 1e-3)
    assert same(last_delta(Adam(0.1, 0.7, 0.8, 1e-3), g), own)
    assert not same(last_delta(Adam(0.1, 0.7, 0.8, 1e-3), g), 0.1 * m / (np.sqrt(mean) + 1e-3))


@drawn
def test_adams_correction(draw, n):
    """bp:opt/delta: of a constant gradient every delta is rate g / (abs(g) + epsilon)."""
    g = draw.real(n)
    for k in (1, 2, 7):
        assert same(last_delta(Adam(0.1, epsilon=1e-3), [g] * k), 0.1 * g / (abs(g) + 1e-3))


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("seed", range(2))
def test_a_skew_matrix_stays_skew(name, seed):
    """bp:opt, ncgru:skew: to the bit under every optimizer, weight decay and both clippings; the other sign of all
    gradients gives the other sign of delta; with a rate for each entry it fails."""
    rng = np.random.default_rng(seed)
    A = np.triu(rng.standard_normal((5, 5)), 1)
    A = A - A.T
    one, other, B = (
        OPTIMIZERS[name](learning_rate=0.1, weight_decay=0.1),
        OPTIMIZERS[name](learning_rate=0.1, weight_decay=0.1),
        -A,
    )
    for _ in range(6):
        G = np.triu(rng.standard_normal((5, 5)), 1)
        G = G - G.T
        for clipped in (clip_by_value({"A": G}, 0.5)["A"], clip_by_global_norm({"A": G}, 0.5)[0]["A"]):
            assert not (clipped + clipped.T).any()
        delta = one.delta("A", A, G)
        assert not (delta + delta.T).any()
        assert not (delta + other.delta("A", B, -G)).any()
        A, B = A - delta, B + delta
    assert not (A + A.T).any()
    uneven = delta * rng.uniform(0.5, 1, (5, 5))
    assert (uneven + uneven.T).any()
