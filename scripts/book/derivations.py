"""docs/derivations/*.md: which section derives which equation.

A section is a `##` heading, a line `Ids:` with ids in backticks, and the steps.
"""

import re
from typing import NamedTuple

from scripts.equations.tags import expand

FOLDER = "docs/derivations"
_IDS = re.compile(r"^Ids: (.*?)\.?$", re.M)


class Derivation(NamedTuple):
    """A section: where it stands, what it derives (tags, with their parts), and its text in Markdown, without Ids."""

    file: str
    heading: str
    names: tuple[str, ...]
    text: str


def read(file: str, page: str) -> list[Derivation]:
    """The sections of a page.  ValueError for a section without ids."""
    found = []
    for section in re.split(r"^## ", page, flags=re.M)[1:]:
        heading, _, body = section.partition("\n")
        listed = _IDS.search(body)
        if listed is None:
            raise ValueError(f"{file}: the section {heading!r} has no line that begins with 'Ids: '")
        text = (body[: listed.start()] + body[listed.end() :]).strip()
        found.append(Derivation(file, heading.strip(), tuple(re.findall("`(.*?)`", listed[1])), text))
    return found


def by_id(derivations: list[Derivation]) -> dict[str, list[Derivation]]:
    """Of each equation those that derive it or a part of it."""
    found: dict[str, list[Derivation]] = {}
    for derivation in derivations:
        for one in dict.fromkeys(one for name in derivation.names for one in expand(name)):
            found.setdefault(one, []).append(derivation)
    return found
