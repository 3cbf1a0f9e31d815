"""The real features of complex states [urnn:9] [bp:heads/complex], and the scale that dropout multiplies by."""

import math

import numpy as np
import pytest

from ortho_ref.backend import library_of, to_device, to_host
from ortho_ref.layers import dropout_scale, real_features, real_features_pullback


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
