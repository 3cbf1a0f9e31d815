"""Activations [bp:sigmoid] [bp:tanh] [bp:relu] [ncgru:20] [goru:2.7] [urnn:8] [bp:modrelu-real]
[bp:modrelu-complex]."""

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from ortho_ref.activations import ACTIVATIONS, modrelu, modrelu_pullback, sigmoid
from ortho_ref.backend import to_device, to_host
from ortho_ref.finite_differences import compare_gradients

real = st.floats(-2, 2)
upstream = st.floats(0.1, 2)


def on(device, *arrays):
    return to_device(tuple(np.asarray(a) for a in arrays), device)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sigmoid_is_stable_and_accurate(device, dtype):
    """No overflow (warnings are errors) for any a; relatively accurate where the value is tiny; s(-a) = 1 - s(a)."""
    a = np.array([-1e30, -800, -100, -80, -20, -1, 0, 1, 20, 80, 1e30], dtype)
    (given_a,) = on(device, a)
    y = to_host(sigmoid(given_a))
    assert y.dtype == dtype
    assert y[0] == 0
    assert y[-1] == 1
    small = slice(3, 7)
    exact = np.exp(a[small].astype(np.longdouble)) / (1 + np.exp(a[small].astype(np.longdouble)))
    np.testing.assert_allclose(y[small], exact.astype(dtype), rtol=8 * np.finfo(dtype).eps)
    np.testing.assert_allclose(sigmoid(-a), 1 - y, atol=2 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", [*ACTIVATIONS, "complex modrelu"])
@settings(max_examples=15)
@given(st.lists(st.tuples(real, real, real, upstream, upstream), min_size=1, max_size=5))
def test_pullbacks_against_differences(device, name, rows):
    """da and db of each, both signs of b, off the kinks; of a complex a dL/dRe + i dL/dIm [bp:tanh] [bp:relu]
    [bp:modrelu-real] [bp:modrelu-complex]."""
    a, im, b, dy, dim = np.array(rows).T
    phi = ACTIVATIONS[name.split()[-1]]
    if name == "complex modrelu":
        a, dy = a + 1j * im, dy + 1j * dim
    distance = float(phi.kink_distance(a, b).min())
    assume(distance >= 1e-3)
    A, B, DY = on(device, a, b, dy)
    da, db = to_host(phi.pullback(DY, A, B, phi.value(A, B)))
    assert db.dtype == np.float64
    report = compare_gradients(
        lambda p: (dy.conj() * phi.value(p["a"], p["b"])).real.sum(),
        {"a": a, "b": b},
        {"a": da, "b": db},
        kink_distance=lambda p: distance,
        may_vanish=("a", "b"),
    )
    assert report.passed, f"\n{report}"


@settings(max_examples=25)
@given(real, real, st.floats(0, 6.3))
def test_complex_modrelu_values(x, b, angle):
    """urnn:8: the magnitude is shifted by b and cut at 0, the phase kept; on the real axis ncgru:20, goru:2.7."""
    z = np.array([x * np.exp(1j * angle)])
    y = modrelu(z, np.array([b]))
    np.testing.assert_allclose(abs(y), max(abs(x) + b, 0) if x else 0, atol=1e-14)
    assert abs((y.conj() * z).imag[0]) < 1e-13
    on_axis = modrelu(np.array([x + 0j]), np.array([b])).real
    np.testing.assert_allclose(on_axis, modrelu(np.array([x]), np.array([b])), rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("b", [0.5, 0.0, -0.5])
def test_modrelu_kinks(device, dtype, b):
    """The stated conventions: at z = 0 value 0 and derivatives 0, for b > 0 too; at |z| + b = 0 both 0."""
    z = np.array([0, -0.0, abs(b), -abs(b)], dtype)
    Z, B, DY = on(device, z, np.full(4, b), np.ones(4, dtype))
    y = modrelu(Z, B)
    dz, db = to_host(modrelu_pullback(DY, Z, B, y))
    y = to_host(y)
    at_kink = (z == 0) | (abs(z) + b == 0)
    assert at_kink[:2].all()
    assert at_kink.all() or b > 0
    np.testing.assert_array_equal(y[at_kink], 0)
    np.testing.assert_array_equal(dz[at_kink], 0)
    np.testing.assert_array_equal(db[at_kink], 0)
    if b > 0:
        np.testing.assert_allclose(y[2:], [1, -1])
        np.testing.assert_allclose(db[2:], [1, -1])


def test_relu_kink_and_modrelu_dead_zone():
    """relu's derivative at 0 is 0; modReLU is 0 with derivative 0 wherever |z| < -b, 0 included."""
    a, zero = np.array([0.0, 1e-300, -1e-300]), np.zeros(3)
    da, db = ACTIVATIONS["relu"].pullback(np.ones(3), a, zero, ACTIVATIONS["relu"].value(a, zero))
    np.testing.assert_array_equal(da, [0, 1, 0])
    np.testing.assert_array_equal(db, da)
    z, b = np.array([0.4, -0.4, 0.6]), np.array([-0.5] * 3)
    np.testing.assert_allclose(modrelu(z, b), [0, 0, 0.1])
    np.testing.assert_array_equal(modrelu_pullback(np.ones(3), z, b, modrelu(z, b))[0], [0, 0, 1])


def test_subnormal_numbers_keep_their_phase():
    """z / |z| part by part: complex division overflows for |z| = 5e-324."""
    np.testing.assert_array_equal(modrelu(np.array([5e-324 + 0j, 5e-324j]), np.array([0.5, 0.5])), [0.5, 0.5j])


def test_kink_distances():
    """relu: |a + b|; modReLU: the nearer of z = 0 and |z| + b = 0; tanh has no kink, and of a complex a neither."""
    a, b = np.array([0.5]), np.array([-0.25])
    assert {name: float(phi.kink_distance(a, b)[0]) for name, phi in ACTIVATIONS.items()} == {
        "tanh": float("inf"),
        "relu": 0.25,
        "modrelu": 0.25,
    }
    assert float(ACTIVATIONS["modrelu"].kink_distance(np.array([-0.1]), b)[0]) == 0.1
    far = ACTIVATIONS["tanh"].kink_distance(a + 1j, b)
    assert (far.dtype, float(far[0])) == (np.float64, float("inf"))
