"""TeX as MathML, when the site is built, and mended where browsers show it otherwise than TeX does."""

import unicodedata
from functools import cache
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert

_NAMESPACE = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", _NAMESPACE)

_CHILDREN = {"mfrac": 2, "msub": 2, "msup": 2, "mover": 2, "munder": 2, "mroot": 2, "msubsup": 3, "munderover": 3}
_MINUS = ("\u2212", "-", "±")
_BARS, _ACCENTS = ("|", "\u2016"), ("\u02d9", "~", "^", "\u02dc", "\u02c6")
_CLOSED = ")]}⟩"
#: Letters of a style, which browsers take from Unicode alone: its name there, and what it is called where it is older.
_STYLES = {"sans-serif": ("SANS-SERIF", ""), "script": ("SCRIPT", "SCRIPT"), "double-struck": ("DOUBLE-STRUCK",) * 2}
_THIN = {"width": "0.167em"}


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
        tree = ElementTree.fromstring(str(convert(tex.strip(), display="block" if display else "inline")))
    except Exception as error:  # latex2mathml has many, of no common kind
        raise ValueError(f"TeX that cannot be shown: {tex!r} ({type(error).__name__}: {error})") from error
    if wrong := problem(tree):
        raise ValueError(f"TeX that cannot be shown: {tex!r} {wrong}")
    for parent in list(tree.iter()):
        _mend(parent)
    tree.set("alttext", tex.strip())
    return ElementTree.tostring(tree, encoding="unicode")


def problem(tree: Element) -> str:
    """What is wrong with MathML: a command that is left as text, a part that is missing; "" for nothing."""
    for text in tree.itertext():
        if "\\" in text or "&" in text:
            return f"has {text}"
    for node in tree.iter():
        kind = _kind(node)
        if len(node) != _CHILDREN.get(kind, len(node)):
            return f"has {kind} of {len(node)}"
    return ""


def _kind(node: Element) -> str:
    return node.tag.rpartition("}")[2]


def _mend(parent: Element) -> None:
    """Letters of a style, signs and names of functions, among the children of one element."""
    before: Element | None = None
    for child in list(parent):
        text = child.text or ""
        if child.get("mathvariant") in _STYLES:
            child.text = "".join(styled(letter, child.attrib["mathvariant"]) for letter in text)
            del child.attrib["mathvariant"]
        if _kind(child) == "mo" and text in _BARS:
            child.set("stretchy", "false")  # else an index stands as low as the bar could reach
        if _kind(child) == "mo" and text in _ACCENTS and _kind(parent) == "mover":
            parent.set("accent", "true")
        if _kind(child) == "mo" and text in _MINUS and (before is None or _opens(before)):
            child.set("form", "prefix")  # a sign, not a difference: no space behind it
        elif _kind(child) == "mo" and len(text) > 1 and text.isalpha():
            child.tag = f"{{{_NAMESPACE}}}mi"  # a name; as an operator it has wide spaces on both sides
            if _kind(parent) in {"mrow", "math", "mtd"}:
                _space(parent, child, before)
        before = child


def _opens(node: Element) -> bool:
    return _kind(node) == "mo" and (node.text or "") not in _CLOSED


def _space(parent: Element, name: Element, before: Element | None) -> None:
    """A thin space between the name of a function and a letter beside it."""
    at = list(parent).index(name)
    behind = parent[at + 1] if at + 1 < len(parent) else None
    if behind is not None and _kind(behind) != "mo":
        parent.insert(at + 1, Element(f"{{{_NAMESPACE}}}mspace", _THIN))
    if before is not None and not _opens(before):
        parent.insert(at, Element(f"{{{_NAMESPACE}}}mspace", _THIN))


def styled(letter: str, style: str) -> str:
    """A letter of a style, as Unicode has it; itself where it has none."""
    case = "CAPITAL" if letter.isupper() else "SMALL"
    own, older = _STYLES[style]
    for name in (f"MATHEMATICAL {own} {case} {letter.upper()}", f"{older} {case} {letter.upper()}"):
        try:
            return unicodedata.lookup(name)
        except KeyError:
            continue
    return letter
