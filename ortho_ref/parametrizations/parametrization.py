"""What a parametrization is, and how far a matrix is from orthogonal."""

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.arguments import generator, precision, refuse_dtype
from ortho_ref.arguments import is_integer as is_integer
from ortho_ref.backend import Array, NotFiniteError, NotOrthogonalError, xp_of
from ortho_ref.checks import check, check_finite
from ortho_ref.pending import Pending

Params: TypeAlias = dict[str, Array]
Buffers: TypeAlias = dict[str, Any]  # what is no parameter: "U", constants, counters


class Parametrization(ABC):
    """Own parameters <-> one dense matrix U: a frozen dataclass of options, without arrays; every method is pure.

    A method of one's own has `init`, `rebuild` and `pullback`; the rest has defaults, which fit most.
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "retract" in vars(cls) and "begin_retract" not in vars(cls):  # an update of one's own is made at once
            cls.begin_retract = Parametrization.begin_retract  # type: ignore[method-assign]

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
        params = {name: value - delta[name] for name, value in params.items()}
        return params, self.rebuild(params, buffers)

    def begin_retract(self, params: Params, buffers: Buffers, delta: Params) -> Pending:
        """`retract` up to where it has to know a number; several such updates are read in one copy.

        Parameters
        ----------
        params, buffers, delta : dict
            As `retract` takes them.

        Returns
        -------
        Pending
            Its result is that of `retract`.
        """
        return Pending((), lambda _: self.retract(params, buffers, delta))

    def begun(self, buffers: Buffers) -> Buffers:
        """Buffers of the same matrix before any update.

        Parameters
        ----------
        buffers : Buffers
            Of any time.

        Returns
        -------
        Buffers
            What counts updates, or tells of the last one, is as in `init`; all else as it is.
        """
        return buffers

    def count(self, n: int) -> int:
        """Free real parameters: every entry, a complex one twice.

        Parameters
        ----------
        n : int
            U is n x n.

        Returns
        -------
        int
            How many.
        """
        params, _ = self.init(np.random.default_rng(0), n, dtype=np.float64)
        return sum(value.size * (2 if value.dtype.kind == "c" else 1) for value in params.values())

    def health(self, buffers: Buffers) -> dict[str, float]:
        """Figures to log: the defect ||U^H U - I||_2, and what a method itself watches. Costs O(n^3).

        Parameters
        ----------
        buffers : Buffers
            With U.

        Returns
        -------
        dict of str to float
            By name.
        """
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
    """An error unless U, made of a finite parameter, is finite and orthogonal as far as one vector shows it.

    A parameter may be so large that the identity in I + A is lost to rounding, or that a product overflows.  It costs
    O(n^2), where the defect costs O(n^3).

    Parameters
    ----------
    name : str
        What the error calls the parameter.
    parameter : Array
        Finite.
    U : Array (n, n)
        Real, what was made of it.

    Raises
    ------
    NotFiniteError
        U is not finite.
    NotOrthogonalError
        U^T U v is more than `AWAY` from v.
    """
    xp = xp_of(U)
    v = xp.cos(xp.arange(len(U), dtype=U.dtype))  # no eigenvector of anything, and no entry of it is 0
    v = v / xp.linalg.norm(v)
    with np.errstate(all="ignore"):  # what overflows is told below
        away = xp.linalg.norm(U.T @ (U @ v) - v)

    def told(what: str) -> str:
        return f"{name} is too large: its largest entry is {float(abs(parameter).max()):.3g}, and U {what}"

    allowed = f"allowed: entries for which ||U^T U v - v|| is at most {AWAY} for a v of length 1"
    check(
        xp.isfinite(away),
        NotFiniteError(f"{name} is too large: U is not finite"),
        lambda: f"{told('is not finite')}; {allowed}",
    )
    check(
        away <= AWAY,
        NotOrthogonalError(f"{name} is too large: U is not orthogonal; {allowed}"),
        lambda: f"{told(f'is not orthogonal: ||U^T U v - v|| is {float(away):.3g}')}; {allowed}",
    )


def check_draw(rng: Any, n: Any, dtype: Any) -> tuple[np.random.Generator, np.dtype[Any]]:
    """What `init` was given, or an error that names the argument.

    Parameters
    ----------
    rng, n, dtype
        As `Parametrization.init` takes them.

    Returns
    -------
    rng : numpy.random.Generator
        As given.
    dtype : numpy.dtype
        float32 or float64.

    Raises
    ------
    TypeError
        rng is no generator, or n no integer.
    ValueError
        n is below 1, or dtype is another.
    """
    generator(rng)
    if not is_integer(n):
        refuse_dtype("n", n, "an integer >= 1")
        raise TypeError(f"n is {n!r}; allowed: an integer >= 1")
    if n < 1:
        raise ValueError(f"n is {n}; allowed: an integer >= 1")
    return rng, precision(dtype)


def check_parameter(name: str, value: Array, shape: tuple[int, ...], kind: str = "f") -> None:
    """An error unless the parameter is what a parametrization takes.

    Parameters
    ----------
    name : str
        What the error calls it.
    value : Array
        What was given.
    shape : tuple of int
        The one allowed.
    kind : str
        "f" real, the default, or "c" complex.

    Raises
    ------
    ValueError
        It has another shape or kind.
    NotFiniteError
        It is not finite.
    """
    if value.shape != shape or value.dtype.kind != kind:
        needed = {"f": "real", "c": "complex"}[kind]
        raise ValueError(f"{name} is {value.dtype} of shape {value.shape}; allowed: {needed}, of shape {shape}")
    check_finite(name, value)
