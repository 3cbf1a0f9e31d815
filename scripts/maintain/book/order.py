"""In which order equations and pages stand: a paper's equations as printed, files by their first equation."""

import re

from scripts.maintain.equations.stated import Entry
from scripts.maintain.equations.tags import id_of

_NUMBER = re.compile(r"\w+:(?:(\d+)\.)?(\d+)([\w.-]*)")


def number_of(name: str) -> tuple[int, int, str] | None:
    """Section, number and what follows it, of an equation that the paper numbers; None of another."""
    found = _NUMBER.fullmatch(name)
    return (int(found[1] or 0), int(found[2]), found[3]) if found and not name.startswith("bp:") else None


def printed(entries: dict[str, Entry]) -> dict[str, list[str]]:
    """The ids under each heading: numbered ones as the paper prints them, then the others as they are stated."""
    found: dict[str, list[str]] = {}
    for name, entry in entries.items():
        found.setdefault(entry.heading, []).append(name)
    return {heading: sorted(names, key=_place) for heading, names in found.items()}


def _place(name: str) -> tuple[bool, tuple[int, int, str]]:
    number = number_of(name)
    return number is None, number or (0, 0, "")


def neighbours(entries: dict[str, Entry]) -> dict[str, tuple[str | None, str | None]]:
    """What stands before and after each id in its paper."""
    found: dict[str, tuple[str | None, str | None]] = {}
    for names in printed(entries).values():
        for before, name, after in zip([None, *names], names, [*names[1:], None], strict=False):
            found[name] = (before, after)
    return found


def chapters(
    columns: tuple[str, ...], lines: dict[str, dict[int, list[str]]], entries: dict[str, Entry]
) -> dict[str, list[str]]:
    """The files of two columns under the heading of the paper that each begins with, by their first equation there."""
    order = {name: k for k, name in enumerate(name for names in printed(entries).values() for name in names)}

    def first(file: str) -> int:
        names = [id_of(tag) for tags in lines.get(file, {}).values() for tag in tags]
        return min((order[name] for name in names if name in order), default=len(order))

    names = list(order)
    found: dict[str, list[str]] = {heading: [] for heading in [*printed(entries), ""]}
    for file in sorted(columns, key=lambda file: (first(file), columns.index(file))):
        at = first(file)
        found[entries[names[at]].heading if at < len(names) else ""].append(file)
    return {heading: files for heading, files in found.items() if files}
