"""Every parametrization in every size, for tests."""

import numpy as np
from hypothesis import strategies as st

from gradients.map_problem import random_map_problem
from ortho_ref.backend import to_device, to_host
from ortho_ref.parametrizations import (
    Exponential,
    FFTRotations,
    Free,
    GeodesicUnitary,
    Householder,
    NeumannCayley,
    ScaledCayley,
    StructuredUnitary,
    TunableRotations,
    VolumePreserving,
)

# name -> (sizes n, maker from n and an integer from 0 to 7 that stands for the options)
ALL = {
    "free": (range(1, 9), lambda n, k: Free()),
    "cayley": (range(1, 9), lambda n, k: ScaledCayley(k % (n + 1))),
    "neumann": (range(1, 9), lambda n, k: NeumannCayley(k % (n + 1), reset_every=1)),
    "exponential": (range(1, 9), lambda n, k: Exponential(("henaff", "cayley")[k % 2])),
    "householder": (range(1, 9), lambda n, k: Householder(n - k % n)),
    "tunable": (range(2, 9, 2), lambda n, k: TunableRotations(n - 2 * (k % (n // 2)))),
    "tunable complex": (range(2, 9, 2), lambda n, k: TunableRotations(n - 2 * (k % (n // 2)), complex=True)),
    "fft": ((2, 4, 8), lambda n, k: FFTRotations()),
    "fft complex": ((2, 4, 8), lambda n, k: FFTRotations(complex=True)),
    "volume": (range(2, 9, 2), lambda n, k: VolumePreserving(k or None)),
    "structured": (range(2, 9), lambda n, k: StructuredUnitary()),
    "geodesic": (range(1, 9), lambda n, k: GeodesicUnitary()),
}
ORTHOGONAL = [name for name in ALL if name != "free"]


@st.composite
def problems(draw, name):
    """Random map problems of the parametrization called `name`."""
    sizes, make = ALL[name]
    n = draw(st.sampled_from(list(sizes)))
    p = make(n, draw(st.integers(0, 7)))
    return random_map_problem(p, n, np.random.default_rng(draw(st.integers(0, 2**32 - 1))))


def one(name):
    """One of them, the same in every run: n = 8, or n = 6 for even sizes that are no power of two."""
    sizes, make = ALL[name]
    n = 6 if 6 in sizes else 8
    return random_map_problem(make(n, 3), n, np.random.default_rng(0))


def rebuilt(problem, device):
    """U of a problem's parameters as `rebuild` makes it on the device, on the host."""
    there = problem.on(device)
    return to_host(there.p.rebuild(there.params, there.buffers)["U"])


def pulled_back(problem, device):
    """The problem's gradients as the device has them, on the host."""
    return to_host(problem.on(device).gradients())


def updated(problem, delta, device):
    """Parameters and buffers after `retract` on the device, on the host."""
    there = problem.on(device)
    return to_host(there.p.retract(there.params, there.buffers, to_device(delta, device)))
