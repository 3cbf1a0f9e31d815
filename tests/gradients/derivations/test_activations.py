"""The steps of docs/derivations/activations.md [bp:sigmoid] [bp:tanh] [bp:relu] [bp:modrelu-real] [bp:modrelu-complex]
[ncgru:20] [urnn:8]."""

import numpy as np

from ortho_ref.activations import (
    modrelu,
    modrelu_pullback,
    relu,
    relu_pullback,
    sigmoid,
    sigmoid_derivative,
    tanh,
    tanh_pullback,
)
from tests.gradients.derivations.pairing import as_differences, drawn, paired, same


@drawn
def test_sigmoid_and_tanh(draw, n):
    """bp:sigmoid, bp:tanh: the quotient rule's form, the one by y, and differences."""
    a, b, dy, change = draw.real(n), draw.real(n), draw.real(n), draw.real(n)
    assert same(sigmoid_derivative(sigmoid(a)), np.exp(-a) / (1 + np.exp(-a)) ** 2)
    assert as_differences(sigmoid_derivative(sigmoid(a)) * change, lambda s: sigmoid(a + s * change))
    da, db = tanh_pullback(dy, a, b, tanh(a, b))
    assert same(da, dy * (np.cosh(a + b) ** 2 - np.sinh(a + b) ** 2) / np.cosh(a + b) ** 2)
    assert as_differences(paired(da, change), lambda s: paired(dy, tanh(a + s * change, b)))
    assert as_differences(paired(db, change), lambda s: paired(dy, tanh(a, b + s * change)))


def off_the_kinks(z, b):
    """z moved along itself until z and abs(z) + b are 0.1 and more from 0."""
    length = abs(z) + 0.1
    length = np.where(abs(length + b) < 0.1, length + 0.2, length)
    return z / abs(z) * length


@drawn
def test_relu_and_real_modrelu(draw, n):
    """bp:relu, bp:modrelu-real, ncgru:20: where a unit is on, y = z + sgn(z) b; 0 where it is off and at the kinks."""
    z, b, dy, dotz, dotb = (draw.real(n) for _ in range(5))
    a = off_the_kinks(z, np.zeros(n))
    assert as_differences(
        paired(relu_pullback(dy, a, 0 * b, relu(a, 0 * b))[0], dotz), lambda s: paired(dy, relu(a + s * dotz, 0 * b))
    )
    z = off_the_kinks(z, b)
    on = abs(z) + b > 0
    y = modrelu(z, b)
    assert same(y, on * (z + np.sign(z) * b))
    dz, db = modrelu_pullback(dy, z, b, y)
    assert same(paired(dy, on * (dotz + np.sign(z) * dotb)), paired(dz, dotz) + paired(db, dotb), 10)
    assert as_differences(
        paired(dz, dotz) + paired(db, dotb), lambda s: paired(dy, modrelu(z + s * dotz, b + s * dotb))
    )
    for at in (np.zeros(n), -b):
        assert not np.any(modrelu_pullback(dy, at, -abs(at), modrelu(at, -abs(at))))


@drawn
def test_complex_modrelu(draw, n):
    """bp:modrelu-complex, urnn:8: the changes of length, direction and y; dz, db; the form with F and G."""
    z, b, dy, dotz, dotb = draw.complex(n), draw.real(n), draw.complex(n), draw.complex(n), draw.real(n)
    z = off_the_kinks(z, b)
    rho, e, on = abs(z), z / abs(z), abs(z) + b > 0
    dotrho = (e.conj() * dotz).real
    dote = (dotz - e * dotrho) / rho
    assert as_differences(dotrho, lambda s: abs(z + s * dotz))
    assert as_differences(dote, lambda s: (z + s * dotz) / abs(z + s * dotz))
    doty = on * ((dotrho + dotb) * e + (rho + b) * dote)
    assert same(doty, on * (e * dotrho + (1 + b / rho) * (dotz - e * dotrho) + e * dotb), 10)
    assert as_differences(doty, lambda s: modrelu(z + s * dotz, b + s * dotb))
    gamma = (e.conj() * dy).real
    assert same(paired(dy, e * dotrho), paired(e * gamma, dotz), 10)
    dz, db = modrelu_pullback(dy, z, b, modrelu(z, b))
    assert same(paired(dy, doty), paired(dz, dotz) + paired(db, dotb), 10)
    assert same(dz, on * ((1 + b / (2 * rho)) * dy - b / (2 * rho) * e**2 * dy.conj()), 10)
    # as if it were holomorphic, by a slope alone: another change
    assert not on.any() or not same(paired(on * (1 + b / rho) * dy, dotz) + paired(db, dotb), paired(dy, doty))
