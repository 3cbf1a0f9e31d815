"""The steps of docs/derivations/geodesic.md [goru:2.9] [goru:2.10]."""

import numpy as np

from ortho_ref.parametrizations import GeodesicUnitary
from tests.gradients.derivations.pairing import as_differences, drawn, paired, same


def point(draw, n):
    """A unitary U, G, and A = G U^H - U G^H."""
    U = np.linalg.qr(draw.complex(n, n))[0]
    G = draw.complex(n, n)
    return U, G, G @ U.conj().T - U @ G.conj().T


@drawn
def test_the_direction(draw, n):
    """goru:2.9: A is skew-Hermitian, the slope along B U is half of <A, B>; the printed A gives another slope."""
    U, G, A = point(draw, n)
    X = draw.complex(n, n)
    B = X - X.conj().T
    assert same(A, -A.conj().T)
    assert same(paired(X.T, B), paired(X.T - X.T.conj().T, B) / 2, 10)
    assert same(paired(G, B @ U), paired(A, B) / 2, 10)
    assert same(paired(G, -A @ U), -(np.linalg.norm(A) ** 2) / 2, 10)
    printed = G.conj().T @ U - U.conj().T @ G
    assert not same(paired(G, -printed @ U), -(np.linalg.norm(printed) ** 2) / 2, 1e-3)


@drawn
def test_the_step(draw, n):
    """goru:2.10: unitary at a large rate; it begins as -A U, and the loss Re tr(G^H U) with half of the square of A."""
    U, G, A = point(draw, n)
    p = GeodesicUnitary()

    def stepped(rate):
        return p.retract({"X": U}, {"U": U}, {"X": rate * G})[0]["X"]

    for rate in (1e-3, 1.0, 50.0):
        X = stepped(rate)
        assert same(X.conj().T @ X, np.eye(n))
    assert as_differences(-A @ U, stepped)
    assert as_differences(-(np.linalg.norm(A) ** 2) / 2, lambda rate: paired(G, stepped(rate)))
