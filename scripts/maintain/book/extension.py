"""What Sphinx is told: formulas are MathML, and docstrings are words in which a star is a star."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from scripts.maintain.book import alive, excerpts
from scripts.maintain.book.mathml import broken, mathml
from scripts.maintain.book.prose import together

_TOGETHER = re.compile(r"^\w+(?:, \w+)+(?= : )", re.M)  # r, u : Array; napoleon takes the first name for a type
_LITERAL = re.compile(r"(``.*?``|`[^`\n]+`)")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.connect("autodoc-process-docstring", docstring, priority=1)  # before napoleon reads it
    app.connect("autodoc-skip-member", skipped)
    app.connect("html-page-context", reachable, priority=900)  # after furo has made its navigation
    app.connect("html-page-context", alive.load)
    app.connect("html-page-context", excerpts.load)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append((broken if _in_table(node) else mathml)(node.astext()))
    raise nodes.SkipNode


def _in_table(node: nodes.Node) -> bool:
    """Whether it stands in a column, where a long formula goes on in the next line."""
    return node.parent is not None and (isinstance(node.parent, nodes.entry) or _in_table(node.parent))


def _display(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="display" tabindex="0">{broken(node.astext(), display=True)}</div>')
    raise nodes.SkipNode


#: What furo and docutils write, and what a keyboard or a reader of the screen needs beside.
_REACHABLE = {
    'role="heading">': 'role="heading" aria-level="2">',
    '<div class="highlight"><pre>': '<div class="highlight"><pre tabindex="0">',
    '<div class="table-wrapper docutils container">': '<div class="table-wrapper docutils container" tabindex="0">',
}


def reachable(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """What is scrolled can be reached by the keyboard; a heading has a level; a formula keeps the sign behind it."""
    for name in ("body", "furo_navigation_tree"):
        for plain, own in _REACHABLE.items():
            context[name] = context.get(name, "").replace(plain, own)
    context["body"] = together(context["body"])


def docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: a module's stands as it is, in others a single backtick is code."""
    if what == "module":
        head, *rest = "\n".join(lines).strip().split("\n\n", 1)
        body = "\n".join(f"   {line}".rstrip() for line in rest[0].splitlines()) if rest else ""
        lines[:] = [*escaped(head).splitlines(), "", *(["::", "", *body.splitlines(), ""] if body else [])]
    else:
        lines[:] = escaped(_TOGETHER.sub(lambda names: names[0].replace(", ", "/"), "\n".join(lines))).splitlines()


def skipped(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """A field of a NamedTuple, which its class describes, is not listed once more."""
    return True if (getattr(thing, "__doc__", None) or "").startswith("Alias for field number") else None


def escaped(text: str) -> str:
    """Plain text as reStructuredText: signs that would mean something are signs, `code` is code."""
    pieces = _LITERAL.split(text)
    for k, piece in enumerate(pieces):
        if k % 2:
            pieces[k] = f"``{piece.strip('`')}``"
        else:
            pieces[k] = re.sub(r"([*|]|_(?!\w)|`)", r"\\\1", piece)
    return "".join(pieces)
