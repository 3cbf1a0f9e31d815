"""The sections of docs/derivations: which ids each derives, and which tests hold its steps.

A section is a heading of two signs, then a line `Ids: ...` with ids in backticks, steps, and lines `Checked by ...`,
each with one test as path::name.
"""

import re
from typing import NamedTuple


class Section(NamedTuple):
    """One derivation."""

    heading: str
    ids: list[str]  # what it derives, in its order: ids, and parts, as tags have them
    text: str  # the steps, in Markdown
    checks: list[tuple[str, str]]  # (file, function) of each test


_IDS = re.compile(r"^Ids: (.*?)\.$\n", re.DOTALL | re.MULTILINE)
_CHECK = re.compile(r"^Checked by `([\w./]+)::(\w+)`\.$\n?", re.MULTILINE)


def sections(page: str) -> list[Section]:
    """The sections of a page."""
    found = []
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        ids = [name for line in _IDS.findall(text) for name in re.findall("`(.*?)`", line)]
        checks = _CHECK.findall(text)
        found.append(Section(heading, ids, _CHECK.sub("", _IDS.sub("", text)).strip(), checks))
    return found
