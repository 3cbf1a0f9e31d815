"""TeX as MathML, when the site is built."""

import re
from functools import cache

from latex2mathml.converter import convert


@cache
def mathml(tex: str, display: bool = False) -> str:
    """MathML of a formula.

    Parameters
    ----------
    tex : str
        Between the dollars.
    display : bool
        Whether it stands on a line of its own.

    Returns
    -------
    str
        A `math` element, whose alternative text is the TeX.

    Raises
    ------
    ValueError
        It is no TeX, or has a command that is not known.
    """
    try:
        found = str(convert(tex.strip(), display="block" if display else "inline"))
    except Exception as error:  # latex2mathml has many, of no common kind
        raise ValueError(f"TeX that cannot be shown: {tex!r} ({type(error).__name__}: {error})") from error
    if unknown := re.search(r">(\\[A-Za-z]+)<", found):
        raise ValueError(f"TeX that cannot be shown: {tex!r} has {unknown[1]}")
    return found
