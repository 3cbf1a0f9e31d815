"""A free unitary matrix, moved along a geodesic by a multiplicative Cayley step (full-capacity uRNN).

    A = G U^H - U G^H,  G = dL/dRe U + i dL/dIm U                               [goru:2.9]
    U <- (I + (rate/2) A)^{-1} (I - (rate/2) A) U                               [goru:2.10]

A is skew-Hermitian, so that U stays unitary whatever the rate; the slope of the loss at rate 0 is -|A|_F^2 / 2.  As
printed, A = G^H U - U^H G, the step goes uphill as often as not (E-goru-03).  G is the whole gradient; released code
takes half of it.  The optimizer's delta stands for rate * G: with SGD it is that, with RMSprop each entry is scaled
first, and the step is unitary all the same.  Rounding accumulates, in float32 about 1e-6 sqrt(steps)
for n from 32 to 128; `health` tells.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.backend import Array, complex_dtype, library_of, xp_of
from ortho_ref.parametrizations.parametrization import (
    Buffers,
    Parametrization,
    Params,
    check_draw,
    check_parameter,
    defect,
)
from ortho_ref.parametrizations.structured import StructuredUnitary

TOLERANCE = 1e-2


@dataclass(frozen=True)
class GeodesicUnitary(Parametrization):
    """Full-capacity unitary matrix. Parameter X (n, n), complex, unitary: U itself.

    References
    ----------
    [goru:2.9] [goru:2.10], corrected; docs/equations.md, docs/errata.md (E-goru-03).
    """

    complex: ClassVar[bool] = True

    def init(self, rng: np.random.Generator, n: int, *, dtype: DTypeLike = np.float32) -> tuple[Params, Buffers]:
        """A random draw of uRNN's factorisation (urnn:6), as in the released code."""
        rng, dtype = check_draw(rng, n, dtype)
        X = StructuredUnitary().init(rng, n, dtype=np.float64)[1]["U"].astype(complex_dtype(dtype))
        return {"X": X}, {"U": X.copy()}

    @property
    def averages(self) -> bool:
        """No: a mean of unitary matrices is not unitary."""
        return False

    def rebuild(self, params: Params, buffers: Buffers) -> Buffers:
        """U = X.  ValueError unless X is complex, finite and, to within 1e-2, unitary."""
        X = params["X"]
        check_parameter("X", X, buffers["U"].shape, "c")
        away = defect(X)
        if away > TOLERANCE:
            raise ValueError(f"X is not unitary: ||X^H X - I||_2 is {away:.3g}; allowed: at most {TOLERANCE}")
        return {**buffers, "U": X.copy()}

    def pullback(self, params: Params, buffers: Buffers, dU: Array) -> Params:
        """dL/dU is G."""
        return {"X": dU}

    def retract(self, params: Params, buffers: Buffers, delta: Params) -> tuple[Params, Buffers]:
        """The geodesic step; delta stands for rate * G.  NotFiniteError if it is not finite."""
        X, G = params["X"], delta["X"]
        xp, linalg = xp_of(X, G), library_of(X, G).linalg
        check_parameter("delta of X", G, X.shape, "c")
        GX = G @ X.conj().T
        A = GX - GX.conj().T  # [goru:2.9]
        I = xp.eye(len(X), dtype=X.dtype)
        X = linalg.lu_solve(linalg.lu_factor(I + A / 2), (I - A / 2) @ X)  # [goru:2.10]
        return {"X": X}, {**buffers, "U": X.copy()}

    def count(self, n: int) -> int:
        """n^2, the dimension of the unitary group."""
        return n * n
