"""The sections of docs/derivations: which ids each derives, and which tests hold its steps.

A section is a heading of two signs, then a line `Ids: ...` with ids in backticks, steps, and lines `Checked by ...`,
each with one test as path::name.
"""

import re
from typing import NamedTuple


class Section(NamedTuple):
    """One derivation.

    Attributes
    ----------
    heading : str
        As it stands.
    ids : list of str
        What it derives, in its order: ids, and parts, as tags have them.
    text : str
        The steps, in Markdown.
    checks : list of tuple
        (file, function) of each test.
    """

    heading: str
    ids: list[str]
    text: str
    checks: list[tuple[str, str]]


_IDS = re.compile(r"^Ids: (.*?)\.$\n", re.DOTALL | re.MULTILINE)
_CHECK = re.compile(r"^Checked by `([\w./]+)::(\w+)`\.$\n?", re.MULTILINE)


def sections(page: str) -> list[Section]:
    """The sections of a page.

    Parameters
    ----------
    page : str
        Markdown.

    Returns
    -------
    list of Section
        In their order; without ids where a section names none.
    """
    found = []
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        ids = [name for line in _IDS.findall(text) for name in re.findall("`(.*?)`", line)]
        checks = _CHECK.findall(text)
        found.append(Section(heading, ids, _CHECK.sub("", _IDS.sub("", text)).strip(), checks))
    return found
