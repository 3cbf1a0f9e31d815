"""Activations: value and derivative of each, line by line.

    sigmoid(a) = 1 / (1 + exp(-a));            derivative y (1 - y)                 [bp:sigmoid]
    tanh(a + b);                               derivative 1 - y^2                   [bp:tanh]
    relu(a + b) = max(a + b, 0);               derivative 1 where a + b > 0         [bp:relu]
    modrelu(z, b) = z / |z| max(|z| + b, 0)    real                                 [ncgru:20] [goru:2.7]
                                               complex                              [urnn:8]
        backward: real                                                              [bp:modrelu-real]
                  complex                                                           [bp:modrelu-complex]

Kinks. relu has derivative 0 at 0. modrelu is 0 at z = 0, whatever b (for b > 0 it jumps there), and its derivatives
with respect to z and b are 0 both at z = 0 and at |z| + b = 0.

A cell sees an `Activation`: Phi(a, b) with its bias, because modrelu takes the bias inside and the others add it
before. Pullbacks are per sample: `db` has the shape of `a`, the caller sums it over the batch.
Complex cotangents are dL/dRe + i dL/dIm.
"""

from collections.abc import Callable
from typing import NamedTuple

from ortho_ref.backend import Array, xp_of
from ortho_ref.boundary import check_choice


def sigmoid(a: Array) -> Array:
    """Logistic function; no overflow for any finite `a`, in float32 either.

    Works for complex `a` near the real axis as well (the sign is taken of the real part), so that complex-step
    derivatives pass through it.
    """
    xp = xp_of(a)
    positive = a.real >= 0
    e = xp.exp(xp.where(positive, -a, a))
    return xp.where(positive, 1 / (1 + e), e / (1 + e))  # [bp:sigmoid]


def sigmoid_derivative(y: Array) -> Array:
    """Derivative of sigmoid where its value is `y`."""
    return y * (1 - y)  # [bp:sigmoid]


def tanh(a: Array, b: Array) -> Array:
    """tanh(a + b)."""
    return xp_of(a, b).tanh(a + b)  # [bp:tanh]


def tanh_pullback(dy: Array, a: Array, b: Array, y: Array) -> tuple[Array, Array]:
    """The adjoint of `tanh` at y = tanh(a, b): dL/dy -> da and db, shaped like a."""
    da = dy * (1 - y * y)  # [bp:tanh]
    return da, da


def relu(a: Array, b: Array) -> Array:
    """max(a + b, 0)."""
    return xp_of(a, b).maximum(a + b, 0)  # [bp:relu]


def relu_pullback(dy: Array, a: Array, b: Array, y: Array) -> tuple[Array, Array]:
    """The adjoint of `relu` at y = relu(a, b): dL/dy -> da and db, shaped like a; 0 at the kink."""
    da = dy * (y > 0)  # [bp:relu]
    return da, da


def _phase(z: Array, rho: Array) -> Array:
    """z / rho for complex z and real rho; part by part, as complex division overflows for subnormal rho."""
    return z.real / rho + 1j * (z.imag / rho)


def modrelu(z: Array, b: Array) -> Array:
    """modReLU of real or complex z, with a real b that is broadcast against it; 0 at z = 0."""
    xp = xp_of(z, b)
    if z.dtype.kind != "c":
        return xp.sign(z) * xp.maximum(xp.abs(z) + b, 0)  # [ncgru:20] [goru:2.7]
    rho = xp.abs(z)
    e = _phase(z, xp.where(rho > 0, rho, 1))  # 0 at z = 0
    return e * xp.maximum(rho + b, 0)  # [urnn:8]


def modrelu_pullback(dy: Array, z: Array, b: Array, y: Array) -> tuple[Array, Array]:
    """The adjoint of `modrelu` at y = modrelu(z, b): dL/dy -> dz and a real db, shaped like z; 0 at the kinks."""
    xp = xp_of(dy, z, b)
    rho = xp.abs(z)
    chi = (rho + b > 0) & (rho > 0)
    if z.dtype.kind != "c":
        return chi * dy, chi * xp.sign(z) * dy  # [bp:modrelu-real]
    rho = xp.where(chi, rho, 1)
    e = chi * _phase(z, rho)
    gamma = (e.conj() * dy).real
    dz = chi * (e * gamma + (1 + b / rho) * (dy - e * gamma))  # [bp:modrelu-complex]
    return dz, gamma  # [bp:modrelu-complex]


def _never(a: Array, b: Array) -> Array:
    return xp_of(a).full_like(a.real, float("inf"))


def _relu_distance(a: Array, b: Array) -> Array:
    return abs(a + b)


def _modrelu_distance(z: Array, b: Array) -> Array:
    xp = xp_of(z, b)
    return xp.minimum(abs(z), abs(abs(z) + b))


class Activation(NamedTuple):
    """Phi(a, b) -> y, its pullback (dy, a, b, y) -> (da, db), and how far each entry of a is from a kink."""

    value: Callable[[Array, Array], Array]
    pullback: Callable[[Array, Array, Array, Array], tuple[Array, Array]]
    kink_distance: Callable[[Array, Array], Array]


ACTIVATIONS = {
    "tanh": Activation(tanh, tanh_pullback, _never),
    "relu": Activation(relu, relu_pullback, _relu_distance),
    "modrelu": Activation(modrelu, modrelu_pullback, _modrelu_distance),
}


def activation(name: str) -> Activation:
    """The activation called `name`, of `ACTIVATIONS`; ValueError if there is none."""
    check_choice("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]
