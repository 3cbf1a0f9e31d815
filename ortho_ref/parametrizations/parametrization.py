"""What a parametrization is, and how far a matrix is from orthogonal."""

from typing import Any, Protocol, TypeAlias

import numpy as np

from ortho_ref.backend import Array, xp_of

Params: TypeAlias = dict[str, Array]
State: TypeAlias = dict[str, Any]  # "U", constants, counters


class Parametrization(Protocol):
    """Own parameters <-> one dense matrix U.  Options only, no arrays; every method is pure."""

    def init(self, rng: np.random.Generator, n: int, dtype: Any) -> tuple[Params, State]:
        """Initial parameters and state (its "U" is built), on the host.  ValueError if n does not suit the options."""
        ...

    def rebuild(self, params: Params, state: State) -> State:
        """The state with U afresh from the parameters; constants pass through.  ValueError for bad parameters."""
        ...

    def pullback(self, params: Params, state: State, dU: Array) -> Params:
        """dL/dU (n, n) -> dL/dparams, under the parameters' names."""
        ...

    def retract(self, params: Params, state: State, delta: Params) -> tuple[Params, State]:
        """Subtract the optimizer's delta (learning rate included) and update U."""
        ...

    def count(self, n: int) -> int:
        """Free real parameters."""
        ...

    def health(self, state: State) -> dict[str, float]:
        """Figures to log: "defect" for an orthogonal U, and what the parametrization itself watches.  Costs O(n^3)."""
        ...


def spectral_norm(M: Array) -> float:
    """||M||_2, the largest singular value."""
    return float(xp_of(M).linalg.norm(M, 2))


def defect(U: Array) -> float:
    """||U^H U - I||_2; 0 for an orthogonal or unitary matrix."""
    return spectral_norm(U.conj().T @ U - xp_of(U).eye(U.shape[0], dtype=U.dtype))
