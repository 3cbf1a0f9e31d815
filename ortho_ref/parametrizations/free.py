"""An unconstrained matrix, so that every weight is handled alike."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.backend import Array
from ortho_ref.initial import glorot
from ortho_ref.parametrizations.parametrization import Buffers, Parametrization, Params, check_draw


@dataclass(frozen=True)
class Free(Parametrization):
    """U is its own parameter.  The parameter's name is empty: in a model's flat names the weight keeps its own name.

    In a layer it says that the cell's own initial value is trained as it is, complex where the cell is.
    """

    def init(self, rng: np.random.Generator, n: int, *, dtype: DTypeLike = np.float32) -> tuple[Params, Buffers]:
        """U Glorot uniform."""
        rng, dtype = check_draw(rng, n, dtype)
        U = glorot(rng, (n, n), dtype)
        return {"": U}, {"U": U}

    def rebuild(self, params: Params, buffers: Buffers) -> Buffers:
        """U is the parameter."""
        return {**buffers, "U": params[""]}

    def pullback(self, params: Params, buffers: Buffers, dU: Array) -> Params:
        """dL/dU as it is."""
        return {"": dU}

    def count(self, n: int) -> int:
        """n^2."""
        return n * n

    def health(self, buffers: Buffers) -> dict[str, float]:
        """Nothing to watch."""
        return {}
