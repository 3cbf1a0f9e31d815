"""Every page of the built site is held to the code: tags, lines, links."""

import re
from collections import Counter
from functools import cache
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

import pytest

from scripts.maintain.book.material import read as read_material
from scripts.maintain.book.places import anchors, page_of
from scripts.maintain.equations.held import closure
from scripts.maintain.equations.tags import id_of, tagged_lines
from tests.site.pages import ROOT, SITE, read

pytestmark = pytest.mark.site
PAGES = sorted(SITE.rglob("*.html"))


@pytest.fixture(scope="module")
def material():
    return read_material(ROOT)


def shown(site):
    """Each page of a file of the repository, and that file."""
    for path in sorted((site / "code").rglob("*.html")):
        name = path.relative_to(site / "code").as_posix().removesuffix(".html")
        if (ROOT / name).is_file():
            yield read(path), name


def test_every_line_is_the_sources(site):
    """Number, text and tags of every line of every page of code are those of the file: none is off by one."""
    files = list(shown(site))
    assert len(files) > 100
    for page, name in files:
        source = (ROOT / name).read_text(encoding="utf-8")
        assert [line.text.rstrip("\n") for line in page.lines] == source.splitlines(), name
        assert [line.number for line in page.lines] == [line.shown for line in page.lines], name
        assert [line.number for line in page.lines] == list(range(1, len(page.lines) + 1)), name
        if name.endswith((".py", ".cu", ".cuh")):
            tagged = {line.number: line.tags for line in page.lines if line.tags}
            assert tagged == tagged_lines(name, source), name


def test_every_tag_is_an_anchor_of_its_first_line(site, material):
    """`#ncgru-19` and `#bp-gru1-2` lead to the first line that has the tag, on every page of two columns."""
    for name in material.columns:
        page = read(site / f"{page_of(name)}.html")
        first = {}
        for line in page.lines:
            for tag in line.tags:
                for one in anchors(tag):
                    first.setdefault(one, line.number)
        assert {one: line.number for line in page.lines for one in line.ids} == first, name


def test_every_equation_of_a_line_stands_beside_it(site, material):
    """The equations on the left are those of the lines on the right."""
    for name in material.columns:
        page = read(site / f"{page_of(name)}.html")
        carried = {id_of(tag) for line in page.lines for tag in line.tags}
        stated = {one for ids in page.cards for one in ids}
        assert carried <= stated, name
        assert all(carried & set(ids) for ids in page.cards), name


def test_every_equation_has_a_line_or_a_reason(site, material):
    """Each id is on its paper's page, once, with code, a test or a reason; the numbers stand in the papers' order."""
    listed = Counter(one for path in (site / "papers").glob("*.html") for one in read(path).row_ids)
    assert listed == Counter(list(material.entries))
    for name, row in material.rows.items():
        assert row.code or row.tests or row.reason, name
        if row.code and not row.reason:
            assert material.carried(name) or set(row.code) <= set(material.code), name
    numbers = [
        int(one.split(":")[1])
        for one in read(site / "papers" / "ncgru.html").row_ids
        if re.fullmatch(r"ncgru:\d+", one)
    ]
    assert numbers == list(range(1, 69))


def clicks_to(site, path, wanted):
    """The clicks from the front page to a place: over links in the text of pages, none of them folded away."""
    at, seen = {site / "index.html"}, set()
    for clicks in range(1, 4):
        reached = {one for page in at - seen for one in followed(page)}
        if any((path, fragment) in reached for fragment in wanted):
            return clicks
        at, seen = {page for page, _ in reached}, seen | at
    return None


@cache
def followed(path):
    """Page and fragment of each link that is in view as a page opens: not in the frame around it, not folded away."""
    text = path.read_text(encoding="utf-8").partition('<article role="main"')[2].partition("<footer")[0]
    found = set()
    for link in re.findall(r'href="([^"]+)"', re.sub(r"<details.*?</details>", "", text, flags=re.S)):
        parts = urlsplit(link)
        if not parts.scheme and not parts.netloc:
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.suffix == ".html" and target.is_file():
                found.add((target, unquote(parts.fragment)))
    return found


def test_every_equation_is_three_clicks_away(site, material):
    """From the front page to its line, a line of a test that holds it, or the words that say why it has neither."""
    clicks = {}
    for name, entry in material.entries.items():
        files = material.carried(name)
        names = closure(material.entries, name)
        if files:
            tags = {one for tag_names in material.lines[files[0]].values() for one in tag_names}
            wanted = {one for tag in tags if id_of(tag) in names for one in anchors(tag)}
            clicks[name] = clicks_to(site, site / f"{page_of(files[0])}.html", wanted)
        elif holders := [one for own in names for one in material.holders.get(own, [])]:
            clicks[name] = clicks_to(site, site / f"{page_of(holders[0].file)}.html", {f"L{holders[0].line}"})
        else:
            assert entry.reason, name
            row = read(site / "papers" / f"{name.partition(':')[0]}.html").row_ids
            clicks[name] = 1 if name in row else None
    assert len(clicks) > 200
    assert {name for name, count in clicks.items() if count is None} == set()
    assert clicks_to(site, site / "papers" / "ncgru.html", {"ncgru-0"}) is None


def test_no_dead_link(site):
    """Every link within the site leads to a page, and to a place on it; nothing is loaded from elsewhere."""
    dead = set()
    for path in PAGES:
        page = read(path)
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                assert link in page.links, f"{path} loads {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = target.is_file() and SITE in target.parents
            if not there or (
                parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in ids(target)
            ):
                dead.add((path.relative_to(site).as_posix(), link))
    assert not dead


def ids(path):
    """A page's anchors; "top" is every page's."""
    return {unquote(one) for one in read(path).ids} | {"top"}


def test_no_id_stands_twice(site):
    """On any page."""
    twice = {
        path.relative_to(site).as_posix(): [one for one, count in Counter(read(path).ids).items() if count > 1]
        for path in PAGES
        if path.relative_to(site).parts[0] in {"code", "papers"}
    }
    assert {name: found for name, found in twice.items() if found} == {}


def test_nothing_is_fetched(site):
    """No module, no fetch of ours, no WASM, no font or script of another host."""
    for path in PAGES:
        assert "module" not in read(path).types, path
    assert not list(site.rglob("*.wasm"))
    for name in ("book.js", "find.js", "equations.js"):
        text = (site / "_static" / name).read_text()
        assert not re.search(r"\bfetch\(|XMLHttpRequest|\bimport\b.*\bfrom\b", text), name
    for path in site.rglob("*.css"):
        for address in re.findall(r"url\(['\"]?([^)'\"]+)", path.read_text(encoding="utf-8")):
            assert (
                address.startswith("data:")
                or (path.parent / PurePosixPath(address.split("#")[0].split("?")[0])).exists()
            ), path
    assert (site / "_static" / "fonts" / "LICENSE-OFL.txt").is_file()


def test_every_formula_is_mathml(site):
    """No TeX is left as text on the pages that state equations."""
    for path in [*(site / "papers").glob("*.html"), *(site / "code" / "ortho_ref" / "cells").glob("*.html")]:
        text = re.sub(r"<annotation.*?</annotation>|<[^>]*>", "", path.read_text(encoding="utf-8"))
        assert not re.search(r"\$[^$\n]*\\[a-z]+|\\(frac|operatorname|mathrm|odot)", text), path
