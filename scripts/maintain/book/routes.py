"""Pages whose code is run: words and blocks in turn, what each block prints, exercises with answers; as notebooks.

A block is Python that runs behind nothing else, or behind the page's first one if that prints nothing; what it prints
stands below it.  A line that ends in `# your line` is to be filled in: the answers, in order, are the blocks of `py` at
the page's end.
"""

import posixpath
import re
from typing import NamedTuple

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from scripts.maintain.book.places import resolved
from scripts.maintain.equations.stated import STATED, Entry
from scripts.maintain.equations.tags import id_of

#: Pages of blocks: the papers' reading routes, their exercises, the theorems, and chapters on what lies beside them.
ROUTES, EXERCISES, THEOREMS, CHAPTERS = "docs/routes", "docs/exercises", "docs/theorems", "docs/chapters"
HOLE, ANSWERS = "# your line", "<summary>Answers</summary>"
#: What a stop says its equations are, up to an empty line.
EQUATIONS = re.compile(r"^Equations: (.+(?:\n.+)*)$", re.M)

_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.M | re.S)
_ANSWER = re.compile(r"^```py\n(.*?)^```$", re.M | re.S)
_LINK = re.compile(r"\[([^]]+)\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")


class Block(NamedTuple):
    """A block of code."""

    code: str
    printed: str  # what the page shows below it; "" for nothing


def pieces(page: str) -> list[str | Block]:
    """The words and blocks of a page in their order."""
    words = _BLOCK.split(page)
    found: list[str | Block] = [words[0]]
    for code, printed, after in zip(words[1::3], words[2::3], words[3::3], strict=True):
        found += [Block(code, printed or ""), after]
    return [piece for piece in found if isinstance(piece, Block) or piece.strip()]


def blocks(page: str) -> list[Block]:
    """The blocks of a page, the code of each with what it needs: the first block before it, if that prints nothing."""
    first, *others = (piece for piece in pieces(page) if isinstance(piece, Block))
    start = "" if first.printed else first.code
    return [first, *(Block(start + own.code, own.printed) for own in others)]


def answered(page: str) -> list[tuple[Block, str]]:
    """The exercises of a page.  ValueError: there are not as many answers as lines to fill in."""
    holes, answers = (
        [block for block in blocks(page) if HOLE in block.code],
        _ANSWER.findall(page.partition(ANSWERS)[2]),
    )
    if len(holes) != len(answers):
        raise ValueError(f"{len(holes)} exercises and {len(answers)} answers; allowed: as many of each")
    return [(hole, _filled(hole.code, answer)) for hole, answer in zip(holes, answers, strict=True)]


def _filled(code: str, answer: str) -> str:
    """The code with the answer's lines, indented alike, in place of its hole."""
    lines: list[str] = []
    for line in code.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines += [indent + own for own in answer.splitlines()] if line.endswith(HOLE) else [line]
    return "\n".join(lines) + "\n"


def with_formulas(page: str, entries: dict[str, Entry]) -> str:
    """A page with the formula of each equation that a line `Equations: ...` names below that line.

    It stands once in the repository, in docs/equations.md.
    """

    def stated(line: re.Match[str]) -> str:
        rows: dict[tuple[str, ...], str] = {}
        for name in re.findall("`(.*?)`", line[1]):
            if id_of(name) not in entries:
                raise ValueError(f"a page names {name}, which {STATED} does not state")
            entry = entries[id_of(name)]
            if entry.formula:
                rows.setdefault(entry.together, f"| `{name}` | {entry.formula} |")
        return "\n".join([line[0], "", "| id | formula |", "|---|---|", *rows.values()] if rows else [line[0]])

    return EQUATIONS.sub(stated, page)


def notebook(page: str, file: str) -> nbformat.NotebookNode:
    """A page as a notebook, with what each block prints."""
    cells = []
    for k, piece in enumerate(pieces(page)):
        if isinstance(piece, Block):
            cell = new_code_cell(piece.code.strip(), id=f"cell-{k}")
            if piece.printed:
                cell.outputs = [new_output("stream", name="stdout", text=piece.printed)]
        else:
            cell = _words(piece, file, k)
        cells.append(cell)
    return _made(cells)


def graded(page: str, file: str, solved: bool = False) -> nbformat.NotebookNode:
    """The exercises of a page as a notebook for nbgrader: of each a cell to be filled in, and a locked one for a point.

    `solved` is the teacher's, with the answers marked as `nbgrader generate_assignment` takes them out.
    """
    name = posixpath.basename(file).removesuffix(".md")
    answers, cells, count = iter(_ANSWER.findall(page.partition(ANSWERS)[2])), [], 0
    for k, piece in enumerate(pieces(page)):
        if not isinstance(piece, Block):
            cells += [_words(piece, file, k)] if ANSWERS not in piece else []
        elif HOLE not in piece.code:
            cells.append(new_code_cell(piece.code.strip(), id=f"cell-{k}"))
        else:
            count += 1
            own, check = _halves(piece.code)
            if solved:
                own = _filled(own, f"### BEGIN SOLUTION\n{next(answers)}### END SOLUTION")
            check += "assert report.ok, report\n"
            cells.append(_for_nbgrader(own, f"{name}-{count}", solution=True))
            cells.append(_for_nbgrader(check, f"{name}-{count}-check", grade=True, locked=True, points=1))
    return _made(cells)


def _halves(code: str) -> tuple[str, str]:
    """An exercise up to the end of the function that has the hole, and what checks it."""
    at = re.compile(r"^(?=\S)", re.M).search(code, code.index(HOLE))
    if at is None:
        raise ValueError(f"nothing checks the line to fill in of {code!r}")
    return code[: at.start()].rstrip() + "\n", code[at.start() :]


def _for_nbgrader(code: str, name: str, **own: bool | int) -> nbformat.NotebookNode:
    """A cell with the metadata that nbgrader reads, of its schema 3."""
    usual = {"schema_version": 3, "grade_id": name, "grade": False, "locked": False, "solution": False, "task": False}
    return new_code_cell(code.strip(), id=name, metadata={"nbgrader": {**usual, **own}})


def _words(text: str, file: str, k: int) -> nbformat.NotebookNode:
    return new_markdown_cell(_LINK.sub(lambda link: _named(file, link), text.strip()), id=f"cell-{k}")


def _made(cells: list[nbformat.NotebookNode]) -> nbformat.NotebookNode:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})
    nbformat.validate(made)
    return made


def _named(file: str, link: re.Match[str]) -> str:
    """A link's words, and the file that it leads to."""
    target = resolved(file, link[2])
    return f"`{target}`" if posixpath.basename(target) in link[1] else f"{link[1]} (`{target}`)"
