"""Checks of values: made at once, or kept on the device and read together.

Whoever looks at a value on a device waits for it, and the device then waits for work.  Within `Checks.deferred` the
outcome of `check` is noted there for device arrays, `number` leaves numbers there, and `Checks.settle` reads all of it
in one copy.  Host arrays are looked at at once, as device arrays are everywhere else.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from ortho_ref.backend import Array, NotFiniteError, is_array, library_of, to_host, xp_of


class Failure(NamedTuple):
    """The first check that failed.

    Attributes
    ----------
    turn : int
        In which turn.
    error : Exception
        The error it makes.
    """

    turn: int
    error: Exception


class Checks:
    """What became of the checks of several turns on a device: for each error, the first turn that it is due to.

    Attributes
    ----------
    good : Array () or None
        Whether none has failed so far, on the device; None where nothing was checked there.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[type[Exception], str], Array] = {}
        self.good: Array | None = None

    @contextlib.contextmanager
    def deferred(self, turn: int) -> Iterator[None]:
        """Within, in this thread, device arrays are not waited for.

        Parameters
        ----------
        turn : int
            What fails counts as of this turn.
        """
        token = _DEFERRED.set((self, turn))
        try:
            yield
        finally:
            _DEFERRED.reset(token)

    def settle(self, *numbers: Array | float) -> tuple[list[float], Failure | None]:
        """Read all that was noted, in one copy, none where there is nothing; then begin afresh.

        Parameters
        ----------
        *numbers : Array () or float
            What `number` gave.

        Returns
        -------
        floats : list of float
            These numbers.
        failure : Failure or None
            The first one; None where no check failed.
        """
        first, self._first, self.good = self._first, {}, None
        kept = iter(read(*first.values(), *filter(is_array, numbers)))
        turns = {kind: next(kept) for kind in first}
        floats = [next(kept) if is_array(number) else number for number in numbers]
        (error, message), turn = min(turns.items(), key=lambda item: item[1], default=((Exception, ""), math.inf))
        return floats, None if turn == math.inf else Failure(int(turn), error(message))

    def note(self, condition: Array, error: Exception, turn: int) -> None:
        """Keep the turn, unless the condition holds.

        Parameters
        ----------
        condition : Array ()
            bool, on the device.
        error : Exception
            What the check would have raised.
        turn : int
            As given to `deferred`.
        """
        xp, kind = xp_of(condition), (type(error), _PREFIX.get() + str(error))
        self.good = condition if self.good is None else self.good & condition
        first = self._first.get(kind, xp.full((), math.inf, "float64"))
        self._first[kind] = xp.where(condition, first, xp.minimum(first, float(turn)))


_DEFERRED: ContextVar[tuple[Checks, int] | None] = ContextVar("deferred", default=None)
_PREFIX: ContextVar[str] = ContextVar("prefix", default="")


def stays(value: object) -> bool:
    """Whether this is a device array that nobody looks at now, as checks are deferred."""
    return _DEFERRED.get() is not None and is_array(value) and library_of(value).device != "cpu"


def check(condition: Array | bool, error: Exception, detail: Callable[[], str] | None = None) -> None:
    """Raise the error, unless the condition holds.

    Only the error itself can be told where checks are deferred: the same words at every turn, and no value read.

    Parameters
    ----------
    condition : Array () or bool
        What has to hold.
    error : Exception
        What is raised, or noted where checks are deferred.
    detail : callable, optional
        () -> the words that the error raised has instead, with the values in them.
    """
    deferred = _DEFERRED.get()
    if deferred and stays(condition):
        deferred[0].note(condition, error, deferred[1])
    elif not bool(condition):
        raise error if detail is None else type(error)(detail())


def check_finite(name: str, array: Array) -> None:
    """An error unless every entry is finite.

    Parameters
    ----------
    name : str
        What the error calls the array.
    array : Array
        Any shape.

    Raises
    ------
    NotFiniteError
        An entry is not finite.
    """
    check(xp_of(array).isfinite(array).all(), NotFiniteError(f"{name} has an entry that is not finite"))


def check_indices(name: str, kind: str, values: Array, stop: int) -> Array:
    """An error unless all of these integers are from 0 to stop - 1.

    Parameters
    ----------
    name : str
        What the error calls the array.
    kind : str
        What it calls an entry, "token".
    values : Array
        Integers, any shape.
    stop : int
        The first that is too large.

    Returns
    -------
    Array
        The values; where checks are deferred, with those out of range moved into it: a device would read beyond its
        arrays.

    Raises
    ------
    ValueError
        An entry is out of range.
    """
    low, high, allowed = values.min(), values.max(), f"allowed: 0 to {stop - 1}"
    last = min(stop - 1, int(np.iinfo(values.dtype).max))
    check(
        (low >= 0) & (high <= last),
        ValueError(f"{name} holds a {kind} out of range; {allowed}"),
        lambda: f"{name} holds {kind} {int(low) if low < 0 else int(high)}; {allowed}",
    )
    return values.clip(0, last) if stays(values) else values


def number(value: Array) -> Array | float:
    """A 0-d array as a Python float; where checks are deferred, a device's own stays there, in float64.

    Parameters
    ----------
    value : Array () or float
        Of any precision.

    Returns
    -------
    float or Array ()
        See `Checks.settle`, which reads those that stay.
    """
    return value.astype("float64") if stays(value) else float(value)


def read(*numbers: Array) -> list[float]:
    """0-d arrays as Python floats; device arrays in one copy.

    Parameters
    ----------
    *numbers : Array () or float
        Of one device, or all of the host.

    Returns
    -------
    list of float
        In the order given.
    """
    library = library_of(*numbers)
    if library.device == "cpu":
        return [float(number) for number in numbers]
    there = library.xp.stack([number.astype("float64", copy=False) for number in numbers])
    return list(to_host(there).tolist())


@contextlib.contextmanager
def prefixed(prefix: str) -> Iterator[None]:
    """Errors that are raised or deferred within begin with the prefix.

    Parameters
    ----------
    prefix : str
        For the NotFiniteErrors raised, and for all errors that are deferred; within another prefix it follows that.
    """
    token = _PREFIX.set(_PREFIX.get() + prefix)
    try:
        yield
    except NotFiniteError as error:
        raise NotFiniteError(f"{prefix}{error}") from error
    finally:
        _PREFIX.reset(token)
