"""Which code computes each equation, and which test holds it: python -m scripts.maintain.equation_index [--check]

How docs/equations.md is read says scripts/maintain/equations/stated.py; where ids are looked for, held.py there.
"""

from pathlib import Path
from typing import Annotated

import typer

from ortho_ref import files
from scripts.maintain.equations.held import (
    CODE,
    KINDS,
    TESTS,
    UNHELD,
    Row,
    named_in_code,
    named_in_tests,
    rows_of,
    sources,
)
from scripts.maintain.equations.stated import STATED, Entry, read_equations
from scripts.maintain.equations.tags import docstrings, id_of, tags_of
from scripts.program import BAD_INPUT, fail, give, run, say

ROOT = Path(__file__).parents[2]
INDEX = "docs/equation-index.md"


def strays(entries: dict[str, Entry], code: dict[str, str], tests: dict[str, str]) -> list[str]:
    """One line for every tag of the code, and every id that a test names, that docs/equations.md does not state."""
    in_heads = [(file, tags_of(docstrings(source))) for file, source in code.items() if file.endswith(".py")]
    return [
        f"{file}: {name} is not stated in {STATED}"
        for file, names in [*named_in_code(code), *in_heads, *named_in_tests(tests)]
        for name in names
        if id_of(name) not in entries
    ]


def render(entries: dict[str, Entry], rows: dict[str, Row]) -> str:
    """docs/equation-index.md."""
    kinds = [row.kind for row in rows.values()]
    lines = [
        "# Equation index",
        "",
        "Which code computes each equation of [equations.md](equations.md), and which test holds it: by the tags in",
        "the code and the ids that tests name. `python -m scripts.maintain.equation_index` writes this page; `--check`",
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
        found.append(f"{INDEX} is out of date; python -m scripts.maintain.equation_index writes it")
    return found


def main(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit code 1 if anything is wrong.")] = False,
) -> None:
    """Write docs/equation-index.md, or check it, and that every equation is held and every tag has its equation."""
    try:
        page, index = (ROOT / STATED).read_text(encoding="utf-8"), ROOT / INDEX
        code, tests = sources(ROOT, CODE), sources(ROOT, TESTS)
        if not check:
            entries = read_equations(page)
            files.write(index, render(entries, rows_of(entries, code, tests)).encode())
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
