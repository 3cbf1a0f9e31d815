"""How a map reads its input: the matrix that its formula is of, from the Q that it is given."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ortho_ref.backend import Array


class Reading(NamedTuple):
    """One way to read Q."""

    words: str  # A in terms of Q
    of: Callable[[Array], Array]  # Q -> A
    of_complex: bool = False  # only a complex Q tells it from another in the list


def skew(M: Array) -> Array:
    """M - M^H."""
    return M - M.conj().T


def _plain(M: Array) -> Array:
    """Without the conjugate: not skew-Hermitian."""
    return M - M.T


#: In the order in which they are named where several fit.
AS_IT_IS = Reading("Q", lambda Q: Q)
READINGS = (
    AS_IT_IS,
    Reading("Q - Q^H", skew),
    Reading("(Q - Q^H)/2", lambda Q: skew(Q) / 2),
    Reading("L - L^H, L = tril(Q, -1)", lambda Q: skew(np.tril(Q, -1))),
    Reading("R - R^H, R = triu(Q, 1)", lambda Q: skew(np.triu(Q, 1))),
    Reading("L - L^H, L = tril(Q)", lambda Q: skew(np.tril(Q)), True),
    Reading("R - R^H, R = triu(Q)", lambda Q: skew(np.triu(Q)), True),
    Reading("Q - Q^T, not conjugated", _plain, True),
    Reading("(Q - Q^T)/2, not conjugated", lambda Q: _plain(Q) / 2, True),
    Reading("L - L^T, not conjugated, L = tril(Q, -1)", lambda Q: _plain(np.tril(Q, -1)), True),
    Reading("R - R^T, not conjugated, R = triu(Q, 1)", lambda Q: _plain(np.triu(Q, 1)), True),
)


def readings(Q: Array, skew_alone: bool) -> list[Reading]:
    """Those that can be told from each other by a Q; of a skew one, all are Q itself or twice it."""
    if skew_alone:
        return [AS_IT_IS]
    return [reading for reading in READINGS if Q.dtype.kind == "c" or not reading.of_complex]
