"""What a parametrization is, and how far a matrix is from orthogonal."""

import math
from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.backend import Array, NotFiniteError, NotOrthogonalError, xp_of
from ortho_ref.boundary import check_finite, check_integer, generator, precision

Params: TypeAlias = dict[str, Array]
Buffers: TypeAlias = dict[str, Any]  # what is no parameter: "U", constants, counters


class Parametrization(ABC):
    """Own parameters <-> one dense matrix U: a frozen dataclass of options, without arrays; every method is pure.

    A method of one's own has `init`, `rebuild` and `pullback`; the rest has defaults, which fit most.
    """

    @property
    def complex(self) -> bool:
        """Whether U is complex: then it goes with complex cells only, and otherwise with real ones only.

        (`Free` goes with both: a layer leaves such a weight to its cell.)
        """
        return False

    @property
    def averages(self) -> bool:
        """Whether the mean of several values of its parameters is again one: of matrices on a manifold it is not."""
        return True

    @abstractmethod
    def init(self, rng: np.random.Generator, n: int, *, dtype: DTypeLike = np.float32) -> tuple[Params, Buffers]:
        """Parameters and buffers to begin with, U built.

        Parameters
        ----------
        rng : numpy.random.Generator
            What they are drawn from.
        n : int
            U is n x n.
        dtype : dtype
            The real precision, float32 or float64.

        Returns
        -------
        params : Params
            The parameters by name, on the host.
        buffers : Buffers
            U, constants and counters, on the host.

        Raises
        ------
        TypeError
            rng is no generator, or n no integer.
        ValueError
            n does not suit the options, or dtype is another.
        """

    @abstractmethod
    def rebuild(self, params: Params, buffers: Buffers) -> Buffers:
        """The buffers with U afresh from the parameters.

        Parameters
        ----------
        params : Params
            The parameters by name.
        buffers : Buffers
            Those they had; constants pass through.

        Returns
        -------
        Buffers
            Fresh.

        Raises
        ------
        ValueError
            A parameter has a wrong shape or kind, or is not what the method allows.
        NotFiniteError
            An entry of one is not finite.
        """

    @abstractmethod
    def pullback(self, params: Params, buffers: Buffers, dU: Array) -> Params:
        """The adjoint of `rebuild`.

        Parameters
        ----------
        params : Params
            The parameters by name.
        buffers : Buffers
            Those that belong to them.
        dU : Array (n, n)
            dL/dU.

        Returns
        -------
        Params
            dL/dparams, under the parameters' names.
        """

    def retract(self, params: Params, buffers: Buffers, delta: Params) -> tuple[Params, Buffers]:
        """Subtract the optimizer's delta and update U.

        Parameters
        ----------
        params : Params
            The parameters by name.
        buffers : Buffers
            Those that belong to them.
        delta : Params
            By the same names, learning rate included.

        Returns
        -------
        params : Params
            The new parameters.
        buffers : Buffers
            The new buffers.

        Raises
        ------
        ValueError
            The delta, or what it leads to, is not what the method allows.
        """
        params = {name: xp_of(value).asarray(value - delta[name]) for name, value in params.items()}
        return params, self.rebuild(params, buffers)

    def begun(self, buffers: Buffers) -> Buffers:
        """The buffers of the same matrix before any update: counters, and what tells of the last one, as in `init`."""
        return buffers

    def count(self, n: int) -> int:
        """Free real parameters: every entry, a complex one twice."""
        params, _ = self.init(np.random.default_rng(0), n, dtype=np.float64)
        return sum(value.size * (2 if value.dtype.kind == "c" else 1) for value in params.values())

    def health(self, buffers: Buffers) -> dict[str, float]:
        """Figures to log, by name: the defect ||U^H U - I||_2, and what a method itself watches. Costs O(n^3)."""
        return {"defect": defect(buffers["U"])}


def spectral_norm(M: Array) -> float:
    """||M||_2, the largest singular value."""
    return float(xp_of(M).linalg.norm(M, 2))


def defect(U: Array) -> float:
    """||U^H U - I||_2; 0 for an orthogonal or unitary matrix."""
    return spectral_norm(U.conj().T @ U - xp_of(U).eye(U.shape[0], dtype=U.dtype))


#: Of ||U^T U v - v||_2, for one v of length 1 a lower bound of the defect.  In float32 it is 4e-5 at most for
#: ||A||_2 = 1e3, and 7e-4 for 1e4, far beyond what training leads to.
AWAY = 1e-3


def check_orthogonal(name: str, parameter: Array, U: Array) -> None:
    """An error unless the real U (n, n), made of a finite parameter, is orthogonal as far as one vector shows it.

    A parameter may be so large that the identity in I + A is lost to rounding, or that a product overflows.  It costs
    O(n^2), where the defect costs O(n^3).
    """
    xp = xp_of(U)
    v = xp.cos(xp.arange(len(U), dtype=U.dtype))  # no eigenvector of anything, and no entry of it is 0
    v = v / xp.linalg.norm(v)
    with np.errstate(all="ignore"):  # what overflows is told below
        away = float(xp.linalg.norm(U.T @ (U @ v) - v))
    if away <= AWAY:
        return
    finite = math.isfinite(away)
    what = f"is not orthogonal: ||U^T U v - v|| is {away:.3g}" if finite else "is not finite"
    raise (NotOrthogonalError if finite else NotFiniteError)(
        f"{name} is too large: its largest entry is {float(abs(parameter).max()):.3g}, and U {what}; allowed: entries "
        f"for which ||U^T U v - v|| is at most {AWAY} for a v of length 1"
    )


def check_draw(rng: Any, n: Any, dtype: Any) -> tuple[np.random.Generator, np.dtype[Any]]:
    """rng and the dtype that `init` was given, or an error that names the argument."""
    generator(rng)
    check_integer("n", n)
    return rng, precision(dtype)


def check_parameter(name: str, value: Array, shape: tuple[int, ...], kind: str = "f") -> None:
    """An error unless a parameter is finite, of this shape, and real ("f") or complex ("c")."""
    if value.shape != shape or value.dtype.kind != kind:
        needed = {"f": "real", "c": "complex"}[kind]
        raise ValueError(f"{name} is {value.dtype} of shape {value.shape}; allowed: {needed}, of shape {shape}")
    check_finite(name, value)
