"""What the pages of formula and code are made of: parts of files, anchors, tests, derivations, words for the box."""

import re

import pytest

from ortho_ref.conformance.cases.case import Case, Vector
from scripts.maintain.book.api_reference import WHOLE, modules
from scripts.maintain.book.columns import breaks, parts, where
from scripts.maintain.book.kit import by_equation, in_kit
from scripts.maintain.book.material import read_errata
from scripts.maintain.book.order import chapters, neighbours, number_of, printed
from scripts.maintain.book.places import anchor
from scripts.maintain.book.tests import holders
from scripts.maintain.equations.stated import read_equations, read_leads
from scripts.maintain.equations.tags import tagged_lines
from tests.site.pages import ROOT

#: How docs begin a line that takes from a module.
TAKEN = re.compile(r"^from ((?:ortho_ref|gradients|tasks)[\w.]*) import ", re.M)

PAGE = """
## First

### Part

| id | formula | what it says |
|---|---|---|
| `ncgru:10` | $a$ | the tenth |
| `ncgru:2-inv` | | inverse |
| `ncgru:kahan` | | a name |
| `ncgru:2` | `b` | the second, E-ncgru-01 |
| `ncgru:3` `ncgru:4` = `ncgru:2` | | two in one row |

## Second

| id | formula | what it says |
|---|---|---|
| `bp:gru1` | 1: $c$; 2: $d$ | in parts |
"""
SOURCE = '''"""Head.

    a = b    [ncgru:2/a]
"""

X = 1


# above f
@decorated
def f(a):
    """Of [ncgru:10], in words."""
    b = a  # [ncgru:2/a] [bp:gru1/1]
    return b


class C:
    y = 2

    def g(self):
        return 1

    def h(self):
        return 2  # [ncgru:3] [ncgru:4]
'''
TAGGED = {13: ["ncgru:2/a", "bp:gru1/1"], 24: ["ncgru:3", "ncgru:4"]}


def test_lines_with_tags():
    """Those of comments, by their line; a word in a docstring is none. In CUDA a comment begins with //."""
    assert tagged_lines("a.py", SOURCE) == TAGGED
    assert tagged_lines("a.cu", 'x = 1;\nh = u * c;  // [ncgru:1/h]\nchar s[] = "[ncgru:2]";\n') == {2: ["ncgru:1/h"]}


def test_a_row_is_read_whole():
    """Its cells, its headings, and the ids that share it; a row with a bar too many is refused."""
    entries = read_equations(PAGE)
    assert entries["ncgru:10"][:6] == ("First", "Part", ("ncgru:10",), (), "$a$", "the tenth")
    assert entries["ncgru:4"].together == ("ncgru:3", "ncgru:4")
    assert entries["bp:gru1"].section == ""
    with pytest.raises(ValueError, match="a row has 4 cells"):
        read_equations("| `ncgru:1` | a | b | c |")


def test_what_stands_above_the_tables():
    """Below a heading and below its sections, where there is anything; the paper and its letters are said there."""
    assert read_leads(PAGE) == {"First": {}, "Second": {}}
    assert read_leads("## A\n\nB.\nC.\n\n### D\n\nE.\n\n| id |\n|---|\n") == {"A": {"": "B.\nC.", "D": "E."}}
    leads = read_leads((ROOT / "docs" / "equations.md").read_text(encoding="utf-8"))
    assert "Mucllari" in leads["NC-GRU"][""]
    assert "P = M" in leads["NC-GRU"]["Neumann-Cayley update: section 3.2"]


def test_print_order():
    """By number, not by word: (2) before (10), what has no number behind; each id has its neighbours."""
    entries = read_equations(PAGE)
    assert printed(entries)["First"] == ["ncgru:2", "ncgru:2-inv", "ncgru:3", "ncgru:4", "ncgru:10", "ncgru:kahan"]
    assert neighbours(entries)["ncgru:4"] == ("ncgru:3", "ncgru:10")
    assert neighbours(entries)["ncgru:2"] == (None, "ncgru:2-inv")
    assert [number_of(name) for name in ("goru:2.10", "sgornn:31a", "ncgru:thm1", "bp:gru1")] == [
        (2, 10, ""),
        (0, 31, "a"),
        None,
        None,
    ]
    files, lines = ("z.py", "late.py", "early.py"), {"late.py": {1: ["ncgru:10"]}, "early.py": {3: ["ncgru:2/a"]}}
    assert chapters(files, lines, entries) == {"First": ["early.py", "late.py"], "": ["z.py"]}


def test_parts_of_a_file():
    """One for each function with equations, with its decorators and comments; every line is in one, once."""
    assert breaks("a.py", SOURCE) == [1, 9, 17, 20, 23]
    found = parts("a.py", SOURCE, TAGGED)
    assert [(part.first, part.last) for part in found] == [(1, 8), (9, 22), (23, 24)]
    assert [part.names for part in found] == [(), ("ncgru:2", "bp:gru1"), ("ncgru:3", "ncgru:4")]
    again = parts("a.py", SOURCE, TAGGED | {21: ["bp:gru1/2"]})
    assert [(part.first, part.names) for part in again][-2:] == [(20, ("bp:gru1",)), (23, ("ncgru:3", "ncgru:4"))]
    assert where("ncgru:4", TAGGED) == [(24, "")]
    assert where("bp:gru1", TAGGED) == [(13, "1")]


def test_anchors_of_all_tags_differ():
    """No two tags of the project come to one anchor."""
    tags = {
        tag
        for path in (ROOT / "ortho_ref").rglob("*.py")
        for found in tagged_lines(path.name, path.read_text()).values()
        for tag in found
    }
    assert len({anchor(tag) for tag in tags}) == len(tags) > 100


def test_who_holds_an_equation():
    """The function whose docstring, comment or decorator names it; a file where only its head does."""
    source = (
        '"""Of ncgru:2 and ncgru:10."""\nimport pytest\n\n\n@pytest.mark.x([1])  # ncgru:3, ncgru:4\ndef test_a():\n'
        '    """By bp:gru1/2."""\n    b = 1  # [ncgru:2]\n    b = "ncgru:kahan"\n'
    )
    found = holders({"tests/t.py": source})
    assert {name: [(one.function, one.line) for one in own] for name, own in found.items()} == {
        "ncgru:2": [("test_a", 6)],
        "ncgru:3": [("test_a", 6)],
        "ncgru:4": [("test_a", 6)],
        "bp:gru1": [("test_a", 6)],
        "ncgru:10": [("", 1)],
    }


def test_errata_are_read():
    """The sentence that says where each stands."""
    page = "# Errata\n\n### E-ncgru-01\n\nTheorem 1: (9).\n*False.* Printed: max h.\n* n = 1.\n\n`t`.\n\n## Next\n"
    assert read_errata(page) == {"E-ncgru-01": "Theorem 1: (9). *False.* Printed: max h."}


def vector(name, equations=(), kills=(), **config):
    """A case of the kit, as far as it is asked."""
    return Vector(Case(name, name.split("/")[0], config, {}), {}, {}, {}, equations, "", kills, {})


def test_what_the_kit_shows():
    """Of an equation, or any part of it: the cases that go through it, and all that they show, once."""
    a, b = vector("cell/a", ("ncgru:1/r", "ncgru:1/u"), ("x", "y")), vector("cell/b", ("ncgru:1/h",), ("y", "z"))
    assert by_equation([a, b]) == {"ncgru:1": (a, b)}
    assert in_kit([a, b, a]) == (("cell/a", "cell/b"), ("x", "y", "z"))


def test_the_reference_has_what_docs_import():
    """Every module that a block of README and docs takes from; of a package that stands as a whole the package."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))]
    taken = {name for text in texts for name in TAKEN.findall(text)}
    assert {"ortho_ref.training.optimizers", "ortho_ref.cells"} <= taken
    assert {name for name in taken if not name.startswith(WHOLE)} <= {*modules(ROOT)}
