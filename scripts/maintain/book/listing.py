"""Code as lines of HTML, coloured, with a link for each tag."""

import re
from functools import cache
from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

from scripts.maintain.equations.tags import TAG


@cache
def coloured(file: str, source: str) -> tuple[str, ...]:
    """Each line of a source as HTML, by the language that its name says."""
    try:
        lexer = get_lexer_for_filename(file, stripnl=False, ensurenl=False)
    except ClassNotFound:
        lexer = TextLexer(stripnl=False, ensurenl=False)
    lines = highlight(source, lexer, HtmlFormatter(nowrap=True)).split("\n")
    return tuple(lines[: len(source.splitlines())])


def linked(line: str, targets: dict[str, str]) -> str:
    """A line of HTML, whose tags link to their equations."""

    def link(found: re.Match[str]) -> str:
        tag = found[1]
        return f'<a class="tag" href="{escape(targets[tag])}">[{tag}]</a>' if tag in targets else found[0]

    return TAG.sub(link, line)
