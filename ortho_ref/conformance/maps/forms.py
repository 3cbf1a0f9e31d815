"""Closed forms that a map may be: series in a skew A, and what makes a matrix X orthogonal.

A form gives one value for each of its variants (numbers of terms, steps), by their words.  Exact ones are the
reference's own where it has them (`ortho_ref.parametrizations`).
"""

from collections.abc import Callable, Iterator
from functools import partial
from math import sqrt
from typing import NamedTuple

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.parametrizations import Householder
from ortho_ref.parametrizations.cayley import inverse
from ortho_ref.parametrizations.exponential import exponential

#: Numbers of terms of a series, and of steps of an iteration, that are tried.
TERMS, STEPS = 24, 30


class Form(NamedTuple):
    """A closed form with its variants.

    A power series in A is orthogonal for skew A alone: in a block matrix (A, E; 0, A) its upper right block is its
    derivative.
    """

    name: str  # what it is called
    values: Callable[[Array], Iterator[tuple[str, Array]]]  # the matrix -> (formula, value) of each variant
    series: bool = False  # it is a power series in A


def _eye(A: Array) -> Array:
    return np.eye(len(A), dtype=A.dtype)


def _scaled(c: float) -> str:
    """A times c as one writes it after I +."""
    return {1.0: "+ A", -1.0: "- A", 0.5: "+ A/2", -0.5: "- A/2"}[c]


def _cayley(c: float, A: Array) -> Iterator[tuple[str, Array]]:
    yield f"(I {_scaled(c)})^-1 (I {_scaled(-c)})", 2 * inverse(c * A) - _eye(A)


def _exponential(c: float, A: Array) -> Iterator[tuple[str, Array]]:
    yield f"exp({_of_A(c)})", exponential(c * A)


def _neumann(c: float, A: Array) -> Iterator[tuple[str, Array]]:
    """(I - cA)(I - cA + ... (-cA)^(k-1)): the series for the inverse, and then the product."""
    M, power, series = -c * A, _eye(A), np.zeros_like(A)
    for k in range(1, TERMS + 1):
        series = series + power
        power = power @ M
        formula = f"(I {_scaled(-c)}) S, S = (I {_scaled(c)})^-1 by its Neumann series with {_terms(k)}"
        yield formula + _peft(c, k), series + M @ series


def _whole(c: float, A: Array) -> Iterator[tuple[str, Array]]:
    """I + 2 sum (-cA)^j: the series of the whole, cut off; with one power more than none it is no product."""
    M, power, U = -c * A, _eye(A), _eye(A)
    for k in range(1, TERMS + 1):
        power = power @ M
        U = U + 2 * power
        yield f"I + 2 (M + ... + M^{k}), M = {_of_A(-c)}" if k > 1 else f"I + 2 M, M = {_of_A(-c)}", U


def _taylor(c: float, A: Array) -> Iterator[tuple[str, Array]]:
    M, power, U = c * A, _eye(A), _eye(A)
    for k in range(1, TERMS + 1):
        power = power @ M / k
        U = U + power
        yield f"the Taylor series of exp({_of_A(c)}) with {_terms(k + 1)}", U


def _terms(k: int) -> str:
    return f"{k} term{'s' if k > 1 else ''}"


def _of_A(c: float) -> str:
    return _scaled(c).removeprefix("+ ").replace("- ", "-")


def _peft(c: float, k: int) -> str:
    """PEFT counts the powers of the product, of which there is one more; its 3 is its 4."""
    if c != -1 or k < 3:
        return ""
    return f" (PEFT's num_cayley_neumann_terms = {'3 or 4' if k == 3 else k + 1})"


#: The cubic step and the quintic ones: a X + b (X X^H) X + c (X X^H)^2 X.
COEFFICIENTS = {
    "cubic, (3/2, -1/2)": (1.5, -0.5, 0.0),
    "Muon's quintic, (3.4445, -4.7750, 2.0315)": (3.4445, -4.7750, 2.0315),
    "quintic, (15/8, -10/8, 3/8)": (1.875, -1.25, 0.375),
    "quintic, (2, -1.5, 0.5)": (2.0, -1.5, 0.5),
}
_NORMS: dict[str, Callable[[Array], float]] = {
    "X_0 = Q": lambda X: 1.0,
    "X_0 = Q / ||Q||_F": lambda X: float(np.linalg.norm(X)),
    "X_0 = Q / (||Q||_F + 1e-7)": lambda X: float(np.linalg.norm(X)) + 1e-7,
    "X_0 = Q / ||Q||_2": lambda X: float(np.linalg.norm(X, 2)),
    "X_0 = Q / sqrt(||Q||_1 ||Q||_inf)": lambda X: sqrt(float(np.linalg.norm(X, 1) * np.linalg.norm(X, np.inf))),
}


def _newton_schulz(X: Array) -> Iterator[tuple[str, Array]]:
    for words, (a, b, c) in COEFFICIENTS.items():
        for start, norm in _NORMS.items():
            Y = X / norm(X)
            for k in range(1, STEPS + 1):
                gram = Y @ Y.conj().T
                Y = a * Y + (b * gram + c * gram @ gram) @ Y
                yield f"{words}, {k} step{'s' if k > 1 else ''}, {start}", Y


def _qr(X: Array) -> Iterator[tuple[str, Array]]:
    U, R = np.linalg.qr(X)
    diagonal = np.diag(R)
    signs = np.where(diagonal == 0, 1, diagonal / np.where(diagonal == 0, 1, abs(diagonal)))
    yield "signs of R's diagonal made positive (as Gram-Schmidt)", U * signs
    yield "signs as LAPACK leaves them", U


def _polar(X: Array) -> Iterator[tuple[str, Array]]:
    W, _, Vh = np.linalg.svd(X, full_matrices=False)
    yield "W V^H of the singular value decomposition Q = W S V^H", W @ Vh
    if X.dtype.kind != "c":
        turned = np.ones(len(X))
        turned[-1] = np.sign(np.linalg.det(W @ Vh))
        yield "W diag(1, ..., 1, det) V^T of Q = W S V^T, det U = 1", W * turned @ Vh


def _householder(X: Array) -> Iterator[tuple[str, Array]]:
    """Of real numbers alone."""
    if X.dtype.kind == "c":
        return
    n = len(X)
    yield "H_1 ... H_n, v_j column j of tril(Q)", _reflected(np.tril(X))
    yield "H_1 ... H_n, v_j column j of tril(Q, -1) + I", _reflected(np.tril(X, -1) + np.eye(*X.shape))
    yield "H_1 ... H_n, v_j column j of Q", _reflected(X)
    for m in range(1, min(n, 8)):
        yield f"H_1 ... H_{m}, v_j column j of Q", _reflected(X[:, :m])
        yield f"H_1 ... H_{m}, v_j column j of tril(Q)", _reflected(np.tril(X)[:, :m])
    V = np.tril(X)
    U = Householder(n).rebuild({"V": V}, {"U": V})["U"]  # ValueError for a column that is 0: the last of all
    yield "H_1 ... H_n, v_j column j of tril(Q), the last factor diag(1, ..., 1, sign q_nn)", U


def _reflected(V: Array) -> Array:
    U = np.eye(len(V))
    for v in V.T:
        U = U - np.outer(U @ v, v) * (2 / (v @ v))
    return U


def _free(X: Array) -> Iterator[tuple[str, Array]]:
    yield "nothing is done to it", X


#: Of a matrix A that is read off Q.  Exact ones come first: where several fit, the first is named.
SERIES = (
    Form("Cayley, as in scoRNN", partial(_cayley, 1.0), True),
    Form("inverse Cayley (the transposed of scoRNN's)", partial(_cayley, -1.0), True),
    Form("half-angle Cayley, as in PyTorch and geotorch", partial(_cayley, -0.5), True),
    Form("half-angle Cayley, inverse (the transposed of PyTorch's)", partial(_cayley, 0.5), True),
    Form("exponential", partial(_exponential, 1.0), True),
    Form("exponential, inverse (transposed)", partial(_exponential, -1.0), True),
    Form("exponential of half of it", partial(_exponential, 0.5), True),
    Form("exponential of half of it, inverse (transposed)", partial(_exponential, -0.5), True),
    *(
        Form(f"truncated {name}Cayley-Neumann", partial(values, c), True)
        for values in (_neumann, _whole)
        for c, name in ((1.0, ""), (-1.0, "inverse "), (-0.5, "half-angle "), (0.5, "inverse half-angle "))
    ),
    *(Form("truncated exponential", partial(_taylor, c), True) for c in (1.0, -1.0)),
)
#: Of Q itself.
MATRICES = (
    Form("polar factor", _polar),
    Form("QR", _qr),
    Form("Householder product", _householder),
    Form("Newton-Schulz", _newton_schulz),
    Form("free matrix", _free),
)
