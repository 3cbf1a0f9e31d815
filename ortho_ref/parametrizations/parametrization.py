"""What a parametrization is, and how far a matrix is from orthogonal."""

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import numpy as np

from ortho_ref.backend import Array, xp_of
from ortho_ref.checks import Pending, check_finite

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

    @abstractmethod
    def init(self, rng: np.random.Generator, n: int, dtype: Any) -> tuple[Params, Buffers]:
        """Parameters and buffers to begin with, U built, on the host.  ValueError if n does not suit the options."""

    @abstractmethod
    def rebuild(self, params: Params, buffers: Buffers) -> Buffers:
        """The buffers with U afresh from the parameters; constants pass through.  ValueError for bad parameters."""

    @abstractmethod
    def pullback(self, params: Params, buffers: Buffers, dU: Array) -> Params:
        """dL/dU (n, n) -> dL/dparams, under the parameters' names."""

    def retract(self, params: Params, buffers: Buffers, delta: Params) -> tuple[Params, Buffers]:
        """Subtract the optimizer's delta (learning rate included) and update U."""
        params = {name: value - delta[name] for name, value in params.items()}
        return params, self.rebuild(params, buffers)

    def begin_retract(self, params: Params, buffers: Buffers, delta: Params) -> Pending:
        """`retract` up to where it has to know a number; several such updates are read in one copy."""
        return Pending((), lambda _: self.retract(params, buffers, delta))

    def count(self, n: int) -> int:
        """Free real parameters: every entry, a complex one twice."""
        params, _ = self.init(np.random.default_rng(0), n, np.float64)
        return sum(value.size * (2 if value.dtype.kind == "c" else 1) for value in params.values())

    def health(self, buffers: Buffers) -> dict[str, float]:
        """Figures to log: the defect ||U^H U - I||_2, and what a method itself watches.  Costs O(n^3)."""
        return {"defect": defect(buffers["U"])}


def spectral_norm(M: Array) -> float:
    """||M||_2, the largest singular value."""
    return float(xp_of(M).linalg.norm(M, 2))


def defect(U: Array) -> float:
    """||U^H U - I||_2; 0 for an orthogonal or unitary matrix."""
    return spectral_norm(U.conj().T @ U - xp_of(U).eye(U.shape[0], dtype=U.dtype))


def is_integer(value: object) -> bool:
    """True for Python's and NumPy's integers, False for bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_parameter(name: str, value: Array, shape: tuple[int, ...], kind: str = "f") -> None:
    """ValueError unless the parameter has this shape and kind ("f" real, "c" complex); NotFiniteError if not finite."""
    if value.shape != shape or value.dtype.kind != kind:
        needed = {"f": "real", "c": "complex"}[kind]
        raise ValueError(f"{name} is {value.dtype} of shape {value.shape}; allowed: {needed}, of shape {shape}")
    check_finite(name, value)
