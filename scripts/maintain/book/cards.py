"""An equation as it stands beside its code: formula, words, tests, and where else it is met."""

import re
from typing import NamedTuple

from markupsafe import Markup

from scripts.maintain.book.columns import where
from scripts.maintain.book.kit import InKit, in_kit
from scripts.maintain.book.material import Material
from scripts.maintain.book.order import number_of
from scripts.maintain.book.places import ERRATA, KIT, anchor, href, page_of, paper_page, resolved
from scripts.maintain.book.prose import Prose
from scripts.maintain.book.tests import Holder
from scripts.maintain.equations.stated import MARK, STATED
from scripts.maintain.equations.tags import id_of

#: Where the next part of a formula begins, "; 2: "; of one without such parts, what stands whole: TeX, code, brackets.
_PART = re.compile(r"; (?=\d: )")
_WHOLE = re.compile(r"(\$[^$]*\$|`[^`]*`|\([^()]*\))")


class Link(NamedTuple):
    """What is read, and where it leads."""

    text: str
    address: str


class Derived(NamedTuple):
    """A derivation: its heading, its own page, its steps, the tests that hold them."""

    heading: str
    address: str
    steps: Markup
    tests: tuple[Link, ...]


class Card(NamedTuple):
    """One row of docs/equations.md, on a page.

    title: the number in print, or the name.  names: the ids of the row.  rows: each with its place on its paper's page.
    formula, says: HTML.  lines: number and part.  short: whether an earlier card of the page has said the rest.
    """

    title: str
    names: tuple[str, ...]
    rows: tuple[Link, ...]
    ids: tuple[str, ...]
    formula: Markup
    says: Markup
    lines: tuple[tuple[int, str], ...]
    short: bool
    reason: Markup
    errata: tuple[tuple[Link, Markup], ...]
    derivations: tuple[Derived, ...]
    tests: tuple[Link, ...]
    elsewhere: tuple[Link, ...]
    kit: InKit
    kit_page: str
    before: Link | None
    after: Link | None


def title_of(names: tuple[str, ...]) -> str:
    """(19) of an equation with a number, (42)-(45) of several in a row, (6), (14) of others, the name of any other."""
    numbers = [number_of(name) for name in names]
    if numbers[0] is None:
        return ", ".join(name.partition(":")[2] for name in names)
    written = [f"({name.partition(':')[2]})" for name in names]
    section, first, _ = numbers[0]
    in_a_row = numbers == [(section, first + k, "") for k in range(len(names))]
    return f"{written[0]}-{written[-1]}" if in_a_row and len(names) > 1 else ", ".join(written)


def _unmarked(found: re.Match[str]) -> str:
    """The reason behind a mark, as a sentence."""
    return found[2][0].upper() + found[2][1:]


def short_of(file: str) -> str:
    """The name of a file where it is clear that it is code: without the package's."""
    return file.removeprefix("ortho_ref/")


def in_lines(formula: str) -> list[str]:
    """The lines that a formula is set in: its numbered parts, else what stands between its semicolons."""
    if _PART.search(formula):
        return _PART.split(formula)
    lines = [""]
    for k, piece in enumerate(_WHOLE.split(formula)):
        first, *others = [piece] if k % 2 else piece.split("; ")
        lines[-1] += first
        lines += others
    return lines


def address_of(material: Material, page: str, tag: str, file: str = "") -> str | None:
    """Of an equation, or of a part of it: its first line, in `file` if that has one, else its row on its paper's page.

    Of a test, `tests/FILE.py::NAME`, its line.
    """
    if "::" in tag:
        test, _, function = tag.partition("::")
        line = material.test_lines.get((test, function))
        return None if line is None else href(page, page_of(test), f"L{line}")
    name = id_of(tag)
    if name not in material.entries:
        return None
    carriers = material.carriers.get(name, [])
    if not carriers:
        return href(page, paper_page(name), anchor(name))
    carrier = file if file in carriers else carriers[0]
    on_line = {one for tags in material.lines[carrier].values() for one in tags}
    return href(page, page_of(carrier), anchor(tag if tag in on_line else name))


class Maker:
    """Makes the cards of one page."""

    def __init__(self, material: Material, page: str, file: str = "") -> None:
        self.material, self.page, self.file = material, page, file
        self.tagged = material.lines.get(file, {})
        self.prose = Prose(page, self.find, self.follow)

    def find(self, tag: str) -> str | None:
        """The address of an equation, a part of it, or a test; in this page's file if that has a line of it."""
        return address_of(self.material, self.page, tag, self.file)

    def follow(self, file: str, target: str) -> str:
        """The address of what a link in a file names."""
        path, _, fragment = target.partition("#")
        return href(self.page, page_of(resolved(file, path) if path else file), fragment)

    def link(self, file: str, fragment: str = "", text: str = "") -> Link:
        """To a file's page."""
        return Link(text or short_of(file), href(self.page, page_of(file), fragment))

    def card(self, name: str, short: bool = False) -> Card:
        """Of the row that an id stands in."""
        entry, m = self.material.entries[name], self.material
        names = entry.together
        lines = tuple(dict.fromkeys(place for one in names for place in where(one, self.tagged)))
        reason = entry.reason if m.rows[name].kind == entry.mark else ""
        # where a test holds it all the same, the reason is words like the others
        said = MARK.sub("" if reason else _unmarked, entry.says).rstrip()
        says = Markup(self.prose.inline(said, STATED))
        set_in = ";\n".join(in_lines(entry.formula)).split("\n")
        formula = Markup("<br>").join(Markup(self.prose.formula(line, STATED)) for line in set_in)
        before, after = m.neighbours[names[0]][0], m.neighbours[names[-1]][1]
        return Card(
            title=title_of(names),
            names=names,
            rows=tuple(Link(one, href(self.page, paper_page(one), anchor(one))) for one in names),
            ids=tuple(f"eq-{anchor(one)}" for one in names),
            formula=formula,
            says=says,
            lines=lines,
            short=short,
            reason=Markup(self.prose.inline(reason, STATED)),
            errata=tuple(self._errata(entry.formula + entry.says)),
            derivations=tuple(self._derived(names)),
            tests=tuple(dict.fromkeys(self._test(one) for n in names for one in m.holders.get(n, []))),
            elsewhere=self._elsewhere(names),
            kit=in_kit((vector for one in names for vector in m.kit.get(one, ())), self.file),
            kit_page=href(self.page, page_of(KIT)),
            before=self._neighbour(before),
            after=self._neighbour(after),
        )

    def _elsewhere(self, names: tuple[str, ...]) -> tuple[Link, ...]:
        """The other files with lines of a row; of a file that has several of its equations, each with its number."""
        places = dict.fromkeys(
            (file, self._first(name, file)) for name in names for file in self.material.carried(name)
        )
        others = [(file, first) for file, first in places if file != self.file]
        files = [file for file, _ in others]
        return tuple(
            self.link(
                file,
                anchor(first),
                f"{short_of(file)} {title_of((first,))}" if first and files.count(file) > 1 else "",
            )
            for file, first in others
        )

    def _first(self, name: str, file: str) -> str:
        """The equation that a file has of this name, or the first of those that it is the same as; else ""."""
        names = {id_of(tag) for tags in self.material.lines[file].values() for tag in tags}
        return next((one for one in [name, *self.material.entries[name].same] if one in names), "")

    def _neighbour(self, name: str | None) -> Link | None:
        if name is None:
            return None
        return Link(title_of((name,)), self.find(name) or "")

    def _errata(self, text: str) -> list[tuple[Link, Markup]]:
        return [
            (self.link(ERRATA, name.lower(), name), Markup(self.prose.inline(says, ERRATA)))
            for name, says in self.material.errata.items()
            if name in text
        ]

    def _derived(self, names: tuple[str, ...]) -> list[Derived]:
        found = {(one.file, one.section.heading): one for n in names for one in self.material.derived.get(n, [])}
        return [
            Derived(
                section.heading,
                href(self.page, page_of(file)),
                Markup(self.prose.block(section.text, file)),
                tuple(self._test(Holder(*at, self.material.test_lines[at])) for at in section.checks),
            )
            for file, section in found.values()
        ]

    def _test(self, holder: Holder) -> Link:
        file, function, line = holder
        name = file.removeprefix("tests/")
        return self.link(file, f"L{line}", f"{name}:{line} {function}" if function else name)
