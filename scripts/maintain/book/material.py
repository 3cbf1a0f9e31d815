"""All that the pages are made of, read once."""

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ortho_ref.conformance.cases.case import Vector
from ortho_ref.conformance.cases.case_files import vectors
from scripts.maintain.book.kit import by_equation
from scripts.maintain.book.order import chapters, neighbours
from scripts.maintain.book.places import DERIVATIONS, ERRATA
from scripts.maintain.book.tests import Holder, functions, holders, weight
from scripts.maintain.equations.derivations import Section, sections
from scripts.maintain.equations.held import CODE, LANGUAGES, TESTS, Row, closure, rows_of, sources
from scripts.maintain.equations.stated import STATED, Entry, read_equations, read_leads
from scripts.maintain.equations.tags import id_of, tagged_lines

#: Files with a page of two columns.  What is not Python beside them, a kernel in CUDA, belongs to them.
COLUMNS = (
    "ortho_ref/activations.py",
    "ortho_ref/cells/*",
    "ortho_ref/scan.py",
    "ortho_ref/fused/*",
    "ortho_ref/fused/kernels/*",
    "ortho_ref/parametrizations/*",
    "ortho_ref/training/optimizers.py",
    "ortho_ref/losses.py",
    "gradients/*",
)


class Derivation(NamedTuple):
    """A section of docs/derivations, and its file."""

    file: str
    section: Section


@dataclass(frozen=True)
class Material:
    """What stands in the repository."""

    root: Path
    entries: dict[str, Entry]
    code: dict[str, str]  # code, tests: the text of every file, by its name
    tests: dict[str, str]
    columns: tuple[str, ...]  # the files with a page of two columns
    errata: dict[str, str]  # the first sentence of each
    derivations: tuple[Derivation, ...]
    kit: dict[str, tuple[Vector, ...]]  # the conformance kit's cases, by equation

    @cached_property
    def rows(self) -> dict[str, Row]:
        """The index: files that compute an equation, tests that hold it."""
        return rows_of(self.entries, self.code, self.tests)

    @cached_property
    def leads(self) -> dict[str, dict[str, str]]:
        """What docs/equations.md says above its tables."""
        return read_leads((self.root / STATED).read_text(encoding="utf-8"))

    @cached_property
    def lines(self) -> dict[str, dict[int, list[str]]]:
        """Of every file of the code that has any, its lines with tags."""
        found = {file: tagged_lines(file, source) for file, source in self.code.items()}
        return {file: lines for file, lines in found.items() if lines}

    @cached_property
    def carriers(self) -> dict[str, list[str]]:
        """The files with a tag of an equation on a line: those with two columns first, in their order."""
        found: dict[str, list[str]] = {}
        places = {file: k for k, file in enumerate(self.columns)}
        for file in sorted(self.lines, key=lambda name: (places.get(name, len(places)), name)):
            for name in dict.fromkeys(id_of(tag) for tags in self.lines[file].values() for tag in tags):
                found.setdefault(name, []).append(file)
        return found

    @cached_property
    def chapters(self) -> dict[str, list[str]]:
        """The files with two columns, under the papers' headings, in their order."""
        return chapters(self.columns, self.lines, self.entries)

    @cached_property
    def neighbours(self) -> dict[str, tuple[str | None, str | None]]:
        """What stands before and after each id in its paper."""
        return neighbours(self.entries)

    @cached_property
    def holders(self) -> dict[str, list[Holder]]:
        """The tests of an equation, those of what it is the same as behind its own."""
        own = holders(self.tests)
        every = {name: [h for one in closure(self.entries, name) for h in own.get(one, [])] for name in self.entries}
        return {name: sorted(dict.fromkeys(found), key=weight) for name, found in every.items() if found}

    @cached_property
    def test_lines(self) -> dict[tuple[str, str], int]:
        """The line of every function of the tests, by its file and its name."""
        return {
            (file, name): node.lineno
            for file, source in self.tests.items()
            for name, node in functions(ast.parse(source))
        }

    @cached_property
    def derived(self) -> dict[str, list[Derivation]]:
        """The derivations of an equation, or of a part of it."""
        found: dict[str, list[Derivation]] = {}
        for one in self.derivations:
            for name in dict.fromkeys(map(id_of, one.section.ids)):
                found.setdefault(name, []).append(one)
        return found

    def carried(self, name: str) -> list[str]:
        """The files with an equation's lines, or with those of what it is the same as."""
        return list(dict.fromkeys(f for one in closure(self.entries, name) for f in self.carriers.get(one, [])))


def read(root: Path) -> Material:
    """Everything.  ValueError: a page is not what its reader asks for."""
    columns = tuple(
        path.relative_to(root).as_posix()
        for pattern in COLUMNS
        for path in sorted(root.glob(pattern))
        if path.suffix in LANGUAGES and path.stat().st_size > 0
    )
    return Material(
        root=root,
        entries=read_equations((root / STATED).read_text(encoding="utf-8")),
        code=sources(root, CODE),
        tests=sources(root, TESTS),
        columns=columns,
        errata=read_errata((root / ERRATA).read_text(encoding="utf-8")),
        derivations=tuple(
            Derivation(path.relative_to(root).as_posix(), section)
            for path in sorted((root / DERIVATIONS).glob("*.md"))
            for section in sections(path.read_text(encoding="utf-8"))
        ),
        kit=by_equation(vectors()),
    )


def read_errata(page: str) -> dict[str, str]:
    """Of each erratum the sentence that says where it stands."""
    return {
        name: " ".join(text.split("\n* ")[0].split("\n\n")[0].split())
        for name, text in re.findall(r"^### (E-\w+-\d\d)\n\n(.*?)(?=^#|\Z)", page, re.M | re.S)
    }
