"""How PyTorch, geotorch, expRNN and PEFT make an orthogonal U of their parameters, and the way back.

                    parameters          A                            U
torch-matrix-exp    original, base      L - L^H, L = tril(original)  base exp(A)
torch-cayley        original, base      L - L^H, L = tril(original)  base (I - A/2)^-1 (I + A/2)
torch-householder   original, base      -                            base H_1 ... H_n diag(d), see below
geotorch-expm       original, base      as torch-matrix-exp, real
geotorch-cayley     original, base      as torch-cayley, real
exprnn-expm         A, base             R - R^T, R = triu(A, 1)      base exp(A)
exprnn-cayley       A, base             R - R^T, R = triu(A, 1)      base (I + A)^-1 (I - A)
peft-oft            weight (r, k)       R - R^T, R = weight, by rows (I + A)^-1 (I - A), each of r blocks
peft-oft-neumann    weight (r, k)       R - R^T, R = weight, by rows (I - A)^-1 (I + A), by its series
peft-boft           boft_R (1, r, b, b) (boft_R - boft_R^T) / 2      (I + A)^-1 (I - A), each of r blocks

base is a buffer, I where it is not given; `torch.nn.utils.parametrizations.orthogonal` has it as
"parametrizations.weight.0.base" beside "parametrizations.weight.original", and none with use_trivialization=False.
v_j of H_j has a 1 at j and column j of tril(original, -1) below; d is original's diagonal.  "peft-oft" is OFT with
use_cayley_neumann=False; k = b (b - 1) / 2, b the size of a block.  BOFT here has one butterfly factor, as it has
without CUDA.  With scoRNN's Cayley transform C: (I - A/2)^-1 (I + A/2) = C(-A/2), (I - A)^-1 (I + A) = C(-A).

peft-oft-neumann cuts the series off, so that its U is orthogonal for A = 0 alone, and there is no exact way back: the A
is the exact transform's, and the certificate says how far off the series is.

From PyTorch 2.13.0, geotorch 0.4.0, PEFT 0.21.2 and Lezcano/expRNN at 830ec83; square matrices.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ortho_ref.backend import Array
from ortho_ref.boundary import check_integer
from ortho_ref.converters.framework import on_host
from ortho_ref.converters.inverses import cayley_skew, logarithm, skew
from ortho_ref.parametrizations import Params
from ortho_ref.parametrizations.cayley import inverse
from ortho_ref.parametrizations.exponential import exponential
from ortho_ref.parametrizations.geodesic import TOLERANCE

#: PEFT's default of num_cayley_neumann_terms.
TERMS = 5


class Reading(NamedTuple):
    """What a library keeps, and what U is made of, block by block."""

    parameter: str  # what the library calls it
    blocks_of: Callable[[Array], list[Array]]
    parameter_of: Callable[[list[Array]], Array]  # the way back


class Form(NamedTuple):
    """How a block of U is made, and the way back."""

    U_of: Callable[[Array, int], Array]  # of the block and the number of terms, which a series has
    of_U: Callable[[Array], Array]
    reaches: str  # in words; "" where there is no way back to rounding


class OtherMap(NamedTuple):
    """A map of another library."""

    reading: Reading
    form: Form
    base: bool = False  # whether a matrix stands on the left
    complex: bool = False  # whether U may be complex

    @property
    def reaches(self) -> str:
        """Which U, in words; "" where there is no way back to rounding."""
        return self.form.reaches

    def matrix_of(self, params: Mapping[str, Any], blocks: int | None, terms: int) -> Array:
        """U, of params by their names; ValueError for others."""
        (parameter, blocks_of, _), U_of = self.reading, self.form.U_of
        allowed = [parameter, "base"] if self.base else [parameter]
        given = {key: on_host(value) for key, value in params.items() if value is not None}
        if parameter not in given or not given.keys() <= set(allowed):
            raise ValueError(f"params holds {', '.join(given) or 'nothing'}; allowed: {', '.join(allowed)}")
        value = given[parameter]
        try:
            own = blocks_of(value)
        except (ValueError, IndexError):
            raise ValueError(f"{parameter} has shape {value.shape}; expected as in `other_maps`") from None
        if blocks is not None:
            check_integer("blocks", blocks)
            if blocks != len(own) and len(own) != 1:
                raise ValueError(f"blocks is {blocks}; allowed: {len(own)}, as {parameter} has")
            own = own * (blocks // len(own))
        U = scipy.linalg.block_diag(*(U_of(A, terms) for A in own))
        if "base" in given and given["base"].shape != U.shape:
            raise ValueError(f"base has shape {given['base'].shape}; expected {U.shape}")
        return given["base"] @ U if "base" in given else U

    def params_of(self, U: Array, base: Array | None, blocks: int, dtype: Any) -> Params:
        """Parameters for an orthogonal U."""
        check_integer("blocks", blocks)
        if len(U) % blocks:
            raise ValueError(f"blocks is {blocks}; allowed: a divisor of n = {len(U)}")
        own, b = U if base is None else base.conj().T @ U, len(U) // blocks
        cut = [own[k : k + b, k : k + b] for k in range(0, len(U), b)]
        outside = float(abs(own - scipy.linalg.block_diag(*cut)).max())
        if outside > TOLERANCE:
            raise ValueError(f"U has an entry of {outside:.3g} outside of its {blocks} blocks; allowed: 0")
        params = {self.reading.parameter: self.reading.parameter_of(list(map(self.form.of_U, cut))).astype(dtype)}
        return params if base is None else params | {"base": base.astype(dtype)}


def _triangle(parameter: str, lower: bool) -> Reading:
    """A is read off a triangle and its diagonal, of which a real A has nothing."""

    def read(X: Array) -> list[Array]:
        half = np.tril(X) if lower else np.triu(X)
        return [half - half.conj().T]

    def write(own: list[Array]) -> Array:
        A = own[0]
        return (np.tril(A, -1) if lower else np.triu(A, 1)) + np.diag(np.diag(A)) / 2

    return Reading(parameter, read, write)


def _rows(weight: Array) -> list[Array]:
    """PEFT's OFT: the upper triangle of each block, by rows."""
    b = round((1 + (1 + 8 * weight.shape[1]) ** 0.5) / 2)
    R = np.zeros((len(weight), b, b), weight.dtype)
    R[(slice(None), *np.triu_indices(b, 1))] = weight
    return [one - one.T for one in R]


def _cayley(c: float, reaches: str) -> Form:
    """scoRNN's transform of c A."""
    return Form(
        lambda A, terms: 2 * inverse(c * A) - np.eye(len(A), dtype=A.dtype), lambda U: cayley_skew(U) / c, reaches
    )


def _series(A: Array, terms: int) -> Array:
    """I + 2 A + ... + 2 A^(t-2) + A^(t-1), of PEFT's terms t; its 3 is its 4, 2 is I + 2 A, 1 is I."""
    factors = {1: [1], 2: [1, 2]}.get(terms, [1, *[2] * (max(terms, 4) - 2), 1])
    U, power = np.zeros_like(A), np.eye(len(A), dtype=A.dtype)
    for factor in factors:
        U, power = U + factor * power, power @ A
    return U


def _reflected(X: Array, terms: int) -> Array:
    V = np.tril(X, -1) + np.eye(len(X), dtype=X.dtype)
    U = np.diag(np.trunc(np.diag(X)))
    for v in V.T[::-1]:
        U = U - np.outer(v, v @ U) * (2 / (v @ v))
    return U


def _reflectors(U: Array) -> Array:
    """By QR: LAPACK's v_j have a 1 at j; where it takes none, the one that PyTorch takes changes the sign."""
    h, tau = np.linalg.qr(U, mode="raw")
    signs = np.sign(np.diag(h)) * np.where(tau == 0, -1, 1)
    return np.tril(h.T, -1) + np.diag(signs)


_NO_HALF_TURN = "no eigenvalue -1 of U, or of base^H U"
_BLOCKS = "no eigenvalue -1 of a block"
_EXPONENTIAL = Form(lambda A, terms: exponential(A), logarithm, "determinant 1, or that of the base")
_HALF = _cayley(-0.5, _NO_HALF_TURN)
_LOWER, _UPPER = _triangle("original", True), _triangle("A", False)
_WEIGHT = Reading("weight", _rows, lambda own: np.stack([A[np.triu_indices(len(A), 1)] for A in own]))
_BOFT = Reading("boft_R", lambda R: [skew(one) for (own,) in [R] for one in own], lambda own: np.stack(own)[None])
_HOUSEHOLDER = Form(_reflected, _reflectors, "every orthogonal U")
#: Name -> map.
OTHER_MAPS: dict[str, OtherMap] = {
    "torch-matrix-exp": OtherMap(_LOWER, _EXPONENTIAL, base=True, complex=True),
    "torch-cayley": OtherMap(_LOWER, _HALF, base=True, complex=True),
    "torch-householder": OtherMap(Reading("original", lambda X: [X], lambda own: own[0]), _HOUSEHOLDER, base=True),
    "geotorch-expm": OtherMap(_LOWER, _EXPONENTIAL, base=True),
    "geotorch-cayley": OtherMap(_LOWER, _HALF, base=True),
    "exprnn-expm": OtherMap(_UPPER, _EXPONENTIAL, base=True),
    "exprnn-cayley": OtherMap(_UPPER, _cayley(1.0, _NO_HALF_TURN), base=True),
    "peft-oft": OtherMap(_WEIGHT, _cayley(1.0, _BLOCKS)),
    "peft-oft-neumann": OtherMap(_WEIGHT, Form(_series, _cayley(-1.0, "").of_U, "")),
    "peft-boft": OtherMap(_BOFT, _cayley(1.0, _BLOCKS)),
}
