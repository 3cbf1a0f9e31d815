"""What a caller hands over, where a mistake is easy: an error names the argument, what was given, what is allowed."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ortho_ref.schema import kind_of, short


def generator(rng: Any) -> np.random.Generator:
    """The generator, as it is.

    Parameters
    ----------
    rng : numpy.random.Generator
        What an `init` was given first.

    Returns
    -------
    numpy.random.Generator
        rng.

    Raises
    ------
    TypeError
        It is a seed, a dtype, or anything else.
    """
    if isinstance(rng, np.random.Generator):
        return rng
    made = "numpy.random.default_rng(0)"
    if isinstance(rng, int | np.integer):
        given, made = f"{rng!r}, a seed" if not isinstance(rng, bool) else repr(rng), f"numpy.random.default_rng({rng})"
    else:
        refuse_dtype("rng", rng, f"a numpy.random.Generator, as {made}")
        given = repr(rng) if rng is None else kind_of(rng)
    raise TypeError(f"rng is {given}; allowed: a numpy.random.Generator, as {made}")


def precision(dtype: Any) -> np.dtype[Any]:
    """The real precision that a dtype names.

    Parameters
    ----------
    dtype : dtype
        float32 or float64, its name or its class.

    Returns
    -------
    numpy.dtype
        float32 or float64.

    Raises
    ------
    ValueError
        It is another dtype, or none.
    """
    own = _dtype_of(dtype)
    if own not in (np.float32, np.float64):
        raise ValueError(f"dtype is {short(dtype) if own is None else own}; allowed: float32, float64")
    return own


def refuse_dtype(argument: str, value: Any, what: str) -> None:
    """An error where a dtype stands in the place of another argument.

    Parameters
    ----------
    argument : str
        What the error calls that.
    value : object
        What was given.
    what : str
        What is allowed there, in words.

    Raises
    ------
    TypeError
        It is a dtype.
    """
    if (own := _dtype_of(value)) is not None:
        raise TypeError(f"{argument} is {own}, a dtype; allowed: {what}; a dtype goes by its name, dtype={own}")


def is_integer(value: object) -> bool:
    """True for Python's and NumPy's integers, False for bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_size(argument: str, value: Any) -> None:
    """An error unless the value is a size.

    Parameters
    ----------
    argument : str
        What the error calls it.
    value : int
        What was given.

    Raises
    ------
    TypeError
        It is a dtype.
    ValueError
        It is no integer, or below 1.
    """
    if not is_integer(value) or value < 1:
        refuse_dtype(argument, value, "an integer >= 1")
        raise ValueError(f"{argument} is {short(value)}; allowed: an integer >= 1")


def _dtype_of(value: Any) -> np.dtype[Any] | None:
    """Of a dtype, its name or its class; None of all else, of which NumPy reads None, numbers, [] and any class too."""
    if not isinstance(value, np.dtype | str | type):
        return None
    try:
        own = np.dtype(value)
    except (TypeError, ValueError):
        return None
    return None if own.kind == "O" else own


def check_switch(argument: str, value: Any) -> None:
    """An error unless the value is True or False.

    Parameters
    ----------
    argument : str
        What the error calls it.
    value : bool
        What was given.

    Raises
    ------
    ValueError
        It is something else, "false", say.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{argument} is {short(value)}; allowed: True, False")


def check_number(argument: str, value: Any, allowed: Callable[[Any], Any], what: str) -> None:
    """An error unless the value is a number that is allowed.

    Parameters
    ----------
    argument : str
        What the error calls it.
    value : float
        What was given.
    allowed : callable
        value -> whether it is; what is no number may raise TypeError or ValueError in it, and OverflowError what is
        no float.
    what : str
        The same in words.

    Raises
    ------
    ValueError
        It is not allowed, or no number.
    """
    try:
        good = bool(allowed(value))
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        raise ValueError(f"{argument} is {short(value)}; allowed: {what}")


def check_has(argument: str, value: Any, method: str, what: str) -> None:
    """An error unless the value is of the right kind, which its method tells.

    Parameters
    ----------
    argument : str
        What the error calls it.
    value : object
        What was given.
    method : str
        What every object of the kind has.
    what : str
        The kind, in words.

    Raises
    ------
    TypeError
        It is a class, or has no such method.
    """
    if isinstance(value, type):
        raise TypeError(f"{argument} is the class {value.__name__}; allowed: {what}, made of it: {value.__name__}(...)")
    if not hasattr(value, method):
        given = short(value) if value is None or isinstance(value, str | int | float) else kind_of(value)
        raise TypeError(f"{argument} is {given}; allowed: {what}")
