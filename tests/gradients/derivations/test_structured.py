"""The steps of docs/derivations/structured.md [bp:dft] [bp:urnnW] [urnn:6]."""

import numpy as np

from gradients.map_problem import random_map_problem
from ortho_ref.parametrizations import StructuredUnitary
from tests.gradients.derivations.pairing import as_differences, drawn, paired, same


@drawn
def test_the_fourier_transform(draw, n):
    """bp:dft: F^H = n F^-1, and both rules; without the n they fail."""
    F = np.fft.fft(np.eye(n), axis=0)
    assert same(F.conj().T @ F, n * np.eye(n), 10)
    dy, dotx = draw.complex(n), draw.complex(n)
    assert same(paired(dy, np.fft.fft(dotx)), paired(n * np.fft.ifft(dy), dotx), 10)
    assert same(paired(dy, np.fft.ifft(dotx)), paired(np.fft.fft(dy) / n, dotx), 10)
    assert n == 1 or not same(paired(dy, np.fft.fft(dotx)), paired(np.fft.ifft(dy), dotx), 1e-3)


@drawn
def test_the_eight_factors(draw, n):
    """bp:urnnW, urnn:6: U is the product of eight matrices; the pullback pairs as U changes, for all parameters."""
    n += 1
    problem = random_map_problem(StructuredUnitary(), n, draw.rng)
    p, I = problem.params, np.eye(n)
    D = [np.diag(np.exp(1j * p[f"w_{j}"])) for j in (1, 2, 3)]
    R = [I - 2 * np.outer(p[f"v_{j}"], p[f"v_{j}"].conj()) / np.vdot(p[f"v_{j}"], p[f"v_{j}"]).real for j in (1, 2)]
    F, Pi = np.fft.fft(I, axis=0), I[problem.buffers["permutation"]]
    U = D[2] @ R[1] @ np.linalg.inv(F) @ D[1] @ Pi @ R[0] @ F @ D[0]
    assert same(problem.buffers["U"], U)
    change = {name: draw.like(value) for name, value in p.items()}
    gradients = problem.gradients()
    assert as_differences(
        sum(paired(gradients[name], change[name]) for name in p),
        lambda s: problem.loss({name: value + s * change[name] for name, value in p.items()}),
    )
