"""Which code computes each equation, and which test holds it: python -m scripts.equation_index [--check]

docs/equations.md states them, in tables under one `##` heading a paper.  The first cell of a row is one id or more, in
backticks, or a range of them; behind `=`, if there is one, those that say the same or that it is made of, whose code
and tests are its own.  Of as many ids on both sides each goes with its own, else each with all.  A cell may say
**prose:** or **open:** and why.

An id is found in the code as a tag, prefix:id or prefix:id/part in brackets, in a comment; files that say what they are
in words (tasks, models.py) name it in a docstring.  In tests any comment or docstring that names it counts.  A range,
sgornn:1-3 or goru:2.9-2.10, names every number in it.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from scripts.equations.tags import code_tags, comments, cuda_comments, docstrings, expand, mentions, tags_of
from scripts.program import BAD_INPUT, fail, give, run, say

ROOT = Path(__file__).parents[1]
STATED, INDEX = "docs/equations.md", "docs/equation-index.md"
CODE, TESTS = ("ortho_ref", "gradients", "tasks", "scripts"), ("tests",)
SAYS_IN_WORDS = ("tasks/", "ortho_ref/models.py")

MARK = re.compile(r"\*\*(prose|open):\*\* ([^|]*[^|\s])")

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


class Entry(NamedTuple):
    """What docs/equations.md says of an id: its heading; ids that hold it too; prose, open or nothing, and why."""

    heading: str
    same: tuple[str, ...]
    mark: str
    reason: str


class Row(NamedTuple):
    """What the index says of an id."""

    kind: str
    reason: str
    code: list[str]
    tests: list[str]


def read_equations(page: str) -> dict[str, Entry]:
    """Every id of docs/equations.md in its order.  ValueError for one that stands twice, or is the same as no other."""
    entries: dict[str, Entry] = {}
    heading = ""
    for line in page.splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif line.startswith("| `"):
            own, _, same = (line.split("|")[1]).partition("=")
            names, others = ([i for name in re.findall("`(.*?)`", part) for i in expand(name)] for part in (own, same))
            mark, reason = found.groups() if (found := MARK.search(line)) else ("", "")
            for k, name in enumerate(names):
                if name in entries:
                    raise ValueError(f"{STATED} states {name} twice")
                pairs = len(names) == len(others)
                entries[name] = Entry(heading, (others[k],) if pairs else tuple(others), mark, reason)
    for name, entry in entries.items():
        for other in entry.same:
            if other not in entries:
                raise ValueError(f"{STATED}: {name} = {other}, which is not stated")
    return entries


def found_in(named: Iterable[tuple[str, list[str]]]) -> dict[str, list[str]]:
    """For every id the files that name it, from the names of each file."""
    files: dict[str, list[str]] = {}
    for file, names in named:
        for one in dict.fromkeys(i for name in names for i in expand(name)):
            files.setdefault(one, []).append(file)
    return files


def named_in_code(sources: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Each file of the code with the tags of its comments, and what it names where it says in words what it is."""
    for file, source in sources.items():
        words = mentions(docstrings(source)) if file.startswith(SAYS_IN_WORDS) else []
        yield file, code_tags(source) + words


def named_in_tests(sources: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Each test file with the ids of its docstrings and comments."""
    for file, source in sources.items():
        yield file, mentions(docstrings(source) + "\n" + comments(source))


def rows_of(entries: dict[str, Entry], code: dict[str, str], tests: dict[str, str]) -> dict[str, Row]:
    """The kind of every id and the files it is found in; code and tests: the text of every file, by its name."""
    in_code, in_tests = found_in(named_in_code(code)), found_in(named_in_tests(tests))

    def all_of(name: str) -> list[str]:
        """The id, those it is the same as, those they are ..."""
        names = [name]
        for one in names:
            names += [other for other in entries[one].same if other not in names]
        return names

    rows = {}
    for name, entry in entries.items():
        own_code, own_tests = (
            sorted({file for one in all_of(name) for file in files.get(one, [])}) for files in (in_code, in_tests)
        )
        if entry.mark == "open":
            kind = "open"
        elif own_tests:
            kind = "code + test" if own_code else "test"
        else:
            kind = "**code**" if own_code else entry.mark or "**none**"
        rows[name] = Row(kind, entry.reason if kind == entry.mark else "", own_code, own_tests)
    return rows


def strays(entries: dict[str, Entry], code: dict[str, str], tests: dict[str, str]) -> list[str]:
    """One line for every tag of the code, and every id that a test names, that docs/equations.md does not state."""
    in_heads = [(file, tags_of(docstrings(source))) for file, source in code.items()]
    return [
        f"{file}: {name} is not stated in {STATED}"
        for file, names in [*named_in_code(code), *in_heads, *named_in_tests(tests)]
        for name in names
        if any(one not in entries for one in expand(name))
    ]


def render(entries: dict[str, Entry], rows: dict[str, Row]) -> str:
    """docs/equation-index.md."""
    kinds = [row.kind for row in rows.values()]
    lines = [
        "# Equation index",
        "",
        "Which code computes each equation of [equations.md](equations.md), and which test holds it: by the tags in",
        "the code and the ids that tests name. `python -m scripts.equation_index` writes this page; with `--check` it",
        "lists what nothing holds, tags of no equation, and whether this page is out of date.",
        "",
        "| kind | ids | |",
        "|---|---|---|",
        *(f"| {kind} | {kinds.count(kind)} | {says} |" for kind, says in {**KINDS, **UNHELD}.items() if kind in kinds),
        f"| all | {len(kinds)} | |",
    ]
    heading = ""
    for name, entry in entries.items():
        if entry.heading != heading:
            heading = entry.heading
            lines += ["", f"## {heading}", "", "| id | kind | code | tests |", "|---|---|---|---|"]
        row = rows[name]
        kind = row.kind + (f": {row.reason}" if row.reason else "")
        lines.append(f"| `{name}` | {kind} | {links(row.code)} | {links(row.tests)} |")
    return "\n".join(lines) + "\n"


def links(files: list[str]) -> str:
    """Links from docs to files, which go by their names below ortho_ref or tests."""
    return ", ".join(f"[{file.removeprefix('ortho_ref/').removeprefix('tests/')}](../{file})" for file in files)


def problems(page: str, code: dict[str, str], tests: dict[str, str], written: str | None) -> list[str]:
    """One line for each id that nothing states, each id that nothing holds, and an index that is out of date."""
    entries = read_equations(page)
    rows = rows_of(entries, code, tests)
    found = strays(entries, code, tests)
    found += [
        f"{name}: {UNHELD[row.kind]}, and {STATED} marks it neither prose nor open"
        for name, row in rows.items()
        if row.kind in UNHELD
    ]
    if written != render(entries, rows):
        found.append(f"{INDEX} is out of date; python -m scripts.equation_index writes it")
    return found


def sources(root: Path, folders: Iterable[str]) -> dict[str, str]:
    """The Python files in folders, by name from the root: their text; and of CUDA files the comments."""
    files = [path for folder in folders for path in sorted((root / folder).rglob("*"))]
    texts = {path: path.read_text(encoding="utf-8") for path in files if path.suffix in (".py", ".cu", ".cuh")}
    return {
        path.relative_to(root).as_posix(): text if path.suffix == ".py" else cuda_comments(text)
        for path, text in texts.items()
    }


def main(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit code 1 if anything is wrong.")] = False,
) -> None:
    """Write docs/equation-index.md, or check it, and that every equation is held and every tag has its equation."""
    try:
        page, index = (ROOT / STATED).read_text(encoding="utf-8"), ROOT / INDEX
        code, tests = sources(ROOT, CODE), sources(ROOT, TESTS)
        if not check:
            entries = read_equations(page)
            index.write_text(render(entries, rows_of(entries, code, tests)), encoding="utf-8")
            say(f"{INDEX}: {len(entries)} ids")
        wrong = problems(page, code, tests, index.read_text(encoding="utf-8") if index.exists() else None)
    except BAD_INPUT as error:
        fail(error)
    if wrong:
        give("\n".join(wrong))
    if wrong and check:
        raise typer.Exit(1)


if __name__ == "__main__":
    run(main)
