"""The dense readout [bp:heads/affine], the real features of complex states [urnn:9] [bp:heads/complex], and the scale
that dropout multiplies by."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortho_ref.backend import library_of, to_device, to_host
from ortho_ref.finite_differences import compare_gradients
from ortho_ref.language.embedding import Embedding
from ortho_ref.layers import affine, affine_pullback, dropout_scale, real_features, real_features_pullback


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    leading=st.lists(st.integers(1, 4), min_size=1, max_size=2).map(tuple),
    n=st.integers(1, 4),
    q=st.integers(1, 4),
)
def test_dense(device, seed, leading, n, q):
    """[bp:heads/affine]: o = W h + b for every leading index, and dW, db, dh against finite differences."""
    rng = np.random.default_rng(seed)
    point = {"W": rng.standard_normal((q, n)), "b": rng.standard_normal(q), "h": rng.standard_normal((*leading, n))}
    do = rng.standard_normal((*leading, q))
    W, b, h, given_do = to_device((point["W"], point["b"], point["h"], do), device)
    expected = np.einsum("qn,...n->...q", point["W"], point["h"]) + point["b"]
    np.testing.assert_allclose(to_host(affine(W, b, h)), expected, rtol=1e-12, atol=1e-14)
    dh, dweights = to_host(affine_pullback(W, h, given_do))

    def f(p):
        return (do * affine(**p)).sum()

    report = compare_gradients(f, point, {**dweights, "h": dh}, kink_distance=lambda point: float("inf"))
    assert report.passed, f"\n{report}"


@given(seed=st.integers(0, 2**32 - 1), T=st.integers(1, 9), vocabulary=st.integers(1, 5))
def test_the_gradient_of_an_embedding(device, seed, T, vocabulary):
    """[bp:lm-embedding/gradient]: dE_w sums de where w stands."""
    rng, own = np.random.default_rng(seed), Embedding(vocabulary, 3)
    tokens, de = rng.integers(0, vocabulary, (T, 2)), rng.standard_normal((T, 2, 3)).astype(np.float32)
    expected = np.zeros((vocabulary, 3))
    np.add.at(expected, tokens, de)
    dE = to_host(own.backward(*to_device((tokens, de), device))["E"])
    np.testing.assert_allclose(dE, expected, rtol=1e-5, atol=1e-6)


def test_a_readout_in_float32(device):
    """float32 in, float32 out."""
    arrays = {"W": np.ones((3, 5), np.float32), "b": np.ones(3, np.float32), "h": np.ones((2, 5), np.float32)}
    arrays, do = to_device((arrays, np.ones((2, 3), np.float32)), device)
    dh, dweights = affine_pullback(arrays["W"], arrays["h"], do)
    assert {array.dtype for array in (affine(**arrays), dh, *dweights.values())} == {np.dtype(np.float32)}


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 2, 3)])
def test_real_features(device, shape, dtype):
    """urnn:9: all real parts, then all imaginary ones; bp:heads/complex is its adjoint, <k, features of h> =
    Re <pullback of k, h>; every dtype stays; real states are read as they are."""
    rng = np.random.default_rng(0)
    h = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    dk = rng.standard_normal((*shape[:-1], 6)).astype(h.real.dtype)
    on, don = to_device((h, dk), device)
    features, dh = to_host((real_features(on), real_features_pullback(don, complex=True)))
    np.testing.assert_array_equal(features[..., :3], h.real)
    np.testing.assert_array_equal(features[..., 3:], h.imag)
    np.testing.assert_array_equal(dh, dk[..., :3] + 1j * dk[..., 3:])
    assert (features.shape, features.dtype, dh.dtype) == ((*shape[:-1], 6), h.real.dtype, dtype)
    np.testing.assert_allclose((dk * features).sum(), (dh.conj() * h).real.sum(), rtol=1e-5)
    real = on.real
    assert real_features(real) is real
    assert real_features_pullback(real, complex=False) is real


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_scale(device, rate, dtype):
    """0 or 1 / (1 - rate), in the dtype and beside the array it is for; the same entries on every device and in every
    dtype; the share that is dropped, and so the mean, within five standard deviations of what is asked for."""
    shape = (40, 25, 30)
    like = to_device(np.ones(shape, dtype), device)
    s = dropout_scale(np.random.default_rng(3), rate, like)
    assert library_of(s) is library_of(like)
    assert (s.shape, s.dtype) == (shape, dtype)
    s = to_host(s)
    np.testing.assert_array_equal(s == 0, dropout_scale(np.random.default_rng(3), rate, np.ones(shape)) == 0)
    np.testing.assert_allclose(s[s != 0], 1 / (1 - rate), rtol=2 * np.finfo(dtype).eps)
    bound = 5 * math.sqrt(rate * (1 - rate) / s.size)
    assert abs((s == 0).mean() - rate) < bound
    assert abs(s.mean(dtype=np.float64) - 1) < bound / (1 - rate)


def test_dropout_draws_every_entry():
    """No step, sequence or unit shares the draw of another; the generator moves on, the seed tells all."""
    like, rng = np.ones((6, 20, 20)), np.random.default_rng(0)
    first, second, again = (dropout_scale(own, 0.5, like) for own in (rng, rng, np.random.default_rng(0)))
    np.testing.assert_array_equal(first, again)
    assert (first != second).mean() > 0.4
    for axis in range(3):
        assert (first != np.roll(first, 1, axis)).mean() > 0.4
    assert like.all()
