"""Markdown as HTML: formulas as MathML, ids and errata as links.  For what stands beside code; pages are Sphinx's."""

import re
from collections.abc import Callable
from html import escape

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup
from mdit_py_plugins.dollarmath import dollarmath_plugin

from scripts.maintain.book.mathml import broken, mathml
from scripts.maintain.book.places import ERRATA, href, page_of

#: The end of a formula, and the sign behind it, in HTML.
_BEHIND = re.compile(r'(?<!<span class="together">)(<math\b(?:(?!<math\b).)*?</math>)((?:</span>)*)([,;.:)])', re.S)
ERRATUM = re.compile(r"\bE-[a-z]+-\d\d\b")


class Prose:
    """Renders Markdown for a page."""

    def __init__(self, page: str, find: Callable[[str], str | None], follow: Callable[[str, str], str]) -> None:
        self.page, self.find, self.follow = page, find, follow
        self.file, self.breaks = "", False
        self.markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
        self.markdown.use(dollarmath_plugin, renderer=self._formula)
        self.markdown.core.ruler.push("links", self._links)

    def inline(self, text: str, file: str) -> str:
        """A line of a file, without a paragraph around it."""
        self.file = file
        return self.markdown.renderInline(text)

    def formula(self, text: str, file: str) -> str:
        """A line of formulas, each with what stands right behind it; a long one may go on in the next line."""
        self.breaks = True
        try:
            return together(self.inline(text, file))
        finally:
            self.breaks = False

    def _formula(self, tex: str, how: dict[str, object]) -> str:
        display = bool(how.get("display_mode"))
        return broken(tex, display) if self.breaks or display else mathml(tex)

    def block(self, text: str, file: str) -> str:
        """Paragraphs of a file."""
        self.file = file
        return self.markdown.render(text)

    def _links(self, state: StateCore) -> None:
        for token in state.tokens:
            within, made = False, []
            for child in token.children or []:
                if child.type == "link_open":
                    target = str(child.attrs["href"])
                    if not re.match(r"\w+:", target):
                        child.attrs["href"] = self.follow(self.file, target)
                    within = True
                within = within and child.type != "link_close"
                made.append(child if within else self._named(child))
            token.children = made

    def _named(self, token: Token) -> Token:
        """An id in backticks, or errata in words, as links; any other token as it is."""
        html = ""
        if token.type == "code_inline" and (address := self.find(token.content)):
            html = f'<a href="{escape(address)}"><code>{escape(token.content)}</code></a>'
        elif token.type == "text" and ERRATUM.search(token.content):
            html = ERRATUM.sub(lambda found: erratum(self.page, found[0]), escape(token.content))
        return Token("html_inline", "", 0, content=html) if html else token


def together(html: str) -> str:
    """HTML in which no line begins with the sign that stands behind a formula."""
    return _BEHIND.sub(r'<span class="together">\1\3</span>\2', html)


def erratum(page: str, name: str) -> str:
    """A link to an erratum."""
    return f'<a class="erratum" href="{escape(href(page, page_of(ERRATA), name.lower()))}">{name}</a>'


def breakable(name: str) -> Markup:
    """The name of a file, and of a function behind it, as HTML: the next line begins between the two, else within.

    Within means behind a slash or an underscore.
    """
    first, *rest = (re.sub(r"([/_])(?=\w)", r"\1<wbr>", escape(part)) for part in name.split(" "))
    return Markup(" ".join([first, *(f'<span class="name">{part}</span>' for part in rest)]))
