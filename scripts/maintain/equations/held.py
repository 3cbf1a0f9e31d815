"""Which files compute an equation, and which tests hold it.

An id is found in the code as a tag, prefix:id or prefix:id/part in brackets, in a comment; files that say what they are
in words (tasks, models.py) name it in a docstring.  In tests any comment or docstring that names it counts.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from scripts.maintain.equations.stated import Entry
from scripts.maintain.equations.tags import comments, docstrings, id_of, mentions, tagged_lines

CODE, TESTS = ("ortho_ref", "gradients", "tasks", "scripts"), ("tests",)
LANGUAGES = (".py", ".cu", ".cuh")
SAYS_IN_WORDS = ("tasks/", "ortho_ref/models.py")

#: Kinds that --check lets pass, and what the index says of them.
KINDS = {
    "code + test": "computed by the code, held by a test",
    "test": "held by a test: a step of a proof, or a statement about what is computed elsewhere",
    "prose": "nothing to compute; the reason is given",
    "open": "not built, or not all of it; what is missing is given",
}
#: Those that it does not.
UNHELD = {
    "**code**": "computed by the code, but no test names it",
    "**none**": "neither computed nor tested, and no reason given",
}


class Row(NamedTuple):
    """What the index says of an id."""

    kind: str
    reason: str
    code: list[str]
    tests: list[str]


def found_in(named: Iterable[tuple[str, list[str]]]) -> dict[str, list[str]]:
    """For every id the files that name it, from the names of each file."""
    files: dict[str, list[str]] = {}
    for file, names in named:
        for one in dict.fromkeys(id_of(name) for name in names):
            files.setdefault(one, []).append(file)
    return files


def named_in_code(sources: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Each file of the code with the tags of its comments, and what it names where it says in words what it is."""
    for file, source in sources.items():
        words = mentions(docstrings(source)) if file.startswith(SAYS_IN_WORDS) else []
        yield file, [*dict.fromkeys(tag for tags in tagged_lines(file, source).values() for tag in tags), *words]


def named_in_tests(sources: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Each test file with the ids of its docstrings and comments."""
    for file, source in sources.items():
        yield file, mentions(docstrings(source) + "\n" + comments(source))


def closure(entries: dict[str, Entry], name: str) -> list[str]:
    """An id, those it is the same as, those they are ..."""
    names = [name]
    for one in names:
        names += [other for other in entries[one].same if other not in names]
    return names


def rows_of(entries: dict[str, Entry], code: dict[str, str], tests: dict[str, str]) -> dict[str, Row]:
    """The kind of every id and the files it is found in; code and tests: the text of every file, by its name."""
    in_code, in_tests = found_in(named_in_code(code)), found_in(named_in_tests(tests))

    rows = {}
    for name, entry in entries.items():
        own_code, own_tests = (
            sorted({file for one in closure(entries, name) for file in files.get(one, [])})
            for files in (in_code, in_tests)
        )
        if entry.mark == "open":
            kind = "open"
        elif own_tests:
            kind = "code + test" if own_code else "test"
        else:
            kind = "**code**" if own_code else entry.mark or "**none**"
        rows[name] = Row(kind, entry.reason if kind == entry.mark else "", own_code, own_tests)
    return rows


def sources(root: Path, folders: Iterable[str]) -> dict[str, str]:
    """The Python and CUDA files in folders, by name from the root: their text."""
    files = [path for folder in folders for path in sorted((root / folder).rglob("*")) if path.suffix in LANGUAGES]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files}
