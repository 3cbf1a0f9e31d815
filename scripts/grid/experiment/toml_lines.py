"""Where in a TOML file a value stands: for messages about it."""

import itertools
import re
from collections import Counter

_HEADER = re.compile(r"^\s*(\[\[?)([^\[\]]+)\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
#: No place that a message names has more keys.
_DEEPEST = 8
_PLACE = re.compile(r"\[\d+\]|[^.\[\]]+")


def lines_of(text: str) -> dict[str, int]:
    """The line of each table and key of a TOML document."""
    found: dict[str, int] = {}
    tables: Counter[str] = Counter()
    inside, open_quotes = "", ""
    for number, line in enumerate(text.splitlines(), 1):
        if open_quotes:
            open_quotes = "" if open_quotes in line else open_quotes
            continue
        if header := _HEADER.match(line):
            inside = _header(tables, header[2], is_list=header[1] == "[[")
            found.setdefault(inside, number)
        elif key := _KEY.match(line):
            place = inside
            for part in _parts(key[1]):
                place = f"{place}.{part}" if place else part
                found.setdefault(place, number)
            rest = line[key.end() :]
            open_quotes = next((q for q in ('"""', "'''") if rest.count(q) % 2), "")
    return found


def line_of(lines: dict[str, int], where: str) -> int:
    """The line of a place, or of the nearest that holds it; 1 for the document."""
    parts = _PLACE.findall(where)
    while parts:
        place = "".join(part if part.startswith("[") else f".{part}" for part in parts).removeprefix(".")
        if place in lines:
            return lines[place]
        parts.pop()
    return 1


def _header(tables: "Counter[str]", name: str, is_list: bool) -> str:
    """The place of a header's table: a part that is a list of tables has the index of its last one."""
    place = ""
    *parents, last = _parts(name)
    for part in parents:
        place = f"{place}.{part}" if place else part
        if tables[place]:
            place += f"[{tables[place] - 1}]"
    place = f"{place}.{last}" if place else last
    if is_list:
        tables[place] += 1
        place += f"[{tables[place] - 1}]"
    return place


def _parts(key: str) -> list[str]:
    return [part[0].strip("\"'") for part in itertools.islice(_PART.finditer(key), _DEEPEST)]
