"""TeX as MathML, when the site is built, mended where browsers show it otherwise than TeX does; and as plain text."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

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
    """MathML of a formula.  ValueError: it is no TeX, or has a command that is not known."""
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


#: Before which a long formula goes on in the next line, as behind a wide space, and how long it is then, as text.
_BREAKS = frozenset("=+-<>≤≥≠≈←→↦\u2212\u223c")
_LONG = 36


@cache
def broken(tex: str, display: bool = False) -> str:
    """MathML of a formula that may go on in the next line, before a relation or a sum's sign, where it is too wide."""
    whole = mathml(tex, display)
    tree = ElementTree.fromstring(whole)
    row = tree[0] if len(tree) == 1 and _kind(tree[0]) == "mrow" else tree
    pieces = _pieces(row)
    if len(plain(tex)) <= _LONG or len(pieces) == 1:
        return whole
    statements = [""]
    style = {**tree.attrib, "display": "inline"} | ({"displaystyle": "true"} if display else {})
    for piece in pieces:
        math = Element(tree.tag, {**style, "alttext": "".join(_text(child) for child in piece).strip()})
        SubElement(math, f"{{{_NAMESPACE}}}mrow").extend(piece)
        statements[-1] += ElementTree.tostring(math, encoding="unicode")
        if _is_wide(piece[-1]) and piece is not pieces[-1]:
            statements.append("")
    if len(statements) == 1 and display:
        return statements[0]
    return "".join(f'<span class="statement">{statement}</span>' for statement in statements)


def _is_wide(child: Element) -> bool:
    """Whether it is the space that stands between two statements."""
    return _kind(child) == "mspace" and child.get("width") == "1em"


def _pieces(row: Element) -> list[list[Element]]:
    """A row's children, cut before each sign of _BREAKS and behind each wide space, in no brackets and no bars."""
    found: list[list[Element]] = [[]]
    open_: list[str] = []
    for child in row:
        base = _base(child)
        sign = (base.text or "").strip() if _kind(base) == "mo" else ""
        if open_ and (sign == open_[-1] if sign in _BARS else sign and sign in _CLOSED):
            open_.pop()
        elif sign in _BARS or (sign and sign in "([{"):
            open_.append(sign)
        elif sign in _BREAKS and not open_ and found[-1] and child.get("form") != "prefix":
            child.set("form", "infix")  # else it has no space around it at the beginning of a piece
            found.append([])
        found[-1].append(child)
        if _is_wide(child) and not open_:
            found.append([])
    return [piece for piece in found if piece]


#: What stands between two things, with a space on both sides; of a sign that stands before one thing none.
_BETWEEN = frozenset("=<>+-±~≤≥≠≈≡←→↦⊙∘·∈:\u2212\u223c\u2223")
_RAISED = str.maketrans("0123456789+-\u2212\U0001d5b3\U0001d5a7", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻ᵀᴴ")
_SIMPLE = re.compile(r"∂?\w+(?:_\([^()]*\))?")


@cache
def plain(tex: str) -> str:
    """A formula as text, for where no formula can be drawn.  ValueError: as `mathml`."""
    text = unicodedata.normalize("NFC", _text(ElementTree.fromstring(mathml(tex))))
    return " ".join(re.sub(r"(?<=[(\[]) +| +(?=[)\],;])", "", _barred(text)).split())


def _barred(text: str) -> str:
    """Norms and absolute values with their space outside, not inside."""

    def one(found: re.Match[str]) -> str:
        before, bar, inside, after = found.groups()
        left, right = (" " * bool(re.match(r"[\w)⁻ᵀ²]", side)) for side in (before, after))
        return f"{before}{left}{bar}{_barred(inside.strip())}{bar}{' ' if right and after != '_' else ''}"

    return re.sub(r"(^|.)([|‖])(.+?)\2(?=(.?))", one, text)


def _text(node: Element) -> str:
    kind, parts = _kind(node), [_text(child) for child in node]
    if kind in _WRITTEN:
        return _WRITTEN[kind](*parts)
    if kind == "mo":
        return _sign(node)
    if kind == "mspace":
        return " "
    if kind in {"mtable", "mtr"}:
        return ("; " if kind == "mtable" else ", ").join(parts)
    return (node.text or "") + _row(node, parts)


def _accented(letter: str, accent: str) -> str:
    return letter + {"\u02d9": "\u0307", "~": "\u0303", "^": "\u0302"}.get(accent.strip(), "\u0304")


def _below(base: str, index: str) -> str:
    return f"{base.rstrip()}_{_index(index)}"


def _row(node: Element, parts: list[str]) -> str:
    """Beside each other: factors with a space between them, what is differentiated without."""
    made, before = "", None
    for child, part in zip(node, parts, strict=True):
        behind = before is None or (_kind(before) == "mo" and (before.text or "") not in _CLOSED) or made[-1:] in "d∂"
        made += part if behind or _kind(child) in {"mo", "mspace"} else f" {part}"
        before = child
    return made


def _sign(node: Element) -> str:
    """An operator, with the spaces that it has in print."""
    sign = (node.text or "").strip().replace("\u2212", "-").replace("\u223c", "~")
    if sign in _BETWEEN and node.get("form") != "prefix":
        return f" {sign} "
    return f"{sign} " if sign in {",", ";"} else sign


def _index(text: str) -> str:
    text = text.replace(" ", "")
    return text if len(text) == 1 or text.isalnum() else f"({text})"


def _power(text: str) -> str:
    text = text.replace(" ", "")
    raised = text.translate(_RAISED)
    if text == "\u2032" or not set(raised) & set(text):
        return raised
    return f"^{text}" if len(text) == 1 or text[0] == "(" else f"^({text})"


def _grouped(text: str) -> str:
    text = text.strip()
    return text if _SIMPLE.fullmatch(text) else f"({text})"


#: How each kind of MathML is written, of the texts of its parts.
_WRITTEN: dict[str, Callable[..., str]] = {
    "mfrac": lambda over, under: f"{_grouped(over)}/{_grouped(under)}",
    "msqrt": lambda *inside: f"√{_grouped(''.join(inside))}",
    "msub": _below,
    "munder": _below,
    "msup": lambda base, power: base.rstrip() + _power(power),
    "msubsup": lambda base, index, power: _below(base, index) + _power(power),
    "munderover": lambda base, index, power: _below(base, index) + _power(power),
    "mover": _accented,
}


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
    closing = _closing(parent)
    for child in list(parent):
        text = child.text or ""
        if child.get("mathvariant") in _STYLES:
            child.text = "".join(styled(letter, child.attrib["mathvariant"]) for letter in text)
            del child.attrib["mathvariant"]
        if _kind(child) == "mo" and text in _BARS and child.get("fence") != "true":
            child.set("stretchy", "false")  # else an index stands as low as the bar could reach
        if _kind(child) == "mo" and text in _ACCENTS and _kind(parent) == "mover":
            parent.set("accent", "true")
        if text == "~" and _kind(child) == "mi":
            child.tag, child.text = f"{{{_NAMESPACE}}}mo", "\u223c"  # as a letter it has no space around it
        if _kind(child) == "mo" and text in _MINUS and (before is None or _opens(before)):
            child.set("form", "prefix")  # a sign, not a difference: no space behind it
        elif _kind(child) == "mo" and len(text) > 1 and text.isalpha():
            child.tag = f"{{{_NAMESPACE}}}mi"  # a name; as an operator it has wide spaces on both sides
        if _is_name(child) and _kind(parent) in {"mrow", "math", "mtd"}:
            _space(parent, child, before, before in closing)
        before = child


def _closing(row: Element) -> list[Element]:
    """Of the bars among a row's children, with an index or without, those that end what another has begun."""
    found, bars = [], [""]
    for child in row:
        text = _base(child).text or ""
        if text in _BARS and text == bars[-1]:
            bars.pop()
            found.append(child)
        elif text in _BARS:
            bars.append(text)
    return found


def _opens(node: Element) -> bool:
    return _kind(node) == "mo" and (node.text or "") not in _CLOSED


def _base(node: Element) -> Element:
    """What an index or a power is of; else the thing itself."""
    return node[0] if len(node) and _kind(node) in {"msub", "msup", "msubsup", "munder"} else node


def _is_name(node: Element) -> bool:
    """Whether it is the name of a function, with an index or without: max, ln, sup_g."""
    base = _base(node)
    text = base.text or ""
    return _kind(base) in {"mi", "mo"} and len(text) > 1 and text.isalpha()


def _space(parent: Element, name: Element, before: Element | None, closes: bool) -> None:
    """A thin space between the name of a function and a letter beside it, or a bar that closes before it."""
    at = list(parent).index(name)
    behind = parent[at + 1] if at + 1 < len(parent) else None
    if behind is not None and _kind(behind) not in {"mo", "mspace"}:
        parent.insert(at + 1, Element(f"{{{_NAMESPACE}}}mspace", _THIN))
    if before is not None and _kind(before) != "mspace" and (closes or not _opens(before)):
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
