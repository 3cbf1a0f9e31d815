"""TeX as MathML, when the site is built."""

from functools import cache
from xml.etree import ElementTree

from latex2mathml.converter import convert

_CHILDREN = {"mfrac": 2, "msub": 2, "msup": 2, "mover": 2, "munder": 2, "mroot": 2, "msubsup": 3, "munderover": 3}


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
    if wrong := problem(found):
        raise ValueError(f"TeX that cannot be shown: {tex!r} {wrong}")
    return found


def problem(found: str) -> str:
    """What is wrong with MathML: a command that is left as text, a part that is missing; "" for nothing."""
    tree = ElementTree.fromstring(found)
    for text in tree.itertext():
        if "\\" in text:
            return f"has {text}"
    for node in tree.iter():
        kind = node.tag.rpartition("}")[2]
        if len(node) != _CHILDREN.get(kind, len(node)):
            return f"has {kind} of {len(node)}"
    return ""
