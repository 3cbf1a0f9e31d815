"""docs/equations.md, read: the tables under one `##` heading a paper, whose rows are `| id | formula | what it says |`.

The first cell of a row is one id or more, in backticks; behind `=`, if there is one, those that say
the same or that it is made of, whose code and tests are its own.  Of as many ids on both sides each goes with its own,
else each with all.  A cell may say **prose:** or **open:** and why.
"""

import re
from typing import NamedTuple

STATED = "docs/equations.md"

MARK = re.compile(r"\*\*(prose|open):\*\* ([^|]*[^|\s])")


class Entry(NamedTuple):
    """What docs/equations.md says of an id.

    heading, section: the `##` and the `###` heading that it stands under, "" for none.
    together: the ids of its row; same: ids that hold it too.
    formula, says: the cells of its row.
    mark, reason: prose, open or nothing, and why.
    """

    heading: str
    section: str
    together: tuple[str, ...]
    same: tuple[str, ...]
    formula: str
    says: str
    mark: str
    reason: str


def read_equations(page: str) -> dict[str, Entry]:
    """Every id of docs/equations.md in its order.  ValueError for one that stands twice, or is the same as no other."""
    entries: dict[str, Entry] = {}
    heading = section = ""
    for line in page.splitlines():
        if line.startswith("## "):
            heading, section = line[3:], ""
        elif line.startswith("### "):
            section = line[4:]
        elif line.startswith("| `"):
            first, formula, says = cells_of(line)
            own, _, same = first.partition("=")
            names, others = (re.findall("`(.*?)`", part) for part in (own, same))
            mark, reason = found.groups() if (found := MARK.search(line)) else ("", "")
            for k, name in enumerate(names):
                if name in entries:
                    raise ValueError(f"{STATED} states {name} twice")
                pairs = (others[k],) if len(names) == len(others) else tuple(others)
                entries[name] = Entry(heading, section, tuple(names), pairs, formula, says, mark, reason)
    for name, entry in entries.items():
        for other in entry.same:
            if other not in entries:
                raise ValueError(f"{STATED}: {name} = {other}, which is not stated")
    return entries


def read_leads(page: str) -> dict[str, dict[str, str]]:
    """What stands above the tables: heading -> section -> Markdown; the section is "" right below the heading."""
    found = {}
    for heading, body in re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page, re.M | re.S):
        first, *others = re.split(r"^### (.+)$", body, flags=re.M)
        parts = {"": first, **dict(zip(others[::2], others[1::2], strict=True))}
        leads = {section: part.split("\n|")[0].strip() for section, part in parts.items()}
        found[heading] = {section: lead for section, lead in leads.items() if lead}
    return found


def cells_of(line: str) -> list[str]:
    """The three cells of a row.  ValueError if there are more or fewer."""
    cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
    if len(cells) != 3:
        raise ValueError(f"{STATED}: a row has {len(cells)} cells, not id, formula and what it says: {line}")
    return cells
