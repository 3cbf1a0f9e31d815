"""What a parametrization is, and how far a matrix is from orthogonal."""

from typing import Any, Protocol, TypeAlias

import numpy as np

from ortho_ref.backend import Array, xp_of
from ortho_ref.checks import check_finite

Params: TypeAlias = dict[str, Array]
Buffers: TypeAlias = dict[str, Any]  # what is no parameter: "U", constants, counters


class Parametrization(Protocol):
    """Own parameters <-> one dense matrix U.  Options only, no arrays; every method is pure.

    complex: whether U is; then it goes with complex cells only, and otherwise with real ones only.  (`Free` goes with
    both: a layer leaves such a weight to its cell.)
    """

    @property
    def complex(self) -> bool: ...

    def init(self, rng: np.random.Generator, n: int, dtype: Any) -> tuple[Params, Buffers]:
        """Parameters and buffers to begin with, U built, on the host.  ValueError if n does not suit the options."""
        ...

    def rebuild(self, params: Params, buffers: Buffers) -> Buffers:
        """The buffers with U afresh from the parameters; constants pass through.  ValueError for bad parameters."""
        ...

    def pullback(self, params: Params, buffers: Buffers, dU: Array) -> Params:
        """dL/dU (n, n) -> dL/dparams, under the parameters' names."""
        ...

    def retract(self, params: Params, buffers: Buffers, delta: Params) -> tuple[Params, Buffers]:
        """Subtract the optimizer's delta (learning rate included) and update U."""
        ...

    def settle(self, params: Params, buffers: Buffers) -> Buffers:
        """The buffers, once per logging interval: what retractions on a device did not look at is looked at here."""
        ...

    def count(self, n: int) -> int:
        """Free real parameters."""
        ...

    def health(self, buffers: Buffers) -> dict[str, float]:
        """Figures to log: "defect" for an orthogonal U, and what the parametrization itself watches.  Costs O(n^3)."""
        ...


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
