"""A closed form with everything that is said of it: how it reads Q, and what stands around it."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.backend import Array
from ortho_ref.conformance.maps.forms import SERIES, Form
from ortho_ref.parametrizations.exponential import exponential_derivative

_EXPONENTIAL = next(form for form in SERIES if form.name == "exponential")


class Reading(NamedTuple):
    """The matrix that a formula is of, from the Q that a map is given."""

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


class Closed(NamedTuple):
    """One closed form."""

    form: Form  # which
    variant: str  # its formula
    reading: Reading  # what of Q it is of
    place: str = ""  # what stands around it: "" or one of `LEFT`, `RIGHT`, `TRANSPOSED`, `OF_TRANSPOSED`, `NEGATED`

    @property
    def words(self) -> str:
        """All of it in one line, the formula first."""
        before, _, after = self.place.partition("|")
        core = f"{self.form.name}: {self.variant}"
        if self.form.series:
            core += f", A = {self.reading.words}"
        return f"{before}{core}{after}"


def values_of(closed: Closed, Q: Array, base: Array | None) -> Array:
    """U of one closed form at Q; base is map(0), where its place needs it."""
    X, after = placed(closed.place, Q, base)
    return after(_value(closed, closed.reading.of(X)))


def _value(closed: Closed, X: Array) -> Array:
    for variant, value in closed.form.values(X):
        if variant == closed.variant:
            return value
    raise ValueError(f"variant is {closed.variant!r}, which {closed.form.name} does not have for this matrix")


#: Words around a form, "before|after" -> what it does to Q and then to U; two with map(0).
LEFT, RIGHT = "map(0) times |", "|, times map(0) on the right"
TRANSPOSED, OF_TRANSPOSED, NEGATED = "|, transposed", "|, of Q^H, transposed", "minus |"


def placed(place: str, Q: Array, base: Array | None) -> tuple[Array, Callable[[Array], Array]]:
    """What a form is of at a place, and what makes U of its value; base is map(0), I unless given."""
    known = np.eye(len(Q)) if base is None else base
    return {
        "": (Q, lambda U: U),
        LEFT: (Q, lambda U: known @ U),
        RIGHT: (Q, lambda U: U @ known),
        TRANSPOSED: (Q, lambda U: U.conj().T),
        OF_TRANSPOSED: (Q.conj().T, lambda U: U.conj().T),
        NEGATED: (Q, lambda U: -U),
    }[place]


def derivative(closed: Closed, Q: Array, E: Array, base: Array | None) -> Array:
    """dU of the closed form where Q moves by E.

    Of a series exact, the upper right block of the value at (A, dA; 0, A); of an exponential the reference's
    derivative; of others by central differences of fourth order.
    """
    if closed.form.series and closed.place in ("", LEFT, RIGHT):
        A, dA, (_, after) = closed.reading.of(Q), closed.reading.of(E), placed(closed.place, Q, base)
        if closed.form is _EXPONENTIAL and A.dtype.kind == "f":
            return after(exponential_derivative(A, dA))
        n = len(A)
        return after(_value(closed, np.block([[A, dA], [np.zeros_like(A), A]]))[:n, n:])
    return difference(lambda h: values_of(closed, Q + h * E, base) - values_of(closed, Q - h * E, base))


def difference(change: Callable[[float], Any], h: float = 1e-3) -> Any:
    """A derivative, of fourth order, by a change(h) between -h and h."""
    return (4 * change(h / 2) / h - change(h) / (2 * h)) / 3


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Within, what overflows or is singular is not told: a form that is not the map's may do either."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
