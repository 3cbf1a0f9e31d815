"""A product of Householder reflections (oRNN).

    U = H_1 H_2 ... H_m,  H_j = I - 2 v_j v_j^T / |v_j|^2                       [goru:householder]
      = I - V S^{-1} V^T,  S = K * (V^T V),  K = 1 above the diagonal, 1/2 on it, 0 below
    dV = -(dU V Y^T + dU^T V Y) + V (dS + dS^T),  Y = S^{-1}                    [bp:householder/V]
    dS = K * (Y^T V^T dU V Y^T)                                                 [bp:householder/S]

V (n, m) has the v_j as columns; v_j is 0 above its entry j (oRNN).  H_m acts first.  Why S, and the pullback step by
step: docs/derivations/householder.md.  dv_j has no component along v_j: U does not change with the length of v_j.

m = n: v_n has one entry.  Its reflection would be diag(1, ..., 1, -1) whatever that entry; as in oRNN its sign, which
never changes by training, stands in place of the -1, so that both determinants can be had.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.boundary import check_number, is_integer
from ortho_ref.parametrizations.parametrization import (
    Buffers,
    Parametrization,
    Params,
    check_draw,
    check_parameter,
)


@dataclass(frozen=True)
class Householder(Parametrization):
    """Product of Householder reflections (oRNN). Parameter V (n, m), lower trapezoidal.

    Parameters
    ----------
    reflections : int
        m, from 1 to n. det U = (-1)^m for m < n.

    Raises
    ------
    ValueError
        It is no integer >= 1.

    References
    ----------
    [goru:householder], docs/equations.md.
    """

    reflections: int

    def __post_init__(self) -> None:
        check_number("reflections", self.reflections, lambda m: is_integer(m) and m >= 1, "an integer from 1 to n")

    def init(self, rng: np.random.Generator, n: int, *, dtype: DTypeLike = np.float32) -> tuple[Params, Buffers]:
        """Columns of unit length, uniform in direction (oRNN).  ValueError if there are more of them than n."""
        rng, dtype = check_draw(rng, n, dtype)
        self._check_size(n)
        V = np.tril(rng.standard_normal((n, self.reflections)))
        params = {"V": (V / np.linalg.norm(V, axis=0)).astype(dtype)}
        return params, self.rebuild(params, {"U": np.empty((n, n), dtype)})

    def rebuild(self, params: Params, buffers: Buffers) -> Buffers:
        """U from V.  ValueError unless V is finite, 0 above its diagonal, and has no column 0."""
        V, n = params["V"], buffers["U"].shape[0]
        xp = xp_of(V)
        check_parameter("V", V, (n, self.reflections))
        if not bool((xp.triu(V, 1) == 0).all()):
            raise ValueError("V has an entry above its diagonal; allowed: 0 there (column j begins at entry j)")
        squares = (V * V).sum(axis=0)
        if not bool(((squares >= xp.finfo(V.dtype).tiny) & xp.isfinite(squares)).all()):
            raise ValueError("V has a column whose square is 0, subnormal or infinite; allowed: squares between")
        V, signs = self._reflecting(V)
        U = xp.eye(n, dtype=V.dtype)
        if V.shape[1]:
            U -= V @ self._solved(V, V.T)  # [goru:householder]
        return {**buffers, "U": U * signs}

    def pullback(self, params: Params, buffers: Buffers, dU: Array) -> Params:
        """dL/dU -> {"V": dL/dV}, 0 above the diagonal."""
        whole = params["V"]
        xp = xp_of(whole, dU)
        V, signs = self._reflecting(whole)
        dV = xp.zeros_like(whole)
        if V.shape[1]:
            dU = dU * signs
            VY, VY_T = self._solved(V, V.T, transposed=True).T, self._solved(V, V.T).T
            dS = _above(VY.T @ dU @ VY_T)  # [bp:householder/S]
            dV[:, : V.shape[1]] = -(dU @ VY_T + dU.T @ VY) + V @ (dS + dS.T)  # [bp:householder/V]
        return {"V": xp.tril(dV)}

    def count(self, n: int) -> int:
        """n m - m (m - 1) / 2, the sign of v_n counted for m = n."""
        self._check_size(n)
        m = self.reflections
        return n * m - m * (m - 1) // 2

    def _check_size(self, n: int) -> None:
        if self.reflections > n:
            raise ValueError(f"reflections is {self.reflections}; allowed: 1 to n = {n}")

    def _reflecting(self, V: Array) -> tuple[Array, Array]:
        """The columns that reflect, and the last factor as a diagonal (n,): ones but for m = n."""
        xp, (n, m) = xp_of(V), V.shape
        signs = xp.ones(n, V.dtype)
        if m == n:
            signs[-1] = xp.sign(V[-1, -1])
            V = V[:, :-1]
        return V, signs

    @staticmethod
    def _solved(V: Array, right: Array, transposed: bool = False) -> Array:
        """Y right, or Y^T right."""
        solve = library_of(V).linalg.solve_triangular
        return solve(_above(V.T @ V), right, trans=1 if transposed else 0)


def _above(M: Array) -> Array:
    """K * M: M above the diagonal, half of it on the diagonal, 0 below."""
    xp = xp_of(M)
    return (xp.triu(M) + xp.triu(M, 1)) / 2
