"""The rules of docs/derivations/README.md, on random arrays."""

import numpy as np
import pytest

from gradients.cayley import free_gradient
from tests.gradients.derivations.pairing import as_differences, drawn, paired, same


@drawn
def test_the_pairing_is_the_change_of_the_loss(draw, n):
    """dy = dL/dRe y + i dL/dIm y, of L = sum of abs(y)^2 + 3 Re y: L changes by the pairing, not by tr(dy^T ydot)
    alone."""
    y, change = draw.complex(n), draw.complex(n)
    dy = 2 * y + 3
    assert as_differences(paired(dy, change), lambda s: (abs(y + s * change) ** 2 + 3 * (y + s * change).real).sum())
    assert not as_differences((dy * change).real.sum(), lambda s: (abs(y + s * change) ** 2).sum())
    assert paired(dy, change) == pytest.approx((dy.real * change.real + dy.imag * change.imag).sum(), rel=1e-12)


@drawn
def test_products_move(draw, n):
    """R1: <C, A X B> = <A^H C B^H, X>; with the transpose for the adjoint it is false."""
    A, X, B, C = draw.complex(n + 1, n), draw.complex(n, n + 2), draw.complex(n + 2, 3), draw.complex(n + 1, 3)
    assert same(paired(C, A @ X @ B), paired(A.conj().T @ C @ B.conj().T, X), 10 * n)
    assert not same(paired(C, A @ X @ B), paired(A.T @ C @ B.T, X))
    dY, dotA, dotX = draw.complex(n + 1, n + 2), draw.complex(n + 1, n), draw.complex(n, n + 2)
    change = dotA @ X + A @ dotX
    assert as_differences(change, lambda s: (A + s * dotA) @ (X + s * dotX))
    assert same(paired(dY, change), paired(dY @ X.conj().T, dotA) + paired(A.conj().T @ dY, dotX), 10 * n)


@drawn
def test_entries_move(draw, n):
    """R2: <c, a x> = <conj(a) c, x>; f(x) = x^3 has dx = 3 x^2 dy."""
    c, a, x = draw.complex(n), draw.complex(n), draw.complex(n)
    assert same(paired(c, a * x), paired(a.conj() * c, x), 10)
    assert not same(paired(c, a * x), paired(a * c, x))
    x, change, dy = draw.real(n), draw.real(n), draw.real(n)
    assert as_differences(paired(3 * x**2 * dy, change), lambda s: (dy * (x + s * change) ** 3).sum())


@drawn
def test_transpose_conjugate_and_real(draw, n):
    """R3, R4: <C, X^T> = <C^T, X>, <C, conj X> = <conj C, X>; real x in z = W x: dx = Re(W^H dz)."""
    C, X = draw.complex(n, n + 1), draw.complex(n + 1, n)
    assert same(paired(C, X.T), paired(C.T, X), 10)
    assert same(paired(C.T, X.conj()), paired(C.T.conj(), X), 10)
    W, dz, change = draw.complex(n, 3), draw.complex(n), draw.real(3)
    assert same(paired(dz, W @ change), paired((W.conj().T @ dz).real, change), 10)


@drawn
def test_what_is_used_twice(draw, n):
    """R5: x in A x and in x * x; the gradients add up, and neither is all of it."""
    A, x, change, one, two = draw.real(n, n), draw.real(n), draw.real(n), draw.real(n), draw.real(n)

    def loss(s):
        moved = x + s * change
        return paired(one, A @ moved) + paired(two, moved * moved)

    assert as_differences(paired(A.T @ one + 2 * x * two, change), loss)
    assert not as_differences(paired(A.T @ one, change), loss)
    assert not as_differences(paired(2 * x * two, change), loss)


@drawn
def test_inverses(draw, n):
    """R6: the change of X^-1 is -M dotX M; dX = -M^H dM M^H."""
    X = draw.complex(n, n) + 4 * n * np.eye(n)
    M, dM, change = np.linalg.inv(X), draw.complex(n, n), draw.complex(n, n)
    assert as_differences(-M @ change @ M, lambda s: np.linalg.inv(X + s * change))
    assert same(paired(dM, -M @ change @ M), paired(-M.conj().T @ dM @ M.conj().T, change))


@drawn
def test_entries_that_move_together(draw, n):
    """R7: of a skew change the pairing is the sum over the free entries of dA - dA^T; of dA alone it is not."""
    n += 1
    dA, change = draw.real(n, n), draw.skew(n)
    free = np.triu(change, 1)
    assert same(paired(dA, change), paired(free_gradient(dA), free), 10)
    assert not same(paired(dA, change), paired(dA, free))
