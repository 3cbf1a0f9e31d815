"""The TeX in a Markdown page: $...$ within a line, $$ ... $$ between lines.

A page is read by Markdown first, by TeX second. In a row of a table a bar would end the cell, and a backslash before a
sign of punctuation would be taken away: `problems` finds both.
"""

import re
from typing import NamedTuple

_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_INLINE = re.compile(r"\$([^$\n]+)\$")


class Formula(NamedTuple):
    """One formula of a page.

    Attributes
    ----------
    tex : str
        Without the dollars.
    block : bool
        Whether it stands between lines.
    """

    tex: str
    block: bool


def formulas(page: str) -> list[Formula]:
    """The formulas of a page: those between lines first, then those within one, each in its order.

    Parameters
    ----------
    page : str
        Markdown. What stands in code is not TeX.

    Returns
    -------
    list of Formula
        As they stand; one that stands twice is there twice.
    """
    page = _CODE.sub("", page)
    blocks = [Formula(tex.strip(), True) for tex in _BLOCK.findall(page)]
    return blocks + [Formula(tex, False) for tex in _INLINE.findall(_BLOCK.sub("", page))]


def problems(page: str) -> list[str]:
    """One line for each dollar that ends nothing, and each formula that Markdown would change before TeX sees it.

    Parameters
    ----------
    page : str
        Markdown.

    Returns
    -------
    list of str
        Empty for a page that is as it should be.
    """
    rest = _INLINE.sub("", _BLOCK.sub("", _CODE.sub("", page)))
    found = [f"a dollar that ends nothing: {line}" for line in rest.splitlines() if "$" in line]
    for tex, block in formulas(page):
        if re.search(r"\\[^A-Za-z\s]", tex):
            found.append(f"a backslash that Markdown takes away: {tex}")
        if "|" in tex and not block:
            found.append(f"a bar, which ends the cell of a table: {tex}")
    return found
