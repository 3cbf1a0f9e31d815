"""Which case of the conformance kit shows which mistake, docs/kill-table.md: python -m scripts.kill_table [--check]

Exit code 1 if a mistake passes every case, or with --check if the page is not what would be written.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ortho_ref import files
from ortho_ref.conformance.case import KINDS, Vector, vectors
from ortho_ref.conformance.diagnosis import subject
from ortho_ref.conformance.kills import killed
from ortho_ref.conformance.mistake import Mistake
from ortho_ref.conformance.mistakes import MISTAKES
from scripts.program import BAD_INPUT, fail, run, say

PAGE = Path(__file__).parents[1] / "docs" / "kill-table.md"
KILLED, PASSED = "●", "·"


class Table(NamedTuple):
    """Which case shows which mistake.

    marks: (mistake, case) -> whether the case shows the mistake; only where the mistake applies.
    subjects: case -> kind and cell, map, optimizer or whatever it is of.
    """

    marks: dict[tuple[str, str], bool]
    subjects: dict[str, tuple[str, str]]

    def alone(self, case: str) -> list[str]:
        """The mistakes that no other case of the same cell, map or optimizer shows."""
        others = {
            m for (m, c), seen in self.marks.items() if seen and c != case and self.subjects[c] == self.subjects[case]
        }
        return [m for (m, c), seen in self.marks.items() if c == case and seen and m not in others]

    def survivors(self) -> list[str]:
        """The mistakes that no case shows."""
        seen = {mistake for (mistake, _), shown in self.marks.items() if shown}
        return [mistake.name for mistake in MISTAKES if mistake.name not in seen]


def table() -> Table:
    """Every mistake on every case that it applies to."""
    marks = {(m.name, v.id): killed(m, v) for m in MISTAKES for v in vectors() if m.applies(v.case)}
    return Table(marks, {v.id: (v.case.kind, subject(v.case)) for v in vectors()})


def page(found: Table) -> str:
    """The page."""
    cases = vectors()
    shown = len(MISTAKES) - len(found.survivors())
    needed = sum(bool(found.alone(vector.id)) for vector in cases)
    lines = [
        "# Which case shows which mistake",
        "",
        "Written by `python -m scripts.kill_table`.  A mistake is a named wrong version of the reference",
        "(`ortho_ref/conformance/mistakes/`); the kit has to show every one.",
        "",
        f"{len(MISTAKES)} mistakes, {len(cases)} cases, in float64: {shown} of the mistakes are shown.",
        f"{needed} cases show something that no other case of the same cell, map or optimizer does (alone); the others",
        "stay for what they are there for: an option, a shape, a convention of their own.",
        "",
        f"{KILLED} shown, {PASSED} not shown, blank: does not apply.",
    ]
    for kind in KINDS:
        own = [vector for vector in cases if vector.case.kind == kind]
        lines += ["", f"## {kind}", "", "| | case | there for | shows | alone |", "|---|---|---|---|---|"]
        for i, vector in enumerate(own, 1):
            count = sum(seen for (_, case), seen in found.marks.items() if case == vector.id)
            alone = ", ".join(f"`{name}`" for name in found.alone(vector.id))
            lines.append(f"| {i} | `{vector.id}` | {vector.why} | {count} | {alone} |")
        lines += ["", *_matrix(found, own)]
    return "\n".join(lines) + "\n"


def _matrix(found: Table, own: list[Vector]) -> Iterator[str]:
    yield "| mistake | equals the reference with | " + " | ".join(str(i) for i in range(1, len(own) + 1)) + " |"
    yield "|---" * (2 + len(own)) + "|"
    for mistake in MISTAKES:
        marks = [found.marks.get((mistake.name, vector.id)) for vector in own]
        if any(mark is not None for mark in marks):
            yield f"| `{mistake.name}` | {_cell(mistake)} | " + " | ".join(map(_mark, marks)) + " |"


def _cell(mistake: Mistake) -> str:
    return mistake.says.replace("|", "\\|")


def _mark(seen: bool | None) -> str:
    return {True: KILLED, False: PASSED, None: ""}[seen]


def main(
    check: Annotated[bool, typer.Option(help="Write nothing; exit code 1 if the page would be another.")] = False,
) -> None:
    """Write docs/kill-table.md."""
    try:
        found = table()
    except BAD_INPUT as error:
        fail(error)
    text = page(found)
    if survivors := found.survivors():
        fail(f"no case shows {', '.join(survivors)}", 1)
    if check and PAGE.read_text(encoding="utf-8") != text:
        fail("docs/kill-table.md is not what `python -m scripts.kill_table` writes", 1)
    if not check:
        files.write(PAGE, text.encode())
    say(f"{len(MISTAKES)} mistakes, every one shown by at least one of {len(vectors())} cases")


if __name__ == "__main__":
    run(main)
