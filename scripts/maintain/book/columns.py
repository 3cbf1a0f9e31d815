"""A page of two columns: equations on the left, the code that computes them on the right, function by function."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from scripts.maintain.book.listing import coloured
from scripts.maintain.book.places import anchors
from scripts.maintain.equations.tags import id_of


class Part(NamedTuple):
    """Lines first to last of a file; the ids that they carry, in their order."""

    first: int
    last: int
    names: tuple[str, ...]


class Line(NamedTuple):
    """A line of code: number, HTML, its tags, their ids, the anchors that stand at it."""

    number: int
    html: str
    tags: tuple[str, ...]
    names: tuple[str, ...]
    anchors: tuple[str, ...]


def breaks(file: str, source: str) -> list[int]:
    """The lines that begin something: a function, a method, what stands between them, with the comments above."""
    lines = source.splitlines()
    if not file.endswith(".py"):
        return [
            1,
            *(k for k, line in enumerate(lines, 1) if k > 1 and line and not lines[k - 2] and line[0] not in " })"),
        ]

    def starts(body: list[ast.stmt]) -> Iterator[int]:
        last = False
        for node in body:
            own = isinstance(node, ast.FunctionDef | ast.ClassDef)
            if own or last:
                yield min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
            last = own
            if isinstance(node, ast.ClassDef):
                yield from starts(node.body)

    found = {1}
    for line in starts(ast.parse(source).body):
        while line > 1 and lines[line - 2].lstrip().startswith("#"):
            line -= 1
        found.add(line)
    return sorted(found)


def parts(file: str, source: str, tagged: dict[int, list[str]]) -> list[Part]:
    """A file cut where a function with equations begins; what has none goes with the part before it."""
    at = breaks(file, source)
    last = len(source.splitlines())
    found: list[Part] = []
    for first, end in zip(at, [*(line - 1 for line in at[1:]), last], strict=True):
        names = tuple(
            dict.fromkeys(id_of(tag) for line in sorted(tagged) if first <= line <= end for tag in tagged[line])
        )
        if found and not names:
            found[-1] = found[-1]._replace(last=end)
        else:
            found.append(Part(first, end, names))
    return found


def lines(file: str, source: str, tagged: dict[int, list[str]]) -> list[Line]:
    """Every line of a file; an anchor stands where its tag is met first."""
    used: set[str] = set()
    found = []
    for number, html in enumerate(coloured(file, source), 1):
        tags = tagged.get(number, [])
        own = [one for tag in tags for one in anchors(tag)]
        new = tuple(one for one in dict.fromkeys(own) if one not in used)
        used |= set(new)
        found.append(Line(number, html, tuple(tags), tuple(dict.fromkeys(map(id_of, tags))), new))
    return found


def where(name: str, tagged: dict[int, list[str]]) -> list[tuple[int, str]]:
    """The lines of an equation, each with the part of it that the tag names, or ""."""
    return [
        (line, tag.partition("/")[2]) for line, tags in sorted(tagged.items()) for tag in tags if name == id_of(tag)
    ]
