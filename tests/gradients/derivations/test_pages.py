"""docs/derivations: every backward rule is derived there, or docs/equations.md says why not; every test it names is."""

import ast
import re
from pathlib import Path

import pytest

from scripts.maintain.equation_index import CODE, STATED, read_equations, sources
from scripts.maintain.equations.derivations import Section, sections
from scripts.maintain.equations.tags import id_of, tagged_lines

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs/derivations"
PAGES = {path.name: sections(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.md"))}
FAMILIES = {name: found for name, found in PAGES.items() if name != "README.md"}
DERIVED = [name for found in FAMILIES.values() for section in found for name in section.ids]
ENTRIES = read_equations((ROOT / STATED).read_text(encoding="utf-8"))
TAGS = {tag for own in sources(ROOT, CODE).items() for tags in tagged_lines(*own).values() for tag in tags}


def wanted():
    """The backward rules, and the paper's own Jacobians; not what is prose, nor what is made of other ids alone."""
    own = [name for name, entry in ENTRIES.items() if name.startswith("bp:") and not (entry.mark or entry.same)]
    return [*own, *(f"ncgru:{k}" for k in (5, 6, *range(29, 46)))]


def lacking(derived):
    """The ids that no section derives; an id is derived where one does it as a whole or does all its tagged parts."""
    whole = {name for name in derived if "/" not in name}
    parts = {name: {tag for tag in TAGS if tag.startswith(f"{name}/")} for name in wanted()}
    return [name for name in wanted() if name not in whole and not (parts[name] and parts[name] <= set(derived))]


def test_every_backward_rule_is_derived():
    """Every bp: id, and the equations of the papers that are steps of one."""
    assert lacking(DERIVED) == []


def test_a_rule_that_is_not_derived_is_seen():
    """A whole id; a part of one that is derived part by part."""
    assert lacking([name for name in DERIVED if not name.startswith("bp:bptt")]) == ["bp:bptt"]
    parts = ["bp:cayley/dM", "bp:cayley/dU"]
    assert "bp:cayley" in lacking(parts)
    assert "bp:cayley" not in lacking([*parts, "bp:cayley/Abar"])


@pytest.mark.parametrize("page", FAMILIES)
def test_every_section_names_its_ids(page):
    """Ids that are stated, parts that a line of code has; no id twice in a page."""
    for section in FAMILIES[page]:
        assert section.ids, section.heading
        for name in section.ids:
            assert id_of(name) in ENTRIES, name
            assert "/" not in name or name in TAGS, name
    names = [name for section in FAMILIES[page] for name in section.ids]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("page", PAGES)
def test_every_section_names_tests_that_exist(page):
    """At least one for each section, and each a function of that file that the page's ids name."""
    assert PAGES[page]
    for section in PAGES[page]:
        assert section.checks, section.heading
        for file, name in section.checks:
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{file}::{name}"


def test_the_first_page_lists_all():
    """docs/derivations/README.md links to every page once."""
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(FAMILIES)


def test_a_section():
    """Its heading, its ids over two lines, its steps, its tests."""
    page = "# Title\n\n## One\n\nIds: `bp:a/1`,\n`ncgru:5`.\n\nSteps.\n\nChecked by `tests/a.py::test_b`.\n\n## Two\n"
    one, two = sections(page)
    assert one == Section("One", ["bp:a/1", "ncgru:5"], "Steps.", [("tests/a.py", "test_b")])
    assert two == Section("Two", [], "", [])
