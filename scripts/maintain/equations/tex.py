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
    """One formula of a page."""

    tex: str
    block: bool  # whether it stands between lines


def formulas(page: str) -> list[Formula]:
    """The formulas of a page: those between lines first, then those within one, each in its order."""
    page = _CODE.sub("", page)
    blocks = [Formula(tex.strip(), True) for tex in _BLOCK.findall(page)]
    return blocks + [Formula(tex, False) for tex in _INLINE.findall(_BLOCK.sub("", page))]


def problems(page: str) -> list[str]:
    """One line for each dollar that ends nothing, and each formula that Markdown would change before TeX sees it."""
    rest = _INLINE.sub("", _BLOCK.sub("", _CODE.sub("", page)))
    found = [f"a dollar that ends nothing: {line}" for line in rest.splitlines() if "$" in line]
    for tex, block in formulas(page):
        if re.search(r"\\[^A-Za-z\s]", tex):
            found.append(f"a backslash that Markdown takes away: {tex}")
        if "|" in tex and not block:
            found.append(f"a bar, which ends the cell of a table: {tex}")
    return found
