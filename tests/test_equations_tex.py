"""The TeX of equations, derivations and theorems is one that a program renders and that Markdown leaves alone.

A page is read by Markdown first, by TeX second: $...$ within a line, $$ ... $$ between lines.  In a row of a table a
bar would end the cell, and a backslash before a sign of punctuation would be taken away.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = [*sorted(ROOT.glob("docs/derivations/*.md")), *sorted(ROOT.glob("docs/theorems/*-*.md"))]
PAGES = ["docs/equations.md", *(str(path.relative_to(ROOT)) for path in FOLDERS)]

CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
INLINE = re.compile(r"\$([^$\n]+)\$")


class Formula(NamedTuple):
    """One formula of a page."""

    tex: str
    block: bool  # whether it stands between lines


def formulas(page: str) -> list[Formula]:
    """The formulas of a page: those between lines first, then those within one, each in its order."""
    page = CODE.sub("", page)
    blocks = [Formula(tex.strip(), True) for tex in BLOCK.findall(page)]
    return blocks + [Formula(tex, False) for tex in INLINE.findall(BLOCK.sub("", page))]


def problems(page: str) -> list[str]:
    """One line for each dollar that ends nothing, and each formula that Markdown would change before TeX sees it."""
    rest = INLINE.sub("", BLOCK.sub("", CODE.sub("", page)))
    found = [f"a dollar that ends nothing: {line}" for line in rest.splitlines() if "$" in line]
    for tex, block in formulas(page):
        if re.search(r"\\[^A-Za-z\s]", tex):
            found.append(f"a backslash that Markdown takes away: {tex}")
        if "|" in tex and not block:
            found.append(f"a bar, which ends the cell of a table: {tex}")
    return found


def rendered(formula):
    """What is wrong with a formula's MathML: an error, a command of TeX left as text, an argument that is missing."""
    made = pytest.importorskip("scripts.maintain.book.mathml", reason="latex2mathml is not installed")
    try:
        made.mathml(formula.tex, formula.block)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("page", PAGES)
def test_every_formula_renders(page):
    """By latex2mathml, to the end."""
    found = formulas((ROOT / page).read_text(encoding="utf-8"))
    assert found
    assert {formula.tex: wrong for formula in found if (wrong := rendered(formula))} == {}


@pytest.mark.parametrize("page", PAGES)
def test_markdown_leaves_every_formula_alone(page):
    """No bar in a row, no backslash that Markdown takes away, no dollar that ends nothing."""
    assert problems((ROOT / page).read_text(encoding="utf-8")) == []


def test_every_row_has_three_cells():
    """The id, the formula, what it says; and a formula's cell has TeX, or no sign that only TeX would need."""
    rows = [line for line in (ROOT / PAGES[0]).read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert len(rows) > 150
    for row in rows:
        _, _, formula, _, end = row.split("|")
        assert end == ""
        words = "".join(formula.split("$")[::2])
        assert not any(sign in words for sign in ("^", "_", "*", "‖", "abs(", "sqrt", "<=")), row


@pytest.mark.parametrize("tex", [r"\nosuchcommand x", r"\frac{a}", r"\begin{pmatrix} a", r"a \cr b"])
def test_a_formula_that_does_not_render(tex):
    """An unknown command, an argument that is missing, what is begun and not ended: each is seen."""
    assert rendered(Formula(tex, False))


def test_what_is_a_formula():
    """Between lines and within one; not in code. What Markdown would change is found."""
    page = "$a$ and `$b$`, $c_1$\n\n$$\nd\n$$\n\n```sh\necho $HOME $x\n```\n"
    assert formulas(page) == [Formula("d", True), Formula("a", False), Formula("c_1", False)]
    assert problems(page) == []
    assert problems("costs $3") == ["a dollar that ends nothing: costs $3"]
    assert problems(r"$\{a\}$") == [r"a backslash that Markdown takes away: \{a\}"]
    assert problems("$|a|$") == ["a bar, which ends the cell of a table: |a|"]
